#include "job.h"

#include "base/rate_steps.h"
#include "sim/bound.h"
#include "sim/changes.h"
#include "sim/timeline.h"
#include "sim/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BATCH_MAX = 4096 };

static status_t copy_models(job_t *job, err_t *err)
{
    uint32_t copies = job->options.copies, count = job->model_count;
    profile_entry_t *models = realloc(job->models, (size_t)count * copies * sizeof(*models));
    if (!models)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u models", count * copies);
    for (uint32_t c = 1; c < copies; c++)
        memcpy(models + (size_t)c * count, models, count * sizeof(*models));
    job->models = models;
    job->model_count = count * copies;
    return STATUS_OK;
}

/* A file of models may leave the SLO to the command line, but not below what a batch of one takes. */
static void set_slos(job_t *job)
{
    const options_t *options = &job->options;
    for (uint32_t m = 0; m < job->model_count; m++) {
        profile_entry_t *model = &job->models[m];
        if (options->slo_ms > 0)
            model->slo_ns = llround(options->slo_ms * 1e6);
        if (options->timeout_fraction > 0)
            model->timeout_ns = llround(options->timeout_fraction * (double)model->slo_ns);
    }
}

static status_t make_line_model(job_t *job, err_t *err)
{
    const double *line_ms = job->options.line_ms;
    job->models = calloc(1, sizeof(*job->models));
    if (!job->models)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a model");
    job->model_count = 1;
    strcpy(job->models->name, "line");
    job->models->weight = 1;
    job->models->slo_ns = llround(line_ms[2] * 1e6);
    return profile_from_line(&job->models->profile, llround(line_ms[0] * 1e6), llround(line_ms[1] * 1e6),
                             LINE_BATCH_MAX, err);
}

static status_t start_workload(job_t *job, err_t *err)
{
    err_t why;
    const char *path = job->options.models_path;
    status_t status =
        workload_init(&job->workload, job->models, job->model_count, job->options.popularity, &why);
    if (status != STATUS_OK)
        return err_set(err, status, "%.120s: %.120s", path ? path : "--line", why.text);
    return STATUS_OK;
}

/* Said, or the sum of the models' own. */
static status_t find_rate(job_t *job, err_t *err)
{
    const options_t *options = &job->options;
    double sum_rps = 0;
    for (uint32_t m = 0; m < job->model_count; m++)
        sum_rps += job->models[m].rate;
    if (!(options->rate_rps > 0))
        job->options.rate_rps = sum_rps;
    if (!options->trace_path && (options->command == COMMAND_RUN || options->command == COMMAND_GPUS) &&
        !(options->rate_rps > 0))
        return err_set(err, STATUS_INVALID_ARGUMENT, "--rate is missing%s",
                       options->models_path ? ", and the file of the models has no column rate" : "");
    return STATUS_OK;
}

static status_t start_arrivals(job_t *job, err_t *err)
{
    if (!strchr(job->options.arrivals, '/'))
        return arrivals_parse(job->options.arrivals, &job->workload.arrivals, err);
    job->each = calloc(job->model_count, sizeof(*job->each));
    if (!job->each)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u streams", job->model_count);
    job->workload.each = job->each;
    return arrivals_parse_each(job->options.arrivals, job->each, job->model_count, err);
}

/* Nobody knows the bounds of a service's delays: it measures them. */
static void count_on_measured(job_t *job)
{
    const net_t *net = &job->config.net;
    int64_t way_ns = net_quantile_ns(net, job->options.net_quantile);
    job->delays = (sched_delays_t){.ctrl_ns = way_ns, .fixed_ns = way_ns, .data_ns = net->data_ns};
    if (job->options.net_learned)
        job->delays.ctrl_rare_ns = job->delays.fixed_rare_ns =
            way_ns - net_quantile_ns(net, SCHED_DELAYS_MANY);
    job->config.measured = &job->delays;
    job->config.answer_ns = net_quantile_ns(net, SCHED_DELAYS_MOST);
}

