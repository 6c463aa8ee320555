/*
 * The planners at the sizes of the papers.
 *
 *   bench-plan [--seconds 2] [--configurations 5] [--streams 1000000] [--csv FILE]
 *
 *   Symphony Figure 16: imbalance of rate and memory of 800 models over 20 sub-clusters, ours against the best random
 *   partition, the same time for both. Rates are exponential; memory of a variant is a zoo-like size between 5 and 350 MB.
 *   Shepherd Table 5: time to add up the streams and to plan 10 groups.
 */
#include "base/clock.h"
#include "base/prng.h"
#include "config/config.h"
#include "oracles.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double seconds;
    int64_t configurations, streams;
    const char *csv;
} bench_options_t;

static const config_option_t options[] = {
    {.name = "seconds",
     .type = CONFIG_DOUBLE,
     .group = "Bench",
     .help = "Time of each planner.",
     .def = "2",
     .min = 0,
     .max = 1000,
     .offset = offsetof(bench_options_t, seconds)},
    {.name = "configurations",
     .type = CONFIG_INT,
     .group = "Bench",
     .help = "Random clusters for Figure 16.",
     .def = "5",
     .min = 1,
     .max = 1000,
     .offset = offsetof(bench_options_t, configurations)},
    {.name = "streams",
     .type = CONFIG_INT,
     .group = "Bench",
     .help = "Streams of the largest row of Table 5.",
     .def = "1000000",
     .min = 1000,
     .max = 100000000,
     .offset = offsetof(bench_options_t, streams)},
    {.name = "csv",
     .type = CONFIG_PATH,
     .group = "Bench",
     .help = "Write the points of Figure 16 here.",
     .offset = offsetof(bench_options_t, csv)},
};

static const config_schema_t schema = {
    .program = "bench-plan",
    .summary = "Measures the planners at the sizes of Symphony's Figure 16 and Shepherd's Table 5.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
};

enum { MODELS = 800, CLUSTERS = 20, GROUPS = 10 };

/* ---- Symphony Figure 16 ---- */

typedef struct {
    double rate, memory;
} imbalance_t;

static void draw_models(partition_model_t *models, uint64_t seed)
{
    static const double megabytes[] = {14, 20, 23,  29,  33,  49, 79,
                                       92, 99, 171, 215, 232, 343}; /* of well-known nets */
    enum { SIZES = sizeof megabytes / sizeof *megabytes };
    prng_t prng;
    prng_init(&prng, seed);
    for (uint32_t i = 0; i < MODELS; i++) {
        double variant = 0.8 + 0.4 * prng_uniform(&prng);
        double bytes = 1e6 * variant * megabytes[prng_below(&prng, SIZES)];
        models[i] = (partition_model_t){
            .rate = prng_exponential(&prng, 100), .static_bytes = bytes, .dynamic_bytes = bytes / 4};
    }
}

static status_t partition_once(const bench_options_t *o, uint64_t seed, imbalance_t *ours,
                               imbalance_t *random, err_t *err)
{
    partition_model_t models[MODELS];
    draw_models(models, seed);
    partition_problem_t problem = {.models = models,
                                   .model_count = MODELS,
                                   .cluster_count = CLUSTERS,
                                   .memory_weight = 1,
                                   .cost_max = INFINITY,
                                   .seconds = o->seconds,
                                   .seed = seed};
    partition_t plan;
    status_t status = partition_solve(&problem, &plan, err);
    if (status != STATUS_OK)
        return status;
    *ours = (imbalance_t){plan.rate_imbalance, plan.memory_imbalance};
    partition_dispose(&plan);
    status = partition_random(&problem, &plan, err);
    if (status != STATUS_OK)
        return status;
    *random = (imbalance_t){plan.rate_imbalance, plan.memory_imbalance};
    partition_dispose(&plan);
    return STATUS_OK;
}

