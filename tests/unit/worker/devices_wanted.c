/* What a worker's devices get when it starts: from configs, and from profiles that lie beside the models. */
#include "worker/models/devices_wanted.h"
#include "model/measure/kept_profile.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[] = "/tmp/fermata-wanted-XXXXXX";
static const engine_ops_t some_engine = {.name = "some"};
static model_devices_t devices = {.ops = &some_engine, .identity = "some; this one"};

static void shell(const char *command)
{
    char text[600];

    snprintf(text, sizeof(text), "R=%s; %s", root, command);
    cr_assert_eq(system(text), 0, "%s", text);
}

static void setup(void)
{
    cr_assert_not_null(mkdtemp(root));
    shell("mkdir -p $R/m/1 && echo weights > $R/m/1/model.onnx");
}

static void teardown(void)
{
    shell("rm -r $R");
}

TestSuite(wanted, .init = setup, .fini = teardown);

static void configure(const char *text)
{
    char command[300];

    snprintf(command, sizeof(command), "echo '%s' > $R/m/config.yaml", text);
    shell(command);
}

/* "staged", "overlap" and "scheduled", as far as they are. */
static const char *wanted_in(model_mode_t mode)
{
    static char text[64];
    repository_source_t source;
    served_t served = {0};
    err_t err;

    cr_assert_eq(repository_source_open(&source, root, NULL, 1, 1, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(served_fill(&served, &source, &err), STATUS_OK, "%s", err.text);
    devices_wanted_t wanted = wanted_by_configs(&served, mode);
    wanted_by_profiles(&wanted, &served, mode, &devices);
    snprintf(text, sizeof(text), "%s%s%s", wanted.staged ? "staged " : "", wanted.overlap ? "overlap " : "",
             wanted.scheduled ? "scheduled" : "");
    served_dispose(&served, NULL);
    repository_source_close(&source);
    return text;
}

/* What is kept for batches of up to 4, in the file of that name. */
static void keep(const char *file, const char *schedule)
{
    char path[KEPT_PROFILE_PATH_BYTES], hash[PROFILE_CACHE_TEXT_BYTES], dir[300];
    profile_modes_t modes = {.stages = {3}, .stage_count = 1};
    profile_t profile;
    model_t *model;
    err_t err;

    snprintf(dir, sizeof(dir), "%s/m", root);
    cr_assert_eq(repository_open_model(dir, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(model_hash(model, hash, &err), STATUS_OK);
    snprintf(path, sizeof(path), "%s/1/%s", dir, file);
    snprintf(modes.schedule, sizeof(modes.schedule), "%s", schedule);
    cr_assert_eq(profile_from_line(&profile, 1000, 1000, 4, &err), STATUS_OK);
    cr_assert_eq(kept_profile_write(&devices, path, hash, &profile, &modes, &err), STATUS_OK, "%s", err.text);
    model_destroy(model, NULL);
}

Test(wanted, configs_say_what_they_name)
{
    cr_expect_str_eq(wanted_in(MODE_WHOLE), "");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ");
    cr_expect_str_eq(wanted_in(MODE_OVERLAP), "overlap ");
    configure("staged: {schedule: input}");
    cr_expect_str_eq(wanted_in(MODE_WHOLE), "");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged scheduled");
    configure("mode: staged");
    cr_expect_str_eq(wanted_in(MODE_WHOLE), "staged ");
}

Test(wanted, what_was_found_counts_where_a_config_leaves_it_open)
{
    const char *settled[] = {"staged: {schedule: granted}", "staged: {stages: 2}", "mode: preempt"};

    configure("max_batch: 4");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ");
    keep("profile.some.txt", "combined");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged scheduled");
    cr_expect_str_eq(wanted_in(MODE_WHOLE), "");
    for (size_t i = 0; i < sizeof(settled) / sizeof(settled[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{max_batch: 4, %s}", settled[i]);
        configure(text);
        cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "%s", settled[i]);
    }
}

Test(wanted, a_profile_that_would_not_be_taken_up_does_not_count)
{
    configure("max_batch: 4");
    keep("profile.some.txt", "");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "one from before schedules were kept");
    keep("profile.some.txt", "mine");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "there is no such schedule");
    keep("profile.some.txt", "input");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged scheduled");

    configure("max_batch: 8");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "of other batches");
    configure("max_batch: 4");
    strcpy(devices.identity, "some; that one");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "of another device");
    strcpy(devices.identity, "some; this one");
    devices.emulated = true;
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "an emulated device has none");
    devices.emulated = false;
    shell("echo others > $R/m/1/model.onnx");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ", "of another file");
}

Test(wanted, of_a_model_with_axes_each_of_its_profiles_counts)
{
    configure("max_batch: 4");
    keep("profile.some.8.txt", "");
    keep("profile.something.40.txt", "input");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged ");
    keep("profile.some.40.txt", "input");
    cr_expect_str_eq(wanted_in(MODE_STAGED), "staged scheduled");
}

Test(wanted, devices_are_told_of_by_what_is_wanted)
{
    struct {
        devices_wanted_t wanted;
        bool has_plan, stretches;
        uint32_t slots, inflight;
    } cases[] = {
        {{0}, true, false, 0, 0},
        {{.staged = true}, true, true, 0, STAGES_INFLIGHT},
        {{.staged = true, .scheduled = true}, false, true, STAGES_SLOTS, STAGES_INFLIGHT},
        {{.overlap = true}, false, false, 0, 0},
        {{.overlap = true}, true, false, SEGMENTS_SLOTS, SEGMENTS_SLOTS},
        {{.overlap = true, .staged = true, .scheduled = true}, true, true, SEGMENTS_SLOTS, STAGES_INFLIGHT},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        model_devices_t told = {0};
        wanted_tell(&cases[i].wanted, cases[i].has_plan, &told);
        cr_expect_eq(told.stretches, cases[i].stretches, "%zu", i);
        cr_expect_eq(told.slots, cases[i].slots, "%zu", i);
        cr_expect_eq(told.inflight, cases[i].inflight, "%zu", i);
        cr_expect_eq(told.ahead > 0, told.slots > 0, "%zu", i);
    }
}

Test(wanted, streams_are_no_more_than_a_cpu_has_cores_for)
{
    const devices_wanted_t none = {0}, staged = {.staged = true}, overlap = {.overlap = true};
    const overlap_plan_t plan = {.predictor = {.models = 3}};
    const cpus_t cpus = {.usable = 4};

    cr_expect_eq(wanted_streams(&none, &plan, NULL, 1, 1), 1);
    cr_expect_eq(wanted_streams(&staged, NULL, NULL, 1, 2 * cpus.usable), STAGES_STREAMS);
    cr_expect_eq(wanted_streams(&staged, NULL, &cpus, 1, cpus.usable), 1);
    cr_expect_eq(wanted_streams(&staged, NULL, &cpus, 1, cpus.usable / STAGES_STREAMS), STAGES_STREAMS);
    cr_expect_eq(wanted_streams(&overlap, &plan, &cpus, 1, cpus.usable), 3);
    cr_expect_eq(wanted_streams(&overlap, NULL, NULL, 1, 1), 1);
}
