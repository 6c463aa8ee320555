/*
 * Knobs of the device of the tests.
 */
#ifndef ENGINE_CUDA_DEVICE_HOST_H
#define ENGINE_CUDA_DEVICE_HOST_H

#include "engine/cuda/device.h"

enum { POOL_ALIGN = 256 };

typedef struct {
    uint64_t memory_bytes; /* what a device opened next says it has */
    bool fail_alloc;       /* as if another process had taken it all */
    bool lost;             /* every call fails from now on */
} device_host_t;

extern device_host_t device_host;

#endif
