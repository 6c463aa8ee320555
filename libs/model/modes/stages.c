#include "model/modes/stages.h"

#include "base/log.h"
#include "model/measure/profiler_modes.h"
#include "model/model.h"
#include "model/parts/memory.h"

#include <stdlib.h>

enum { SHARE_SIZES = 3 }; /* batch sizes at which the operators are measured: 1, the middle, the largest */

/* What part of a batch each stage takes, at some sizes: the rest is between them. */
typedef struct {
    uint32_t size[SHARE_SIZES], count;
    double share[SHARE_SIZES][STAGED_STAGES_MAX];
} shares_t;

stages_model_t model_stages_cuts(const engine_cuts_t *cuts, uint32_t *ops)
{
    for (uint32_t i = 0; i < cuts->cut_count; i++)
        ops[i] = cuts->cuts[i].op;
    return (stages_model_t){.ops = cuts->ops, .cuts = ops, .cut_count = cuts->cut_count};
}

/* The devices were opened, and the scheduler was told of them, when the worker started. */
static bool devices_lack(const model_stages_t *stages, const model_t *model,
                         const staged_schedule_t *schedule)
{
    bool lack = schedule && stages->devices->slots < STAGES_SLOTS;

    if (lack)
        log_warn("schedule_refused", LOG_STR("model", model->name), LOG_STR("schedule", schedule->name),
                 LOG_STR("runs", "granted"),
                 LOG_STR("reason", "no model had a schedule of its own when the worker started: start it "
                                   "anew for this one"));
    return lack;
}

/* As a config has it, where 0 is no limit. */
static int64_t found_comp_wait_ns(const profile_modes_t *found)
{
    if (found->comp_wait_ns == PROFILE_CACHE_NO_WAIT)
        return 0;
    return found->comp_wait_ns ? found->comp_wait_ns : 1;
}

/* found: NULL, or what the stages are of. */
static void choose_schedule(model_stages_t *stages, const model_t *model, const profile_modes_t *found)
{
    const model_config_t *config = &model->config;

    stages->comp_wait_ns = config->comp_wait_ns;
    if (found && !config->comp_wait_ns)
        stages->comp_wait_ns = found_comp_wait_ns(found);
    stages->schedule = staged_schedule_find(config->schedule);
    if (found && model_config_leaves_schedule(config)) {
        const staged_schedule_t *tried = staged_schedule_find(found->schedule);
        stages->schedule = devices_lack(stages, model, tried) ? NULL : tried;
    }
    stages->beside = stages->schedule == &staged_schedule_input;
}

/* A profile may be of a model that was cut elsewhere. */
static status_t place(model_stages_t *stages, const model_t *model, const engine_cuts_t *cuts,
                      const int64_t *op_ns, err_t *err)
{
    const profile_modes_t *found = &model->modes;
    uint32_t *ops = calloc(cuts->cut_count + 1, sizeof(*ops)), at[STAGED_STAGES_MAX];

    if (!ops)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    stages_model_t shape = model_stages_cuts(cuts, ops);
    bool taken = !model->config.stages && found->stage_count &&
                 stages_named(&shape, found->stages, found->stage_count, at, NULL) == STATUS_OK;
    uint32_t wanted = model->config.stages ? model->config.stages : STAGES_DEFAULT;
    uint32_t count = taken ? found->stage_count : stages_even(&shape, op_ns, wanted, at);
    for (uint32_t i = 0; i < count; i++)
        stages->from[i + 1] = at[i];
    stages->count = count + 1;
    stages->from[stages->count] = cuts->ops;
    choose_schedule(stages, model, taken ? found : NULL);
    free(ops);
    return STATUS_OK;
}

static void share_out(const model_stages_t *stages, const int64_t *op_ns, double *share)
{
    double all = 0;

    for (uint32_t i = 0; i < stages->from[stages->count]; i++)
        all += (double)op_ns[i];
    for (uint32_t s = 0; s < stages->count; s++) {
        share[s] = 0;
        for (uint32_t i = stages->from[s]; i < stages->from[s + 1]; i++)
            share[s] += all > 0 ? (double)op_ns[i] / all : 0;
    }
}

static void fill_costs(model_stages_t *stages, const model_t *model, const shares_t *shares)
{
    uint32_t at = 0;

    for (uint32_t rows = 1; rows <= stages->rows_max; rows++) {
        while (at + 2 < shares->count && rows > shares->size[at + 1])
            at++;
        uint32_t next = at + 1 < shares->count ? at + 1 : at, span = shares->size[next] - shares->size[at];
        double part = span ? (double)(rows - shares->size[at]) / span : 0;
        for (uint32_t s = 0; s < stages->count; s++) {
            double share = shares->share[at][s] + part * (shares->share[next][s] - shares->share[at][s]);
            stages->cost_ns[s * (stages->rows_max + 1) + rows] =
                (int64_t)(share * (double)profile_latency_ns(&model->profile, rows));
        }
    }
}