static status_t figure_16(const bench_options_t *o, err_t *err)
{
    FILE *csv = o->csv ? fopen(o->csv, "w") : NULL;
    imbalance_t worst = {0}, best = {INFINITY, INFINITY}, ours, random;
    status_t status = STATUS_OK;
    if (o->csv && !csv)
        return err_set(err, STATUS_IO, "%s cannot be written", o->csv);
    if (csv)
        fprintf(csv, "seed,rate,memory,random_rate,random_memory\n");
    printf("Symphony Figure 16: %d models over %d sub-clusters, %.1f s each; (max - min) / mean\n", MODELS,
           CLUSTERS, o->seconds);
    for (int64_t i = 0; i < o->configurations && status == STATUS_OK; i++) {
        status = partition_once(o, (uint64_t)i + 1, &ours, &random, err);
        if (status != STATUS_OK)
            break;
        printf("  %2" PRId64 "   rate %.5f  memory %.5f     random: rate %.3f  memory %.3f\n", i + 1,
               ours.rate, ours.memory, random.rate, random.memory);
        if (csv)
            fprintf(csv, "%" PRId64 ",%.6f,%.6f,%.6f,%.6f\n", i + 1, ours.rate, ours.memory, random.rate,
                    random.memory);
        worst = (imbalance_t){fmax(worst.rate, ours.rate), fmax(worst.memory, ours.memory)};
        best = (imbalance_t){fmin(best.rate, random.rate), fmin(best.memory, random.memory)};
    }
    if (csv && fclose(csv) != 0 && status == STATUS_OK)
        status = err_set(err, STATUS_IO, "%s was not written", o->csv);
    if (status == STATUS_OK)
        printf("  our worst over random's best: rate %.4f, memory %.4f (goal: each at most 0.5)\n",
               worst.rate / best.rate, worst.memory / best.memory);
    return status;
}

/* ---- Shepherd Table 5 ---- */

static status_t plan_streams(const bench_options_t *o, uint32_t streams, uint32_t models, double paper_s,
                             err_t *err)
{
    herd_model_t *model = calloc(models, sizeof *model);
    herd_stream_t *stream = calloc(streams, sizeof *stream);
    status_t status = STATUS_OK;
    prng_t prng;
    prng_init(&prng, 5);
    double bytes = 0;
    for (uint32_t i = 0; model && i < models; i++) {
        double alpha = 0.2 + 4 * prng_uniform(&prng), beta = 3 + 40 * prng_uniform(&prng);
        model[i] = (herd_model_t){.goodput = 1e3 * 16 / (16 * alpha + beta),
                                  .bytes = 1e6 * (20 + 300 * prng_uniform(&prng)),
                                  .alpha = alpha,
                                  .beta = beta};
        bytes += model[i].bytes;
    }
    for (uint32_t s = 0; stream && s < streams; s++)
        stream[s] = (herd_stream_t){.model = (uint32_t)prng_below(&prng, models),
                                    .rate = (float)prng_exponential(&prng, 0.05)};
    if (!model || !stream)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for %u streams", streams);
    herd_problem_t problem = {.models = model,
                              .model_count = models,
                              .gpu_count = models, /* as many workers as models in every row of the table */
                              .group_count = GROUPS,
                              .group_gpus_max = models / GROUPS * 2,
                              .memory_bytes = bytes / (GROUPS - 1),
                              .affinity_max = INFINITY,
                              .seconds = o->seconds};
    herd_plan_t plan;
    int64_t begin_ns = clock_now_ns();
    if (status == STATUS_OK)
        status = herd_add_streams(model, models, stream, streams, err);
    double adding_s = (double)(clock_now_ns() - begin_ns) / 1e9;
    if (status == STATUS_OK)
        status = herd_search(&problem, &plan, err);
    if (status == STATUS_OK) {
        printf("  %8u %7u   %6.3f + %6.3f s   (Shepherd %5.2f s)   tolerance %.3f of at most %.3f%s, load <= "
               "%.2f\n",
               streams, models, adding_s, (double)(clock_now_ns() - begin_ns) / 1e9 - adding_s, paper_s,
               plan.tolerance, plan.bound, plan.optimal ? " (proved)" : "", plan.load_most);
        herd_plan_dispose(&plan);
    }
    free(stream);
    free(model);
    return status;
}

static status_t table_5(const bench_options_t *o, err_t *err)
{
    static const double paper_s[] = {0.55, 2.51, 4.28, 8.53, 13.26};
    status_t status = STATUS_OK;
    printf("Shepherd Table 5: %d groups, at most %.1f s\n   streams  models   adding +  planning\n", GROUPS,
           o->seconds);
    for (uint32_t row = 1; row <= 5 && status == STATUS_OK; row++)
        status = plan_streams(o, (uint32_t)(o->streams / 5 * row), 200 * row, paper_s[row - 1], err);
    return status;
}

int main(int argc, char **argv)
{
    bench_options_t o;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    status_t status = figure_16(&o, &err);
    if (status == STATUS_OK)
        status = table_5(&o, &err);
    config_destroy(config);
    return config_exit(&schema, status, &err);
}