status_t job_init(job_t *job, const options_t *options, err_t *err)
{
    *job = (job_t){.options = *options, .goodput_rps = -1};
    status_t status = options->models_path
                          ? profile_csv_read(options->models_path, &job->models, &job->model_count, err)
                          : make_line_model(job, err);
    if (status == STATUS_OK && options->copies > 1)
        status = copy_models(job, err);
    if (status == STATUS_OK)
        set_slos(job);
    if (status == STATUS_OK)
        status = find_rate(job, err);
    if (status == STATUS_OK)
        status = start_workload(job, err);
    if (status == STATUS_OK)
        status = start_arrivals(job, err);
    if (status == STATUS_OK)
        status = net_parse(options->net, &job->config.net, err);
    if (status == STATUS_OK && options->net_quantile > 0)
        count_on_measured(job);
    if (status == STATUS_OK && options->steps_path)
        status =
            rate_steps_read(options->steps_path, job->workload.models[0].name, sizeof job->workload.models[0],
                            job->workload.count, &job->steps, &job->workload.step_count, err);
    if (status == STATUS_OK && options->trace_path)
        status = trace_read(options->trace_path, job->options.rate_rps, &job->workload, &job->steps,
                            &job->workload.step_count, err);
    if (status != STATUS_OK)
        return status;
    job->workload.steps = job->steps;
    uint32_t gpus =
        options->gpus ? options->gpus : (uint32_t)ceil(options->gpus_per_model * job->model_count);
    if (!options->trace_path)
        job->workload.rate_rps = job->options.rate_rps;
    job->bound_rps = gpus ? bound_rate_rps(&job->workload, gpus) : 0;
    job->config.workload = &job->workload;
    job->config.gpus = gpus;
    job->config.policy = options->policy;
    job->config.params = options->params;
    job->config.switch_s = options->switch_s;
    job->config.switch_policy = options->switch_policy;
    job->config.seconds = options->seconds;
    job->config.warmup_s = options->warmup_s;
    job->config.seed = options->seed;
    job->config.model_latency = options->per_model || options->csv_prefix;
    job->config.jitter = options->jitter;
    job->autoscale = autoscale_defaults;
    if (options->window_s > 0)
        job->autoscale.window_ns = (int64_t)(options->window_s * 1e9);
    job->config.start_gpus = options->start_gpus;
    job->config.provision_s = options->provision_s;
    if (options->changes_path)
        status = changes_read(options->changes_path, gpus, &job->changes, &job->config.change_count, err);
    job->config.changes = job->changes;
    return status;
}

void job_dispose(job_t *job)
{
    simulation_result_dispose(job->result);
    workload_dispose(&job->workload);
    free(job->each);
    free(job->changes);
    free(job->steps);
    free(job->models);
    *job = (job_t){0};
}

static void on_second(void *ctx, const simulation_second_t *second)
{
    const job_t *job = ctx;
    fprintf(job->series, "%.0f,%llu,%llu,%llu,%u,%.4f,%d\n", second->at_s,
            (unsigned long long)second->arrived, (unsigned long long)second->good,
            (unsigned long long)second->bad, second->gpus, second->busy_fraction, second->advice);
}

static void on_batch(void *ctx, const simulation_batch_t *batch)
{
    timeline_on_batch(((job_t *)ctx)->timeline, batch);
}

static void on_drop(void *ctx, uint32_t model, int64_t arrival_ns, int64_t now_ns)
{
    timeline_on_drop(((job_t *)ctx)->timeline, model, arrival_ns, now_ns);
}

static status_t start_series(job_t *job, err_t *err)
{
    const char *path = job->options.series_path;
    if (!path)
        return STATUS_OK;
    job->series = fopen(path, "we");
    if (!job->series)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    fputs("at_s,requests,good,bad,gpus,busy_fraction,advice\n", job->series);
    job->config.on_second = on_second;
    return STATUS_OK;
}

static status_t start_timeline(job_t *job, err_t *err)
{
    const options_t *options = &job->options;
    if (!options->timeline_path)
        return STATUS_OK;
    job->timeline =
        timeline_create(options->warmup_s, options->warmup_s + fmin(options->seconds, 1), job->config.gpus);
    if (!job->timeline)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a timeline");
    job->config.on_batch = on_batch;
    job->config.on_drop = on_drop;
    return STATUS_OK;
}

/* What stood in the way first is told. */
static status_t end_series(job_t *job, status_t status, err_t *err)
{
    FILE *series = job->series;
    job->series = NULL;
    if (series && fclose(series) != 0 && status == STATUS_OK)
        return err_set(err, STATUS_IO, "%s: %s", job->options.series_path, strerror(errno));
    return status;
}

static status_t run_watched(job_t *job, err_t *err)
{
    status_t status = start_series(job, err);
    if (status == STATUS_OK)
        status = start_timeline(job, err);
    job->config.on_progress = NULL;
    job->config.ctx = job;
    if (status == STATUS_OK)
        status = simulation_run(&job->config, &job->result, err);
    status = end_series(job, status, err);
    if (status == STATUS_OK && job->timeline)
        status = timeline_write(job->timeline, &job->workload, job->options.timeline_path, err);
    if (job->timeline)
        timeline_destroy(job->timeline);
    job->timeline = NULL;
    return status;
}

