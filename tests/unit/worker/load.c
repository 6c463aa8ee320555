/* Models on the emulated engine and on the reference engine, from their folders to a ready description. */
#include "base/clock.h"
#include "base/log.h"
#include "model/measure/kept_profile.h"
#include "model/measure/profiler.h"
#include "worker/control/control.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic(int) go_on;

static metrics_t *open_devices(model_devices_t *devices, const char *engine, uint32_t count)
{
    metrics_t *metrics = metrics_create("worker", NULL);
    err_t err;

    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(model_devices_open(devices, engine, count, &(engine_config_t){0}, false, metrics, &err),
                 STATUS_OK, "%s", err.text);
    return metrics;
}

Test(load, measured_sizes_grow_and_end_at_the_largest)
{
    uint32_t sizes[32];
    uint32_t coarse[] = {1, 4, 16, 32};

    cr_assert_eq(profiler_coarse_sizes(32, sizes, 32), 4);
    cr_assert_arr_eq(sizes, coarse, sizeof(coarse));
    cr_assert_eq(profiler_coarse_sizes(1, sizes, 32), 1);
    uint32_t want[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

    cr_assert_eq(profiler_sizes(32, sizes, 32), 10);
    cr_assert_arr_eq(sizes, want, sizeof(want));
    cr_assert_eq(profiler_sizes(1, sizes, 32), 1);
    cr_assert_eq(sizes[0], 1);
    cr_assert_eq(profiler_sizes(10, sizes, 32), 7);
    cr_assert_eq(sizes[6], 10);
    for (uint32_t max = 1; max <= ENGINE_MAX_BATCH; max++) {
        uint32_t count = profiler_sizes(max, sizes, 32);
        cr_assert_eq(sizes[count - 1], max);
        for (uint32_t i = 1; i < count; i++)
            cr_assert_gt(sizes[i], sizes[i - 1], "max %u", max);
    }
}

/* The data plane would refuse each of its requests. */
Test(load, a_model_whose_rows_are_too_large_to_travel_is_refused)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    model_load_options_t options = {.devices = &devices, .stop = &go_on};
    model_t *model;
    err_t err;

    cr_assert_eq(model_create("wide", 1, "", &model, NULL), STATUS_OK);
    cr_assert_eq(serving_begin(model, NULL), STATUS_OK);
    model->bare = true;
    model->emulated_elements = MODEL_ROW_BYTES_MAX / sizeof(float) + 1;
    model->config.has_line = true;
    model->config.beta_ns = NS_PER_MS;
    model->config.max_batch = 1;
    cr_assert_eq(model_load(model, &options, &err), STATUS_TOO_LARGE);
    cr_assert_str_eq(err.text, "the inputs of one row have over 64 MiB, from 'input' on");
    model->emulated_elements--;
    cr_assert_eq(model_load(model, &options, &err), STATUS_OK, "%s", err.text);
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

static uint32_t prepared, prepared_most;

static status_t count_prepared(engine_model_t *model, uint32_t batch, err_t *err)
{
    int64_t begin_ns = clock_now_ns();

    (void)model, (void)err;
    prepared++;
    prepared_most = batch > prepared_most ? batch : prepared_most;
    while (clock_now_ns() == begin_ns)
        ;
    return STATUS_OK;
}

static const char *device_of_its_own(const engine_t *engine, uint64_t *memory_bytes)
{
    (void)engine;
    *memory_bytes = 0;
    return "GPU";
}

static uint32_t sizes_prepared(const model_devices_t *devices, int64_t slo_ns)
{
    model_load_options_t options = {.devices = devices, .stop = &go_on};
    model_t *model;
    err_t err;

    prepared = prepared_most = 0;
    cr_assert_eq(model_create("small", 1, "", &model, NULL), STATUS_OK);
    cr_assert_eq(serving_begin(model, NULL), STATUS_OK);
    model->bare = true;
    model->emulated_elements = 1;
    model->config.has_line = true;
    model->config.beta_ns = NS_PER_MS;
    model->config.max_batch = 10;
    model->config.slo_ns = slo_ns;
    cr_assert_eq(model_load(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(prepared_most, 10);
    for (uint32_t b = 1; b <= 10; b++)
        cr_assert_gt(model->batch_bytes[b], model->batch_bytes[b - 1], "batch %u", b);
    serving_destroy(model, devices);
    return prepared;
}

/* The compiled sizes of a small model are most of its memory: those between come with their first batch. */
Test(load, sizes_between_are_prepared_only_where_a_batch_would_wait_for_them)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    const engine_ops_t *before = devices.ops;
    engine_ops_t ops = *before;

    ops.prepare = count_prepared;
    devices.ops = &ops;
    cr_assert_eq(sizes_prepared(&devices, INT64_MAX), 5, "1, 2, 4, 8, 10");
    cr_assert_eq(sizes_prepared(&devices, 1), 10);
    ops.describe = device_of_its_own;
    cr_assert_eq(sizes_prepared(&devices, INT64_MAX), 10);
    devices.ops = before;
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

static status_t border_unsupported(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count,
                                   uint32_t rows, const engine_shape_t *largest_shapes,
                                   engine_border_t **border, err_t *err)
{
    (void)model, (void)cuts, (void)cut_count, (void)rows, (void)largest_shapes, (void)border;
    return err_set(err, STATUS_UNSUPPORTED, "a value there has no rows");
}

/* The last three cuts alone. */
static status_t late_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err)
{
    const engine_ops_t *emulated;

    cr_assert_eq(engine_find("emulated", &emulated, NULL), STATUS_OK);
    cr_assert_eq(emulated->cuts(model, cuts, err), STATUS_OK);
    cuts->cuts += cuts->cut_count - 3;
    cuts->cut_count = 3;
    return STATUS_OK;
}

/* 100 us are worth two exits, at thirds of sixteen operators; late ones bring no more than one does. */
Test(load, exits_divide_the_time_as_well_as_the_cuts_allow)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    const engine_ops_t *emulated = devices.ops;
    model_load_options_t options = {.devices = &devices, .stop = &go_on, .mode = MODE_PREEMPT};
    engine_ops_t ops = *emulated;
    model_t *model;
    err_t err;

    cr_assert_eq(model_create("p", 1, "", &model, NULL), STATUS_OK);
    cr_assert_eq(serving_begin(model, NULL), STATUS_OK);
    model->bare = true;
    model->emulated_elements = 1;
    model->config.has_line = true;
    model->config.beta_ns = 100 * NS_PER_US;
    model->config.max_batch = 1;
    cr_assert_eq(model_load(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(model->choice.exit_points, 2);
    cr_assert_eq(model->choice.exits[0], 6);
    cr_assert_eq(model->choice.exits[1], 11);
    ops.cuts = late_cuts;
    devices.ops = &ops;
    cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(model->choice.exit_points, 1);
    cr_assert_eq(model->choice.exits[0], 13);
    devices.ops = emulated;
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

static _Atomic(int64_t) step_most_ns;

/* Rows of 1 KiB, 8 of them; 3 borders of that in 2 pairs. */
static model_t *load_in_mode(model_devices_t *devices, model_mode_t mode)
{
    model_load_options_t options = {
        .devices = devices, .stop = &go_on, .mode = mode, .step_most_ns = &step_most_ns};
    model_t *model;
    err_t err;

    atomic_store(&step_most_ns, INT64_MAX);
    devices->stretches = true;
    cr_assert_eq(model_create("s", 1, "", &model, NULL), STATUS_OK);
    cr_assert_eq(serving_begin(model, NULL), STATUS_OK);
    model->bare = true;
    model->emulated_elements = 256;
    model->config.has_line = true;
    model->config.beta_ns = 100 * NS_PER_US;
    model->config.max_batch = 8;
    cr_assert_eq(model_load(model, &options, &err), STATUS_OK, "%s", err.text);
    return model;
}

static model_t *load_staged(model_devices_t *devices)
{
    return load_in_mode(devices, MODE_STAGED);
}

static uint32_t most_rows;
static void (*emulated_submit)(engine_t *engine, engine_job_t *job);

static void note_rows(engine_t *engine, engine_job_t *job)
{
    most_rows = job->batch > most_rows ? job->batch : most_rows;
    emulated_submit(engine, job);
}

/* A row takes 100 us: beside models that wait for 250 at most, two at a time. */
static void expect_short_runs(model_mode_t mode)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    const engine_ops_t *emulated = devices.ops;
    engine_ops_t ops = *emulated;
    model_t *model = load_in_mode(&devices, mode);
    model_load_options_t options = {
        .devices = &devices, .stop = &go_on, .mode = mode, .step_most_ns = &step_most_ns};
    err_t err;

    cr_assert_eq(model_profiler_of_largest(model, &options).busy, &devices.list[0].batches,
                 "it waits for gaps");
    emulated_submit = emulated->submit;
    ops.submit = note_rows;
    devices.ops = &ops;
    most_rows = 0;
    cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(most_rows, 8);
    atomic_store(&step_most_ns, 250 * NS_PER_US);
    most_rows = 0;
    cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(most_rows, 8, "nobody waits");
    atomic_store(&devices.list[0].granted_ns, clock_now_ns() + NS_PER_S);
    most_rows = 0;
    cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_expect_leq(most_rows, 2);
    cr_expect_eq(model->choice.mode, mode);
    devices.ops = emulated;
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

Test(load, what_a_mode_measures_beside_models_that_serve_keeps_them_waiting_for_a_short_time_only)
{
    expect_short_runs(MODE_STAGED);
    expect_short_runs(MODE_PREEMPT);
}

Test(load, the_memory_between_stages_counts_and_where_it_does_not_fit_the_model_runs_whole)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 2);
    model_t *model = load_staged(&devices);
    uint64_t borders = 3 * STAGES_PAIRS * 8 * 1024, bare;

    cr_assert_eq(model->choice.mode, MODE_STAGED, "%s", model->choice.why);
    cr_assert_eq(atomic_load(&devices.list[1].used_bytes), model->taken_bytes);
    bare = model->taken_bytes - borders;
    cr_assert_eq(model->batch_bytes[8], bare + borders);
    serving_destroy(model, &devices);
    cr_assert_eq(atomic_load(&devices.list[0].used_bytes), 0);

    devices.memory_bytes = bare + borders - 1;
    model = load_staged(&devices);
    cr_assert_eq(model->choice.mode, MODE_WHOLE);
    cr_assert_eq(model->choice.refusal, MODE_NO_MEMORY);
    cr_assert_eq(model->taken_bytes, bare);
    cr_assert_eq(atomic_load(&devices.list[1].used_bytes), bare);
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

/* Of T_comp_wait 0 as found and as told to the scheduler, the first keeps all rows out and the other none. */
Test(load, the_wait_that_was_found_is_taken_up_with_the_stages)
{
    static const struct {
        int64_t found_ns, told_ns;
    } cases[] = {{1500, 1500}, {0, 1}, {PROFILE_CACHE_NO_WAIT, 0}};
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    model_t *model = load_staged(&devices);
    model_load_options_t options = {.devices = &devices, .stop = &go_on, .mode = MODE_STAGED};
    Control__ModelReport report;
    err_t err;

    model->serving->state = MODEL_READY;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        model->modes = (profile_modes_t){.stages = {8}, .stage_count = 1, .comp_wait_ns = cases[i].found_ns};
        model->config.comp_wait_ns = 0;
        cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK, "%s", err.text);
        cr_assert_eq(model_report_fill(&report, model), STATUS_OK);
        cr_expect_eq(report.stages, 2);
        cr_expect_eq(report.n_stage_until, 2);
        cr_expect_eq(report.comp_wait_ns, cases[i].told_ns, "found %lld", (long long)cases[i].found_ns);
        model_report_dispose(&report);
    }
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

/* The stages of an emulated model of 16 operators, which a profile cuts behind operators 4 and 9. */
static const model_stages_t *stages_found(model_devices_t *devices, model_t *model, const char *schedule)
{
    model_load_options_t options = {.devices = devices, .stop = &go_on, .mode = MODE_STAGED};
    err_t err;

    model->modes = (profile_modes_t){.stages = {4, 9}, .stage_count = 2, .comp_wait_ns = 1500};
    snprintf(model->modes.schedule, sizeof(model->modes.schedule), "%s", schedule);
    cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(model->choice.mode, MODE_STAGED, "%s", model->choice.why);
    return model->choice.stages;
}

static uint32_t stages_told(const model_t *model)
{
    Control__ModelReport report;

    cr_assert_eq(model_report_fill(&report, model), STATUS_OK);
    uint32_t told = (uint32_t)report.n_stage_until;
    model_report_dispose(&report);
    return told;
}

Test(load, stages_wait_and_schedule_that_were_found_are_taken_up_together)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    model_t *model = load_staged(&devices);

    model->serving->state = MODEL_READY;
    devices.slots = STAGES_SLOTS;
    const model_stages_t *stages = stages_found(&devices, model, "input");
    cr_expect_eq(stages->count, 3);
    cr_expect_eq(stages->from[1], 4);
    cr_expect_eq(stages->comp_wait_ns, 1500);
    cr_expect_str_eq(model_stages_schedule(stages), "input");
    cr_expect(stages->beside);
    cr_expect_eq(stages_told(model), 0, "the scheduler lets no rows join");

    stages = stages_found(&devices, model, "combined");
    cr_expect_str_eq(model_stages_schedule(stages), "combined");
    cr_expect_not(stages->beside);
    stages = stages_found(&devices, model, "");
    cr_expect_str_eq(model_stages_schedule(stages), "granted", "of a profile that does not say");
    cr_expect_eq(stages_told(model), 3);
    model->config.split_slack = 3;
    cr_expect(stages_found(&devices, model, "")->splits);
    cr_expect_eq(stages_told(model), 0, "what will be split takes no more rows");
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

Test(load, what_a_config_names_counts_before_what_was_found)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    model_t *model = load_staged(&devices);

    devices.slots = STAGES_SLOTS;
    strcpy(model->config.schedule, "granted");
    const model_stages_t *stages = stages_found(&devices, model, "input");
    cr_expect_str_eq(model_stages_schedule(stages), "granted");
    cr_expect_eq(stages->count, 3, "the rest is taken up");
    strcpy(model->config.schedule, "load");
    model->config.comp_wait_ns = 7;
    stages = stages_found(&devices, model, "input");
    cr_expect_str_eq(model_stages_schedule(stages), "load");
    cr_expect_eq(stages->comp_wait_ns, 7);
    strcpy(model->config.schedule, "");
    model->config.stages = 2;
    stages = stages_found(&devices, model, "input");
    cr_expect_eq(stages->count, 2);
    cr_expect_str_eq(model_stages_schedule(stages), "granted", "it was found with other stages");
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

Test(load, a_schedule_that_was_found_is_left_out_where_the_devices_have_no_slots)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    model_t *model = load_staged(&devices);

    model->serving->state = MODEL_READY;
    const model_stages_t *stages = stages_found(&devices, model, "input");
    cr_expect_str_eq(model_stages_schedule(stages), "granted");
    cr_expect_not(stages->beside);
    cr_expect_eq(stages->count, 3);
    cr_expect_eq(stages_told(model), 3);
    strcpy(model->config.schedule, "input");
    stages = stages_found(&devices, model, "combined");
    cr_expect_str_eq(model_stages_schedule(stages), "input", "what the config names is the user's word");
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

Test(load, a_mode_that_the_devices_were_not_opened_for_is_refused_by_name)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    model_load_options_t options = {.devices = &devices, .stop = &go_on};
    model_t *model = load_staged(&devices);
    err_t err;

    devices.stretches = false;
    options.mode = MODE_STAGED;
    cr_assert_eq(mode_choose(model, &options, &err), STATUS_OK);
    cr_assert_eq(model->choice.mode, MODE_WHOLE);
    cr_assert_eq(model->choice.refusal, MODE_NO_DEVICE);
    cr_assert_str_eq(model->choice.why,
                     "no model asked for mode staged when the worker started: start it anew for this one");
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

Test(load, a_model_that_does_not_suit_its_mode_runs_whole)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 1);
    const engine_ops_t *emulated = devices.ops;
    engine_ops_t ops = *emulated;

    ops.border_create = border_unsupported;
    devices.ops = &ops;
    model_t *model = load_staged(&devices);
    cr_assert_eq(model->choice.mode, MODE_WHOLE);
    cr_assert_eq(model->choice.refusal, MODE_UNCUTTABLE);
    cr_assert_str_eq(model->choice.why, "a value there has no rows");
    serving_destroy(model, &devices);
    devices.ops = emulated;
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

Test(load, an_emulated_model_is_described_from_its_profile)
{
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "emulated", 3);
    model_load_options_t options = {.devices = &devices, .stop = &go_on};
    Control__ModelReport report;
    model_t *model;
    err_t err;

    cr_assert_eq(model_create("e", 1, "", &model, NULL), STATUS_OK);
    cr_assert_eq(serving_begin(model, NULL), STATUS_OK);
    cr_assert_eq(model_load(model, &options, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(err.text, "needs a profile"), "%s", err.text);
    model->bare = true;
    model->emulated_elements = 5;
    model->config.has_line = true;
    model->config.alpha_ns = NS_PER_MS;
    model->config.beta_ns = 2 * NS_PER_MS;
    model->config.max_batch = 4;
    cr_assert_eq(model_load(model, &options, &err), STATUS_OK, "%s", err.text);
    model->serving->state = MODEL_READY;
    cr_assert_eq(model->row_in_bytes, 20);
    cr_assert_eq(model_report_fill(&report, model), STATUS_OK);
    cr_assert_eq(report.max_batch, 4);
    cr_assert_eq(report.latency->n_table_ns, 4);
    cr_assert_eq(report.latency->table_ns[3], 6 * NS_PER_MS);
    cr_assert_eq(report.n_inputs, 1);
    cr_assert_str_eq(report.inputs[0]->datatype, "FP32");
    cr_assert_eq(report.inputs[0]->dims[0], 5);
    cr_assert_eq(report.slo_ns, 100 * NS_PER_MS, "the default");
    cr_assert_null(report.image);
    model_report_dispose(&report);
    serving_destroy(model, &devices);
    model_devices_close(&devices);
    metrics_destroy(metrics);
}

/* ---- profiles ---- */

enum { COPIES = 3 };

/* A model of the reference engine, as the loader has it; the profile is kept beside it, if at all. */
typedef struct {
    model_devices_t devices;
    metrics_t *metrics;
    profile_memo_t *memo;
    char dir[64], kept[128];
} bench_t;

static void bench_open(bench_t *bench)
{
    char command[300];

    *bench = (bench_t){.dir = "/tmp/fermata-bench-XXXXXX", .memo = profile_memo_create()};
    bench->metrics = open_devices(&bench->devices, "reference", 1);
    cr_assert_not_null(mkdtemp(bench->dir));
    for (int i = 0; i < COPIES; i++) {
        snprintf(command, sizeof(command),
                 "mkdir -p %s/d%d/1 && cp examples/models/digits/1/model.onnx %s/d%d/1", bench->dir, i,
                 bench->dir, i);
        cr_assert_eq(system(command), 0);
    }
    snprintf(bench->kept, sizeof(bench->kept), "%s/d0/1/profile.reference.txt", bench->dir);
}

static void bench_close(bench_t *bench)
{
    char command[100];

    profile_memo_destroy(bench->memo);
    model_devices_close(&bench->devices);
    metrics_destroy(bench->metrics);
    snprintf(command, sizeof(command), "rm -r %s", bench->dir);
    cr_assert_eq(system(command), 0);
}

static uint32_t runs;
static void (*reference_submit)(engine_t *engine, engine_job_t *job);

static void count_run(engine_t *engine, engine_job_t *job)
{
    runs++;
    reference_submit(engine, job);
}

/* Loads copy i and returns in how many runs it was measured. */
static uint32_t bench_load(bench_t *bench, int i, model_t **model)
{
    const engine_ops_t *reference = bench->devices.ops;
    engine_ops_t ops = *reference;
    model_load_options_t options = {.devices = &bench->devices,
                                    .stop = &go_on,
                                    .profile_budget_ns = 1,
                                    .use_cache = true,
                                    .memo = bench->memo,
                                    .step_most_ns = &step_most_ns};
    char dir[80];
    err_t err;

    snprintf(dir, sizeof(dir), "%s/d%d", bench->dir, i);
    cr_assert_eq(repository_open_model(dir, model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(serving_begin(*model, &err), STATUS_OK);
    reference_submit = reference->submit;
    ops.submit = count_run;
    bench->devices.ops = &ops;
    runs = 0;
    cr_assert_eq(model_load(*model, &options, &err), STATUS_OK, "%s", err.text);
    bench->devices.ops = reference;
    return runs;
}

/* Others have traffic and must not wait as long as even one row takes: a flat line would promise that 32 take no
 * longer, and the file would keep it so. */
Test(load, one_size_is_all_that_others_leave_time_for_and_is_neither_kept_nor_continued_flat)
{
    bench_t bench;
    model_t *model;

    bench_open(&bench);
    atomic_store(&step_most_ns, 1);
    atomic_store(&bench.devices.list[0].granted_ns, clock_now_ns() + 1000 * NS_PER_S);
    cr_expect_eq(bench_load(&bench, 0, &model), 1);
    cr_expect_eq(model->measured.points, 1);
    int64_t one_ns = profile_latency_ns(&model->measured, 1);
    cr_expect_leq(llabs(profile_latency_ns(&model->measured, 32) - 32 * one_ns), 32);
    cr_expect_neq(access(bench.kept, F_OK), 0, "it is not kept");
    serving_destroy(model, &bench.devices);

    atomic_store(&bench.devices.list[0].granted_ns, 0);
    cr_expect_gt(bench_load(&bench, 0, &model), 1, "nor known of copies; without traffic it is measured");
    cr_expect_geq(model->measured.points, 2);
    cr_expect_eq(access(bench.kept, F_OK), 0, "and kept");
    serving_destroy(model, &bench.devices);
    bench_close(&bench);
}

/* What earlier versions kept: of one size, with stages beside it that took long to find. */
Test(load, a_kept_profile_of_one_size_is_measured_anew_and_its_modes_stay)
{
    char hash[PROFILE_CACHE_TEXT_BYTES];
    profile_modes_t modes = {.exits = {3}, .exit_count = 1};
    profile_point_t one = {1, NS_PER_MS};
    profile_t profile;
    model_t *model;
    bench_t bench;
    err_t err;

    bench_open(&bench);
    atomic_store(&step_most_ns, INT64_MAX);
    cr_expect_gt(bench_load(&bench, 0, &model), 1);
    cr_assert_eq(model_hash(model, hash, &err), STATUS_OK);
    serving_destroy(model, &bench.devices);
    cr_assert_eq(profile_from_points(&profile, &one, 1, 32, &err), STATUS_OK);
    cr_assert_eq(kept_profile_write(&bench.devices, bench.kept, hash, &profile, &modes, &err), STATUS_OK);
    profile_memo_destroy(bench.memo);
    bench.memo = NULL;
    cr_expect_gt(bench_load(&bench, 0, &model), 1);
    cr_expect_geq(model->measured.points, 2);
    cr_expect_eq(model->modes.exit_count, 1);
    serving_destroy(model, &bench.devices);
    cr_expect_eq(bench_load(&bench, 0, &model), 0, "which has been kept");
    cr_expect_geq(model->measured.points, 2);
    cr_expect_eq(model->modes.exit_count, 1);
    serving_destroy(model, &bench.devices);
    bench_close(&bench);
}

/* Else the old model's profile would be that of the new files. */
Test(load, a_model_whose_files_have_changed_is_not_measured_again)
{
    bench_t bench;
    model_t *model;
    profile_t profile;
    char command[200];
    err_t err;

    bench_open(&bench);
    atomic_store(&step_most_ns, INT64_MAX);
    (void)bench_load(&bench, 0, &model);
    model->measured.spread = 1000; /* no profile is in more doubt, whatever else the machine does */
    model_load_options_t options = {.devices = &bench.devices, .stop = &go_on, .profile_budget_ns = 1};
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_OK, "%s", err.text);
    cr_expect_geq(profile.points, 2);
    snprintf(command, sizeof(command), "echo >> %s/d0/1/model.onnx", bench.dir);
    cr_assert_eq(system(command), 0);
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_UNAVAILABLE);
    serving_destroy(model, &bench.devices);
    bench_close(&bench);
}

static int64_t row_us;
static bool restless;
static uint32_t exact_runs;

/* As by the clock of an idle machine; restless: every other run takes four times as long. */
static void run_exactly(engine_t *engine, engine_job_t *job)
{
    (void)engine;
    most_rows = job->batch > most_rows ? job->batch : most_rows;
    job->started_ns = 0;
    job->finished_ns = row_us * NS_PER_US * (int64_t)job->batch * (restless && exact_runs++ % 2 ? 4 : 1);
    job->done(job, STATUS_OK, NULL);
}

/* Nobody is served, but the next request may come while one runs; four rows are as many as it could wait for. */
Test(load, measuring_again_runs_no_batch_that_a_request_could_not_wait_for)
{
    bench_t bench;
    model_t *model;
    profile_t profile;
    err_t err;

    bench_open(&bench);
    atomic_store(&step_most_ns, INT64_MAX);
    (void)bench_load(&bench, 0, &model);
    engine_ops_t ops = *bench.devices.ops;
    const engine_ops_t *reference = bench.devices.ops;
    model_load_options_t options = {.devices = &bench.devices,
                                    .stop = &go_on,
                                    .profile_budget_ns = 1000 * NS_PER_S,
                                    .step_most_ns = &step_most_ns};
    ops.submit = run_exactly;
    bench.devices.ops = &ops;
    row_us = 1000; /* no size is small enough to be left to the line */
    cr_assert_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_OK, "%s", err.text);
    model_take_profile(model, 0, &profile);
    cr_assert_eq(profile.points, 10);

    most_rows = 0;
    row_us = 2000;
    atomic_store(&step_most_ns, 9 * NS_PER_MS);
    cr_assert_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(most_rows, 4);
    cr_expect_eq(profile_latency_ns(&profile, 4), 8 * NS_PER_MS);
    cr_expect_eq(profile_latency_ns(&profile, 32), 64 * NS_PER_MS, "as its larger ones are to its smaller");
    cr_expect_eq(profile.points, 10);

    restless = true;
    atomic_store(&step_most_ns, INT64_MAX);
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_UNAVAILABLE);
    model->measured.spread = 100;
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_OK, "there was more doubt");
    model->measured.spread = profile_doubt(&profile) / 1.1;
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_UNAVAILABLE, "and less");
    options.afresh = true;
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_OK, "as if it had none");
    options.afresh = false;
    model->measured.points = 4;
    cr_expect_eq(model_measure_again(model, &options, 0, &profile, &err), STATUS_OK, "but of fewer sizes");
    bench.devices.ops = reference;
    serving_destroy(model, &bench.devices);
    bench_close(&bench);
}

