#include "scheduler/draining.h"

#include "base/clock.h"
#include "loop/loop.h"
#include "scheduler/catalogue.h"
#include "scheduler/commands.h"
#include "scheduler/gateways.h"
#include "scheduler/placement.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"

/* What waits for a model that is being unloaded is worth so long; deadlines are shorter as a rule. */
static const int64_t DRAIN_MOST_NS = 10 * NS_PER_S;

/* No task for it can come any more: every gateway knows that it is not to be used, and its queue is empty. */
static bool is_drained(const scheduler_t *s, const model_t *model)
{
    sched_model_stats_t stats;
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (s->gateways[i] != NULL && s->gateways[i]->catalogue_seen < model->unready_version)
            return false;
    placement_stats(model, &stats);
    return stats.queued == 0;
}

static bool may_go(const scheduler_t *s, const model_t *model)
{
    if (model->staying)
        return false;
    return placement_any(model, placement_ready) || is_drained(s, model) ||
           loop_now_ns() - model->unready_since_ns > DRAIN_MOST_NS;
}

static void release(scheduler_t *s, model_t *model)
{
    for (instance_t *i = model->instances; i != NULL; i = i->next) {
        if (!placement_draining(i))
            continue;
        i->released = true;
        worker_release_model(i->worker, model);
    }
    placement_settle(s, model);
}

void draining_tick(scheduler_t *s)
{
    for (uint32_t m = 0; m < s->model_count; m++)
        if (placement_any(s->models[m], placement_draining) && may_go(s, s->models[m]))
            release(s, s->models[m]);
}
