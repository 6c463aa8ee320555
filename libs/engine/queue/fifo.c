#include "engine/queue/fifo.h"

#include "engine/queue/segment.h"

enum { SLOT_SEQ = 0 }; /* of engine_private: the place of the job in the order */

void fifo_init(fifo_t *fifo)
{
    *fifo = (fifo_t){.next_seq = 1};
    pthread_mutex_init(&fifo->mutex, NULL);
    pthread_cond_init(&fifo->work, NULL);
    pthread_cond_init(&fifo->settled, NULL);
}

void fifo_dispose(fifo_t *fifo)
{
    pthread_cond_destroy(&fifo->settled);
    pthread_cond_destroy(&fifo->work);
    pthread_mutex_destroy(&fifo->mutex);
}

bool fifo_push(fifo_t *fifo, engine_job_t *job)
{
    pthread_mutex_lock(&fifo->mutex);
    job->next = NULL;
    job->engine_private[SLOT_SEQ] = fifo->next_seq++;
    bool idle = !fifo->driven;
    fifo->driven = true;
    if (fifo->head)
        fifo->tail->next = job;
    else
        fifo->head = job;
    fifo->tail = job;
    pthread_cond_signal(&fifo->work);
    pthread_mutex_unlock(&fifo->mutex);
    return idle;
}

static engine_job_t *begin_locked(fifo_t *fifo)
{
    engine_job_t *job = fifo->head;
    if (job) {
        fifo->head = job->next;
        fifo->running_seq = job->engine_private[SLOT_SEQ];
    }
    fifo->running = job;
    atomic_store(&fifo->interrupted, false);
    return job;
}

engine_job_t *fifo_next(fifo_t *fifo)
{
    pthread_mutex_lock(&fifo->mutex);
    if (fifo->running)
        pthread_cond_broadcast(&fifo->settled);
    engine_job_t *job = begin_locked(fifo);
    fifo->driven = job;
    pthread_mutex_unlock(&fifo->mutex);
    return job;
}

engine_job_t *fifo_wait(fifo_t *fifo)
{
    pthread_mutex_lock(&fifo->mutex);
    if (fifo->running)
        pthread_cond_broadcast(&fifo->settled);
    fifo->running = NULL;
    while (!fifo->head && !fifo->stop)
        pthread_cond_wait(&fifo->work, &fifo->mutex);
    engine_job_t *job = begin_locked(fifo);
    pthread_mutex_unlock(&fifo->mutex);
    return job;
}

void fifo_stop(fifo_t *fifo)
{
    pthread_mutex_lock(&fifo->mutex);
    fifo->stop = true;
    pthread_cond_broadcast(&fifo->work);
    pthread_mutex_unlock(&fifo->mutex);
}

static bool unlink_locked(fifo_t *fifo, engine_job_t *job)
{
    engine_job_t *before = NULL;
    for (engine_job_t *at = fifo->head; at; before = at, at = at->next) {
        if (at != job)
            continue;
        if (before)
            before->next = at->next;
        else
            fifo->head = at->next;
        if (fifo->tail == at)
            fifo->tail = before;
        return true;
    }
    return false;
}

bool fifo_cancel(fifo_t *fifo, engine_job_t *job)
{
    pthread_mutex_lock(&fifo->mutex);
    bool found = unlink_locked(fifo, job);
    fifo->cancelling += found;
    pthread_mutex_unlock(&fifo->mutex);
    if (!found)
        return false;
    err_t err;
    fifo_answer(job, err_set(&err, STATUS_CANCELLED, "cancelled before it ran"), &err);
    pthread_mutex_lock(&fifo->mutex);
    fifo->cancelling--;
    pthread_cond_broadcast(&fifo->settled);
    pthread_mutex_unlock(&fifo->mutex);
    return true;
}

bool fifo_interrupt(fifo_t *fifo, const engine_job_t *job)
{
    pthread_mutex_lock(&fifo->mutex);
    bool runs = fifo->running == job;
    if (runs)
        atomic_store(&fifo->interrupted, true);
    pthread_mutex_unlock(&fifo->mutex);
    return runs;
}

void fifo_flush(fifo_t *fifo)
{
    pthread_mutex_lock(&fifo->mutex);
    uint64_t last = fifo->next_seq - 1;
    while (fifo->cancelling || (fifo->running && fifo->running_seq <= last) ||
           (fifo->head && fifo->head->engine_private[SLOT_SEQ] <= last))
        pthread_cond_wait(&fifo->settled, &fifo->mutex);
    pthread_mutex_unlock(&fifo->mutex);
}