/* The largest batch, by which the model is cut, first. */
static status_t measure(model_stages_t *stages, model_t *model, const model_load_options_t *options,
                        const engine_cuts_t *cuts, int64_t *op_ns, err_t *err)
{
    profiler_t profiler = model_profiler_of_largest(model, options);
    uint32_t sizes[SHARE_SIZES] = {1, (stages->rows_max + 1) / 2, stages->rows_max};
    shares_t shares = {.count = 0};
    status_t status = profiler_operators(&profiler, stages->rows_max, cuts->ops, op_ns, err);

    if (status == STATUS_OK)
        status = place(stages, model, cuts, op_ns, err);
    if (status != STATUS_OK)
        return status;
    stages->cost_ns = calloc(stages->count * (stages->rows_max + 1), sizeof(*stages->cost_ns));
    if (!stages->cost_ns)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < SHARE_SIZES && status == STATUS_OK; i++) {
        if (shares.count && sizes[i] <= shares.size[shares.count - 1])
            continue;
        status = profiler_operators(&profiler, sizes[i], cuts->ops, op_ns, err);
        shares.size[shares.count] = sizes[i];
        share_out(stages, op_ns, shares.share[shares.count++]);
    }
    if (status == STATUS_OK)
        fill_costs(stages, model, &shares);
    return status;
}

/* On every stream: it runs where its batch does, or rows that catch up with it. inputs NULL: nothing but
 * the batch varies. */
static status_t prepare_stage(const model_stages_t *stages, engine_model_t *model, uint32_t stage,
                              uint32_t rows, const engine_shape_t *inputs, err_t *err)
{
    const model_devices_t *devices = stages->devices;
    status_t status = STATUS_OK;

    for (uint32_t stream = 0; stream < devices->streams && status == STATUS_OK; stream++) {
        engine_range_t range = {.stream = stream, .from = stages->from[stage], .to = stages->from[stage + 1]};
        status = devices->ops->prepare_range(model, &range, rows, inputs, err);
    }
    return status;
}

/* sizes: of the model's axes; NULL: it has none. */
static status_t prepare_rows(const model_stages_t *stages, const model_t *model,
                             const model_load_options_t *options, const uint32_t *sizes, uint32_t rows,
                             err_t *err)
{
    engine_shape_t inputs[ENGINE_MAX_IO];
    status_t status = STATUS_OK;

    if (sizes)
        axes_input_shapes(&stages->shapes->axes, sizes, rows, inputs);
    for (uint32_t d = 0; d < options->devices->count; d++)
        for (uint32_t s = 0; s < stages->count && status == STATUS_OK; s++)
            status = atomic_load(options->stop)
                         ? err_set(err, STATUS_CANCELLED, "stopped")
                         : prepare_stage(stages, model->on_device[d], s, rows, sizes ? inputs : NULL, err);
    return status;
}

/* UNSUPPORTED: of some sizes of the batch; the others are prepared. */
static status_t prepare_batches(const model_stages_t *stages, const model_t *model,
                                const model_load_options_t *options, const uint32_t *sizes, err_t *err)
{
    status_t found = STATUS_OK;

    for (uint32_t rows = 1; rows <= stages->rows_max; rows++) {
        status_t status = prepare_rows(stages, model, options, sizes, rows, err);
        if (status == STATUS_UNSUPPORTED)
            found = status;
        else if (status != STATUS_OK)
            return status;
    }
    return found;
}

/* Of shapes that nobody asked for the first batch prepares what it needs; one with other operators runs whole. */
static status_t prepare_stages(model_stages_t *stages, const model_t *model,
                               const model_load_options_t *options, err_t *err)
{
    const model_shapes_t *shapes = stages->shapes;
    bool pads = shapes && stages->beside && axes_can_pad(&shapes->axes);

    if (!shapes)
        return prepare_batches(stages, model, options, NULL, err);
    for (uint32_t i = 0; i < (shapes->wanted ? shapes->reference_count : 0); i++) {
        const uint32_t *sizes = shapes->references[i];
        status_t status = prepare_batches(stages, model, options, sizes, err);
        if (status != STATUS_OK && status != STATUS_UNSUPPORTED)
            return status;
        stages->pads[i] = pads && status == STATUS_OK && shapes_fit(shapes, sizes);
    }
    return STATUS_OK;
}

