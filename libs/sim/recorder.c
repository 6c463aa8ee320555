#include "sim/recorder.h"

#include <stdlib.h>

/* A model whose lost requests are more than the limit allows of those expected, by more than chance explains. */
static void set_bad_limits(recorder_t *recorder, const simulation_config_t *config)
{
    const workload_t *workload = config->workload;
    for (uint32_t m = 0; m < workload->count; m++) {
        double expected = workload->rate_rps * workload->shares[m] * config->seconds;
        recorder->bad_limit[m] = config->give_up_bad_rate * expected * 1.2 + 20;
    }
}

status_t recorder_init(recorder_t *recorder, const simulation_config_t *config, err_t *err)
{
    simulation_result_t *result = calloc(1, sizeof(*result));
    uint32_t models = config->workload->count;
    *recorder = (recorder_t){.result = result};
    if (!result)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a result");
    result->model_count = models;
    result->gpu_count = config->gpus;
    result->seconds = config->seconds;
    result->models = calloc(models, sizeof(*result->models));
    result->gpu_busy = calloc(config->gpus, sizeof(*result->gpu_busy));
    recorder->gpu_busy_ns = calloc(config->gpus, sizeof(*recorder->gpu_busy_ns));
    recorder->bad_limit = config->give_up_bad_rate > 0 ? calloc(models, sizeof(*recorder->bad_limit)) : NULL;
    result->latencies = config->model_latency ? calloc(models, sizeof(*result->latencies)) : NULL;
    if (!result->models || !result->gpu_busy || !recorder->gpu_busy_ns ||
        (config->give_up_bad_rate > 0 && !recorder->bad_limit) ||
        (config->model_latency && !result->latencies)) {
        recorder_dispose(recorder, false);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a result");
    }
    if (recorder->bad_limit)
        set_bad_limits(recorder, config);
    recorder->from_ns = (int64_t)(config->warmup_s * 1e9);
    recorder->to_ns = (int64_t)((config->warmup_s + config->seconds) * 1e9);
    histogram_init(&result->latency);
    histogram_init(&result->queueing);
    for (uint32_t m = 0; result->latencies && m < models; m++)
        result->models[m].latency = &result->latencies[m];
    return STATUS_OK;
}

void recorder_dispose(recorder_t *recorder, bool keep_result)
{
    free(recorder->gpu_busy_ns);
    free(recorder->bad_limit);
    if (!keep_result)
        simulation_result_dispose(recorder->result);
    *recorder = (recorder_t){0};
}

void simulation_result_dispose(simulation_result_t *result)
{
    if (!result)
        return;
    free(result->models);
    free(result->latencies);
    free(result->gpu_busy);
    free(result);
}

static bool counts(const recorder_t *recorder, int64_t arrival_ns)
{
    return arrival_ns >= recorder->from_ns && arrival_ns < recorder->to_ns;
}

void recorder_arrival(recorder_t *recorder, uint32_t model, int64_t arrival_ns)
{
    recorder->result->requests++;
    if (counts(recorder, arrival_ns))
        recorder->result->models[model].arrived++;
}

static void lose(recorder_t *recorder, uint32_t model)
{
    const simulation_model_t *entry = &recorder->result->models[model];
    if (recorder->bad_limit && (double)(entry->arrived - entry->good) > recorder->bad_limit[model]) {
        uint64_t bad = entry->late + entry->unanswered;
        for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
            bad += entry->dropped[r];
        if ((double)bad > recorder->bad_limit[model])
            recorder->result->gave_up = true;
    }
}

void recorder_drop(recorder_t *recorder, uint32_t model, int64_t arrival_ns, sched_drop_t reason)
{
    if (!counts(recorder, arrival_ns))
        return;
    recorder->result->models[model].dropped[reason]++;
    lose(recorder, model);
}

void recorder_unanswered(recorder_t *recorder, uint32_t model, int64_t arrival_ns)
{
    if (counts(recorder, arrival_ns))
        recorder->result->models[model].unanswered++;
}