static status_t check_range(const engine_job_t *job, const engine_cuts_t *cuts, err_t *err)
{
    uint32_t from = job->range.from, to = segment_end(job, cuts);
    if (!cuts || !cuts->ops)
        return err_set(err, STATUS_UNSUPPORTED, "this model runs whole only, or its cuts were not asked for");
    if (from >= to || !segment_is_cut(cuts, from) || !segment_is_cut(cuts, to))
        return err_set(err, STATUS_INVALID_ARGUMENT, "the model cannot be cut to operators %u..%u", from, to);
    if (!job->source != !from || !job->target != (to == cuts->ops))
        return err_set(err, STATUS_INVALID_ARGUMENT, "operators %u..%u: a border is missing, or too many",
                       from, to);
    if (job->source && job->source == job->target)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a segment reads and writes the same border");
    for (uint32_t i = 0; i < job->exit_count; i++)
        if (job->exits[i] <= (i ? job->exits[i - 1] : from) || job->exits[i] >= to ||
            !segment_is_cut(cuts, job->exits[i]))
            return err_set(err, STATUS_INVALID_ARGUMENT, "operator %u is no exit of operators %u..%u",
                           job->exits[i], from, to);
    return STATUS_OK;
}

/* Tensor i of count, which lie together or, row by row, apart. */
static bool has_buffer(const engine_job_t *job, const void *const *together, const void *const *apart,
                       uint32_t count, uint32_t i)
{
    for (uint32_t row = 0; apart && row < job->batch; row++)
        if (!apart[row * count + i])
            return false;
    return apart || together[i];
}

static status_t check_apart(const engine_model_info_t *info, const engine_job_t *job, err_t *err)
{
    if (!job->row_inputs && !job->row_outputs)
        return STATUS_OK;
    if (!segment_is_whole(job) || job->input_shapes || (info->input_count && !job->row_inputs) ||
        (info->output_count && !job->row_outputs))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "only whole jobs without shapes have rows that lie apart, and then on both sides");
    return STATUS_OK;
}

static status_t check_inputs(const engine_model_info_t *info, const engine_job_t *job, err_t *err)
{
    for (uint32_t i = 0; i < info->input_count; i++) {
        if (!job->range.from && !has_buffer(job, job->inputs, job->row_inputs, info->input_count, i))
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has no buffer", info->inputs[i].name);
        if (!info->inputs[i].row_bytes && !job->input_shapes)
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' varies but has no shape",
                           info->inputs[i].name);
    }
    return STATUS_OK;
}

static status_t check_outputs(const engine_model_info_t *info, const engine_job_t *job, err_t *err)
{
    for (uint32_t i = 0; i < info->output_count; i++) {
        if (!has_buffer(job, (const void *const *)job->outputs, (const void *const *)job->row_outputs,
                        info->output_count, i))
            return err_set(err, STATUS_INVALID_ARGUMENT, "output '%s' has no buffer", info->outputs[i].name);
        if (!info->outputs[i].row_bytes && (!job->output_shapes || !job->output_capacity_bytes))
            return err_set(err, STATUS_INVALID_ARGUMENT, "output '%s' varies but has no capacity",
                           info->outputs[i].name);
    }
    return STATUS_OK;
}

status_t fifo_check_job(const engine_model_info_t *info, const engine_cuts_t *cuts, uint32_t streams,
                        const engine_job_t *job, err_t *err)
{
    if (job->batch < 1 || job->batch > info->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", job->batch,
                       info->max_batch);
    if (job->range.stream >= streams)
        return err_set(err, STATUS_INVALID_ARGUMENT, "there is no stream %u; the engine was opened with %u",
                       job->range.stream, streams);
    status_t status = check_apart(info, job, err);
    if (status == STATUS_OK && !segment_is_whole(job))
        status = check_range(job, cuts, err);
    if (status == STATUS_OK)
        status = check_inputs(info, job, err);
    if (status == STATUS_OK && segment_is_last(job, cuts))
        status = check_outputs(info, job, err);
    return status;
}

void fifo_answer(engine_job_t *job, status_t status, const err_t *err)
{
    job->done(job, status, status == STATUS_OK ? NULL : err);
}
