/* Which of the loader's threads does what, on an engine that lets a load end when the test says so. */
#include "worker/models/loader.h"

#include "base/log.h"
#include "until.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MODELS = 3, MAX_BATCH = 4 };

static const engine_tensor_t tensors[] = {
    {.name = "x", .dtype = DTYPE_F32, .rank = 1, .dims = {1}, .row_bytes = 4},
    {.name = "y", .dtype = DTYPE_F32, .rank = 1, .dims = {1}, .row_bytes = 4}};
static const engine_model_info_t info = {.inputs = &tensors[0],
                                         .outputs = &tensors[1],
                                         .input_count = 1,
                                         .output_count = 1,
                                         .batchable = true,
                                         .max_batch = MAX_BATCH,
                                         .memory_bytes = 1000};
static _Atomic(int) inside, ended, may_end, runs, runs_of_others, runs_before_second;
static _Atomic(pthread_t) measurer;

static status_t slow_load(engine_t *engine, const engine_load_t *what, engine_model_t **model, err_t *err)
{
    static char loaded;

    (void)engine, (void)what, (void)err;
    if (atomic_load(&ended) == 1)
        atomic_store(&runs_before_second, atomic_load(&runs));
    atomic_fetch_add(&inside, 1);
    while (!atomic_load(&may_end))
        sched_yield();
    atomic_fetch_sub(&inside, 1);
    atomic_fetch_add(&ended, 1);
    *model = (engine_model_t *)&loaded;
    return STATUS_OK;
}

static void no_unload(engine_model_t *model)
{
    (void)model;
}

static const engine_model_info_t *get_info(const engine_model_t *model)
{
    (void)model;
    return &info;
}

static status_t no_prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    (void)model, (void)batch, (void)err;
    return STATUS_OK;
}

/* Whoever measures waits for the job, so that its thread is this one. */
static void note_submit(engine_t *engine, engine_job_t *job)
{
    pthread_t nobody = 0;

    (void)engine;
    if (!atomic_compare_exchange_strong(&measurer, &nobody, pthread_self()) &&
        !pthread_equal(nobody, pthread_self()))
        atomic_fetch_add(&runs_of_others, 1);
    atomic_fetch_add(&runs, 1);
    job->started_ns = clock_now_ns();
    job->finished_ns = job->started_ns + NS_PER_MS * job->batch;
    job->done(job, STATUS_OK, NULL);
}

static void *get_memory(engine_t *engine, size_t len_bytes)
{
    (void)engine;
    return malloc(len_bytes);
}

static void give_memory(engine_t *engine, void *buffer)
{
    (void)engine;
    free(buffer);
}

static const engine_ops_t ops = {.name = "slow",
                                 .load = slow_load,
                                 .unload = no_unload,
                                 .info = get_info,
                                 .prepare = no_prepare,
                                 .submit = note_submit,
                                 .buffer_alloc = get_memory,
                                 .buffer_free = give_memory};

typedef struct {
    loop_t *loop;
    loader_t *loader;
    model_device_t device;
    model_devices_t devices;
    repository_source_t source;
    model_t *models[MODELS];
    int loaded, failed, unloaded;
} rig_t;

static void on_loaded(void *ctx, model_t *model, int64_t took_ns)
{
    rig_t *rig = ctx;

    cr_assert_geq(took_ns, 0);
    rig->loaded++;
    rig->failed += model->load_status != STATUS_OK;
}

static void on_unloaded(void *ctx, model_t *model)
{
    (void)model;
    ((rig_t *)ctx)->unloaded++;
}

