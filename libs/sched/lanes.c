/*
 * Lanes: shards behind those of the models, each of which serves one model on one GPU. Requests are dealt to
 * a model's lanes when they come, in proportion to the planned rates. Only policies that route have any.
 */
#include "sched/core.h"

static sched_t *core_of(policy_t *policy)
{
    return CONTAINER_OF(policy, sched_t, policy);
}

/* Requests are spread over the frontends at random, as clients that choose one do. */
static uint32_t choose_frontend(policy_t *policy)
{
    return policy->frontends > 1 ? (uint32_t)prng_below(&policy->dealer, policy->frontends) : 0;
}

/* Smooth weighted round robin: each lane gains its rate, the richest is chosen and pays for all. */
uint32_t core_choose_lane(sched_t *sched, uint32_t model)
{
    uint32_t best = model;
    double total = 0;
    uint32_t f = choose_frontend(&sched->policy);
    for (uint32_t l = sched->shards[model].lane.next; l != TASK_NONE; l = sched->shards[l].lane.next) {
        shard_lane_t *lane = &sched->shards[l].lane;
        lane->credit[f] += lane->rate;
        total += lane->rate;
        if (best == model || lane->credit[f] > sched->shards[best].lane.credit[f])
            best = l;
    }
    if (best != model)
        sched->shards[best].lane.credit[f] -= total;
    return best;
}

/* All tasks of one shard go to where `to` says, without being counted again. */
static void move_tasks(sched_t *sched, shard_t *from, bool to_lanes)
{
    for (uint32_t task; (task = model_queue_pop(&from->queue, &sched->pool)) != TASK_NONE;) {
        uint32_t place = to_lanes ? core_route(sched, from->model) : from->model;
        shard_requeue(&sched->shards[place], task, false);
        core_mark_dirty(sched, place);
    }
}

/* What it has given up stays in its drop chain, which the next run empties. */
static void close_lane(sched_t *sched, int64_t now_ns, shard_t *lane)
{
    move_tasks(sched, lane, false);
    lane->candidate = (candidate_t){0};
    matcher_on_candidate(&sched->matcher, now_ns, lane->index, &lane->candidate);
    matcher_pin(&sched->matcher, lane->index, BITMAP_NONE);
    heap_remove(&sched->expiry, &sched->expiry_nodes[lane->index]);
    core_mark_dirty(sched, lane->index);
    lane->present = false;
}

void core_close_lanes(sched_t *sched, int64_t now_ns)
{
    if (sched->policy.lanes == 0)
        return;
    for (uint32_t s = sched->limits.models_max; s < sched->shards_max; s++) {
        if (sched->shards[s].present)
            close_lane(sched, now_ns, &sched->shards[s]);
    }
    for (uint32_t m = 0; m < sched->limits.models_max; m++)
        sched->shards[m].lane.next = TASK_NONE;
    sched->policy.lanes = 0;
    sched->tick_ns = now_ns; /* the policy must plan anew */
}

void policy_close_lanes(policy_t *policy, int64_t now_ns)
{
    core_close_lanes(core_of(policy), now_ns);
}

bool policy_open_lane(policy_t *policy, uint32_t model, uint32_t gpu, uint32_t batch, double rate,
                      int64_t duty_ns)
{
    sched_t *sched = core_of(policy);
    uint32_t index = policy->models_max + policy->lanes;
    if (index >= policy->shards_max || !matcher_may_use(&sched->matcher, model, gpu))
        return false;
    shard_t *lane = &policy->shards[index], *owner = &policy->shards[model];
    if (lane->dirty && lane->dropped_head != TASK_NONE && lane->model != model)
        return false; /* another model's drops are still to be told; the next plan has it free */
    lane->present = true;
    lane->model = model;
    lane->limit = owner->limit;
    lane->opts = owner->opts;
    shard_place(lane, owner->profile, owner->guarded, owner->scatter);
    lane->guard = owner->guard;
    shard_set_delays(lane, &owner->measured);
    lane->counts = &owner->own;
    lane->plan = (shard_plan_t){0};
    lane->lane = (shard_lane_t){
        .gpu = gpu, .batch = batch, .rate = rate, .duty_ns = duty_ns, .next = owner->lane.next};
    owner->lane.next = index;
    matcher_pin(&sched->matcher, index, gpu);
    policy->lanes++;
    return true;
}

void policy_fill_lanes(policy_t *policy)
{
    for (uint32_t m = 0; m < policy->models_max; m++) {
        shard_t *owner = &policy->shards[m];
        if (owner->present && owner->lane.next != TASK_NONE) {
            move_tasks(core_of(policy), owner, true);
            core_mark_dirty(core_of(policy), m);
        }
    }
}

uint32_t policy_gpu_ids(const policy_t *policy, uint32_t *ids, uint32_t most)
{
    const sched_t *sched = CONTAINER_OF(policy, const sched_t, policy);
    uint32_t count = 0;
    for (uint32_t g = 0; g < sched->limits.gpus_max && count < most; g++) {
        if (sched->gpus[g].present && !sched->gpus[g].draining)
            ids[count++] = g;
    }
    return count;
}
