/* Loading and unloading while others serve, on the emulated engine, told as the events that the scheduler
 * would hear. */
#include "worker/models/lifecycle.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/until.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char root[64];
    model_devices_t devices;
    metrics_t *metrics;
    loop_t *loop;
    repository_source_t source;
    served_t served;
    lifecycle_t *lifecycle;
    char events[4096]; /* "2 loading, 2 ready, …" and "[7 ok]" for the answer to command 7 */
} rig_t;

static void note(rig_t *rig, const char *text)
{
    size_t len = strlen(rig->events);

    snprintf(rig->events + len, sizeof(rig->events) - len, "%s%s", len ? ", " : "", text);
}

static void on_changed(void *ctx, const model_t *model, const model_t *old)
{
    char text[128];

    (void)old;
    snprintf(text, sizeof(text), "%lld %s", (long long)model->version,
             model_state_name(model->serving->state));
    note(ctx, text);
}

static void on_gone(void *ctx, const model_t *model)
{
    char text[64];

    snprintf(text, sizeof(text), "%lld gone", (long long)model->version);
    note(ctx, text);
}

static void on_answer(void *ctx, uint64_t command, status_t status, const char *reason)
{
    char text[700];

    snprintf(text, sizeof(text), "[%llu %s%s%s]", (unsigned long long)command,
             status == STATUS_OK ? "ok" : status_name(status), reason[0] ? ": " : "", reason);
    note(ctx, text);
}

static void shell(const rig_t *rig, const char *command)
{
    char text[600];

    snprintf(text, sizeof(text), "R=%s; D=examples/models/digits/1/model.onnx; %s", rig->root, command);
    cr_assert_eq(system(text), 0, "%s", text);
}

static const char *const digits[] = {"digits"};
static int64_t profile_budget_ns = 1;
static bool is_patient; /* whom a minute is soon enough */

static void rig_start_on(rig_t *rig, const char *engine, model_control_t control)
{
    static const lifecycle_ops_t ops = {.changed = on_changed, .gone = on_gone, .answer = on_answer};
    err_t err;

    memset(rig, 0, sizeof(*rig));
    strcpy(rig->root, "/tmp/fermata-lifecycle-XXXXXX");
    cr_assert_not_null(mkdtemp(rig->root));
    shell(rig, "mkdir -p $R/digits/1 && cp $D $R/digits/1/ && echo 'emulate: {alpha_ms: 1, beta_ms: 1}' > "
               "$R/digits/config.yaml");
    if (is_patient)
        shell(rig, "echo 'slo_ms: 60000' >> $R/digits/config.yaml");
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    rig->metrics = metrics_create("worker", NULL);
    cr_assert_eq(
        model_devices_open(&rig->devices, engine, 1, &(engine_config_t){0}, false, rig->metrics, &err),
        STATUS_OK);
    cr_assert_eq(loop_create(&rig->loop, NULL), STATUS_OK);
    cr_assert_eq(repository_source_open(&rig->source, rig->root, NULL, 1, 1, NULL), STATUS_OK);
    cr_assert_eq(served_fill(&rig->served, &rig->source, &err), STATUS_OK, "%s", err.text);
    lifecycle_options_t options = {.loop = rig->loop,
                                   .served = &rig->served,
                                   .source = &rig->source,
                                   .metrics = rig->metrics,
                                   .load = {.devices = &rig->devices, .profile_budget_ns = profile_budget_ns},
                                   .control = control,
                                   .at_start = digits,
                                   .at_start_count = control == MODEL_CONTROL_EXPLICIT,
                                   .poll_interval_ns = 5 * NS_PER_MS,
                                   .ops = &ops,
                                   .ctx = rig};
    cr_assert_eq(lifecycle_create(&options, &rig->lifecycle, &err), STATUS_OK, "%s", err.text);
    lifecycle_online(rig->lifecycle, true);
}

static void rig_start(rig_t *rig, model_control_t control)
{
    rig_start_on(rig, "emulated", control);
}

static void rig_end(rig_t *rig)
{
    lifecycle_destroy(rig->lifecycle);
    served_dispose(&rig->served, &rig->devices);
    model_devices_close(&rig->devices);
    loop_destroy(rig->loop);
    metrics_destroy(rig->metrics);
    shell(rig, "rm -r $R");
}

