/*
 * The inside of the whole mode.
 */
#ifndef EXEC_WHOLE_CORE_H
#define EXEC_WHOLE_CORE_H

#include "exec/queries.h"
#include "exec/whole.h"

enum { WHOLE_BUFFERS = 2 }; /* one is computed on while the other is filled */

typedef struct {
    uint64_t id;
    uint32_t count;
    exec_query_t queries[EXEC_ROWS_MAX];
} whole_batch_t;

typedef struct {
    exec_t exec;
    whole_config_t config;
    queries_t waiting; /* gather */
    whole_batch_t batches[WHOLE_BUFFERS];
    uint32_t running; /* index of the batch that runs or runs next */
    uint32_t granted; /* batches there, the running one with them */
    bool busy, ended;
    uint64_t launch, next_batch;
} whole_t;

void whole_init(whole_t *whole, const whole_config_t *config, exec_query_t *slots, uint32_t slot_count);
extern const exec_ops_t whole_ops;

#endif
