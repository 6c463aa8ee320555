/* Models that others left no time to measure: it is made up for as soon as those are quiet. */
#include "lifecycle_private.h"

#include "base/clock.h"
#include "profiler.h"

/* Looked at so often while there is such a model. */
static const int64_t MEASURE_PAUSE_NS = 2 * NS_PER_S;

static bool is_due(const model_t *model)
{
    return model->state == MODEL_READY && !model->successor && model->corrects && !model->shapes &&
           !profile_is_whole(&model->measured);
}

static bool are_others_served(const lifecycle_t *l, const model_t *model)
{
    const profiler_t profiler = model_profiler(model, &l->options.load, NULL);
    return profiler_others_are_served(&profiler);
}

/* Fails only where so much waits that the next look is soon enough. */
static void measure_start(lifecycle_t *l, model_t *model)
{
    l->measuring = model->measuring = loader_measure(l->loader, model) == STATUS_OK;
}

void measure_later(lifecycle_t *l, const model_t *model)
{
    if (is_due(model))
        loop_timer_start_in(&l->measure, MEASURE_PAUSE_NS);
}

void measure_on_timer(loop_timer_t *timer, void *arg)
{
    lifecycle_t *l = arg;
    const repository_t *repository = l->options.repository;

    for (uint32_t i = 0; i < repository->count; i++) {
        model_t *model = repository->models[i];
        if (!is_due(model))
            continue;
        loop_timer_start_in(timer, MEASURE_PAUSE_NS);
        if (!l->measuring && !are_others_served(l, model))
            measure_start(l, model);
        return;
    }
}

void measure_done(void *ctx, model_t *model, const profile_t *profile)
{
    lifecycle_t *l = ctx;

    l->measuring = model->measuring = false;
    if (!profile || !profile_is_whole(profile) || !is_due(model)) {
        unload_when_idle(l, model);
        return;
    }
    model_take_profile(model, profile);
    lifecycle_tell(l, model, NULL);
}