/* Turns the loop until the events are these, and takes them away. */
static void expect(rig_t *rig, const char *events)
{
    int64_t until_ns = clock_now_ns() + HANG_NS;

    while (strlen(rig->events) < strlen(events) && clock_now_ns() < until_ns)
        loop_run_once(rig->loop, NS_PER_MS);
    cr_assert_str_eq(rig->events, events);
    rig->events[0] = '\0';
}

static void tell(rig_t *rig, uint64_t id, bool unload, const char *name, int64_t version)
{
    lifecycle_command(rig->lifecycle,
                      &(lifecycle_command_t){.id = id, .name = name, .version = version, .unload = unload});
}

static model_t *version(const rig_t *rig, int64_t number)
{
    return served_find_version(&rig->served, "digits", number);
}

Test(lifecycle, a_new_version_is_loaded_beside_the_old_one_which_then_drains)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    expect(&rig, "1 ready");
    version(&rig, 1)->serving->under_way = 2;
    shell(&rig, "cp -r $R/digits/1 $R/digits/2");
    tell(&rig, 7, false, "digits", 0);
    expect(&rig, "2 loading, 2 ready, 1 unloading, [7 ok]");
    cr_assert(serving_takes_grants(version(&rig, 1)), "until the scheduler says that there is nothing left");
    lifecycle_release(rig.lifecycle, "digits", 1);
    cr_assert_not(serving_takes_grants(version(&rig, 1)));
    cr_assert_not_null(version(&rig, 1)->info, "its batches are still under way");
    version(&rig, 1)->serving->under_way = 0;
    lifecycle_idle(rig.lifecycle, version(&rig, 1));
    expect(&rig, "1 unloaded");
    cr_assert_null(version(&rig, 1)->info);
    rig_end(&rig);
}

Test(lifecycle, loading_and_unloading_twice_is_loading_and_unloading)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    expect(&rig, "1 ready");
    tell(&rig, 1, false, "digits", 0);
    expect(&rig, "[1 ok]");
    tell(&rig, 2, true, "digits", 0);
    tell(&rig, 3, true, "digits", 1);
    expect(&rig, "1 unloading");
    lifecycle_release(rig.lifecycle, "digits", 1);
    expect(&rig, "1 unloaded, [2 ok], [3 ok]");
    tell(&rig, 4, true, "digits", 0);
    expect(&rig, "[4 ok]");
    tell(&rig, 5, false, "digits", 1);
    tell(&rig, 6, false, "digits", 1);
    expect(&rig, "1 loading, 1 ready, [5 ok], [6 ok]");
    rig_end(&rig);
}

Test(lifecycle, what_is_not_there_is_named)
{
    rig_t rig;
    char long_name[300];

    memset(long_name, 'x', sizeof(long_name));
    long_name[299] = '\0';
    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    expect(&rig, "1 ready");
    tell(&rig, 1, true, "nobody", 0);
    expect(&rig, "[1 not_found: there is no model 'nobody']");
    tell(&rig, 2, true, "digits", 9);
    expect(&rig, "[2 not_found: model 'digits' has no version 9]");
    tell(&rig, 3, false, "nobody", 0);
    expect(&rig, "[3 not_found: there is no model 'nobody' in the repository]");
    tell(&rig, 4, false, "digits", 9);
    expect(&rig, "[4 not_found: version 9 is not there]");
    tell(&rig, 5, false, long_name, 0);
    expect(&rig, "[5 not_found: no model has so long a name]");
    tell(&rig, 6, false, "../digits", 0);
    expect(&rig, "[6 invalid_argument: a model's name is letters, digits, '.', '_' and '-']");
    rig_end(&rig);
}

Test(lifecycle, a_broken_version_leaves_the_one_that_serves)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    expect(&rig, "1 ready");
    shell(&rig, "mkdir $R/digits/2 && echo junk > $R/digits/2/model.onnx");
    tell(&rig, 1, false, "digits", 0);
    while (!strchr(rig.events, '['))
        loop_run_once(rig.loop, NS_PER_MS);
    cr_assert_eq(strncmp(rig.events, "2 loading, 2 failed, [1 ", 24), 0, "%s", rig.events);
    cr_assert_eq(version(&rig, 1)->serving->state, MODEL_READY);
    rig.events[0] = '\0';
    shell(&rig, "cp $D $R/digits/2/");
    tell(&rig, 2, false, "digits", 0);
    expect(&rig, "2 loading, 2 ready, 1 unloading, [2 ok]");
    shell(&rig, "echo 'slo_ms: soon' > $R/digits/config.yaml");
    tell(&rig, 3, false, "digits", 0);
    while (!strchr(rig.events, '['))
        loop_run_once(rig.loop, NS_PER_MS);
    cr_assert_not_null(strstr(rig.events, "config.yaml:1:"), "%s", rig.events);
    cr_assert_eq(version(&rig, 2)->serving->state, MODEL_READY);
    rig_end(&rig);
}

