/*
 * Knobs of the device of the tests.
 */
#ifndef ENGINE_CUDA_DEVICE_DEVICE_HOST_H
#define ENGINE_CUDA_DEVICE_DEVICE_HOST_H

#include "engine/cuda/device/device.h"

#include <stdatomic.h>

typedef struct {
    uint64_t memory_bytes; /* what a device opened next says it has */
    bool fail_alloc;       /* as if another process had taken it all */
    bool lost;             /* every call fails from now on */
    atomic_uint graph_launches;
    void (*on_step)(void *arg); /* in front of each step, on the thread that queues it; NULL: nothing */
    void *on_step_arg;
} device_host_t;

extern device_host_t device_host;

#endif
