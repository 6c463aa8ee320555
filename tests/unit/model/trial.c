/* What a loader says, does not say, or dies of, and what the model is told. The loader itself: tests/e2e/test_loader.py. */
#include "model/trial/trial.h"

#include "base/clock.h"
#include "base/log.h"
#include "model/repository.h"
#include "model/trial/wire.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char program[] = "/tmp/loader-XXXXXX";
static _Atomic(int) stop;

typedef struct {
    metrics_t *metrics;
    model_devices_t devices;
    trials_t *trials;
    model_t *model;
    model_load_options_t options;
    err_t err;
} rig_t;

/* A loader of these shell words. */
static const char *a_loader(const char *words)
{
    int fd = mkstemp(program);
    FILE *file = fdopen(fd, "w");

    fprintf(file, "#!/bin/sh\n%s\n", words);
    fclose(file);
    chmod(program, 0700);
    return program;
}

static void remove_loader(void)
{
    unlink(program);
}

static void rig_start(rig_t *rig, const char *loader, int64_t timeout_ns, const char *engine)
{
    const trials_options_t options = {.program = loader, .timeout_ns = timeout_ns};

    *rig = (rig_t){.metrics = metrics_create("test", NULL)};
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(
        model_devices_open(&rig->devices, engine, 1, &options.engine, false, rig->metrics, &rig->err),
        STATUS_OK, "%s", rig->err.text);
    cr_assert_eq(trials_create(&options, &rig->trials, NULL), STATUS_OK);
    cr_assert_eq(repository_open_model("examples/models/digits/1/model.onnx", &rig->model, NULL), STATUS_OK);
    rig->options = (model_load_options_t){.devices = &rig->devices, .stop = &stop, .trials = rig->trials};
}

static void rig_end(rig_t *rig)
{
    model_destroy(rig->model, &rig->devices);
    trials_destroy(rig->trials);
    model_devices_close(&rig->devices);
    metrics_destroy(rig->metrics);
}

static status_t try(rig_t *rig)
{
    return trial_of(rig->trials, rig->model, &rig->options, NULL, &rig->err);
}

static bool says(const rig_t *rig, const char *words)
{
    return strstr(rig->err.text, words) != NULL;
}

TestSuite(trial, .fini = remove_loader);

Test(trial, a_good_model_is_known_by_its_hash_and_by_what_it_took)
{
    char hash[PROFILE_CACHE_TEXT_BYTES];
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "onednn");
    cr_assert_eq(try(&rig), STATUS_OK, "%s", rig.err.text);
    cr_assert_eq(model_hash(rig.model, hash, NULL), STATUS_OK);
    cr_expect_str_eq(rig.model->hash, hash);
    cr_expect_gt(rig.model->loading_bytes, 0);
    cr_expect_str_eq(rig.model->without, "");
    rig_end(&rig);
}

Test(trial, one_that_hangs_is_given_up_in_time)
{
    rig_t rig;

    rig_start(&rig, a_loader("exec sleep 1000"), 50 * NS_PER_MS, "onednn");
    cr_assert_eq(try(&rig), STATUS_DEADLINE_EXCEEDED);
    cr_assert(says(&rig, "after 0.05 s (--load-timeout)"), "%s", rig.err.text);
    rig_end(&rig);
}

Test(trial, who_stops_does_not_wait_for_one_that_hangs)
{
    rig_t rig;

    rig_start(&rig, a_loader("exec sleep 1000"), 1000 * NS_PER_S, "onednn");
    atomic_store(&stop, 1);
    cr_assert_eq(try(&rig), STATUS_CANCELLED);
    rig_end(&rig);
}

