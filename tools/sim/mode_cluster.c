/*
 * A cluster of emulated devices: the scheduling core of the service in front, an execution mode inside each device, and
 * Poisson streams of single rows.
 *
 *   requests ─▶ sched_t ─ grants, stretches ─▶ device g: whole and overlap launch a batch into a stream of its own;
 *           ◀─ done ────────────────────────            staged gives its rows to the model's exec object
 *
 * With policy `none` there is no scheduler: a request goes at once to the device with the fewest unanswered,
 * whose mode makes batches as it does alone. All models are on all devices, and are asked for equally often.
 */
#include "mode_cluster.h"

#include <math.h>
#include <string.h>

/* The scheduler */

static void note_granted(cluster_t *cluster, cluster_gpu_t *gpu, uint32_t first)
{
    uint32_t place = 0;
    while (gpu->granted[place] != CLUSTER_NOBODY && cluster->requests[gpu->granted[place]].left)
        place++;
    gpu->granted[place] = first;
}

static void on_grant(cluster_t *cluster, const sched_action_t *action)
{
    cluster_gpu_t *gpu = &cluster->gpus[action->grant.gpu];
    uint32_t first = (uint32_t)action->grant.tasks[0].tag;
    cluster->requests[first].batch_id = action->grant.batch_id;
    cluster->requests[first].left = action->grant.count;
    gpu->unanswered += action->grant.count;
    if (cluster->staged)
        note_granted(cluster, gpu, first);
    for (uint32_t i = 0; i < action->grant.count; i++) {
        uint32_t index = (uint32_t)action->grant.tasks[i].tag;
        cluster_request_t *request = &cluster->requests[index];
        request->first = first;
        request->next =
            i + 1 < action->grant.count ? (uint32_t)action->grant.tasks[i + 1].tag : CLUSTER_NOBODY;
        request->joins = action->grant.stretches;
        request->gpu = action->grant.gpu;
        if (cluster->staged)
            cluster_give_to_exec(cluster, gpu, index);
    }
    if (!cluster->staged)
        cluster_run_batch(cluster, gpu, &cluster->requests[first], action->grant.count);
}

static void on_action(void *ctx, const sched_action_t *action)
{
    cluster_t *cluster = ctx;
    if (action->kind == SCHED_GRANT) {
        on_grant(cluster, action);
        return;
    }
    mode_tally_drop(&cluster->tally, (double)cluster->now_ns / 1e9);
    cluster->answered++;
}

/* Requests */

static cluster_gpu_t *least_asked(cluster_t *cluster)
{
    cluster_gpu_t *gpu = cluster->gpus;
    for (uint32_t g = 1; g < cluster->options->gpus; g++)
        gpu = cluster->gpus[g].unanswered < gpu->unanswered ? &cluster->gpus[g] : gpu;
    return gpu;
}

static void arrive(cluster_t *cluster)
{
    uint32_t index = cluster->sent++;
    cluster_request_t *request = &cluster->requests[index];
    *request = (cluster_request_t){.first = index, .arrival_ns = cluster->now_ns};
    request->model = (uint32_t)prng_below(&cluster->prng, cluster->scenario->model_count);
    cluster->next_s += prng_exponential(&cluster->prng, 1 / cluster->rate_rps);
    if (cluster->scheduled) {
        sched_task_t task = {.tag = index, .arrival_ns = cluster->now_ns};
        task.deadline_ns = cluster->now_ns + (int64_t)(cluster->scenario->slo_ms * 1e6);
        cluster_fail(cluster, sched_submit(cluster->sched, cluster->now_ns, request->model, &task, NULL));
        return;
    }
    cluster_gpu_t *gpu = least_asked(cluster);
    request->gpu = (uint32_t)(gpu - cluster->gpus);
    gpu->unanswered++;
    cluster_give_to_exec(cluster, gpu, index);
}

static int64_t arrival_ns(const cluster_t *cluster)
{
    return cluster->sent < cluster->options->queries ? (int64_t)llround(cluster->next_s * 1e9) : EXEC_NEVER;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_ns(const cluster_t *cluster)
{
    int64_t next = least(arrival_ns(cluster), cluster->sched_wake_ns);
    for (uint32_t g = 0; g < cluster->options->gpus; g++) {
        next = least(next, accel_next_ns(cluster->gpus[g].device));
        for (uint32_t m = 0; m < cluster->scenario->model_count; m++)
            next = least(next, cluster->gpus[g].drivers[m].wake_ns);
    }
    return next;
}

/* What ended, then what came, then what is decided: by the scheduler, and by the modes on what it granted. */
static status_t play(cluster_t *cluster)
{
    while (cluster->status == STATUS_OK && cluster->answered < cluster->options->queries) {
        cluster->now_ns = next_ns(cluster);
        if (cluster->now_ns == EXEC_NEVER)
            return err_set(cluster->err, STATUS_INTERNAL, "nothing moves with %u queries unanswered",
                           cluster->options->queries - cluster->answered);
        for (uint32_t g = 0; g < cluster->options->gpus; g++)
            cluster_take_ended(cluster, &cluster->gpus[g]);
        while (cluster->status == STATUS_OK && arrival_ns(cluster) <= cluster->now_ns)
            arrive(cluster);
        for (uint32_t g = 0; cluster->scheduled && g < cluster->options->gpus; g++)
            cluster_run_execs(cluster, &cluster->gpus[g]);
        if (cluster->scheduled)
            cluster->sched_wake_ns = sched_run(cluster->sched, cluster->now_ns, on_action, cluster);
        for (uint32_t g = 0; g < cluster->options->gpus; g++)
            cluster_run_execs(cluster, &cluster->gpus[g]);
    }
    return cluster->status;
}

status_t mode_run_cluster(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                          mode_result_t *result, err_t *err)
{
    cluster_t cluster = {.options = options,
                         .scenario = scenario,
                         .staged = strcmp(options->mode, "staged") == 0,
                         .overlap = strcmp(options->mode, "overlap") == 0,
                         .scheduled = strcmp(options->policy, "none") != 0,
                         .rate_rps = rate_rps,
                         .err = err};
    bool whole = strcmp(options->mode, "whole") == 0;
    if (!cluster.staged && !whole && !(cluster.overlap && cluster.scheduled))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "a cluster runs whole, staged, or, behind a policy, overlap");
    prng_init(&cluster.prng, options->seed);
    *result = (mode_result_t){0};
    status_t status = cluster_init(&cluster);
    if (status == STATUS_OK)
        status = play(&cluster);
    if (status == STATUS_OK) {
        mode_tally_close(&cluster.tally, result);
        result->rate_rps = rate_rps;
        for (uint32_t g = 0; g < options->gpus; g++)
            result->utilization +=
                accel_busy_ns(cluster.gpus[g].device) / (double)cluster.now_ns / options->gpus;
        for (uint32_t m = 0; cluster.scheduled && m < scenario->model_count; m++) {
            sched_model_stats_t stats;
            sched_model_stats(cluster.sched, m, &stats);
            result->batches += stats.batches;
            result->stretches += stats.stretches;
        }
        for (uint32_t g = 0; cluster.staged && g < options->gpus; g++)
            for (uint32_t m = 0; m < scenario->model_count; m++)
                result->joined += staged_counts(cluster.gpus[g].drivers[m].exec).stretches;
    }
    cluster_dispose(&cluster);
    return status;
}
