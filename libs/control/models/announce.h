/* The catalogue as gateways are told of it. */
#ifndef CONTROL_MODELS_ANNOUNCE_H
#define CONTROL_MODELS_ANNOUNCE_H

#include "control/models/model.h"

enum { CATALOGUE_BYTES_MAX = 32 << 20 }; /* of a message; a gateway takes 64 MiB, and twice that unpacked */

/* Models that find no room in CATALOGUE_BYTES_MAX are in it without a description, not ready, and the reason says
 * so. It refers to the models, and lives in the arena. NULL without memory. */
Control__Catalogue *announce_catalogue(models_t *models, pb_arena_t *arena);

#endif
