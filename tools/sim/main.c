/*
 * fermata-sim: the scheduling policies in a simulated cluster. Exit codes: 0, 1 (failed), 2 (usage or bad input).
 */
#include "options.h"
#include "report.h"
#include "sim/bound.h"
#include "sim/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const options_t *options;
    profile_entry_t *models;
    uint32_t model_count;
    workload_t workload;
    simulation_config_t config;
    double bound_rps;
} job_t;

static status_t copy_models(job_t *job, err_t *err)
{
    uint32_t copies = job->options->copies, count = job->model_count;
    profile_entry_t *models = realloc(job->models, (size_t)count * copies * sizeof(*models));
    if (!models)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u models", count * copies);
    for (uint32_t c = 1; c < copies; c++)
        memcpy(models + (size_t)c * count, models, count * sizeof(*models));
    job->models = models;
    job->model_count = count * copies;
    return STATUS_OK;
}

static void progress(void *ctx, double fraction)
{
    (void)ctx;
    fprintf(stderr, "\r%3.0f %% ", 100 * fmin(fraction, 1));
}

static status_t job_init(job_t *job, const options_t *options, err_t *err)
{
    *job = (job_t){.options = options};
    status_t status = profile_csv_read(options->models_path, &job->models, &job->model_count, err);
    if (status == STATUS_OK && options->copies > 1)
        status = copy_models(job, err);
    for (uint32_t m = 0; status == STATUS_OK && options->slo_ms > 0 && m < job->model_count; m++)
        job->models[m].slo_ns = llround(options->slo_ms * 1e6);
    if (status == STATUS_OK)
        status = workload_init(&job->workload, job->models, job->model_count, options->popularity, err);
    if (status == STATUS_OK)
        status = arrivals_parse(options->arrivals, &job->workload.arrivals, err);
    if (status == STATUS_OK)
        status = net_parse(options->net, &job->config.net, err);
    if (status != STATUS_OK)
        return status;
    job->workload.rate_rps = options->rate_rps;
    job->bound_rps = bound_rate_rps(&job->workload, options->gpus);
    job->config.workload = &job->workload;
    job->config.gpus = options->gpus;
    job->config.policy = options->policy;
    job->config.params = options->params;
    job->config.seconds = options->seconds;
    job->config.warmup_s = options->warmup_s;
    job->config.seed = options->seed;
    job->config.jitter = options->jitter;
    job->config.on_progress = isatty(STDERR_FILENO) ? progress : NULL;
    return STATUS_OK;
}

static void job_dispose(job_t *job)
{
    workload_dispose(&job->workload);
    free(job->models);
}

static void report(const job_t *job, const simulation_result_t *result, double goodput_rate_rps)
{
    if (job->options->json)
        report_json(stdout, result, goodput_rate_rps, job->bound_rps);
    else
        report_text(stdout, result, goodput_rate_rps, job->bound_rps);
    if (job->options->per_model)
        report_models(job->options->json ? stderr : stdout, result, &job->workload);
}

static status_t run_drawn(job_t *job, simulation_result_t **result, err_t *err)
{
    const options_t *options = job->options;
    timeline_t *timeline =
        timeline_create(options->warmup_s, options->warmup_s + fmin(options->seconds, 1), options->gpus);
    if (!timeline)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a timeline");
    job->config.on_batch = timeline_on_batch;
    job->config.on_drop = timeline_on_drop;
    job->config.on_progress = NULL;
    job->config.ctx = timeline;
    status_t status = simulation_run(&job->config, result, err);
    if (status == STATUS_OK) {
        status = timeline_write(timeline, &job->workload, options->timeline_path, err);
        if (status != STATUS_OK)
            simulation_result_dispose(*result);
    }
    timeline_destroy(timeline);
    return status;
}

static status_t run(job_t *job, err_t *err)
{
    simulation_result_t *result;
    status_t status = job->options->timeline_path ? run_drawn(job, &result, err)
                                                  : simulation_run(&job->config, &result, err);
    if (status != STATUS_OK)
        return status;
    report(job, result, -1);
    simulation_result_dispose(result);
    return STATUS_OK;
}

/* The mean rate over the seeds; the rest of the report is of the last one. */
static status_t goodput(job_t *job, err_t *err)
{
    simulation_result_t *result = NULL;
    double sum_rps = 0;
    for (uint32_t i = 0; i < job->options->seeds; i++) {
        goodput_config_t config = {.base = job->config, .rule = job->options->rule};
        double rate_rps;
        simulation_result_dispose(result);
        config.base.seed += i;
        status_t status = goodput_search(&config, &rate_rps, &result, err);
        if (status != STATUS_OK)
            return status;
        sum_rps += rate_rps;
    }
    report(job, result, sum_rps / job->options->seeds);
    simulation_result_dispose(result);
    return STATUS_OK;
}

static void bound(const job_t *job)
{
    if (job->options->json)
        printf("{\"bound_rps\": %.1f}\n", job->bound_rps);
    else
        printf("fluid bound %.1f r/s\n", job->bound_rps);
}

static status_t perform(const options_t *options, err_t *err)
{
    job_t job;
    status_t status = job_init(&job, options, err);
    if (status == STATUS_OK && options->command == COMMAND_RUN)
        status = run(&job, err);
    else if (status == STATUS_OK && options->command == COMMAND_GOODPUT)
        status = goodput(&job, err);
    else if (status == STATUS_OK)
        bound(&job);
    job_dispose(&job);
    return status;
}

int main(int argc, char **argv)
{
    options_t options;
    err_t err;
    if (options_parse(argc, argv, &options, &err) != STATUS_OK) {
        fprintf(stderr, "fermata-sim: %s\n\n%s", err.text, options_help());
        return 2;
    }
    if (options.command == COMMAND_HELP || options.command == COMMAND_VERSION) {
        fputs(options.command == COMMAND_HELP ? options_help() : "fermata-sim " FERMATA_VERSION "\n", stdout);
        return 0;
    }
    status_t status = perform(&options, &err);
    if (status != STATUS_OK) {
        fprintf(stderr, "fermata-sim: %s\n", err.text);
        return status == STATUS_INVALID_ARGUMENT || status == STATUS_NOT_FOUND ? 2 : 1;
    }
    return 0;
}
