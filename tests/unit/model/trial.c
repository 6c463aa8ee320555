/* What a loader says, does not say, or dies of, and what the model is told. The loader itself: tests/e2e/test_loader.py. */
#include "trial_rig.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(trial, .fini = shell_program_remove);

Test(trial, a_good_model_is_known_by_its_hash_and_by_what_it_took)
{
    char hash[PROFILE_CACHE_TEXT_BYTES];
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "onednn");
    cr_assert_eq(rig_try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_assert_eq(model_hash(rig.model, hash, NULL), STATUS_OK);
    cr_expect_str_eq(rig.model->hash, hash);
    cr_expect_gt(rig.model->loading_bytes, 0);
    cr_expect_str_eq(rig.model->without, "");
    rig_end(&rig);
}

Test(trial, one_that_hangs_is_given_up_in_time)
{
    rig_t rig;

    rig_start(&rig, shell_program("exec sleep 1000"), 50 * NS_PER_MS, "onednn");
    cr_assert_eq(rig_try(&rig), STATUS_DEADLINE_EXCEEDED);
    cr_assert(rig_says(&rig, "after 0.05 s (--load-timeout)"), "%s", rig.err.text);
    rig_end(&rig);
}

Test(trial, who_stops_does_not_wait_for_one_that_hangs)
{
    rig_t rig;

    rig_start(&rig, shell_program("exec sleep 1000"), 1000 * NS_PER_S, "onednn");
    atomic_store(&rig.stop, 1);
    cr_assert_eq(rig_try(&rig), STATUS_CANCELLED);
    rig_end(&rig);
}

static void expect_death(const char *words, status_t status, const char *said)
{
    rig_t rig;

    rig_start(&rig, shell_program(words), 60 * NS_PER_S, "onednn");
    cr_expect_eq(rig_try(&rig), status, "%s", rig.err.text);
    cr_expect(rig_says(&rig, said), "%s", rig.err.text);
    rig_end(&rig);
}

Test(trial, a_crash_is_told)
{
    expect_death("kill -SEGV $$", STATUS_INTERNAL, "crashed (Segmentation fault)");
}

Test(trial, what_the_kernel_takes_back_was_memory)
{
    expect_death("kill -KILL $$", STATUS_NO_MEMORY, "when the host's memory runs out");
}

Test(trial, used_up_cpu_time_is_told)
{
    expect_death("kill -XCPU $$", STATUS_DEADLINE_EXCEEDED, "CPU time");
}

Test(trial, a_forbidden_call_is_told)
{
    expect_death("kill -SYS $$", STATUS_INVALID_ARGUMENT, "system call");
}

Test(trial, an_end_without_a_word_is_told)
{
    expect_death("exit 3", STATUS_INTERNAL, "exit code 3");
}

Test(trial, nonsense_is_not_believed)
{
    expect_death("exec cat /dev/zero", STATUS_INTERNAL, "nonsense");
}

Test(trial, an_engine_that_lacked_memory_is_named_with_the_sizes)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onednn"},
                                      {.magic = TRIAL_MAGIC,
                                       .kind = TRIAL_DONE,
                                       .status = STATUS_NO_MEMORY,
                                       .lacked_bytes = UINT64_C(6) << 30}};
    rig_t rig;

    rig_start(&rig, a_player(answers, 3, "", "exec sleep 1000"), 60 * NS_PER_S, "onednn");
    rig.devices.memory_bytes = 512 << 20;
    atomic_store(&rig.devices.list[0].used_bytes, 12 << 20);
    cr_assert_eq(rig_try(&rig), STATUS_NO_MEMORY);
    cr_assert(
        rig_says(&rig,
                 "ran out of the 500 MiB that cpu0 has left: 6144 MiB more were wanted, on engine onednn"),
        "%s", rig.err.text);
    rig_end(&rig);
}

/* Another loader does without it. */
Test(trial, of_several_engines_the_one_that_crashes_is_left_out)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onnxruntime"}};
    rig_t rig;

    rig_start(&rig, a_player_once(answers, 2), 60 * NS_PER_S, "auto");
    cr_expect_eq(rig_try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->without, "onnxruntime");
    rig_end(&rig);
}

/* Of one engine, or of the one that the model names, there is no other. */
Test(trial, a_crash_on_the_only_engine_refuses_the_model)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onednn"}};
    rig_t rig;

    rig_start(&rig, a_player(answers, 2, "", "kill -SEGV $$"), 60 * NS_PER_S, "onednn");
    cr_expect_eq(rig_try(&rig), STATUS_INTERNAL);
    cr_expect(rig_says(&rig, "crashed on engine onednn (Segmentation fault)"), "%s", rig.err.text);
    rig_end(&rig);
}

/* ---- Loaded here while others are tried there ---- */

Test(trial, of_one_engine_nobody_hears_before_the_end)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "onednn");
    cr_assert_eq(rig_try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_eq(heard.times, 0);
    rig_end(&rig);
}

/* A loader of a gigabyte, on whose first engine the model took so much. */
static void try_of(uint64_t bytes, heard_t *heard)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC,
                                       .kind = TRIAL_PASSED,
                                       .engine = "onednn",
                                       .peak_bytes = bytes + TRIAL_OWN_BYTES},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_DONE}};
    rig_t rig;

    rig_start(&rig, a_player(answers, 3, "ulimit -d 1048576", "exec sleep 1000"), 60 * NS_PER_S, "auto");
    rig.devices.memory_bytes = 1 << 30;
    cr_expect_eq(rig_try_early(&rig, heard), STATUS_OK, "%s", rig.err.text);
    rig_end(&rig);
}

Test(trial, what_is_loaded_meanwhile_is_taken_from_what_the_loader_may_have)
{
    heard_t heard;

    try_of(100 << 20, &heard);
    cr_expect_eq(heard.times, 1);
    cr_expect_eq(heard.bytes, 100 << 20);
    cr_expect_eq(heard.limit_bytes, (1 << 30) - (100 << 20), "%llu", (unsigned long long)heard.limit_bytes);
}

Test(trial, what_takes_much_of_the_memory_is_not_in_it_twice)
{
    heard_t heard;

    try_of(300 << 20, &heard);
    cr_expect_eq(heard.times, 0);
}

Test(trial, a_loader_that_is_not_there_is_told_at_the_start)
{
    char path[TRIALS_PROGRAM_BYTES];
    const char *found = "";
    err_t err = {0};

    cr_expect_eq(trials_program("/nowhere/at-all", path, &found, &err), STATUS_NOT_FOUND);
    cr_expect_not_null(strstr(err.text, "/nowhere/at-all: No such file"), "%s", err.text);
    cr_expect_eq(trials_program("none", path, &found, &err), STATUS_OK);
    cr_expect_null(found);
}
