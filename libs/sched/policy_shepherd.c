/*
 * Shepherd's FLEX (Algorithm 1): a free GPU takes the largest feasible batch of all queues; a batch that is at least
 * lambda times as large as a running one stops it, and what was running is queued again. lambda = 3.03 gives the best
 * bound on the competitive ratio (Theorem 5.2).
 *
 * A running batch stops at its next exit point (6) once its worker has been told. A model without exit points
 * (an engine that cannot stop) takes `exits`, and is never stopped when that is 0 too.
 */
#include "sched/gather.h"
#include "sched/policy.h"

typedef struct {
    double lambda, preempt, exits, overhead_ms;
} shepherd_t;

static const char *const switch_words[] = {"off", "on", NULL};

static void shepherd_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                               candidate_t *candidate)
{
    (void)policy;
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, 0);
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, INT64_MIN, candidate);
    candidate->key = -(int64_t)gathered.batch;
}

static bool shepherd_preempts(policy_t *policy, const shard_t *shard, const shard_t *running_shard,
                              const policy_running_t *running, int64_t now_ns, int64_t *free_ns)
{
    const shepherd_t *state = policy->state;
    int64_t exits = running_shard->opts.exit_points ? running_shard->opts.exit_points : (int64_t)state->exits;
    if (exits <= 0 || shard->queue.len < state->lambda * running->count)
        return false;
    int64_t told_ns = now_ns + running_shard->measured.ctrl_ns;
    *free_ns = policy_exit_ns(running, exits, told_ns) + (int64_t)(state->overhead_ms * 1e6);
    return *free_ns < running->finish_ns &&
           policy_batch_at(shard, now_ns, *free_ns) >= state->lambda * running->count;
}

static const sched_param_t shepherd_params[] = {
    {.name = "lambda",
     .offset = offsetof(shepherd_t, lambda),
     .least = 1,
     .most = 1e6,
     .preset = 3.03,
     .help = "how many times larger a batch must be to stop another"},
    {.name = "preempt",
     .offset = offsetof(shepherd_t, preempt),
     .preset = 1,
     .choices = switch_words,
     .help = "whether batches are stopped at all"},
    {.name = "exits",
     .offset = offsetof(shepherd_t, exits),
     .most = 1e6,
     .help = "exit points of a model that has none of its own"},
    {.name = "overhead_ms",
     .offset = offsetof(shepherd_t, overhead_ms),
     .most = 1e6,
     .help = "from the exit point until the GPU can start another"},
    {0},
};

const policy_ops_t policy_shepherd_ops = {
    .name = "shepherd",
    .help = "FLEX: the largest feasible batch first; a much larger one stops a running one",
    .params = shepherd_params,
    .state_bytes = sizeof(shepherd_t),
    .candidate = shepherd_candidate,
    .stops_all = true,
    .stop_param = "preempt",
    .preempts = shepherd_preempts,
};
