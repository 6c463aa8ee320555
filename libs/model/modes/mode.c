#include "model/modes/mode.h"

#include "base/log.h"
#include "exec/preempt.h"
#include "model/measure/profiler_modes.h"
#include "model/model.h"
#include "model/parts/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an exit point costs a batch that goes on: a look at a flag and, on a CPU, what it takes to get going again. The
 * same for every engine, since none knows better before it has tried: `fermata profile --exit-points` does. */
static const int64_t EXIT_NS = 2000;
/* Shepherd 6: delay and overhead each below 5 % of the batch. */
static const double EXIT_LIMIT = 0.05;

__attribute__((format(printf, 3, 4))) static void refuse(mode_choice_t *choice, mode_refusal_t refusal,
                                                         const char *format, ...)
{
    va_list args;

    choice->mode = MODE_WHOLE;
    choice->refusal = refusal;
    va_start(args, format);
    vsnprintf(choice->why, sizeof(choice->why), format, args);
    va_end(args);
}

/* What a model or its device lacks for the mode is no failure of the model: it runs whole. */
static status_t refuse_lack(mode_choice_t *choice, status_t status, const err_t *err)
{
    if (status == STATUS_NO_MEMORY)
        refuse(choice, MODE_NO_MEMORY, "%s", err->text);
    else if (status == STATUS_UNSUPPORTED)
        refuse(choice, MODE_UNCUTTABLE, "%s", err->text);
    else
        return status;
    return STATUS_OK;
}

bool mode_suits(const model_t *model, const uint32_t *sizes)
{
    const mode_choice_t *choice = &model->choice;

    if (sizes && choice->mode == MODE_STAGED)
        return shapes_fit(model->shapes, sizes);
    if (sizes && choice->mode == MODE_OVERLAP)
        return model_segments_fit(choice->segments, sizes);
    return true; /* an exit is no place where rows are kept: it is one for any shape */
}

/* Every device finds its own, which are the same. False: refused, or *status is not OK. */
static bool find_cuts(model_t *model, const model_load_options_t *options, const uint32_t *sizes,
                      engine_cuts_t *cuts, status_t *status, err_t *err)
{
    const engine_ops_t *ops = options->devices->ops;

    if (!ops->cuts) {
        refuse(&model->choice, MODE_NO_ENGINE, "engine %s cannot cut a model", ops->name);
        return false;
    }
    for (uint32_t d = options->devices->count; d-- > 0 && *status == STATUS_OK;)
        *status = model_cuts(model, ops, d, sizes, cuts, err);
    if (*status == STATUS_OK && cuts->cut_count > 0)
        return true;
    if (*status == STATUS_OK || *status == STATUS_UNSUPPORTED)
        refuse(&model->choice, MODE_UNCUTTABLE, "%s",
               *status == STATUS_OK ? "it has no border inside" : err->text);
    if (*status == STATUS_UNSUPPORTED)
        *status = STATUS_OK;
    return false;
}

/* By time, as `fermata profile --exit-points` does. */
static status_t place_exits(model_t *model, const engine_cuts_t *cuts, const int64_t *op_ns, err_t *err)
{
    mode_choice_t *choice = &model->choice;
    uint32_t *ops = calloc(cuts->cut_count, sizeof(*ops)), at[STAGED_STAGES_MAX];

    if (!ops)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u cuts", cuts->cut_count);
    stages_model_t shape = model_stages_cuts(cuts, ops);
    preempt_plan_t plan = preempt_plan(&shape, op_ns, EXIT_NS, EXIT_LIMIT, at);
    free(ops);
    memcpy(choice->exits, at, plan.exit_points * sizeof(*at));
    choice->exit_points = plan.exit_points;
    if (plan.exit_points > 0 && plan.delay >= EXIT_LIMIT)
        log_warn("exits_far_apart", LOG_STR("model", model->name), LOG_U64("exit_points", plan.exit_points),
                 LOG_F64("longest_part", plan.delay), LOG_F64("wanted", EXIT_LIMIT));
    return STATUS_OK;
}

/* Those of the profile; false: there are none, or of a model that was cut elsewhere. */
static bool take_profiled_exits(model_t *model, const engine_cuts_t *cuts)
{
    const profile_modes_t *modes = &model->modes;
    uint32_t cut = 0;

    for (uint32_t i = 0; i < modes->exit_count; i++) {
        while (cut < cuts->cut_count && cuts->cuts[cut].op < modes->exits[i])
            cut++;
        if (cut == cuts->cut_count || cuts->cuts[cut].op != modes->exits[i])
            return false;
    }
    if (modes->exit_count > cuts->cut_count)
        return false;
    for (uint32_t i = 0; i < modes->exit_count; i++)
        model->choice.exits[i] = modes->exits[i];
    model->choice.exit_points = modes->exit_count;
    return modes->exit_count > 0;
}

