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
    bool stop; /* asked to stop, or to be given back before it runs */
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
    bool inputs_read;        /* of the running launch */
    bool stop_said, stopped; /* preempt: of the running launch */
    uint64_t launch, next_batch;
} whole_t;

void whole_init(whole_t *whole, const whole_config_t *config, queries_slot_t *slots, uint32_t slot_count);
extern const exec_ops_t whole_ops;
extern const exec_ops_t preempt_ops;

/* What `preempt` shares. */
status_t whole_submit(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                      uint64_t batch, err_t *err);
bool whole_finished(exec_t *exec, int64_t now_ns, uint64_t launch);
uint32_t whole_room(const exec_t *exec);
const char *whole_validate(const exec_t *exec);
void whole_launch(whole_t *whole, exec_sink_fn sink, void *ctx);
/* Ends the batch that is first, as completed or given back. */
void whole_end(whole_t *whole, exec_action_kind_t kind, exec_sink_fn sink, void *ctx);

#endif
