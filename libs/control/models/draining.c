#include "control/models/draining.h"

#include "base/clock.h"
#include "control/models/commands.h"
#include "control/models/instance.h"
#include "control/models/placement.h"

/* What waits for a model that is being unloaded is worth so long; deadlines are shorter as a rule. */
static const int64_t DRAIN_MOST_NS = 10 * NS_PER_S;

/* No task for it can come any more: every gateway knows that it is not to be used, and its queue is empty. */
static bool is_drained(const models_t *models, const model_t *model)
{
    sched_model_stats_t stats;
    if (!roster_knows(models->roster, model->unready_version))
        return false;
    placement_stats(model, &stats);
    return stats.queued == 0;
}

static bool may_go(const models_t *models, const model_t *model)
{
    if (model->staying)
        return false;
    return model_any(model, instance_is_ready) || is_drained(models, model) ||
           models->turn->now_ns - model->unready_since_ns > DRAIN_MOST_NS;
}

static void release(models_t *models, model_t *model)
{
    for (instance_t *i = model->instances; i; i = i->next) {
        if (!instance_is_draining(i))
            continue;
        i->released = true;
        worker_release_model(i->worker, model);
    }
    placement_settle(models, model);
}

void draining_tick(models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++)
        if (model_any(models->all[m], instance_is_draining) && may_go(models, models->all[m]))
            release(models, models->all[m]);
}