static status_t choose_exits(model_t *model, const model_load_options_t *options, const engine_cuts_t *cuts,
                             err_t *err)
{
    mode_choice_t *choice = &model->choice;
    profiler_t profiler = model_profiler_of_largest(model, options);
    int64_t *op_ns = calloc(cuts->ops, sizeof(*op_ns));

    choice->exits = calloc(cuts->cut_count, sizeof(*choice->exits));
    status_t status = STATUS_OK;
    if (!op_ns || !choice->exits)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for %u operators", cuts->ops);
    bool taken = status == STATUS_OK && take_profiled_exits(model, cuts);
    if (status == STATUS_OK && !taken)
        status = profiler_operators(&profiler, model->info->max_batch, cuts->ops, op_ns, err);
    if (status == STATUS_OK && !taken)
        status = place_exits(model, cuts, op_ns, err);
    free(op_ns);
    return status;
}

/* One that can be stopped runs operator by operator. Of shapes that vary the first batch prepares what it needs. */
static status_t prepare_exits(const model_t *model, const model_load_options_t *options, err_t *err)
{
    const model_devices_t *devices = options->devices;
    const engine_range_t all = {0};
    status_t status = STATUS_OK;

    for (uint32_t d = 0; d < devices->count && !model->shapes; d++)
        for (uint32_t rows = 1; rows <= model->info->max_batch && status == STATUS_OK; rows++)
            status = atomic_load(options->stop)
                         ? err_set(err, STATUS_CANCELLED, "stopped")
                         : devices->ops->prepare_range(model->on_device[d], &all, rows, NULL, err);
    return status;
}

/* An engine that stops anywhere needs no exits, and nothing prepared for them: how many places there are is what the
 * scheduler reckons with. */
static bool stops_anywhere(model_t *model)
{
    uint32_t most = STAGED_STAGES_MAX - 1, points = model->info->stop_points;

    model->choice.exit_points = points < most ? points : most;
    return points > 0;
}

static status_t choose_preempt(model_t *model, const model_load_options_t *options, err_t *err)
{
    engine_cuts_t cuts;
    status_t status = STATUS_OK;

    if (!options->devices->ops->stop) {
        refuse(&model->choice, MODE_NO_ENGINE, "engine %s cannot stop a batch", options->devices->ops->name);
        return STATUS_OK;
    }
    if (stops_anywhere(model))
        return STATUS_OK;
    if (!find_cuts(model, options, model_largest(model), &cuts, &status, err))
        return refuse_lack(&model->choice, status, err);
    status = choose_exits(model, options, &cuts, err);
    if (status == STATUS_OK && model->choice.exit_points > 0)
        status = prepare_exits(model, options, err);
    else if (status == STATUS_OK)
        refuse(&model->choice, MODE_UNCUTTABLE, "every exit point would cost more than %.0f %% of a batch",
               100 * EXIT_LIMIT);
    return refuse_lack(&model->choice, status, err);
}

/* Streams, and what the scheduler knows of a device, are settled when the worker starts. */
static bool devices_lack(mode_choice_t *choice, bool lack)
{
    if (lack)
        refuse(choice, MODE_NO_DEVICE,
               "no model asked for mode %s when the worker started: start it anew for this one",
               model_mode_names[choice->asked]);
    return lack;
}

/* A model that cannot be cut well enough, or whose stages do not fit, runs whole. */
static status_t choose_staged(model_t *model, const model_load_options_t *options, err_t *err)
{
    engine_cuts_t cuts;
    status_t status = STATUS_OK;

    if (!options->devices->ops->border_create) {
        refuse(&model->choice, MODE_NO_ENGINE, "engine %s cannot cut a model", options->devices->ops->name);
        return STATUS_OK;
    }
    if (devices_lack(&model->choice, !options->devices->stretches))
        return STATUS_OK;
    if (!find_cuts(model, options, model_largest(model), &cuts, &status, err))
        return refuse_lack(&model->choice, status, err);
    status = model_stages_create(model, options, &cuts, &model->choice.stages, err);
    if (status != STATUS_OK)
        return refuse_lack(&model->choice, status, err);
    if (model->choice.stages->count < 2)
        refuse(&model->choice, MODE_UNCUTTABLE, "no cut divides its time");
    return status;
}

static status_t model_identity(const model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES], err_t *err)
{
    if (!model->bare)
        return model_hash(model, hash, err);
    snprintf(hash, PROFILE_CACHE_TEXT_BYTES, "-");
    return STATUS_OK;
}

