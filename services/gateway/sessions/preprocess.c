#include "gateway/sessions/preprocess.h"

#include "base/clock.h"
#include "base/container.h"
#include "oip/tensor.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    /* Jobs that wait: at a millisecond a picture and a few threads, more than this is no use within any SLO. */
    QUEUE_CAPACITY = 4096,
    QUEUE_CAPACITY_OF_ONE = 1024, /* of one client */
    /* Pixels gone over: a picture of a megapixel and what is made of it, about 10 ms. More is a long one. */
    SHORT_WORK = (1 << 20) + (1 << 18),
    WORKSPACES_MAX = PREPROCESS_THREADS_MAX + 1,
};

/* One workspace per thread; a job takes any free one, so that threads need no names. */
struct preprocess {
    workpool_t *pool;
    pthread_mutex_t lock; /* of the two below */
    uint32_t free_count;
    image_workspace_t *free[WORKSPACES_MAX];
    uint32_t workspaces;
    metric_t *unwanted_waiting, *unwanted_begun;
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

/* The header of the next picture, which says what it will cost. */
static status_t look_at_next(preprocess_job_t *job)
{
    const uint8_t *picture;
    uint32_t picture_bytes;
    if (!oip_bytes_next(job->elements, job->elements_bytes, &job->offset, &picture, &picture_bytes))
        return err_set(&job->error, STATUS_INVALID_ARGUMENT, "input '%s' has fewer than %u pictures",
                       job->pipeline->input, job->rows);
    job->task = (image_task_t){.picture = picture,
                               .picture_bytes = picture_bytes,
                               .dst = job->dst + job->row * job->stride_bytes,
                               .dst_bytes = job->row_bytes,
                               .unwanted = &job->work.unwanted};
    return image_pipeline_probe(job->pipeline, &job->limits, &job->task, &job->work.cost, &job->error);
}

static status_t decode(preprocess_job_t *job)
{
    image_workspace_t *workspace = take_workspace(job->owner);
    job->begun = true;
    status_t status = image_pipeline_run(job->pipeline, &job->limits, workspace, &job->task, &job->error);
    give_workspace(job->owner, workspace);
    return status;
}

/* One picture; of a long one at first its header only: it is decoded in its turn among the long ones. */
static status_t step(preprocess_job_t *job)
{
    bool looked_at = job->work.lane == TURNS_LONG;
    job->work.cost = 0;
    job->work.lane = TURNS_SHORT;
    if (clock_now_ns() > job->deadline_ns)
        return err_set(&job->error, STATUS_DEADLINE_EXCEEDED, "not decoded by the deadline");
    if (!looked_at) {
        status_t status = look_at_next(job);
        if (status != STATUS_OK)
            return status;
        if (job->work.cost > SHORT_WORK) {
            job->work.lane = TURNS_LONG;
            return STATUS_OK;
        }
    }
    status_t status = decode(job);
    job->row++;
    return status;
}

static void run(work_t *work)
{
    preprocess_job_t *job = CONTAINER_OF(work, preprocess_job_t, work);
    int64_t start_ns = clock_now_ns();
    uint32_t row = job->row;
    if (step(job) != STATUS_OK)
        err_prefix(&job->error, "input '%s', picture %u", job->pipeline->input, row);
    work->again = job->error.code == STATUS_OK && job->row < job->rows;
    job->took_ns += clock_now_ns() - start_ns;
}

static void done(work_t *work, bool cancelled)
{
    preprocess_job_t *job = CONTAINER_OF(work, preprocess_job_t, work);
    if (cancelled)
        err_set(&job->error, STATUS_CANCELLED, "nobody waits for it, or the gateway stops");
    if (job->error.code == STATUS_CANCELLED || job->error.code == STATUS_DEADLINE_EXCEEDED)
        metrics_add(job->begun ? job->owner->unwanted_begun : job->owner->unwanted_waiting, 1);
    else if (job->begun && job->seconds)
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
    for (uint32_t i = 0; i < preprocess->workspaces; i++) {
        image_workspace_t *workspace = image_workspace_create();
        if (!workspace) {
            free_workspaces(preprocess);
            return err_set(err, STATUS_NO_MEMORY, "no memory for preprocessing");
        }
        preprocess->free[preprocess->free_count++] = workspace;
    }
    return STATUS_OK;
}

status_t preprocess_create(loop_t *loop, metrics_t *metrics, uint32_t threads, preprocess_t **preprocess,
                           err_t *err)
{
    if (threads == 0 || threads > PREPROCESS_THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u preprocessing threads, 1 to %d are possible",
                       threads, PREPROCESS_THREADS_MAX);
    const workpool_options_t options = {.threads = threads + 1,
                                        .long_max = threads,
                                        .capacity = QUEUE_CAPACITY,
                                        .capacity_of_one = QUEUE_CAPACITY_OF_ONE};
    preprocess_t *created = calloc(1, sizeof *created);
    if (!created)
        return err_set(err, STATUS_NO_MEMORY, "no memory for preprocessing");
    created->workspaces = options.threads;
    created->unwanted_waiting = metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_UNWANTED, "waiting");
    created->unwanted_begun = metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_UNWANTED, "begun");
    pthread_mutex_init(&created->lock, NULL);
    status_t status = create_workspaces(created, err);
    if (status)
        goto free_created;
    status = workpool_create(&options, loop, &created->pool, err);
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
    job->row = 0;
    job->offset = 0;
    job->begun = false;
    job->error.code = STATUS_OK;
    job->error.text[0] = '\0';
    image_pipeline_limits(job->pipeline, &job->limits);
    job->work.client = job->client;
    job->work.run = run;
    job->work.done = done;
    status_t status = workpool_submit(preprocess->pool, &job->work);
    if (status)
        return err_set(err, status, "too many pictures%s wait to be decoded",
                       status == STATUS_LIMITED ? " of this client" : "");
    return STATUS_OK;
}

void preprocess_cancel(preprocess_t *preprocess, preprocess_job_t *job)
{
    workpool_cancel(preprocess->pool, &job->work);
}

uint32_t preprocess_queued(preprocess_t *preprocess)
{
    return workpool_queued(preprocess->pool);
}
