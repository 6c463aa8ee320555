/*
 * Nexus' squishy bin packing: which models run on which GPU in what batches, for given rates and SLOs
 * (Symphony 2.2; the profiler's and scheduler's half of Nexus). All in milliseconds and requests per
 * millisecond.
 *
 * A model that needs whole GPUs gets them, each with the largest batch B that meets 2·l(B) <= SLO: a request
 * that just missed a batch waits for it and then for its own. What is left of its rate is a residual: a batch
 * b every b/rate ms (the duty cycle), the largest with l(b) + b/rate <= SLO. Residuals share GPUs, best fit
 * by occupancy: the node's duty cycle becomes the shortest of its members', their batches shrink to it
 * ("squishy"), and all must fit into it.
 */
#ifndef SCHED_SQUISHY_H
#define SCHED_SQUISHY_H

#include "profile/profile.h"

typedef struct {
    const profile_t *profile; /* NULL: the model is not there */
    uint32_t limit;           /* of the batch */
    double rate, slo;
    /* results */
    uint32_t whole; /* GPUs of its own */
    uint32_t whole_batch;
    double whole_rate; /* of each */
    double residual;   /* rate on a shared node */
    uint32_t node;     /* of the residual */
    uint32_t batch;    /* on that node */
    double cycle;      /* duty cycle of that node */
    /* scratch */
    double duty, occupancy;
    uint32_t next; /* member of the same node */
    uint32_t order;
} squishy_model_t;

typedef struct {
    double duty, occupancy;
    uint32_t first; /* member */
} squishy_node_t;

/* Packs `count` models, `stride` bytes apart, with all rates times `scale`. nodes: room for nodes_max. Returns the GPUs
 * needed, shared nodes first (0 .. *shared - 1 are the nodes, then the whole ones); UINT32_MAX if that is more than
 * nodes_max. */
uint32_t squishy_pack(void *models, uint32_t count, uint32_t stride, double scale, squishy_node_t *nodes,
                      uint32_t nodes_max, uint32_t *shared);

#endif