static void expect_death(const char *words, status_t status, const char *said)
{
    rig_t rig;

    rig_start(&rig, a_loader(words), 60 * NS_PER_S, "onednn");
    cr_expect_eq(try(&rig), status, "%s", rig.err.text);
    cr_expect(says(&rig, said), "%s", rig.err.text);
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

/* A script that says these answers before the other words. */
static const char *a_player(const trial_answer_t *answers, uint32_t count, const char *before,
                            const char *after)
{
    static char words[PATH_MAX * 2];
    char played[] = "/tmp/answers-XXXXXX";
    int fd = mkstemp(played);

    cr_assert_eq(write(fd, answers, count * sizeof(*answers)), (ssize_t)(count * sizeof(*answers)));
    close(fd);
    snprintf(words, sizeof(words), "%s\ncat %s\nrm %s\n%s", before, played, played, after);
    return a_loader(words);
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
    cr_assert_eq(try(&rig), STATUS_NO_MEMORY);
    cr_assert(
        says(&rig, "ran out of the 500 MiB that cpu0 has left: 6144 MiB more were wanted, on engine onednn"),
        "%s", rig.err.text);
    rig_end(&rig);
}

/* Another loader does without it. */
Test(trial, of_several_engines_the_one_that_crashes_is_left_out)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onnxruntime"}};
    rig_t rig;

    rig_start(&rig, a_player(answers, 2, "rm $0.first || exec " LOADER, "kill -SEGV $$"), 60 * NS_PER_S,
              "auto");
    char first[PATH_MAX];
    snprintf(first, sizeof(first), "%s.first", program);
    fclose(fopen(first, "w"));
    cr_expect_eq(try(&rig), STATUS_OK, "%s", rig.err.text);
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
    cr_expect_eq(try(&rig), STATUS_INTERNAL);
    cr_expect(says(&rig, "crashed on engine onednn (Segmentation fault)"), "%s", rig.err.text);
    rig_end(&rig);
}

/* ---- Loaded here while others are tried there ---- */

/* What was heard of the first that passed. */
typedef struct {
    const model_t *model;
    uint32_t times;
    char engine[TRIAL_ENGINE_BYTES];
    uint64_t bytes, limit_bytes; /* of the model, and what its loader may have by then */
} heard_t;

static pid_t child(void)
{
    char path[64];
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
    FILE *file = fopen(path, "r");
    cr_assert(file && fscanf(file, "%d", &pid) == 1);
    fclose(file);
    return pid;
}

static void hear_passed(void *arg, const char *engine)
{
    heard_t *heard = arg;
    struct rlimit most;

    heard->times++;
    snprintf(heard->engine, sizeof(heard->engine), "%s", engine);
    heard->bytes = heard->model->loading_bytes;
    cr_assert_eq(prlimit(child(), RLIMIT_DATA, NULL, &most), 0);
    heard->limit_bytes = most.rlim_cur;
}

static status_t try_early(rig_t *rig, heard_t *heard)
{
    const trial_early_t early = {.passed = hear_passed, .arg = heard};

    *heard = (heard_t){.model = rig->model};
    return trial_of(rig->trials, rig->model, &rig->options, &early, &rig->err);
}

Test(trial, the_first_engine_that_passed_is_told_while_others_are_tried)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    cr_assert_eq(try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_eq(heard.times, 1);
    cr_expect_str_eq(heard.engine, "onnxruntime");
    cr_expect_gt(heard.bytes, 0);
    rig_end(&rig);
}

Test(trial, of_one_engine_nobody_hears_before_the_end)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "onednn");
    cr_assert_eq(try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
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
    cr_expect_eq(try_early(&rig, heard), STATUS_OK, "%s", rig.err.text);
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

/* It knows of the others what it was told when it was loaded. */
Test(trial, a_model_that_was_loaded_meanwhile_does_not_go_on_an_engine_that_crashed_then)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_PASSED, .engine = "onnxruntime"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onednn"}};
    char first[PATH_MAX];
    rig_t rig;

    rig_start(&rig, a_player(answers, 3, "rm $0.first || exec " LOADER, "kill -SEGV $$"), 60 * NS_PER_S,
              "auto");
    snprintf(first, sizeof(first), "%s.first", program);
    fclose(fopen(first, "w"));
    cr_assert_eq(model_place(rig.model, &rig.options, &rig.err), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->without, "onednn");
    const engine_choice_t *choice = rig.devices.ops->choice;
    engine_model_t *on = rig.model->on_device[0];
    cr_expect_str_eq(choice->name(on, choice->used(on)), "onnxruntime");
    for (uint32_t i = 0; i < choice->count(on); i++)
        if (strcmp(choice->name(on, i), "onednn") == 0)
            cr_expect_eq(choice->use(on, i, &rig.err), STATUS_UNSUPPORTED);
    cr_expect(says(&rig, "did not stand loading"), "%s", rig.err.text);
    rig_end(&rig);
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