Test(lifecycle, a_changed_config_is_taken_up_between_two_batches)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    expect(&rig, "1 ready");
    model_t *old = version(&rig, 1);
    old->serving->under_way = 1;
    shell(&rig, "echo 'slo_ms: 77' >> $R/digits/config.yaml");
    tell(&rig, 1, false, "digits", 0);
    expect(&rig, "1 ready, [1 ok]");
    cr_assert_neq(version(&rig, 1), old);
    cr_assert_eq(version(&rig, 1)->slo_ns, 77 * NS_PER_MS);
    cr_assert_not_null(old->info, "its last batch is under way");
    old->serving->under_way = 0;
    lifecycle_idle(rig.lifecycle, old);
    while (rig.served.retired)
        loop_run_once(rig.loop, NS_PER_MS);
    rig_end(&rig);
}

Test(lifecycle, unloading_what_loads_and_loading_what_unloads)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    tell(&rig, 1, true, "digits", 0); /* still loading */
    expect(&rig, "1 unloaded, [1 ok]");
    tell(&rig, 2, false, "digits", 0);
    expect(&rig, "1 loading, 1 ready, [2 ok]");
    tell(&rig, 3, true, "digits", 0);
    tell(&rig, 4, false, "digits", 0); /* nothing is lost yet */
    expect(&rig, "1 unloading, 1 ready, [3 cancelled: it was loaded again], [4 ok]");
    version(&rig, 1)->serving->under_way = 1;
    tell(&rig, 5, true, "digits", 0);
    lifecycle_release(rig.lifecycle, "digits", 1);
    model_t *old = version(&rig, 1);
    tell(&rig, 6, false, "digits", 0); /* too late: it is loaded anew while the old one drains */
    expect(&rig, "1 unloading, 1 ready, [6 ok]");
    cr_assert_neq(version(&rig, 1), old);
    old->serving->under_way = 0;
    lifecycle_idle(rig.lifecycle, old);
    expect(&rig, "[5 ok]");
    rig_end(&rig);
}

Test(lifecycle, unloading_twice_what_loads_is_unloading)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    tell(&rig, 1, true, "digits", 0); /* still loading */
    tell(&rig, 2, true, "digits", 0);
    expect(&rig, "1 unloaded, [1 ok], [2 ok]");
    rig_end(&rig);
}

Test(lifecycle, without_a_scheduler_nothing_is_waited_for)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_EXPLICIT);
    expect(&rig, "1 ready");
    tell(&rig, 1, true, "digits", 0);
    expect(&rig, "1 unloading");
    lifecycle_online(rig.lifecycle, false);
    expect(&rig, "1 unloaded");
    rig_end(&rig);
}

Test(lifecycle, only_the_explicit_mode_takes_orders_from_clients)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_NONE);
    expect(&rig, "1 ready");
    tell(&rig, 1, true, "digits", 0);
    expect(&rig, "[1 unsupported: this worker loads its models at start only (--model-control none)]");
    lifecycle_command(rig.lifecycle,
                      &(lifecycle_command_t){.id = 2, .name = "digits", .unload = true, .planned = true});
    expect(&rig, "1 unloading");
    lifecycle_release(rig.lifecycle, "digits", 1);
    expect(&rig, "1 unloaded, [2 ok]");
    rig_end(&rig);
}

