#include "fermata/profile/operators.h"

#include "exec/whole.h"
#include "model/measure/profiler_modes.h"
#include "model/modes/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void operators_dispose(operators_t *o)
{
    free(o->cut_ops);
    free(o->op_ns);
}

static status_t measure_sizes(operators_t *o, err_t *err)
{
    const uint32_t wanted[OPERATORS_SIZES] = {1, (o->rows_max + 1) / 2, o->rows_max};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < OPERATORS_SIZES; i++) {
        if (o->size_count && wanted[i] <= o->sizes[o->size_count - 1])
            continue;
        status = profiler_operators(o->how->profiler, wanted[i], o->cuts.ops,
                                    o->op_ns + (size_t)o->size_count * o->cuts.ops, err);
        o->sizes[o->size_count++] = wanted[i];
    }
    return status;
}

status_t operators_measure(operators_t *o, const profile_how_t *how, err_t *err)
{
    const profiler_t *p = how->profiler;
    uint32_t most = p->ops->info(p->model)->max_batch;
    *o = (operators_t){.how = how, .rows_max = most < EXEC_ROWS_MAX ? most : EXEC_ROWS_MAX};
    if (!p->ops->cuts)
        return err_set(err, STATUS_UNSUPPORTED, "engine %s cannot cut a model", p->ops->name);
    status_t status = p->ops->cuts(p->model, &o->cuts, err);
    if (status != STATUS_OK)
        return status;
    o->cut_ops = calloc(o->cuts.cut_count, sizeof(*o->cut_ops));
    o->op_ns = calloc((size_t)OPERATORS_SIZES * o->cuts.ops, sizeof(*o->op_ns));
    status = o->cut_ops && o->op_ns ? measure_sizes(o, err) : err_set(err, STATUS_NO_MEMORY, "out of memory");
    if (status != STATUS_OK) {
        operators_dispose(o);
        return status;
    }
    o->model = model_stages_cuts(&o->cuts, o->cut_ops);
    return STATUS_OK;
}

static double sum_ns(const operators_t *o, uint32_t size, uint32_t from, uint32_t to)
{
    return (double)stages_time_ns(o->op_ns + (size_t)size * o->cuts.ops, from, to);
}

/* Of a whole batch of rows of this length, of one of the longest. */
static double length_part(const operators_t *o, uint32_t rows, uint32_t length)
{
    const profile_mix_t *mix = o->how->mix;
    if (!mix || length < 1 || length >= mix->count)
        return 1;
    double longest_ns = (double)profile_latency_ns(&mix->shapes[mix->count - 1].latency, rows);
    return longest_ns > 0 ? (double)profile_latency_ns(&mix->shapes[length - 1].latency, rows) / longest_ns
                          : 1;
}

/* Between two measured sizes on the line between them. */
static staged_cost_t stage_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const operators_t *o = ctx;
    if (stage >= o->stages)
        return (staged_cost_t){0};
    uint32_t from = stage ? o->at[stage - 1] : 0, to = stage + 1 < o->stages ? o->at[stage] : o->cuts.ops,
             size = 0;
    while (size + 2 < o->size_count && rows > o->sizes[size + 1])
        size++;
    double ns = sum_ns(o, size, from, to);
    if (size + 1 < o->size_count)
        ns += (sum_ns(o, size + 1, from, to) - ns) * ((double)rows - o->sizes[size]) /
              (double)(o->sizes[size + 1] - o->sizes[size]);
    ns *= length_part(o, rows, length);
    return model_stages_busy((int64_t)ns, o->beside, o->how->streams);
}

/* ---- trials ---- */

/* An estimate: of full batches of rows as they come, each padded to its longest. */
static double operators_peak_rps(const operators_t *o)
{
    const profile_mix_t *mix = o->how->mix;
    double ns = mix ? 1 : 1 + (double)profile_latency_ns(o->how->profile, o->rows_max), shorter = 0;
    for (uint32_t i = 0; mix && i < mix->count; i++) {
        double none_longer = pow(mix->shapes[i].until, o->rows_max);
        ns += (none_longer - shorter) * (double)profile_latency_ns(&mix->shapes[i].latency, o->rows_max);
        shorter = none_longer;
    }
    return o->rows_max * 1e9 / ns;
}

/* shapes: of the inputs; NULL: they do not vary. Batches may run on any stream. */
static status_t prepare_rows(const operators_t *o, uint32_t rows, const engine_shape_t *shapes, err_t *err)
{
    const profiler_t *p = o->how->profiler;
    uint32_t streams = o->stages > 1 ? o->how->streams : 1;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < o->stages * streams; i++) {
        uint32_t s = i / streams;
        engine_range_t range = {
            .stream = i % streams, .from = s ? o->at[s - 1] : 0, .to = s + 1 < o->stages ? o->at[s] : 0};
        status = p->ops->prepare_range(p->model, &range, rows, shapes, err);
    }
    return status;
}