static status_t run(job_t *job, err_t *err)
{
    if (job->options.start_gpus)
        job->config.autoscale = &job->autoscale;
    if (job->options.timeline_path || job->options.series_path)
        return run_watched(job, err);
    return simulation_run(&job->config, &job->result, err);
}

/* The mean rate over the seeds; the rest of the numbers are of the last one. */
static status_t goodput(job_t *job, err_t *err)
{
    double sum_rps = 0;
    for (uint32_t i = 0; i < job->options.seeds; i++) {
        goodput_config_t config = {.base = job->config, .rule = job->options.rule};
        double rate_rps;
        simulation_result_dispose(job->result);
        job->result = NULL;
        config.base.seed += i;
        status_t status = goodput_search(&config, &rate_rps, &job->result, err);
        if (status != STATUS_OK)
            return status;
        sum_rps += rate_rps;
    }
    job->goodput_rps = sum_rps / job->options.seeds;
    return STATUS_OK;
}

static status_t is_enough(job_t *job, uint32_t gpus, bool *enough, err_t *err)
{
    simulation_config_t config = job->config;
    simulation_result_t *result;
    config.gpus = gpus;
    config.give_up_bad_rate = 0.01;
    status_t status = simulation_run(&config, &result, err);
    if (status != STATUS_OK)
        return status;
    *enough = !result->gave_up && result->worst_model_bad_rate <= 0.01;
    simulation_result_dispose(result);
    return STATUS_OK;
}

/* The fewest GPUs with which every model loses at most 1 % at the rate. */
static status_t gpus_for_rate(job_t *job, err_t *err)
{
    uint32_t low = (uint32_t)bound_gpus(&job->workload, job->options.rate_rps), high = low + 1;
    bool enough = false;
    status_t status = is_enough(job, high, &enough, err);
    while (status == STATUS_OK && !enough && high < 8192) {
        low = high;
        high *= 2;
        status = is_enough(job, high, &enough, err);
    }
    if (status == STATUS_OK && !enough)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u GPUs are not enough for this rate", high);
    while (status == STATUS_OK && high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        status = is_enough(job, middle, &enough, err);
        if (enough)
            high = middle;
        else
            low = middle;
    }
    if (status != STATUS_OK)
        return status;
    job->gpus_needed = job->config.gpus = high;
    job->bound_rps = bound_rate_rps(&job->workload, high);
    return simulation_run(&job->config, &job->result, err);
}

status_t job_perform(job_t *job, err_t *err)
{
    switch (job->options.command) {
    case COMMAND_RUN:
        return run(job, err);
    case COMMAND_GOODPUT:
        return goodput(job, err);
    case COMMAND_GPUS:
        return gpus_for_rate(job, err);
    default:
        return STATUS_OK;
    }
}

typedef struct {
    const char *name;
    double value;
} named_t;

bool job_value(const job_t *job, const char *name, double *value)
{
    const simulation_result_t *r = job->result;
    named_t always[] = {{"bound_rps", job->bound_rps},
                        {"gpus_needed", job->gpus_needed},
                        {"goodput_rate_rps", job->goodput_rps},
                        {"ratio", job->bound_rps > 0 ? job->goodput_rps / job->bound_rps : 0}};
    named_t of_run[] = {
        {"goodput_rps", r ? r->goodput_rps : 0},
        {"offered_rps", r ? r->offered_rps : 0},
        {"bad_rate", r ? r->bad_rate : 0},
        {"worst_model_bad_rate", r ? r->worst_model_bad_rate : 0},
        {"gpu_busy_fraction", r ? r->gpu_busy_fraction : 0},
        {"gpus_used", r ? r->gpus_used : 0},
        {"median_batch", r ? r->median_batch : 0},
        {"p50_ms", r ? (double)histogram_quantile_ns(&r->latency, 0.5) / 1e6 : 0},
        {"p99_ms", r ? (double)histogram_quantile_ns(&r->latency, 0.99) / 1e6 : 0},
        {"queue_p50_ms", r ? (double)histogram_quantile_ns(&r->queueing, 0.5) / 1e6 : 0},
        {"queue_p99_ms", r ? (double)histogram_quantile_ns(&r->queueing, 0.99) / 1e6 : 0},
        {"preemptions", r ? (double)r->preemptions : 0},
        {"wasted_fraction", r ? r->wasted_fraction : 0},
    };
    for (unsigned i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        if (strcmp(always[i].name, name) == 0) {
            *value = always[i].value;
            return true;
        }
    }
    for (unsigned i = 0; r && i < sizeof(of_run) / sizeof(of_run[0]); i++) {
        if (strcmp(of_run[i].name, name) == 0) {
            *value = of_run[i].value;
            return true;
        }
    }
    return false;
}
