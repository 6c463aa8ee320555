/*
 * What each GPU did, drawn as SVG in the style of Symphony's Figures 4 and 5: a row per GPU, a box per batch
 * with its model's colour and its size; batches that were stopped or late are hatched or framed red, dropped
 * requests are red dots on a row of their own.
 */
#ifndef SIM_TIMELINE_H
#define SIM_TIMELINE_H

#include "sim/simulation.h"

typedef struct timeline timeline_t;

/* Draws the time from_s .. to_s. NULL: no memory. */
timeline_t *timeline_create(double from_s, double to_s, uint32_t gpus);
void timeline_destroy(timeline_t *timeline);

/* Give these to simulation_config_t with the timeline as ctx. */
void timeline_on_batch(void *timeline, const simulation_batch_t *batch);
void timeline_on_drop(void *timeline, uint32_t model, int64_t arrival_ns, int64_t now_ns);

status_t timeline_write(const timeline_t *timeline, const workload_t *workload, const char *path, err_t *err);

#endif
