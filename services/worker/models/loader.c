#include "worker/models/loader.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/workpool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef enum { JOB_LOAD, JOB_MEASURE, JOB_UNLOAD, JOB_READ, JOB_READ_ALL } job_kind_t;

typedef struct {
    work_t work;
    loader_t *loader;
    job_kind_t kind;
    model_t *model;
    int64_t took_ns;
    char name[MODEL_NAME_BYTES];
    int64_t version;
    uint64_t user;
    repository_reading_t *readings;
    uint32_t count;
    uint32_t which;    /* JOB_MEASURE */
    profile_t profile; /* of it, if it is measured */
    bool measured;
    err_t err;
} job_t;

struct loader {
    workpool_t *pool;
    const repository_source_t *source;
    model_load_options_t options;
    const loader_ops_t *ops;
    void *ctx;
    bool quiet; /* being destroyed */
};

/* ---- on the thread ---- */

/* Threads that oneDNN starts from here are as patient. */
static void be_patient(void)
{
    enum { LOWEST = 19 };

    (void)setpriority(PRIO_PROCESS, 0, LOWEST); /* of this thread only, on Linux */
}

static void load(job_t *job)
{
    model_load_options_t options = job->loader->options;
    model_t *model = job->model;
    int64_t begin = clock_now_ns();

    options.stop = &model->stop;
    model->load_status = model_load(model, &options, &model->load_err);
    job->took_ns = clock_now_ns() - begin;
}

static void measure(job_t *job)
{
    model_load_options_t options = job->loader->options;

    options.stop = &job->model->stop;
    options.coarse = false;
    job->measured =
        model_measure_again(job->model, &options, job->which, &job->profile, &job->err) == STATUS_OK;
    if (!job->measured)
        log_info("profile_not_measured", LOG_STR("model", job->model->name), LOG_ERR(&job->err));
}

static void read_one(job_t *job)
{
    job->readings = calloc(1, sizeof(*job->readings));
    if (!job->readings) {
        err_set(&job->err, STATUS_NO_MEMORY, "out of memory");
        return;
    }
    repository_read(job->loader->source, job->name, job->version, job->readings);
    job->count = 1;
}

static void job_run(work_t *work)
{
    job_t *job = CONTAINER_OF(work, job_t, work);

    be_patient();
    switch (job->kind) {
    case JOB_LOAD:
        load(job);
        break;
    case JOB_MEASURE:
        measure(job);
        break;
    case JOB_UNLOAD:
        model_unload(job->model, job->loader->options.devices);
        break;
    case JOB_READ:
        read_one(job);
        break;
    case JOB_READ_ALL:
        repository_read_all(job->loader->source, &job->readings, &job->count, &job->err);
        break;
    }
}

/* ---- on the loop ---- */

static void answer_read(job_t *job)
{
    loader_t *loader = job->loader;
    repository_reading_t nothing = {.status = job->err.code, .err = job->err};

    if (job->kind == JOB_READ_ALL)
        loader->ops->read_all(loader->ctx, job->readings, job->count, &job->err);
    else
        loader->ops->read(loader->ctx, job->count ? job->readings : &nothing, job->user);
}

static void job_answer(job_t *job)
{
    loader_t *loader = job->loader;

    switch (job->kind) {
    case JOB_LOAD:
        loader->ops->loaded(loader->ctx, job->model, job->took_ns);
        break;
    case JOB_MEASURE:
        loader->ops->measured(loader->ctx, job->model, job->which, job->measured ? &job->profile : NULL);
        break;
    case JOB_UNLOAD:
        loader->ops->unloaded(loader->ctx, job->model);
        break;
    case JOB_READ:
    case JOB_READ_ALL:
        answer_read(job);
        break;
    }
}

static void job_done(work_t *work, bool cancelled)
{
    job_t *job = CONTAINER_OF(work, job_t, work);

    (void)cancelled; /* only by loader_destroy, which is quiet */
    if (!job->loader->quiet)
        job_answer(job);
    for (uint32_t i = 0; i < job->count; i++)
        repository_reading_dispose(&job->readings[i]);
    free(job->readings);
    free(job);
}

static status_t submit(loader_t *loader, const job_t *what)
{
    job_t *job = malloc(sizeof(*job));

    if (!job)
        return STATUS_NO_MEMORY;
    *job = *what;
    job->loader = loader;
    job->work = (work_t){.run = job_run, .done = job_done};
    status_t status = workpool_submit(loader->pool, &job->work);
    if (status != STATUS_OK)
        free(job);
    return status;
}

status_t loader_load(loader_t *loader, model_t *model)
{
    return submit(loader, &(job_t){.kind = JOB_LOAD, .model = model});
}

status_t loader_measure(loader_t *loader, model_t *model, uint32_t which)
{
    return submit(loader, &(job_t){.kind = JOB_MEASURE, .model = model, .which = which});
}

status_t loader_unload(loader_t *loader, model_t *model)
{
    return submit(loader, &(job_t){.kind = JOB_UNLOAD, .model = model});
}

status_t loader_read(loader_t *loader, const char *name, int64_t version, uint64_t user)
{
    job_t job = {.kind = JOB_READ, .version = version, .user = user};

    snprintf(job.name, sizeof(job.name), "%s", name);
    return submit(loader, &job);
}

status_t loader_read_all(loader_t *loader)
{
    return submit(loader, &(job_t){.kind = JOB_READ_ALL});
}

status_t loader_create(loop_t *loop, const repository_source_t *source, const model_load_options_t *options,
                       const loader_ops_t *ops, void *ctx, loader_t **out, err_t *err)
{
    loader_t *loader = calloc(1, sizeof(*loader));

    if (!loader)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    loader->source = source;
    loader->options = *options;
    loader->ops = ops;
    loader->ctx = ctx;
    loader->options.memo = profile_memo_create(); /* without it copies are measured one by one */
    status_t status = workpool_create(&loader->pool, loop, 1, LOADER_QUEUE_MAX, err);
    if (status != STATUS_OK) {
        profile_memo_destroy(loader->options.memo);
        free(loader);
        return status;
    }
    *out = loader;
    return STATUS_OK;
}

void loader_destroy(loader_t *loader)
{
    if (!loader)
        return;
    loader->quiet = true;
    workpool_destroy(loader->pool);
    profile_memo_destroy(loader->options.memo);
    free(loader);
}