void recorder_answer(recorder_t *recorder, uint32_t model, int64_t arrival_ns, int64_t start_ns,
                     int64_t answered_ns, int64_t slo_ns)
{
    simulation_result_t *result = recorder->result;
    if (!counts(recorder, arrival_ns))
        return;
    histogram_record(&result->latency, answered_ns - arrival_ns);
    histogram_record(&result->queueing, start_ns - arrival_ns);
    if (result->models[model].latency)
        histogram_record(result->models[model].latency, answered_ns - arrival_ns);
    if (answered_ns - arrival_ns <= slo_ns) {
        result->models[model].good++;
        return;
    }
    result->models[model].late++;
    lose(recorder, model);
}

static int64_t overlap_ns(int64_t start_ns, int64_t end_ns, int64_t from_ns, int64_t to_ns)
{
    if (start_ns < from_ns)
        start_ns = from_ns;
    if (end_ns > to_ns)
        end_ns = to_ns;
    return end_ns > start_ns ? end_ns - start_ns : 0;
}

void recorder_batch(recorder_t *recorder, const simulation_batch_t *batch)
{
    simulation_result_t *result = recorder->result;
    int64_t busy_ns = overlap_ns(batch->start_ns, batch->end_ns, recorder->from_ns, recorder->to_ns);
    if (busy_ns == 0 && !counts(recorder, batch->start_ns))
        return;
    recorder->gpu_busy_ns[batch->gpu] += busy_ns;
    if (batch->preempted) {
        recorder->wasted_ns += busy_ns;
        result->preemptions++;
        return;
    }
    uint32_t size = batch->count < SIMULATION_BATCH_SIZES ? batch->count : SIMULATION_BATCH_SIZES - 1;
    result->batch_sizes[size]++;
    result->batches++;
}

static void sum_models(simulation_result_t *result)
{
    for (uint32_t m = 0; m < result->model_count; m++) {
        simulation_model_t *entry = &result->models[m], *all = &result->all;
        entry->bad_rate = entry->arrived ? 1 - (double)entry->good / (double)entry->arrived : 0;
        if (entry->bad_rate > result->worst_model_bad_rate)
            result->worst_model_bad_rate = entry->bad_rate;
        all->arrived += entry->arrived;
        all->good += entry->good;
        all->late += entry->late;
        all->unanswered += entry->unanswered;
        for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
            all->dropped[r] += entry->dropped[r];
    }
    result->all.bad_rate =
        result->all.arrived ? 1 - (double)result->all.good / (double)result->all.arrived : 0;
    result->bad_rate = result->all.bad_rate;
}

static uint32_t median_batch(const simulation_result_t *result)
{
    uint64_t seen = 0;
    for (uint32_t b = 1; b < SIMULATION_BATCH_SIZES; b++) {
        seen += result->batch_sizes[b];
        if (seen > 0 && 2 * seen >= result->batches)
            return b;
    }
    return 0;
}

void recorder_finish(recorder_t *recorder)
{
    simulation_result_t *result = recorder->result;
    double window_ns = (double)(recorder->to_ns - recorder->from_ns);
    int64_t busy_ns = 0;
    sum_models(result);
    for (uint32_t g = 0; g < result->gpu_count; g++) {
        result->gpu_busy[g] = (double)recorder->gpu_busy_ns[g] / window_ns;
        busy_ns += recorder->gpu_busy_ns[g];
        if (recorder->gpu_busy_ns[g] > 0) {
            result->gpus_used++;
            result->gpu_highest = g + 1;
        }
    }
    result->gpu_busy_fraction = (double)busy_ns / window_ns / result->gpu_count;
    result->wasted_fraction = (double)recorder->wasted_ns / window_ns / result->gpu_count;
    result->offered_rps = (double)result->all.arrived / result->seconds;
    result->goodput_rps = (double)result->all.good / result->seconds;
    result->median_batch = median_batch(result);
}
