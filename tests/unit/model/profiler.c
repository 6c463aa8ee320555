/* Measuring, against emulated devices whose latencies are known. */
#include "model/measure/profiler.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/measure/kept_profile.h"
#include "model/repository.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALPHA_NS = 100000, BETA_NS = 300000, MAX_BATCH = 16 };

static _Atomic(int) go_on, stop = 1;
static metrics_t *metrics;
static model_devices_t devices;
static model_t *model;
static profiler_t profiler;

static void open_emulated(void)
{
    err_t err;

    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    metrics = metrics_create("worker", NULL);
    cr_assert_eq(model_devices_open(&devices, "emulated", 1, &(engine_config_t){0}, false, metrics, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(model_create("e", 1, "", &model, NULL), STATUS_OK);
    model->bare = true;
    model->emulated_elements = 4;
    model->config.has_line = true;
    model->config.alpha_ns = ALPHA_NS;
    model->config.beta_ns = BETA_NS;
    model->config.max_batch = MAX_BATCH;
    model_load_options_t options = {.devices = &devices, .stop = &go_on};
    cr_assert_eq(model_load(model, &options, &err), STATUS_OK, "%s", err.text);
    profiler = (profiler_t){.ops = devices.ops,
                            .engine = devices.list[0].engine,
                            .model = model->on_device[0],
                            .budget_ns = INT64_MAX,
                            .stop = &go_on,
                            .size_goal_ns = 5 * NS_PER_MS};
}

static void close_emulated(void)
{
    model_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

TestSuite(profiler, .init = open_emulated, .fini = close_emulated);

Test(profiler, measures_what_it_is_told_to_measure)
{
    uint32_t sizes[] = {2, 5, 16}, count = 0;
    profiler_sample_t samples[PROFILER_SIZES_MAX];

    profiler.sizes = sizes;
    profiler.size_count = 3;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_eq(count, 3);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(samples[i].batch, sizes[i]);
        cr_expect_geq(samples[i].runs, 3);
        cr_expect_geq(samples[i].min_ns, ALPHA_NS * sizes[i] + BETA_NS, "size %u", sizes[i]);
        cr_expect_leq(samples[i].min_ns, samples[i].median_ns);
        cr_expect_leq(samples[i].median_ns, samples[i].p99_ns);
    }
}

Test(profiler, takes_the_usual_sizes_unless_told)
{
    uint32_t want[] = {1, 2, 3, 4, 6, 8, 12, 16}, count = 0;
    profiler_sample_t samples[PROFILER_SIZES_MAX];

    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_eq(count, 8);
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(samples[i].batch, want[i]);
}

Test(profiler, small_sizes_between_are_left_to_the_line_unless_asked_for)
{
    uint32_t want[] = {1, 2, 4, 8, 16}, count = 0;
    profiler_sample_t samples[PROFILER_SIZES_MAX];

    profiler.small_ns = INT64_MAX;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_eq(count, 5);
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(samples[i].batch, want[i]);
    profiler.sizes = (uint32_t[]){1, 3};
    profiler.size_count = 2;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_eq(count, 2);
}

Test(profiler, a_used_up_budget_leaves_two_sizes_and_the_line_of_all)
{
    profile_t profile;
    uint32_t count = 0;
    profiler_sample_t samples[PROFILER_SIZES_MAX];

    profiler.budget_ns = 1;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(profiler_fit(samples, count, MAX_BATCH, &profile, NULL), STATUS_OK);
    cr_expect_eq(profile.max_batch, MAX_BATCH);
    cr_expect_null(profile_validate(&profile));
}

Test(profiler, the_profile_is_that_of_the_medians)
{
    profile_t profile;
    profiler_sample_t samples[] = {{.batch = 1, .runs = 3, .min_ns = 1, .median_ns = 500, .p99_ns = 9000},
                                   {.batch = 4, .runs = 3, .min_ns = 1, .median_ns = 1100, .p99_ns = 9000}};

    cr_assert_eq(profiler_fit(samples, 2, 8, &profile, NULL), STATUS_OK);
    cr_expect_eq(profile_latency_ns(&profile, 1), 500);
    cr_expect_eq(profile_latency_ns(&profile, 3), 900);
    cr_expect_eq(profile_latency_ns(&profile, 4), 1100);
    cr_expect_eq(profile_latency_ns(&profile, 8), 1900);
    cr_expect_eq(profile.alpha_ns, 200);
    cr_expect_eq(profile.beta_ns, 300);
}

Test(profiler, one_disturbed_size_makes_neither_spread_nor_noise)
{
    profile_t profile;
    profiler_sample_t samples[] = {
        {.batch = 1, .runs = 9, .min_ns = 950, .median_ns = 1000, .p95_ns = 1100},
        {.batch = 2, .runs = 9, .min_ns = 2, .median_ns = 2000, .p95_ns = 90000},
        {.batch = 3, .runs = 9, .min_ns = 2700, .median_ns = 3000, .p95_ns = 3150}};

    cr_assert_eq(profiler_fit(samples, 3, 3, &profile, NULL), STATUS_OK);
    cr_expect_float_eq(profile.spread, 1.1, 1e-9);
    cr_expect_float_eq(profile.noise, 0.1, 1e-9);
    cr_expect_float_eq(profile_doubt(&profile), 1.1 / 0.9, 1e-9);
    samples[0].p95_ns = samples[1].p95_ns = samples[2].p95_ns = 0;
    cr_assert_eq(profiler_fit(samples, 3, 3, &profile, NULL), STATUS_OK);
    cr_expect_eq(profile.spread, 1.0, "never below the median");
}

Test(profiler, sizes_that_would_keep_others_waiting_too_long_are_not_run)
{
    static _Atomic(int64_t) most_ns;
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count = 0;

    atomic_store(&most_ns, 5 * ALPHA_NS + BETA_NS);
    profiler.step_most_ns = &most_ns;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_gt(count, 0);
    cr_expect_leq(samples[count - 1].batch, 5);
    atomic_store(&most_ns, 0);
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(count, 1, "one there must be");
}

Test(profiler, without_traffic_all_sizes_are_run_however_long_others_could_wait)
{
    static _Atomic(int64_t) most_ns = 1, granted_ns;
    static _Atomic(uint32_t) busy = 1;
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count = 0;

    profiler.step_most_ns = &most_ns;
    profiler.granted_ns = &granted_ns;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(count, 8);
    atomic_store(&granted_ns, clock_now_ns() + 1000 * NS_PER_S);
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(count, 1);
    atomic_store(&granted_ns, 0);
    profiler.busy = &busy;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(count, 1, "a batch that was granted long ago still runs");
}

Test(profiler, others_are_served_as_long_after_a_grant_as_is_asked_for)
{
    static _Atomic(int64_t) granted_ns;
    static _Atomic(uint32_t) busy;

    cr_expect(profiler_others_are_served(&profiler, 0), "nobody says when");
    profiler.granted_ns = &granted_ns;
    atomic_store(&granted_ns, clock_now_ns() - 10 * NS_PER_S);
    cr_expect_not(profiler_others_are_served(&profiler, NS_PER_S));
    cr_expect(profiler_others_are_served(&profiler, 1000 * NS_PER_S));
    profiler.busy = &busy;
    cr_expect_not(profiler_others_are_served(&profiler, NS_PER_S));
    atomic_store(&busy, 1);
    cr_expect(profiler_others_are_served(&profiler, NS_PER_S));
}

/* As the clock of an idle machine would have it: each run of a size takes the same time. */
static void run_exactly(engine_t *engine, engine_job_t *job)
{
    (void)engine;
    job->started_ns = 0;
    job->finished_ns = BETA_NS + ALPHA_NS * (int64_t)job->batch;
    job->done(job, STATUS_OK, NULL);
}

/* No goal: runs end when they have settled. */
static void run_all_exactly(engine_ops_t *ops)
{
    *ops = *devices.ops;
    ops->submit = run_exactly;
    profiler.ops = ops;
    profiler.size_goal_ns = 0;
}

Test(profiler, a_size_whose_runs_take_the_same_time_is_known_after_a_few)
{
    engine_ops_t ops;
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t want[] = {1, 2, 3, 4, 6, 8, 12, 16}, count = 0;

    run_all_exactly(&ops);
    profiler.budget_ns = 1000 * NS_PER_S;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(count, 8);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(samples[i].batch, want[i], "they rise");
        cr_expect_leq(samples[i].runs, 20, "size %u", samples[i].batch);
        cr_expect_eq(samples[i].median_ns, BETA_NS + ALPHA_NS * (int64_t)samples[i].batch);
    }
}

/* Half of the runs, by turns of sixteen, take twice as long. */
static void run_restlessly(engine_t *engine, engine_job_t *job)
{
    static uint32_t runs;

    (void)engine;
    job->started_ns = 0;
    job->finished_ns = (BETA_NS + ALPHA_NS * (int64_t)job->batch) * (1 + runs++ / 16 % 2);
    job->done(job, STATUS_OK, NULL);
}

Test(profiler, a_small_size_is_known_after_twenty_runs_however_restless)
{
    engine_ops_t ops;
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count = 0;

    run_all_exactly(&ops);
    ops.submit = run_restlessly;
    profiler.budget_ns = 1000 * NS_PER_S;
    profiler.small_ns = 100 * NS_PER_MS;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(samples[0].runs, 20);
    profiler.small_ns = 0;
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_gt(samples[0].runs, 20);
}

/* One row takes 400 us. Of runs that others hardly bear there are as few as will do. */
Test(profiler, for_two_sizes_others_wait_three_times_as_long)
{
    static _Atomic(int64_t) most_ns;
    engine_ops_t ops;
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count = 0;

    run_all_exactly(&ops);
    profiler.step_most_ns = &most_ns;
    atomic_store(&most_ns, 270 * NS_PER_US);
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_eq(count, 2);
    cr_expect_eq(samples[0].runs, 2);
    cr_expect_eq(samples[1].batch, 2);
    cr_expect_eq(samples[1].runs, 2);
    atomic_store(&most_ns, 260 * NS_PER_US);
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_expect_eq(count, 1, "two rows might take 800 us");
}

Test(profiler, a_budget_is_for_sizes_that_fit_into_it)
{
    engine_ops_t ops;
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count = 0;

    run_all_exactly(&ops);
    profiler.budget_ns = 4 * NS_PER_MS; /* the runs themselves take no time here */
    cr_assert_eq(profiler_run(&profiler, samples, &count, NULL), STATUS_OK);
    cr_assert_gt(count, 2);
    cr_expect_eq(samples[count - 1].batch, 6, "three runs of 8 rows might take 4.2 ms");
}

Test(profiler, stops_when_told_to)
{
    profile_t profile;
    err_t err;

    profiler.stop = &stop;
    cr_assert_eq(profiler_measure(&profiler, &profile, &err), STATUS_CANCELLED);
}

Test(profiler, a_profile_half_as_long_is_called_half_off)
{
    profile_t profile;
    profiler_check_t check;

    cr_assert_eq(profile_from_line(&profile, ALPHA_NS / 2, BETA_NS / 2, MAX_BATCH, NULL), STATUS_OK);
    profiler.size_goal_ns = 20 * NS_PER_MS;
    cr_assert_eq(profiler_check(&profiler, &profile, 7, &check, NULL), STATUS_OK);
    cr_expect_geq(check.runs, 3);
    cr_expect_geq(check.off_p50, 0.49);
    cr_expect_lt(check.off_p50, 1);
    cr_expect_leq(check.off_p50, check.off_p90);
    cr_expect_eq(check.late, 1.0, "every run was longer");
    cr_assert_eq(profile_from_line(&profile, 1000 * ALPHA_NS, BETA_NS, MAX_BATCH, NULL), STATUS_OK);
    cr_assert_eq(profiler_check(&profiler, &profile, 7, &check, NULL), STATUS_OK);
    cr_expect_eq(check.late, 0.0, "none was");
}

/* ---- while serving ---- */

Test(profiler, an_emulated_model_stays_as_it_was_given)
{
    for (int i = 0; i < 1000; i++)
        cr_assert_not(model_took(model, NS_PER_S * (i + 100), NULL, 4, 9 * NS_PER_MS));
    cr_expect_eq(profile_latency_ns(&model->profile, 4), 4 * ALPHA_NS + BETA_NS);
}

Test(profiler, a_slower_machine_is_told_of_now_and_then)
{
    int64_t was = 8 * ALPHA_NS + BETA_NS;
    int told = 0, seconds = 0;

    model->corrects = true;
    cr_expect_not(model_took(model, 100 * NS_PER_S, NULL, 8, 30 * was), "one hiccup");
    for (; seconds < 100; seconds++)
        for (int i = 0; i < 10; i++)
            told += model_took(model, NS_PER_S * (seconds + 101), NULL, 8, was + was / 4);
    cr_expect_geq(told, 1);
    cr_expect_leq(told, seconds / 5 + 1);
    cr_expect_geq(profile_latency_ns(&model->profile, 8), was + was / 5);
    cr_expect_leq(profile_latency_ns(&model->profile, 8), was + was / 4);
    cr_expect_eq(profile_latency_ns(&model->measured, 8), was);
}

/* ---- which model ---- */

static model_t *open_model(const char *path, status_t want, const char *words)
{
    model_t *found = NULL;
    err_t err = {0};
    status_t status = repository_open_model(path, &found, &err);

    cr_assert_eq(status, want, "%s: %s", path, err.text);
    if (words)
        cr_assert_not_null(strstr(err.text, words), "%s", err.text);
    return found;
}

Test(one_model, by_its_folder_or_its_file)
{
    char path[KEPT_PROFILE_PATH_BYTES];
    model_devices_t none = {.ops = &(engine_ops_t){.name = "reference"}};
    model_t *found = open_model("examples/models/digits/", STATUS_OK, NULL);

    cr_expect_str_eq(found->name, "digits");
    cr_expect_eq(found->version, 1);
    cr_expect_eq(found->config.label_count, 10);
    kept_profile_path(found, &none, NULL, path);
    cr_expect_not_null(strstr(path, "digits/1/profile.reference.txt"), "%s", path);
    model_destroy(found, &none);

    found = open_model("examples/models/digits/1/model.onnx", STATUS_OK, NULL);
    cr_expect_str_eq(found->name, "model.onnx");
    cr_expect_eq(found->config.label_count, 0, "a file has no config");
    kept_profile_path(found, &none, NULL, path);
    cr_expect_str_eq(path, "examples/models/digits/1/profile.reference.txt");
    model_destroy(found, &none);
}

Test(one_model, or_a_reason)
{
    open_model("examples/models/nowhere", STATUS_NOT_FOUND, "nowhere");
    open_model("examples/models", STATUS_NOT_FOUND, "no version folder");
    open_model("/dev/null", STATUS_INVALID_ARGUMENT, "neither");
}

Test(one_model, another_precision_is_another_hash)
{
    char plain[PROFILE_CACHE_TEXT_BYTES], half[PROFILE_CACHE_TEXT_BYTES];
    model_t *found = open_model("examples/models/digits", STATUS_OK, NULL);

    cr_assert_eq(model_hash(found, plain, NULL), STATUS_OK);
    found->config.precision = ENGINE_FP16;
    cr_assert_eq(model_hash(found, half, NULL), STATUS_OK);
    cr_expect_str_neq(plain, half);
    model_destroy(found, NULL);
}
