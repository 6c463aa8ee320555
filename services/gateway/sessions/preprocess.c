#include "gateway/sessions/preprocess.h"

#include "base/clock.h"
#include "base/container.h"
#include "oip/tensor.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    /* Jobs that wait: at a millisecond a picture and a few threads, more than this is no use within any SLO. */
    QUEUE_CAPACITY = 4096,
    THREADS_MAX = 256,
};

/* One workspace per thread; a job takes any free one, so that threads need no names. */
struct preprocess {
    workpool_t *pool;
    pthread_mutex_t lock; /* of the two below */
    uint32_t free_count;
    image_workspace_t *free[THREADS_MAX];
    uint32_t threads;
    const image_limits_t *limits;
};

static image_workspace_t *take_workspace(preprocess_t *preprocess)
{
    pthread_mutex_lock(&preprocess->lock);
    image_workspace_t *workspace = preprocess->free[--preprocess->free_count];
    pthread_mutex_unlock(&preprocess->lock);
    return workspace;
}

static void give_workspace(preprocess_t *preprocess, image_workspace_t *workspace)
{
    pthread_mutex_lock(&preprocess->lock);
    preprocess->free[preprocess->free_count++] = workspace;
    pthread_mutex_unlock(&preprocess->lock);
}

static status_t run_rows(preprocess_job_t *job, image_workspace_t *workspace)
{
    size_t offset = 0;
    for (uint32_t row = 0; row < job->rows; row++) {
        const uint8_t *picture;
        uint32_t picture_bytes;
        if (!oip_bytes_next(job->elements, job->elements_bytes, &offset, &picture, &picture_bytes))
            return err_set(&job->error, STATUS_INVALID_ARGUMENT, "input '%s' has fewer than %u pictures",
                           job->pipeline->input, job->rows);
        status_t status =
            image_pipeline_run(job->pipeline, job->owner->limits, workspace, picture, picture_bytes,
                               job->dst + row * job->stride_bytes, job->row_bytes, &job->error);
        if (status)
            return err_prefix(&job->error, "input '%s', picture %u", job->pipeline->input, row);
    }
    return STATUS_OK;
}

static void run(work_t *work)
{
    preprocess_job_t *job = CONTAINER_OF(work, preprocess_job_t, work);
    int64_t start_ns = clock_now_ns();
    image_workspace_t *workspace = take_workspace(job->owner);
    run_rows(job, workspace);
    give_workspace(job->owner, workspace);
    job->took_ns = clock_now_ns() - start_ns;
}

static void done(work_t *work, bool cancelled)
{
    preprocess_job_t *job = CONTAINER_OF(work, preprocess_job_t, work);
    if (cancelled)
        err_set(&job->error, STATUS_CANCELLED, "the gateway stops");
    else if (job->seconds)
        metrics_observe(job->seconds, job->took_ns);
    job->done(job, &job->error);
}

static void free_workspaces(preprocess_t *preprocess)
{
    while (preprocess->free_count > 0)
        image_workspace_destroy(preprocess->free[--preprocess->free_count]);
}

static status_t create_workspaces(preprocess_t *preprocess, err_t *err)
{
    for (uint32_t i = 0; i < preprocess->threads; i++) {
        image_workspace_t *workspace = image_workspace_create();
        if (!workspace) {
            free_workspaces(preprocess);
            return err_set(err, STATUS_NO_MEMORY, "no memory for preprocessing");
        }
        preprocess->free[preprocess->free_count++] = workspace;
    }
    return STATUS_OK;
}

status_t preprocess_create(loop_t *loop, uint32_t threads, preprocess_t **preprocess, err_t *err)
{
    if (threads == 0 || threads > THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u preprocessing threads, 1 to %d are possible",
                       threads, THREADS_MAX);
    preprocess_t *created = calloc(1, sizeof *created);
    if (!created)
        return err_set(err, STATUS_NO_MEMORY, "no memory for preprocessing");
    created->threads = threads;
    created->limits = &image_limits_default;
    pthread_mutex_init(&created->lock, NULL);
    status_t status = create_workspaces(created, err);
    if (status)
        goto free_created;
    status = workpool_create(&(workpool_options_t){.threads = threads, .capacity = QUEUE_CAPACITY}, loop,
                             &created->pool, err);
    if (status)
        goto free_workspaces;
    *preprocess = created;
    return STATUS_OK;
free_workspaces:
    free_workspaces(created);
free_created:
    pthread_mutex_destroy(&created->lock);
    free(created);
    return status;
}

void preprocess_destroy(preprocess_t *preprocess)
{
    if (!preprocess)
        return;
    workpool_destroy(preprocess->pool);
    free_workspaces(preprocess);
    pthread_mutex_destroy(&preprocess->lock);
    free(preprocess);
}

status_t preprocess_start(preprocess_t *preprocess, preprocess_job_t *job, err_t *err)
{
    job->owner = preprocess;
    job->took_ns = 0;
    job->error.code = STATUS_OK;
    job->error.text[0] = '\0';
    job->work.run = run;
    job->work.done = done;
    status_t status = workpool_submit(preprocess->pool, &job->work);
    if (status)
        return err_set(err, status, "too many pictures wait to be decoded");
    return STATUS_OK;
}

uint32_t preprocess_queued(preprocess_t *preprocess)
{
    return workpool_queued(preprocess->pool);
}
