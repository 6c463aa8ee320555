/* The command line of each service that `fermata up` starts. */
#ifndef FERMATA_UP_CHILD_WORDS_H
#define FERMATA_UP_CHILD_WORDS_H

#include "fermata/up/options.h"
#include "fermata/up/words.h"

#include <stdint.h>

typedef enum { ROLE_GATEWAY, ROLE_WORKER, ROLE_SCHEDULER, ROLES } role_t; /* in the order of stopping */

const char *role_name(role_t role); /* "gateway" */

/* The addresses a service had before it died, for its next life; all NULL the first time. */
typedef struct {
    char *http, *grpc, *metrics, *data;
} addresses_t;

/* bin_dir: where the programs are. scheduler: its gRPC address, not used for ROLE_SCHEDULER. */
void up_words(words_t *words, const up_options_t *options, const char *bin_dir, role_t role, uint32_t index,
              const char *scheduler, const addresses_t *before);

#endif
