/*
 * Triton's system shared memory, as clients tell of it and are told: regions, and where a tensor lies in one. What becomes of them is
 * the server's business.
 */
#ifndef OIP_REGION_H
#define OIP_REGION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a tensor lies: the parameters shared_memory_region, shared_memory_offset and shared_memory_byte_size. */
typedef struct {
    const char *region; /* NULL: in the message, as usual */
    uint64_t offset_bytes, len_bytes;
} oip_memory_t;

/* A region: a part of a memory object that has a name of its own. */
typedef struct {
    const char *name, *key; /* key: the object's name */
    uint64_t offset_bytes, len_bytes;
} oip_region_t;

enum { OIP_KEY_BYTES = 256 };

/* The body of a registration: {"key": …, "offset": …, "byte_size": …}, offset 0 when it is absent. key: where the key goes; the name is left. */
status_t oip_rest_parse_region(const char *body, size_t body_bytes, char key[OIP_KEY_BYTES],
                               oip_region_t *region, err_t *err);

#endif