/* sizes: of one row; NULL: they do not vary. */
static status_t prepare_shape(const operators_t *o, const uint32_t *sizes, err_t *err)
{
    engine_shape_t shapes[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t rows = 1; status == STATUS_OK && rows <= o->rows_max; rows++) {
        if (sizes)
            axes_input_shapes(o->how->mix->axes, sizes, rows, shapes);
        status = prepare_rows(o, rows, sizes ? shapes : NULL, err);
    }
    return status;
}

static status_t prepare(const operators_t *o, err_t *err)
{
    const profile_mix_t *mix = o->how->mix;
    status_t status = mix ? STATUS_OK : prepare_shape(o, NULL, err);
    for (uint32_t i = 0; mix && status == STATUS_OK && i < mix->count; i++)
        status = prepare_shape(o, mix->shapes[i].sizes, err);
    return status;
}

static exec_t *make_whole(operators_t *o, const profile_try_t *try, err_t *err)
{
    whole_config_t config = {.gather = true,
                             .rows_max = o->rows_max,
                             .queries_max = OPERATORS_QUERIES_MAX,
                             .window_ns = (int64_t)(try->wait_ms * 1e6),
                             .ahead = !try->late};
    o->stages = 1;
    return exec_create_whole(&config, err);
}

uint32_t operators_place(const operators_t *o, const profile_try_t *try, uint32_t at[STAGED_STAGES_MAX])
{
    stages_profile_t profile = {.sizes = o->sizes, .size_count = o->size_count, .op_ns = o->op_ns};
    const int64_t *op_ns = o->op_ns + (size_t)(o->size_count - 1) * o->cuts.ops;
    return try->by_preference ? stages_by_preference(&o->model, &profile, OPERATORS_PREFERENCE_STAGES, at)
                              : stages_even(&o->model, op_ns, try->stages, at);
}

int64_t operators_comp_wait_ns(const profile_try_t *try)
{
    return staged_schedule_find(try->schedule)->stretch ? (int64_t)(try->wait_ms * 1e6)
                                                        : PROFILE_CACHE_NO_WAIT;
}

/* Where the stages really are may be less than try->stages. */
static exec_t *make_staged(operators_t *o, profile_try_t *try, err_t *err)
{
    const staged_schedule_t *schedule = staged_schedule_find(try->schedule);
    bool beside = o->beside = schedule == &staged_schedule_input;
    o->stages = try->stages = 1 + operators_place(o, try, o->at);
    staged_config_t config = {.stages = o->stages,
                              .pairs = TRIAL_PAIRS,
                              .new_pairs = beside ? TRIAL_PAIRS : 1,
                              .width = beside ? TRIAL_PAIRS : 1,
                              .streams = o->how->streams,
                              .rows_max = o->rows_max,
                              .queries_max = OPERATORS_QUERIES_MAX,
                              .eager = true,
                              .comp_wait_ns = (int64_t)(try->wait_ms * 1e6),
                              .split_slack = o->how->split_slack,
                              .cost = stage_cost,
                              .cost_ctx = o,
                              .schedule = schedule};
    return exec_create_staged(&config, err);
}

status_t operators_play(operators_t *o, profile_try_t *try, const operators_work_t *work, int64_t *latency_ns,
                        int64_t *took_ns, err_t *err)
{
    const profiler_t *p = o->how->profiler;
    exec_t *exec = try->schedule[0] ? make_staged(o, try, err) : make_whole(o, try, err);
    trial_t trial = {.ops = p->ops,
                     .engine = p->engine,
                     .model = p->model,
                     .streams = o->how->streams,
                     .mix = o->how->mix,
                     .rows_max = o->rows_max,
                     .stages = o->stages,
                     .work = work->list,
                     .queries = work->count,
                     .closed = work->closed,
                     .ahead = !try->schedule[0] && !try->late,
                     .stop = p->stop};
    if (!exec)
        return err->code;
    memcpy(trial.at, o->at, sizeof(trial.at));
    status_t status = prepare(o, err);
    if (status == STATUS_OK)
        status = trial_run(&trial, exec, latency_ns, took_ns, err);
    exec_destroy(exec);
    return status;
}

status_t operators_draw(const operators_t *o, double rate_rps, double seconds, uint64_t seed,
                        operators_work_t *work, err_t *err)
{
    double queries = fmax((rate_rps > 0 ? rate_rps : operators_peak_rps(o)) * seconds, TRIAL_BLOCKS);
    if (rate_rps <= 0)
        queries = ceil(queries / o->rows_max) * o->rows_max;
    *work = (operators_work_t){.count = (uint32_t)fmin(queries, OPERATORS_QUERIES_MAX)};
    work->list = calloc(work->count, sizeof(*work->list));
    if (!work->list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u queries", work->count);
    trial_work_draw(o->how->mix, rate_rps, seed, work->list, work->count);
    return STATUS_OK;
}