Test(lifecycle, polling_finds_what_is_new_what_has_changed_and_what_is_gone)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_POLL);
    expect(&rig, "1 ready");
    shell(&rig, "cp -r $R/digits/1 $R/.new && mv $R/.new $R/digits/2");
    expect(&rig, "2 loading, 2 ready, 1 unloading");
    lifecycle_release(rig.lifecycle, "digits", 1);
    expect(&rig, "1 unloaded");
    shell(&rig, "echo 'slo_ms: 55' >> $R/digits/config.yaml");
    expect(&rig, "2 ready");
    cr_assert_eq(version(&rig, 2)->slo_ns, 55 * NS_PER_MS);
    shell(&rig, "mv $R/digits $R/.away");
    while (rig.served.count > 1)
        loop_run_once(rig.loop, NS_PER_MS);
    lifecycle_release(rig.lifecycle, "digits", 2);
    while (rig.served.count > 0)
        loop_run_once(rig.loop, NS_PER_MS);
    cr_assert_not_null(strstr(rig.events, "1 gone"));
    cr_assert_not_null(strstr(rig.events, "2 unloading"));
    cr_assert_not_null(strstr(rig.events, "2 gone"));
    rig_end(&rig);
}

/* ---- measuring while it serves ---- */

/* "text" is loaded while batches of "digits" are granted all the time, which may not wait as long as one row takes. */
static model_t *load_beside_traffic(rig_t *rig, const char *make)
{
    rig_start_on(rig, "reference", MODEL_CONTROL_EXPLICIT);
    expect(rig, "1 ready");
    rig->served.models[0]->slo_ns = 1;
    atomic_store(&rig->devices.list[0].granted_ns, clock_now_ns() + 1000 * NS_PER_S);
    shell(rig, "mkdir -p $R/text/1");
    shell(rig, make);
    lifecycle_command(rig->lifecycle, &(lifecycle_command_t){.id = 1, .name = "text"});
    expect(rig, "1 loading, 1 ready, [1 ok]");
    model_t *model = served_find(&rig->served, "text");
    cr_assert_eq(model_measured(model, 0)->points, 1);
    return model;
}

/* Digits with a word more in its file, which makes it another model; and y = max(x, 0) of some words. */
#define MAKE_DIGITS "cp $D $R/text/1/ && printf '\\062\\001x' >> $R/text/1/model.onnx"
#define MAKE_WORDS                                                                                           \
    "printf '\\010\\010B\\002\\020\\021\\072G\\012\\014\\012\\001x\\022\\001y\\042\\004Relu\\022\\001g' > "  \
    "$R/text/1/model.onnx;"                                                                                  \
    "printf "                                                                                                \
    "'Z\\031\\012\\001x\\022\\024\\012\\022\\010\\001\\022\\016\\012\\003\\022\\001N\\012\\007\\022\\005wor" \
    "ds' >> "                                                                                                \
    "$R/text/1/model.onnx;"                                                                                  \
    "printf "                                                                                                \
    "'b\\031\\012\\001y\\022\\024\\012\\022\\010\\001\\022\\016\\012\\003\\022\\001N\\012\\007\\022\\005wor" \
    "ds' >> "                                                                                                \
    "$R/text/1/model.onnx;"                                                                                  \
    "echo 'profile_shapes: [{words: 40}]' > $R/text/config.yaml"

Test(measuring, is_made_up_for_when_the_others_are_quiet)
{
    rig_t rig;
    model_t *model = load_beside_traffic(&rig, MAKE_DIGITS);
    int64_t slo_ns = model->slo_ns;

    atomic_store(&rig.devices.list[0].granted_ns, 0);
    expect(&rig, "1 ready");
    cr_expect_geq(model->measured.points, 2);
    cr_expect_geq(profile_latency_ns(&model->profile, 1), profile_latency_ns(&model->measured, 1) / 2);
    cr_expect_not(model->serving->measuring);
    cr_expect_eq(model->slo_ns, slo_ns);
    rig_end(&rig);
}

Test(measuring, is_made_up_for_at_each_shape_too)
{
    rig_t rig;
    model_t *model = load_beside_traffic(&rig, MAKE_WORDS);

    cr_assert_eq(model_profiles(model), 1);
    atomic_store(&rig.devices.list[0].granted_ns, 0);
    expect(&rig, "1 ready");
    cr_expect_geq(model_measured(model, 0)->points, 2);
    cr_expect_geq(model->profile.points, 2, "which stands for all");
    cr_expect_eq(model->shapes->family.members[0].profile.points, model_measured(model, 0)->points);
    rig_end(&rig);
}

