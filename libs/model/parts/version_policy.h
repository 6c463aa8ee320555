/* Which version folders of a model are served. */
#ifndef MODEL_VERSION_POLICY_H
#define MODEL_VERSION_POLICY_H

#include <stdint.h>

enum { MODEL_VERSIONS_MAX = 64 }; /* of one model side by side: canaries need two or three */

typedef enum { VERSIONS_LATEST, VERSIONS_ALL, VERSIONS_SPECIFIC } versions_kind_t;

typedef struct {
    versions_kind_t kind;
    uint32_t count;                   /* LATEST: how many, from the highest; SPECIFIC: of the list */
    int64_t list[MODEL_VERSIONS_MAX]; /* SPECIFIC */
} version_policy_t;

#endif
