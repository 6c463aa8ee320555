#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static double quantile_ms(const histogram_t *histogram, double q)
{
    return (double)histogram_quantile_ns(histogram, q) / 1e6;
}

/* In the order of the workload. */
static void write_json_models(FILE *out, const simulation_result_t *result)
{
    for (uint32_t m = 0; m < result->model_count; m++) {
        const simulation_model_t *entry = &result->models[m];
        fprintf(out, "%s{\"bad_rate\": %.6f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}",
                m == 0 ? "\"models\": [" : ", ", entry->bad_rate, quantile_ms(entry->latency, 0.5),
                quantile_ms(entry->latency, 0.99));
    }
    fputs("], ", out);
}

void report_json(FILE *out, const simulation_result_t *r, double goodput_rate_rps, uint32_t gpus_needed,
                 double bound_rps, bool per_model)
{
    fputc('{', out);
    if (goodput_rate_rps >= 0)
        fprintf(out, "\"goodput_rate_rps\": %.1f, ", goodput_rate_rps);
    if (gpus_needed)
        fprintf(out, "\"gpus_needed\": %u, ", gpus_needed);
    fprintf(
        out,
        "\"offered_rps\": %.3f, \"goodput_rps\": %.3f, \"bad_rate\": %.6f, \"worst_model_bad_rate\": %.6f, ",
        r->offered_rps, r->goodput_rps, r->bad_rate, r->worst_model_bad_rate);
    fprintf(out,
            "\"gpu_busy_fraction\": %.6f, \"gpus_used\": %u, \"gpu_highest\": %u, \"median_batch\": %u, ",
            r->gpu_busy_fraction, r->gpus_used, r->gpu_highest, r->median_batch);
    fprintf(out, "\"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, ", quantile_ms(&r->latency, 0.5),
            quantile_ms(&r->latency, 0.99), quantile_ms(&r->latency, 0.999));
    fprintf(out, "\"queue_p50_ms\": %.3f, \"queue_p99_ms\": %.3f, ", quantile_ms(&r->queueing, 0.5),
            quantile_ms(&r->queueing, 0.99));
    fprintf(out, "\"preemptions\": %" PRIu64 ", \"wasted_fraction\": %.6f, \"batches\": %" PRIu64 ", ",
            r->preemptions, r->wasted_fraction, r->batches);
    fprintf(out, "\"late\": %" PRIu64 ", \"expired\": %" PRIu64 ", \"window_dropped\": %" PRIu64 ", ",
            r->all.late, r->all.dropped[SCHED_DROP_EXPIRED], r->all.dropped[SCHED_DROP_WINDOW]);
    if (per_model)
        write_json_models(out, r);
    fprintf(out, "\"bound_rps\": %.1f}\n", bound_rps);
}

void report_text(FILE *out, const simulation_result_t *r, double goodput_rate_rps, uint32_t gpus_needed,
                 double bound_rps)
{
    if (goodput_rate_rps >= 0)
        fprintf(out, "goodput     %10.1f r/s   %.3f of the fluid bound %.1f r/s\n", goodput_rate_rps,
                goodput_rate_rps / bound_rps, bound_rps);
    if (gpus_needed)
        fprintf(out, "GPUs needed %10u\n", gpus_needed);
    fprintf(out, "offered     %10.1f r/s   answered in time %.1f r/s\n", r->offered_rps, r->goodput_rps);
    fprintf(out, "bad         %10.3f %%     worst model %.3f %%\n", 100 * r->bad_rate,
            100 * r->worst_model_bad_rate);
    fprintf(out, "GPUs        %10.3f busy  %u of %u used\n", r->gpu_busy_fraction, r->gpus_used,
            r->gpu_count);
    fprintf(out, "batch       %10u median of %" PRIu64 "\n", r->median_batch, r->batches);
    fprintf(out, "latency     %10.3f ms    p99 %.3f ms, p99.9 %.3f ms\n", quantile_ms(&r->latency, 0.5),
            quantile_ms(&r->latency, 0.99), quantile_ms(&r->latency, 0.999));
    fprintf(out, "queueing    %10.3f ms    p99 %.3f ms\n", quantile_ms(&r->queueing, 0.5),
            quantile_ms(&r->queueing, 0.99));
    if (r->preemptions)
        fprintf(out, "preempted   %10" PRIu64 " batches, %.2f %% of the GPUs' time wasted\n", r->preemptions,
                100 * r->wasted_fraction);
}

void report_models(FILE *out, const simulation_result_t *result, const workload_t *workload)
{
    fprintf(out, "%-24s %10s %9s %9s %9s %9s %9s %9s\n", "model", "arrived", "bad %", "expired", "window",
            "late", "p50 ms", "p99 ms");
    for (uint32_t m = 0; m < result->model_count; m++) {
        const simulation_model_t *entry = &result->models[m];
        fprintf(out, "%-24s %10" PRIu64 " %9.3f %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9.3f %9.3f\n",
                workload->models[m].name, entry->arrived, 100 * entry->bad_rate,
                entry->dropped[SCHED_DROP_EXPIRED], entry->dropped[SCHED_DROP_WINDOW], entry->late,
                quantile_ms(entry->latency, 0.5), quantile_ms(entry->latency, 0.99));
    }
}

static void write_models(FILE *out, const simulation_result_t *result, const workload_t *workload)
{
    fputs("model,arrived,good,bad_rate,expired,window_dropped,late,p50_ms,p99_ms\n", out);
    for (uint32_t m = 0; m < result->model_count; m++) {
        const simulation_model_t *entry = &result->models[m];
        fprintf(out, "%s,%" PRIu64 ",%" PRIu64 ",%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f,%.3f\n",
                workload->models[m].name, entry->arrived, entry->good, entry->bad_rate,
                entry->dropped[SCHED_DROP_EXPIRED], entry->dropped[SCHED_DROP_WINDOW], entry->late,
                quantile_ms(entry->latency, 0.5), quantile_ms(entry->latency, 0.99));
    }
}

static void write_gpus(FILE *out, const simulation_result_t *result, const workload_t *workload)
{
    (void)workload;
    fputs("gpu,busy_fraction\n", out);
    for (uint32_t g = 0; g < result->gpu_count; g++)
        fprintf(out, "%u,%.6f\n", g, result->gpu_busy[g]);
}

static void write_batches(FILE *out, const simulation_result_t *result, const workload_t *workload)
{
    (void)workload;
    fputs("size,batches\n", out);
    for (uint32_t b = 1; b < SIMULATION_BATCH_SIZES; b++) {
        if (result->batch_sizes[b])
            fprintf(out, "%u,%" PRIu64 "\n", b, result->batch_sizes[b]);
    }
}

status_t report_csv(const char *prefix, const simulation_result_t *result, const workload_t *workload,
                    err_t *err)
{
    static const struct {
        const char *name;
        void (*write)(FILE *out, const simulation_result_t *result, const workload_t *workload);
    } files[] = {{"models", write_models}, {"gpus", write_gpus}, {"batches", write_batches}};
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s-%s.csv", prefix, files[i].name);
        FILE *out = fopen(path, "we");
        if (out)
            files[i].write(out, result, workload);
        if (!out || fclose(out) != 0)
            return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    return STATUS_OK;
}
