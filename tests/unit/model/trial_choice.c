/* A model on trial on each of the engines behind "auto": the plug-in of onnxruntime is here. */
#include "trial_rig.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

TestSuite(trial_choice, .fini = shell_program_remove);

Test(trial_choice, the_first_engine_that_passed_is_told_while_others_are_tried)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    cr_assert_eq(rig_try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_eq(heard.times, 1);
    cr_expect_str_eq(heard.engine, "onnxruntime");
    cr_expect_gt(heard.bytes, 0);
    rig_end(&rig);
}

/* It knows of the others what it was told when it was loaded. */
Test(trial_choice, a_model_that_was_loaded_meanwhile_does_not_go_on_an_engine_that_crashed_then)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_PASSED, .engine = "onnxruntime"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onednn"}};
    rig_t rig;

    rig_start(&rig, a_player_once(answers, 3), 60 * NS_PER_S, "auto");
    cr_assert_eq(model_place(rig.model, &rig.options, &rig.err), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->without, "onednn");
    const engine_choice_t *choice = rig.devices.ops->choice;
    engine_model_t *on = rig.model->on_device[0];
    cr_expect_str_eq(choice->name(on, choice->used(on)), "onnxruntime");
    for (uint32_t i = 0; i < choice->count(on); i++)
        if (strcmp(choice->name(on, i), "onednn") == 0)
            cr_expect_eq(choice->use(on, i, &rig.err), STATUS_UNSUPPORTED);
    cr_expect(rig_says(&rig, "did not stand loading"), "%s", rig.err.text);
    rig_end(&rig);
}

/* ---- Measured where it is tried ---- */

static void expect_found(const rig_t *rig, const char *engine, status_t status)
{
    uint32_t i = 0;

    while (i < rig->model->engine_count && strcmp(rig->model->engines[i].name, engine) != 0)
        i++;
    cr_assert_lt(i, rig->model->engine_count, "nothing is known of %s", engine);
    cr_expect_eq(rig->model->engines[i].status, status, "%s", rig->model->engines[i].why);
    cr_expect_eq(rig->model->engines[i].latency_ns[0] > 0, status == STATUS_OK);
}

Test(trial_choice, of_a_small_model_the_first_engine_is_enough)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    rig.options.profile_budget_ns = 400 * NS_PER_MS;
    cr_assert_eq(rig_try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_eq(heard.times, 0, "others are not tried, and it is loaded once all is known");
    cr_expect_str_eq(rig.model->fastest, "onnxruntime");
    expect_found(&rig, "onnxruntime", STATUS_OK);
    expect_found(&rig, "onednn", STATUS_CANCELLED);
    rig_end(&rig);
}

Test(trial_choice, a_model_that_may_take_no_time_is_measured_on_each_and_loaded_on_the_fastest)
{
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    rig_make_urgent(&rig);
    cr_assert_eq(model_load(rig.model, &rig.options, &rig.err), STATUS_OK, "%s", rig.err.text);
    expect_found(&rig, "onnxruntime", STATUS_OK);
    expect_found(&rig, "onednn", STATUS_OK);
    cr_assert_neq(rig.model->fastest[0], '\0');
    cr_expect_str_eq(rig.model->engine, rig.model->fastest);
    cr_expect_not_null(strstr(rig.model->engines_text, "onednn: 1: "), "%s", rig.model->engines_text);
    rig_end(&rig);
}