const uint32_t *model_stages_pad_to(const model_stages_t *stages, const uint32_t *sizes)
{
    const model_shapes_t *shapes = stages->shapes;
    const axes_t *axes = &shapes->axes;
    uint32_t i = 0;

    while (i < shapes->reference_count && !(stages->pads[i] && axes_nest(axes, sizes, shapes->references[i])))
        i++;
    bool near = i < shapes->reference_count &&
                axes_elements(axes, shapes->references[i]) / STAGES_PAD_MOST <= axes_elements(axes, sizes);
    return near ? shapes->references[i] : NULL;
}

/* As much on each device: counted as those of the first are made. */
static status_t make_borders(model_stages_t *stages, model_t *model, err_t *err)
{
    const model_devices_t *devices = stages->devices;
    uint32_t each = (stages->count - 1) * STAGES_PAIRS;
    engine_shape_t largest[ENGINE_MAX_IO];

    if (stages->shapes)
        axes_input_shapes(&stages->shapes->axes, shapes_largest(stages->shapes), 1, largest);
    stages->borders = calloc((size_t)devices->count * each + 1, sizeof(*stages->borders));
    if (!stages->borders)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < devices->count * each; i++) {
        uint32_t stage = i % each / STAGES_PAIRS;
        status_t status = devices->ops->border_create(model->on_device[i / each], &stages->from[stage + 1], 1,
                                                      stages->rows_max, stages->shapes ? largest : NULL,
                                                      &stages->borders[i], err);
        if (status == STATUS_OK && i < each)
            status = memory_take_more(model, devices, devices->ops->border_bytes(stages->borders[i]),
                                      "the memory between its stages needs", err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

int64_t model_stages_cost_of_ns(const model_stages_t *stages, uint32_t stage, uint32_t rows,
                                uint64_t elements)
{
    int64_t ns = model_stages_cost_ns(stages, stage, rows);
    const model_shapes_t *shapes = stages->shapes;

    if (!shapes)
        return ns;
    int64_t largest_ns = shapes_latency_ns(shapes, shapes_largest(shapes), rows);
    double part =
        largest_ns > 0 ? (double)family_latency_ns(&shapes->family, elements, rows) / (double)largest_ns : 1;
    return (int64_t)((double)ns * part);
}

static staged_cost_t cost_of(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const model_stages_t *stages = ctx;
    int64_t ns = stage < stages->count ? model_stages_cost_ns(stages, stage, rows) : 0;

    (void)length;
    return model_stages_busy(ns, stages->beside, stages->devices->streams);
}

static void find_splits(model_stages_t *stages, double slack)
{
    staged_config_t config = {.stages = stages->count,
                              .rows_max = stages->rows_max,
                              .split_slack = slack,
                              .cost = cost_of,
                              .cost_ctx = stages};

    stages->joinable = staged_joinable(&config, 1, STAGES_WHOLE, stages->until);
    stages->splits = stages->joinable == 0;
}

status_t model_stages_create(model_t *model, const model_load_options_t *options, const engine_cuts_t *cuts,
                             model_stages_t **out, err_t *err)
{
    model_stages_t *stages = calloc(1, sizeof(*stages));
    int64_t *op_ns = calloc(cuts->ops, sizeof(*op_ns));
    status_t status = STATUS_OK;

    if (!stages || !op_ns)
        status = err_set(err, STATUS_NO_MEMORY, "out of memory");
    if (status == STATUS_OK) {
        stages->devices = options->devices;
        stages->shapes = model->shapes;
        stages->rows_max = model->info->max_batch < EXEC_ROWS_MAX ? model->info->max_batch : EXEC_ROWS_MAX;
        status = measure(stages, model, options, cuts, op_ns, err);
    }
    if (status == STATUS_OK && stages->count > 1)
        status = make_borders(stages, model, err);
    if (status == STATUS_OK && stages->count > 1)
        status = prepare_stages(stages, model, options, err);
    free(op_ns);
    if (status == STATUS_OK)
        find_splits(stages, model->config.split_slack);
    if (status == STATUS_OK)
        *out = stages;
    else
        model_stages_destroy(stages);
    return status;
}

void model_stages_destroy(model_stages_t *stages)
{
    if (!stages)
        return;
    if (stages->borders)
        model_borders_free(stages->devices, stages->borders,
                           stages->devices->count * (stages->count - 1) * STAGES_PAIRS);
    free(stages->cost_ns);
    free(stages);
}
