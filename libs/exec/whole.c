#include "exec/whole_core.h"

static whole_t *of(exec_t *exec)
{
    return (whole_t *)exec;
}

void whole_init(whole_t *whole, const whole_config_t *config, queries_slot_t *slots, uint32_t slot_count)
{
    whole->exec.ops = &whole_ops;
    whole->config = *config;
    queries_init(&whole->waiting, slots, slot_count);
}

static status_t submit_gather(whole_t *whole, const exec_query_t *queries, uint32_t count, err_t *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (queries[i].rows != 1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a query that is gathered has one row, not %u",
                           queries[i].rows);
    if (queries_room(&whole->waiting) < count)
        return err_set(err, STATUS_UNAVAILABLE, "%u queries wait", queries_len(&whole->waiting));
    queries_push(&whole->waiting, queries, count, 0);
    return STATUS_OK;
}

status_t whole_submit(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                      uint64_t batch, err_t *err)
{
    (void)now_ns;
    whole_t *whole = of(exec);
    if (whole->config.gather)
        return submit_gather(whole, queries, count, err);
    uint64_t rows = 0;
    if (count > EXEC_ROWS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a batch of %u queries, at most %d fit", count,
                       EXEC_ROWS_MAX);
    for (uint32_t i = 0; i < count; i++)
        rows += queries[i].rows;
    if (rows == 0 || rows > whole->config.rows_max)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a batch of %llu rows, at most %u fit",
                       (unsigned long long)rows, whole->config.rows_max);
    if (whole->granted == WHOLE_BUFFERS)
        return err_set(err, STATUS_UNAVAILABLE, "both input buffers are taken");
    whole_batch_t *into = &whole->batches[(whole->running + whole->granted) % WHOLE_BUFFERS];
    into->id = batch;
    into->count = count;
    into->stop = false;
    for (uint32_t i = 0; i < count; i++)
        into->queries[i] = queries[i];
    whole->granted++;
    return STATUS_OK;
}

bool whole_finished(exec_t *exec, int64_t now_ns, uint64_t launch)
{
    (void)now_ns;
    whole_t *whole = of(exec);
    if (!whole->busy || whole->ended || launch != whole->launch)
        return false;
    return whole->ended = true;
}

bool whole_inputs_read(exec_t *exec, uint64_t launch)
{
    whole_t *whole = of(exec);
    if (!whole->busy || whole->ended || launch != whole->launch)
        return false;
    return whole->inputs_read = true;
}

/* Batches that may be there when another is formed: the running one, once its inputs are read, with `ahead`. */
static uint32_t formed_max(const whole_t *whole)
{
    return whole->config.ahead && whole->busy && whole->inputs_read ? 1 : 0;
}

/* ZeroBatch and DelayBatch. Returns when the window closes. */
static int64_t gather_batch(whole_t *whole, int64_t now_ns)
{
    static const uint8_t all[EXEC_ROWS_MAX];
    uint32_t count = queries_len(&whole->waiting);
    if (count == 0 || whole->granted > formed_max(whole))
        return EXEC_NEVER;
    int64_t closes_ns = queries_at(&whole->waiting, 0)->arrival_ns + whole->config.window_ns;
    if (count < whole->config.rows_max && closes_ns > now_ns)
        return closes_ns;
    whole_batch_t *batch = &whole->batches[(whole->running + whole->granted) % WHOLE_BUFFERS];
    batch->id = ++whole->next_batch;
    batch->count =
        queries_take(&whole->waiting, count < whole->config.rows_max ? count : whole->config.rows_max, all, 0,
                     batch->queries);
    whole->granted++;
    return EXEC_NEVER;
}

void whole_launch(whole_t *whole, exec_sink_fn sink, void *ctx)
{
    const whole_batch_t *batch = &whole->batches[whole->running];
    exec_part_t part = {.model = batch->queries[0].model, .to = 1};
    for (uint32_t i = 0; i < batch->count; i++) {
        part.rows += batch->queries[i].rows;
        part.length = batch->queries[i].length > part.length ? batch->queries[i].length : part.length;
    }
    whole->busy = true;
    whole->ended = false;
    exec_action_t action = {.kind = EXEC_LAUNCH, .batch = batch->id};
    action.launch.launch = ++whole->launch;
    action.launch.parts[0] = part;
    action.launch.count = 1;
    action.launch.in_pair = action.launch.out_pair = whole->running;
    action.launch.queries = batch->queries;
    action.launch.query_count = batch->count;
    sink(ctx, &action);
}

void whole_end(whole_t *whole, exec_action_kind_t kind, exec_sink_fn sink, void *ctx)
{
    const whole_batch_t *batch = &whole->batches[whole->running];
    exec_action_t action = {.kind = kind, .batch = batch->id};
    action.done.queries = batch->queries;
    action.done.count = batch->count;
    sink(ctx, &action);
    whole->running = (whole->running + 1) % WHOLE_BUFFERS;
    whole->granted--;
    whole->busy = whole->ended = whole->inputs_read = whole->stop_said = whole->stopped = false;
}

static int64_t whole_run(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    whole_t *whole = of(exec);
    if (whole->busy && whole->ended)
        whole_end(whole, EXEC_COMPLETE, sink, ctx);
    int64_t wake_ns = whole->config.gather ? gather_batch(whole, now_ns) : EXEC_NEVER;
    if (!whole->busy && whole->granted)
        whole_launch(whole, sink, ctx);
    return wake_ns;
}

uint32_t whole_room(const exec_t *exec)
{
    const whole_t *whole = (const whole_t *)exec;
    return whole->config.gather ? queries_room(&whole->waiting) : WHOLE_BUFFERS - whole->granted;
}

const char *whole_validate(const exec_t *exec)
{
    const whole_t *whole = (const whole_t *)exec;
    if (whole->granted > WHOLE_BUFFERS || whole->running >= WHOLE_BUFFERS)
        return "more batches than buffers";
    return whole->busy && !whole->granted ? "a batch runs that nobody granted" : NULL;
}

const exec_ops_t whole_ops = {
    .submit = whole_submit,
    .finished = whole_finished,
    .run = whole_run,
    .room = whole_room,
    .validate = whole_validate,
};
