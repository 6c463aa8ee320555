/*
 * Which of several ways to compute the same takes the least time here. They run on zeros, in turns, on the calling thread (and its
 * team, see run/team.h), which is the one that compiles.
 */
#ifndef ENGINE_ONEDNN_LOWER_TRIAL_H
#define ENGINE_ONEDNN_LOWER_TRIAL_H

#include <oneapi/dnnl/dnnl.h>
#include <stdint.h>

enum { TRIAL_MAX_STEPS = 6, TRIAL_MAX_WAYS = 6 };

/* Primitives, each of which reads what the one before it has made; with scratchpads of the user's. */
typedef struct {
    dnnl_primitive_desc_t steps[TRIAL_MAX_STEPS];
    uint32_t count;
} trial_way_t;

/* The first way stays unless another takes a twentieth less. UINT32_MAX: it could not be tried. */
uint32_t trial_fastest(const trial_way_t *ways, uint32_t count, dnnl_engine_t engine, dnnl_stream_t stream);

#endif
