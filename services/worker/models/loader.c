#include "worker/models/loader.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/workpool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef enum { JOB_PLACE, JOB_READY, JOB_MEASURE, JOB_UNLOAD, JOB_READ, JOB_READ_ALL } job_kind_t;

typedef struct {
    work_t work;
    loader_t *loader;
    job_kind_t kind;
    model_t *model;
    int64_t took_ns; /* JOB_PLACE and JOB_READY together */
    char name[MODEL_NAME_BYTES];
    int64_t version;
    uint64_t user;
    repository_reading_t *readings;
    uint32_t count;
    uint32_t which;    /* JOB_MEASURE */
    bool afresh;       /* likewise */
    profile_t profile; /* of it, if it is measured */
    bool measured;
    err_t err;
} job_t;

struct loader {
    workpool_t *line;    /* one thread */
    workpool_t *placing; /* NULL: the line places, too */
    uint32_t waiting;    /* jobs without an answer */
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

static void load(job_t *job, status_t (*step)(model_t *, const model_load_options_t *, err_t *))
{
    model_load_options_t options = job->loader->options;
    model_t *model = job->model;
    int64_t begin = clock_now_ns();

    options.stop = &model->stop;
    model->load_status = step(model, &options, &model->load_err);
    job->took_ns += clock_now_ns() - begin;
}

static void measure(job_t *job)
{
    model_load_options_t options = job->loader->options;

    options.stop = &job->model->stop;
    options.coarse = options.afresh = job->afresh;
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
    case JOB_PLACE:
        load(job, model_place);
        if (!job->loader->placing && job->model->load_status == STATUS_OK) {
            job->kind = JOB_READY;
            load(job, model_ready);
        }
        break;
    case JOB_READY:
        load(job, model_ready);
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
    case JOB_PLACE:
    case JOB_READY:
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

static void job_end(job_t *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        repository_reading_dispose(&job->readings[i]);
    free(job->readings);
    free(job);
}

/* The queues are as long as all that may wait. */
static status_t job_begin(job_t *job)
{
    loader_t *loader = job->loader;
    workpool_t *pool = job->kind == JOB_PLACE && loader->placing ? loader->placing : loader->line;

    return workpool_submit(pool, &job->work);
}

/* What has been placed beside the line is made ready in its turn. */
static bool job_goes_on(job_t *job)
{
    if (job->kind != JOB_PLACE || job->model->load_status != STATUS_OK)
        return false;
    job->kind = JOB_READY;
    return job_begin(job) == STATUS_OK;
}

static void job_done(work_t *work, bool cancelled)
{
    job_t *job = CONTAINER_OF(work, job_t, work);

    (void)cancelled; /* only by loader_destroy, which is quiet */
    if (!job->loader->quiet) {
        if (job_goes_on(job))
            return;
        job->loader->waiting--;
        job_answer(job);
    }
    job_end(job);
}

static status_t submit(loader_t *loader, const job_t *what)
{
    job_t *job = loader->waiting < LOADER_QUEUE_MAX ? malloc(sizeof(*job)) : NULL;

    if (!job)
        return loader->waiting < LOADER_QUEUE_MAX ? STATUS_NO_MEMORY : STATUS_UNAVAILABLE;
    *job = *what;
    job->loader = loader;
    job->work = (work_t){.run = job_run, .done = job_done};
    status_t status = job_begin(job);
    if (status == STATUS_OK)
        loader->waiting++;
    else
        free(job);
    return status;
}

status_t loader_load(loader_t *loader, model_t *model)
{
    return submit(loader, &(job_t){.kind = JOB_PLACE, .model = model});
}

status_t loader_measure(loader_t *loader, model_t *model, uint32_t which, bool afresh)
{
    return submit(loader, &(job_t){.kind = JOB_MEASURE, .model = model, .which = which, .afresh = afresh});
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

static status_t start_threads(loader_t *loader, loop_t *loop, uint32_t beside, err_t *err)
{
    const workpool_options_t line = {.threads = 1, .capacity = LOADER_QUEUE_MAX};
    const workpool_options_t placing = {.threads = beside < LOADER_BESIDE_MAX ? beside : LOADER_BESIDE_MAX,
                                        .capacity = LOADER_QUEUE_MAX};
    status_t status = workpool_create(&line, loop, &loader->line, err);

    if (status == STATUS_OK && beside > 0)
        status = workpool_create(&placing, loop, &loader->placing, err);
    return status;
}

status_t loader_create(loop_t *loop, const repository_source_t *source, const model_load_options_t *options,
                       uint32_t beside, const loader_ops_t *ops, void *ctx, loader_t **out, err_t *err)
{
    loader_t *loader = calloc(1, sizeof(*loader));

    if (!loader)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    loader->source = source;
    loader->options = *options;
    loader->ops = ops;
    loader->ctx = ctx;
    loader->options.memo = profile_memo_create(); /* without it copies are measured one by one */
    loader->options.beside_cpus = beside;
    status_t status = start_threads(loader, loop, beside, err);
    if (status != STATUS_OK) {
        loader_destroy(loader);
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
    if (loader->placing)
        workpool_destroy(loader->placing);
    if (loader->line)
        workpool_destroy(loader->line);
    profile_memo_destroy(loader->options.memo);
    free(loader);
}
