#include "engine/onnxruntime/stopper.h"

status_t stopper_init(stopper_t *stopper, err_t *err)
{
    status_t status = library_check(ort->CreateRunOptions(&stopper->options), "start", err);
    if (status == STATUS_OK)
        pthread_mutex_init(&stopper->mutex, NULL);
    else
        stopper->options = NULL;
    return status;
}

void stopper_dispose(stopper_t *stopper)
{
    if (!stopper->options)
        return;
    ort->ReleaseRunOptions(stopper->options);
    pthread_mutex_destroy(&stopper->mutex);
    *stopper = (stopper_t){.options = NULL};
}

/* Neither call can fail of options that are there. */
static void set(const stopper_t *stopper, bool stop)
{
    OrtStatus *failed = stop ? ort->RunOptionsSetTerminate(stopper->options)
                             : ort->RunOptionsUnsetTerminate(stopper->options);
    (void)library_check(failed, "a run", NULL);
}

void stopper_begin(stopper_t *stopper, const fifo_t *fifo)
{
    pthread_mutex_lock(&stopper->mutex);
    set(stopper, stopper_stopped(fifo)); /* it may have been told already */
    pthread_mutex_unlock(&stopper->mutex);
}

bool stopper_stopped(const fifo_t *fifo)
{
    return atomic_load(&fifo->interrupted);
}

bool stopper_stop(stopper_t *stopper, fifo_t *fifo, const engine_job_t *job)
{
    if (!job->stoppable && !job->exit_count)
        return false;
    pthread_mutex_lock(&stopper->mutex);
    bool runs = fifo_interrupt(fifo, job);
    if (runs)
        set(stopper, true);
    pthread_mutex_unlock(&stopper->mutex);
    return runs;
}
