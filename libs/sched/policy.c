#include "sched/policy.h"

#include <string.h>

extern const policy_ops_t policy_fermata_ops, policy_deferred_ops, policy_eager_ops, policy_timeout_ops,
    policy_clockwork_ops, policy_shepherd_ops, policy_nexus_ops;

/* The first is the default. */
static const policy_ops_t *const policies[] = {
    &policy_fermata_ops,   &policy_deferred_ops, &policy_eager_ops, &policy_timeout_ops,
    &policy_clockwork_ops, &policy_shepherd_ops, &policy_nexus_ops,
};
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

size_t policy_state_bytes(void)
{
    size_t most = 0;
    for (unsigned i = 0; i < POLICIES; i++)
        most = policies[i]->state_bytes > most ? policies[i]->state_bytes : most;
    return most;
}

size_t policy_model_bytes(void)
{
    size_t most = 0;
    for (unsigned i = 0; i < POLICIES; i++)
        most = policies[i]->model_bytes > most ? policies[i]->model_bytes : most;
    return most;
}

size_t policy_gpu_bytes(void)
{
    size_t most = 0;
    for (unsigned i = 0; i < POLICIES; i++)
        most = policies[i]->gpu_bytes > most ? policies[i]->gpu_bytes : most;
    return most;
}

const policy_ops_t *policy_at(uint32_t index)
{
    return index < POLICIES ? policies[index] : NULL;
}

const policy_ops_t *policy_find(const char *name)
{
    for (unsigned i = 0; i < POLICIES; i++) {
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    }
    return NULL;
}

/* Whether it stops batches at all with these parameters, where they can be stopped. */
static bool policy_stops(const policy_ops_t *ops, const double values[POLICY_PARAMS_MAX])
{
    if (!ops->stop_param)
        return ops->preempts;
    return values[policy_param(ops, ops->stop_param) - ops->params] > 0;
}

void policy_start(policy_t *policy, const policy_ops_t *ops, const double values[POLICY_PARAMS_MAX])
{
    policy->ops = ops;
    policy->stops = policy_stops(ops, values);
    policy->frontends = 1;
    policy->needed = 1;
    prng_init(&policy->dealer, 1);
    memset(policy->state, 0, ops->state_bytes);
    memset(policy->model_state, 0, ops->model_bytes * policy->models_max);
    memset(policy->gpu_state, 0, ops->gpu_bytes * policy->gpus_max);
    for (int i = 0; ops->params && ops->params[i].name; i++)
        memcpy((char *)policy->state + ops->params[i].offset, &values[i], sizeof(values[i]));
    for (uint32_t m = 0; m < policy->models_max; m++)
        policy->shards[m].plan = (shard_plan_t){0};
}

int64_t policy_exit_ns(const policy_running_t *running, int64_t exits, int64_t told_ns)
{
    int64_t part_ns = (running->finish_ns - running->start_ns + exits) / (exits + 1);
    int64_t part = (told_ns - running->start_ns + part_ns - 1) / part_ns;
    int64_t exit_ns = running->start_ns + (part > 1 ? part : 1) * part_ns;
    return part <= exits && exit_ns < running->finish_ns ? exit_ns : running->finish_ns;
}

uint32_t policy_rows_due(const policy_running_t *running, int64_t end_ns)
{
    uint32_t due = 0, task = running->first_task;
    while (due < running->count && running->pool->slots[task].task.deadline_ns < end_ns) {
        task = running->pool->slots[task].next;
        due++;
    }
    return due;
}

uint32_t policy_batch_at(const shard_t *shard, int64_t now_ns, int64_t free_ns)
{
    uint32_t head = shard_head(shard);
    if (head == TASK_NONE)
        return 0;
    uint32_t feasible = shard_feasible(shard, now_ns, free_ns, shard_task(shard, head)->deadline_ns);
    return feasible < shard->queue.len ? feasible : shard->queue.len;
}
