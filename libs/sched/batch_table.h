/*
 * Hot path. The batches granted and not yet reported done: a chain per GPU in the order of their starts, each
 * batch with the chain of its tasks (through the pool's slots). Slots are allocated once: gpus_max ·
 * gpu_inflight_max.
 */
#ifndef SCHED_BATCH_TABLE_H
#define SCHED_BATCH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define BATCH_NONE UINT32_MAX
#define BATCH_NO_MODEL UINT32_MAX /* its model was removed while it ran */

typedef struct {
    uint32_t model, gpu;
    uint32_t first_task, count;
    int64_t start_ns, finish_ns; /* predicted */
    int64_t promised_ns;         /* the start that the grant named, and its deadlines were judged by */
    uint32_t next;               /* on its GPU, or in the free chain */
    uint32_t generation;         /* odd: in use */
    bool beside;                 /* on a GPU with slots: it moves no other batch by being late */
    /* On such a GPU (share.c), of the last of those that run together: per mille of the GPU, time if it ran alone. */
    uint32_t busy;
    int64_t left_ns;
    /* Of this batch and those that it has joined (sched_set_gpu_mode), as of its grant. */
    uint64_t together; /* id of the first of them */
    uint32_t rows;
    int64_t begun_ns, deadline_ns; /* of the first; the earliest of all rows */
    int64_t joined_ns;             /* when the rows of this one have caught up */
} batch_slot_t;

typedef struct {
    batch_slot_t *slots;
    uint32_t *gpu_first; /* per GPU */
    uint32_t *gpu_count;
    uint32_t capacity, gpus_max, free;
} batch_table_t;

/* Over arrays that the owner allocated and frees. */
void batch_table_init(batch_table_t *table, batch_slot_t *slots, uint32_t capacity, uint32_t *gpu_first,
                      uint32_t *gpu_count, uint32_t gpus_max);

/* A slot at the end of the GPU's chain, the rest is the caller's to fill; the GPU must have room (see
 * gpu_count). */
uint32_t batch_table_take(batch_table_t *table, uint32_t gpu);
void batch_table_give(batch_table_t *table, uint32_t index);

/* Whether the two run as one. */
static inline bool batch_table_together(const batch_slot_t *a, const batch_slot_t *b)
{
    return a->together == b->together;
}

uint64_t batch_table_id(const batch_table_t *table, uint32_t index);
uint32_t batch_table_find(const batch_table_t *table, uint64_t id); /* BATCH_NONE: none such */

const char *batch_table_validate(const batch_table_t *table, uint32_t gpu_inflight_max);

#endif