static void turn_until_measured_again(rig_t *rig, const model_t *model)
{
    loop_until(rig->loop, model->serving->again[0].next_ns != 0);
    cr_assert_gt(model->serving->again[0].next_ns, 0);
}

/* On a machine with other work what comes of it may be in more doubt than what it has, which then stays. */
Test(measuring, sizes_that_a_load_leaves_out_follow_when_the_model_serves)
{
    rig_t rig;

    profile_budget_ns = 1000 * NS_PER_S;
    is_patient = true;
    rig_start_on(&rig, "reference", MODEL_CONTROL_NONE);
    expect(&rig, "1 ready");
    model_t *model = rig.served.models[0];
    model->measured.noise = 0;
    model->measured.spread = 1; /* no doubt, whatever else the machine does */
    cr_expect_eq(model->measured.points, 4, "1, 4, 16 and 32");
    cr_expect_eq(model->measured.table_len, 32);
    turn_until_measured_again(&rig, model);
    /* Up to ten: sizes between powers of two are left out where they take next to nothing. */
    cr_expect(model->serving->again[0].all_sizes ? model->measured.points >= 6
                                                 : model->serving->again[0].tries == 1);
    cr_expect_eq(model->measured.table_len, 32);
    rig_end(&rig);
}

/* It was measured, and seemed to be, a hundred times as slow as it is. */
Test(measuring, what_is_in_doubt_is_measured_again)
{
    rig_t rig;

    rig_start_on(&rig, "reference", MODEL_CONTROL_NONE);
    expect(&rig, "1 ready");
    model_t *model = rig.served.models[0];
    cr_assert_not(model->serving->measuring, "that takes a while");
    model->measured.noise = 0.99;
    model->serving->again[0].all_sizes = true;
    expect(&rig, "1 ready");
    cr_expect_lt(profile_doubt(&model->measured), 100);
    cr_expect_eq(model->profile.noise, model->measured.noise);
    rig_end(&rig);
}

/* By its profile a row takes an hour: in no doubt, and far from what others report, so the scheduler asks for it. */
Test(measuring, what_the_scheduler_does_not_believe_is_measured_as_if_there_were_none)
{
    rig_t rig;
    profile_t hour;

    rig_start_on(&rig, "reference", MODEL_CONTROL_NONE);
    expect(&rig, "1 ready");
    model_t *model = rig.served.models[0];
    cr_assert_eq(profile_from_line(&hour, 0, 3600 * NS_PER_S, model->info->max_batch, NULL), STATUS_OK);
    cr_assert_not(model->serving->measuring);
    model_take_profile(model, 0, &hour);
    lifecycle_measure(rig.lifecycle, 7, "digits", 1);
    expect(&rig, "[7 ok], 1 ready");
    cr_expect_lt(profile_latency_ns(&model->profile, 1), 60 * NS_PER_S);
    cr_expect_not(model->serving->again[0].afresh);
    rig_end(&rig);
}

Test(measuring, what_is_not_here_or_was_given_is_not_measured)
{
    rig_t rig;

    rig_start(&rig, MODEL_CONTROL_NONE);
    expect(&rig, "1 ready");
    lifecycle_measure(rig.lifecycle, 7, "digits", 2);
    lifecycle_measure(rig.lifecycle, 8, "digits", 1);
    expect(&rig, "[7 unsupported: it is not served here now], [8 unsupported: how long it takes was given, "
                 "and not measured]");
    rig_end(&rig);
}

/* It is on the devices until the loader has done with it. */
Test(measuring, and_unloading_wait_for_each_other)
{
    rig_t rig;
    model_t *model = load_beside_traffic(&rig, MAKE_DIGITS);
    int64_t until_ns = clock_now_ns() + HANG_NS;

    atomic_store(&rig.devices.list[0].granted_ns, 0);
    while (!model->serving->measuring && clock_now_ns() < until_ns)
        loop_run_once(rig.loop, 0); /* it does not sleep: what has begun has not ended when it returns */
    cr_assert(model->serving->measuring);
    lifecycle_command(rig.lifecycle, &(lifecycle_command_t){.id = 2, .name = "text", .unload = true});
    lifecycle_release(rig.lifecycle, "text", 1);
    cr_assert_not(model->serving->leaving);
    expect(&rig, "1 unloading, 1 unloaded, [2 ok]");
    rig_end(&rig);
}