static void rig_start(rig_t *rig, uint32_t beside)
{
    static const loader_ops_t loader_ops = {.loaded = on_loaded, .unloaded = on_unloaded};
    const model_load_options_t options = {.devices = &rig->devices, .profile_budget_ns = NS_PER_S};

    *rig = (rig_t){.devices = {.ops = &ops, .kind = "cpu", .device_class = "cpu", .count = 1, .streams = 1}};
    rig->devices.list = &rig->device;
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(loop_create(&rig->loop, NULL), STATUS_OK);
    cr_assert_eq(
        loader_create(rig->loop, &rig->source, &options, beside, &loader_ops, rig, &rig->loader, NULL),
        STATUS_OK);
    for (int i = 0; i < MODELS; i++) {
        model_t **model = &rig->models[i];
        cr_assert_eq(model_create("digits", i + 1, "", model, NULL), STATUS_OK);
        snprintf((*model)->file, sizeof((*model)->file), "examples/models/digits/1/model.onnx");
        (*model)->config.max_batch = MAX_BATCH;
        cr_assert_eq(loader_load(rig->loader, *model), STATUS_OK);
    }
}

static void rig_end(rig_t *rig)
{
    loader_destroy(rig->loader);
    for (int i = 0; i < MODELS; i++)
        model_destroy(rig->models[i], &rig->devices);
    loop_destroy(rig->loop);
}

Test(loader, loads_are_side_by_side_on_free_cpus_and_one_at_a_time_is_measured)
{
    rig_t rig;

    rig_start(&rig, 2);
    loop_until(rig.loop, atomic_load(&inside) == 2);
    cr_assert_eq(rig.loaded, 0);
    atomic_store(&may_end, 1);
    loop_until(rig.loop, rig.loaded == MODELS);
    cr_assert_eq(rig.failed, 0, "%s", rig.models[0]->load_err.text);
    cr_assert_gt(atomic_load(&runs), 0);
    cr_assert_eq(atomic_load(&runs_of_others), 0);
    cr_assert_gt(rig.models[2]->slo_ns, 0, "it was made ready");
    rig_end(&rig);
}

Test(loader, without_free_cpus_one_thread_does_all)
{
    rig_t rig;

    rig_start(&rig, 0);
    loop_until(rig.loop, atomic_load(&inside) == 1);
    atomic_store(&may_end, 1);
    loop_until(rig.loop, rig.loaded == MODELS);
    cr_assert_eq(rig.failed, 0, "%s", rig.models[0]->load_err.text);
    cr_assert_gt(atomic_load(&runs_before_second), 0, "one is ready before the next is loaded");
    rig_end(&rig);
}

Test(loader, something_else_goes_on_beside_loads)
{
    rig_t rig;

    rig_start(&rig, 1);
    loop_until(rig.loop, atomic_load(&inside) == 1);
    cr_assert_eq(loader_unload(rig.loader, rig.models[2]), STATUS_OK);
    loop_until(rig.loop, rig.unloaded == 1);
    cr_assert_eq(rig.loaded, 0);
    atomic_store(&may_end, 1);
    loop_until(rig.loop, rig.loaded == MODELS);
    rig_end(&rig);
}

Test(loader, what_is_no_longer_wanted_is_not_made_ready)
{
    rig_t rig;

    rig_start(&rig, 2);
    loop_until(rig.loop, atomic_load(&inside) == 2);
    for (int i = 0; i < MODELS; i++)
        atomic_store(&rig.models[i]->stop, 1);
    atomic_store(&may_end, 1);
    loop_until(rig.loop, rig.loaded == MODELS);
    cr_assert_eq(rig.failed, MODELS);
    cr_assert_eq(atomic_load(&runs), 0);
    cr_assert_eq(atomic_load(&rig.device.used_bytes), 0);
    for (int i = 0; i < MODELS; i++)
        cr_assert_eq(rig.models[i]->load_status, STATUS_CANCELLED);
    rig_end(&rig);
}

Test(loader, its_end_waits_for_loads_under_way_and_drops_the_others)
{
    rig_t rig;

    rig_start(&rig, 2);
    loop_until(rig.loop, atomic_load(&inside) == 2);
    atomic_store(&may_end, 1);
    rig_end(&rig);
    cr_assert_eq(rig.loaded, 0);
    cr_assert_geq(atomic_load(&ended), 2);
    cr_assert_eq(atomic_load(&rig.device.used_bytes), 0);
}