Test(load, copies_of_a_model_are_measured_once)
{
    model_t *models[COPIES];
    bench_t bench;

    bench_open(&bench);
    atomic_store(&step_most_ns, INT64_MAX);
    cr_expect_gt(bench_load(&bench, 0, &models[0]), 1);
    for (int i = 1; i < COPIES; i++) {
        cr_expect_eq(bench_load(&bench, i, &models[i]), 0);
        cr_expect_eq(memcmp(&models[i]->measured, &models[0]->measured, sizeof(profile_t)), 0);
    }
    for (int i = 0; i < COPIES; i++)
        serving_destroy(models[i], &bench.devices);
    bench_close(&bench);
}

static void on_changed(void *ctx, const model_t *model, const model_t *old)
{
    (void)old;
    *(int *)ctx += model->serving->state == MODEL_READY || model->serving->state == MODEL_FAILED;
}

Test(load, a_real_model_is_loaded_measured_and_cached_beside_a_broken_one)
{
    char dir[] = "/tmp/fermata-load-XXXXXX", command[300], path[300];
    model_devices_t devices;
    metrics_t *metrics = open_devices(&devices, "reference", 1);
    static const lifecycle_ops_t ops = {.changed = on_changed};
    repository_source_t source;
    served_t served = {0};
    Control__ModelReport report;
    lifecycle_t *lifecycle;
    loop_t *loop;
    int loaded = 0;

    cr_assert_not_null(mkdtemp(dir));
    snprintf(command, sizeof(command),
             "cp -r examples/models/digits %s/digits && mkdir -p %s/broken/1 && echo junk > "
             "%s/broken/1/model.onnx",
             dir, dir, dir);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(loop_create(&loop, NULL), STATUS_OK);
    cr_assert_eq(repository_source_open(&source, dir, NULL, 1, 1, NULL), STATUS_OK);
    cr_assert_eq(served_fill(&served, &source, NULL), STATUS_OK);
    lifecycle_options_t options = {.loop = loop,
                                   .served = &served,
                                   .source = &source,
                                   .metrics = metrics,
                                   .load = {.devices = &devices, .profile_budget_ns = 1, .use_cache = true},
                                   .ops = &ops,
                                   .ctx = &loaded};
    cr_assert_eq(lifecycle_create(&options, &lifecycle, NULL), STATUS_OK);
    int64_t end = clock_now_ns() + 60 * NS_PER_S;
    while (loaded < 2 && clock_now_ns() < end)
        loop_run_once(loop, NS_PER_MS);
    lifecycle_destroy(lifecycle);

    model_t *digits = served_find(&served, "digits"), *broken = served_find(&served, "broken");
    cr_assert_eq(broken->serving->state, MODEL_FAILED);
    cr_assert_eq(model_report_fill(&report, broken), STATUS_OK);
    cr_assert_eq(report.state, CONTROL__MODEL_STATE__MODEL_STATE_FAILED);
    cr_assert_gt(strlen(report.reason), 0);
    model_report_dispose(&report);

    cr_assert_eq(digits->serving->state, MODEL_READY, "%s", digits->load_err.text);
    cr_assert_eq(model_report_fill(&report, digits), STATUS_OK);
    cr_assert_eq(report.max_batch, 32);
    cr_assert_eq(report.n_labels, 10);
    cr_assert_eq(report.slo_ns, 100 * NS_PER_MS);
    cr_assert_str_eq(report.image->color, "L");
    cr_assert_str_eq(report.image->filter, "box");
    cr_assert_eq(report.image->n_mean, 1);
    cr_assert_str_eq(report.softmax_output, "scores");
    cr_assert_eq(report.latency->n_table_ns, 32);
    cr_assert_gt(report.latency->table_ns[0], 0);
    model_report_dispose(&report);
    snprintf(path, sizeof(path), "%s/digits/1/profile.reference.txt", dir);
    cr_assert_eq(access(path, R_OK), 0, "the profile is kept");

    served_dispose(&served, &devices);
    model_devices_close(&devices);
    loop_destroy(loop);
    metrics_destroy(metrics);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    cr_assert_eq(system(command), 0);
}