/* It has nothing of its own to say of engines then. */
Test(trial_choice, a_copy_is_not_tried_again)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    rig_make_urgent(&rig);
    cr_assert_eq(rig_try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_geq(heard.times, 1);
    cr_expect_neq(rig.model->fastest[0], '\0');
    uint64_t bytes = rig.model->loading_bytes;
    cr_assert_eq(rig_try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_eq(heard.times, 0);
    cr_expect_str_eq(rig.model->fastest, "");
    cr_expect_eq(rig.model->loading_bytes, bytes);
    rig_end(&rig);
}

/* On one CPU that is left of those that two threads of a device run on. */
Test(trial_choice, beside_others_that_are_measured_nothing_is)
{
    rig_t rig;

    rig_start_threads(&rig, LOADER, 60 * NS_PER_S, "auto", 2);
    rig.options.beside_cpus = 1;
    rig.options.profile_budget_ns = 400 * NS_PER_MS;
    cr_expect_eq(rig_try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->fastest, "");
    cr_expect_eq(rig.model->engine_count, 0);
    rig_end(&rig);
}

static _Atomic(bool) over;

/* Of more time than there is. */
static void *run_batches(void *device)
{
    while (!atomic_load(&over)) {
        metrics_add(((model_device_t *)device)->busy, NS_PER_S);
        usleep(1000);
    }
    return NULL;
}

Test(trial_choice, what_was_measured_beside_busy_devices_does_not_count)
{
    pthread_t thread;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    cr_assert_eq(pthread_create(&thread, NULL, run_batches, &rig.devices.list[0]), 0);
    rig.options.profile_budget_ns = 400 * NS_PER_MS;
    cr_expect_eq(rig_try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->fastest, "");
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    rig_end(&rig);
}

/* What the loader says is what is told, and nothing is measured again: 1 ns would not come of that. */
Test(trial_choice, what_was_measured_on_trial_is_not_measured_again)
{
    static trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                       {.magic = TRIAL_MAGIC, .kind = TRIAL_PASSED, .engine = "onnxruntime"},
                                       {.magic = TRIAL_MAGIC,
                                        .kind = TRIAL_DONE,
                                        .fastest = "onednn",
                                        .engine_count = 2,
                                        .engines = {{.name = "onnxruntime", .latency_ns = {2, 3, 4}},
                                                    {.name = "onednn", .latency_ns = {1, 2, 3}}}}};
    rig_t rig;

    rig_start(&rig, a_player(answers, 3, "", "exec sleep 1000"), 60 * NS_PER_S, "auto");
    rig.options.profile_budget_ns = 400 * NS_PER_MS;
    cr_assert_eq(model_load(rig.model, &rig.options, &rig.err), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->engine, "onednn");
    cr_expect_str_eq(rig.model->engines_text, "onnxruntime: 1: 2e-06, 4: 3e-06, 32: 4e-06 ms; onednn: 1: "
                                              "1e-06, 4: 2e-06, 32: 3e-06 ms");
    rig_end(&rig);
}

/* ---- Two at once ---- */

/* Onto what a trial found, on devices that have so much memory (0: no limit). What it takes of them. */
static uint64_t load_in(rig_t *rig, uint64_t memory_bytes, const char *wanted)
{
    model_unload(rig->model, &rig->devices);
    rig->devices.memory_bytes = memory_bytes;
    cr_assert_eq(model_load(rig->model, &rig->options, &rig->err), STATUS_OK, "%s", rig->err.text);
    cr_expect_str_eq(rig->model->engine, wanted);
    rig->options.trials = NULL; /* once is enough */
    return rig->model->taken_bytes;
}

Test(trial_choice, two_serve_where_there_is_memory_for_both_and_as_much_again)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_PASSED, .engine = "onnxruntime"},
                                      {.magic = TRIAL_MAGIC,
                                       .kind = TRIAL_DONE,
                                       .fastest = "onednn:2+onnxruntime",
                                       .engine_count = 2,
                                       .engines = {{.name = "onnxruntime", .latency_ns = {2, 3, 4}},
                                                   {.name = "onednn", .latency_ns = {1, 3, 5}}}}};
    rig_t rig;

    rig_start(&rig, a_player(answers, 3, "", "exec sleep 1000"), 60 * NS_PER_S, "auto");
    rig.options.profile_budget_ns = 400 * NS_PER_MS;
    uint64_t two_bytes = load_in(&rig, 0, "onednn:2+onnxruntime");
    (void)load_in(&rig, 3 * two_bytes, "onednn:2+onnxruntime");
    cr_expect_lt(load_in(&rig, two_bytes * 3 / 2, "onnxruntime"), two_bytes);
    (void)load_in(&rig, two_bytes - 1, "onnxruntime");
    rig_end(&rig);
}

/* ---- Memory for two ---- */

static const trial_answer_t files = {.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                            begins = {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onednn"},
                            lacks = {.magic = TRIAL_MAGIC,
                                     .kind = TRIAL_ENGINE,
                                     .status = STATUS_NO_MEMORY,
                                     .lacked_bytes = 1 << 20};

/* While two engines had the model: one alone may find enough. */
Test(trial_choice, an_engine_that_found_no_memory_beside_another_is_tried_alone)
{
    const trial_answer_t answers[] = {files, begins, lacks};
    rig_t rig;

    rig_start(&rig, a_player_once(answers, 3), 60 * NS_PER_S, "auto");
    rig.options.profile_budget_ns = 400 * NS_PER_MS;
    cr_expect_eq(rig_try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->without, "");
    cr_expect_str_eq(rig.model->fastest, "", "it does not choose again");
    rig_end(&rig);
}

Test(trial_choice, an_engine_that_found_no_memory_alone_is_left_out)
{
    const trial_answer_t answers[] = {files, begins, lacks};
    rig_t rig;

    rig_start(&rig, a_player_once(answers, 3), 60 * NS_PER_S, "auto");
    cr_expect_eq(rig_try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->without, "onednn");
    rig_end(&rig);
}