/* Its number there; UINT32_MAX: refused, or *status is not OK. */
static uint32_t find_in_plan(model_t *model, const overlap_plan_t *plan, status_t *status, err_t *err)
{
    char hash[PROFILE_CACHE_TEXT_BYTES];
    uint32_t service;
    err_t why;

    *status = model_identity(model, hash, err);
    if (*status != STATUS_OK)
        return UINT32_MAX;
    service = overlap_plan_find(plan, model->name, model->version ? model->version : 1, hash,
                                model->info->max_batch, &why);
    if (service != UINT32_MAX &&
        overlap_plan_fits(plan, service, model->shapes ? &model->shapes->axes : NULL, &why))
        return service;
    refuse(&model->choice, MODE_NO_PREDICTOR, "%s", why.text);
    return UINT32_MAX;
}

/* A model that the duration model does not know, on a device that it does not know, runs whole. */
static status_t choose_overlap(model_t *model, const model_load_options_t *options, err_t *err)
{
    const overlap_plan_t *plan = options->overlap;
    engine_cuts_t cuts;
    status_t status = STATUS_OK;

    if (!plan) {
        refuse(&model->choice, MODE_NO_PREDICTOR, "%s", options->overlap_why);
        return STATUS_OK;
    }
    if (strcmp(plan->device, options->devices->identity) != 0) {
        refuse(&model->choice, MODE_NO_PREDICTOR, "the overlap plan is of another device: %s", plan->device);
        return STATUS_OK;
    }
    if (devices_lack(&model->choice, options->devices->slots == 0))
        return STATUS_OK;
    if (options->devices->streams < plan->predictor.models) {
        refuse(&model->choice, MODE_NO_PREDICTOR,
               "the overlap plan is of %u models side by side, the device has %u streams (--streams)",
               plan->predictor.models, options->devices->streams);
        return STATUS_OK;
    }
    uint32_t service = find_in_plan(model, plan, &status, err);
    if (service == UINT32_MAX)
        return status;
    if (!find_cuts(model, options, model->shapes ? plan->models[service].sizes : NULL, &cuts, &status, err))
        return refuse_lack(&model->choice, status, err);
    if (plan->predictor.ops[service] != cuts.cut_count + 1) {
        refuse(&model->choice, MODE_NO_PREDICTOR, "the overlap plan is of another file of %.80s",
               model->name);
        return STATUS_OK;
    }
    status = model_segments_create(model, options, &cuts, service, &model->choice.segments, err);
    return refuse_lack(&model->choice, status, err);
}

static status_t choose(model_t *model, const model_load_options_t *options, err_t *err)
{
    mode_choice_t *choice = &model->choice;

    switch (choice->asked) {
    case MODE_OVERLAP:
        return choose_overlap(model, options, err);
    case MODE_STAGED:
        return choose_staged(model, options, err);
    case MODE_PREEMPT:
        return choose_preempt(model, options, err);
    default:
        return STATUS_OK;
    }
}

static void parts_dispose(mode_choice_t *choice)
{
    free(choice->exits);
    model_stages_destroy(choice->stages);
    model_segments_destroy(choice->segments);
    choice->exits = NULL;
    choice->exit_points = 0;
    choice->stages = NULL;
    choice->segments = NULL;
}

/* What the engine has taken since it had so much, to run the model in parts. */
static status_t take_grown(model_t *model, const model_devices_t *devices, uint64_t engine_bytes, err_t *err)
{
    uint64_t now_bytes = model->info->memory_bytes;

    if (now_bytes <= engine_bytes)
        return STATUS_OK;
    return memory_take_more(model, devices, now_bytes - engine_bytes, "running it in parts needs", err);
}

status_t mode_choose(model_t *model, const model_load_options_t *options, err_t *err)
{
    mode_choice_t *choice = &model->choice;
    uint64_t taken_bytes = model->taken_bytes, engine_bytes = model->info->memory_bytes;

    mode_dispose(choice);
    choice->asked = model_asked_mode(model, options);
    choice->mode = choice->asked;
    status_t status = choose(model, options, err);
    if (status == STATUS_OK && choice->mode == choice->asked)
        status = refuse_lack(choice, take_grown(model, options->devices, engine_bytes, err), err);
    if (status != STATUS_OK || choice->mode != choice->asked) {
        parts_dispose(choice);
        memory_shrink(model, options->devices, taken_bytes);
    }
    return status;
}

void mode_dispose(mode_choice_t *choice)
{
    parts_dispose(choice);
    *choice = (mode_choice_t){.mode = MODE_WHOLE};
}
