/* Where the inputs of a worker's batches land, as DataLinks and the admin's WorkerState tell it. */
#ifndef PROTOS_INPUTS_LAND_H
#define PROTOS_INPUTS_LAND_H

#include <stdint.h>

typedef enum {
    LANDS_IN_HOST,   /* the host's memory, as the engine of a CPU reads it */
    LANDS_IN_PINNED, /* memory of the host that the engine has pinned for its GPU, which copies from there */
    LANDS_IN_DEVICE, /* the GPU's own, past the host's (GPUDirect) */
    LANDINGS,
} landing_t;

/* What came from elsewhere may be any number. */
static inline const char *landing_name(uint32_t landing)
{
    static const char *const names[LANDINGS] = {"host", "pinned", "device"};

    return landing < LANDINGS ? names[landing] : "unknown";
}

#endif
