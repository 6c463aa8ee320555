#include "worker/state/launch.h"

#include "base/clock.h"

#include <stdlib.h>

static engine_t *engine_of(const launch_t *launch)
{
    return launch->launcher->devices->list[launch->device].engine;
}

static void count_busy(const launcher_t *launcher, uint32_t device, int64_t ns)
{
    metrics_add(launcher->devices->list[device].busy, (uint64_t)ns);
}

static void launch_over(launch_t *launch)
{
    launcher_t *launcher = launch->launcher;
    int64_t ended_ns = launch->job.finished_ns ? launch->job.finished_ns : clock_now_ns();

    count_busy(launcher, launch->device,
               device_time_end(&launcher->times[launch->device], &launch->time, ended_ns));
    launch->ended(launch);
}

static void launcher_deliver(void *arg, mailbox_node_t *first)
{
    (void)arg;
    for (mailbox_node_t *node = first; node;) {
        launch_t *launch = CONTAINER_OF(node, launch_t, node);
        node = node->next;
        launch_over(launch);
    }
}

/* Those that the engine answered on this very thread, once it is out of the engine again. */
static void launcher_drain(launcher_t *launcher)
{
    if (launcher->draining)
        return;
    launcher->draining = true;
    while (launcher->answered) {
        launch_t *launch = CONTAINER_OF(launcher->answered, launch_t, node);
        launcher->answered = launcher->answered->next;
        launch_over(launch);
    }
    launcher->draining = false;
}

/* On a thread of the engine, or inside submit or cancel on the loop's. */
static void launch_on_engine(engine_job_t *job, status_t status, const err_t *err)
{
    launch_t *launch = job->arg;
    launcher_t *launcher = launch->launcher;

    launch->status = status;
    launch->err = err ? *err : (err_t){.code = status};
    if (!loop_on_thread(launcher->loop)) {
        mailbox_post(&launcher->mailbox, &launch->node);
        return;
    }
    launch->node.next = launcher->answered;
    launcher->answered = &launch->node;
}

status_t launcher_init(launcher_t *launcher, loop_t *loop, const model_devices_t *devices, err_t *err)
{
    *launcher = (launcher_t){.loop = loop, .devices = devices};
    launcher->times = calloc(devices->count, sizeof(*launcher->times));
    if (!launcher->times)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    status_t status = mailbox_init(&launcher->mailbox, loop, launcher_deliver, launcher, err);
    if (status != STATUS_OK)
        free(launcher->times);
    return status;
}

void launcher_close(launcher_t *launcher)
{
    launcher->closed = true;
}

void launcher_dispose(launcher_t *launcher)
{
    mailbox_dispose(&launcher->mailbox);
    free(launcher->times);
}

void launch_submit(launcher_t *launcher, uint32_t device, launch_t *launch)
{
    launch->launcher = launcher;
    launch->device = device;
    launch->job.done = launch_on_engine;
    launch->job.arg = launch;
    count_busy(
        launcher, device,
        device_time_begin(&launcher->times[device], &launch->time, launch->job.range.stream, clock_now_ns()));
    if (launcher->closed)
        launch_on_engine(&launch->job, STATUS_CANCELLED, NULL);
    else
        launcher->devices->ops->submit(engine_of(launch), &launch->job);
    launcher_drain(launcher);
}

void launch_stop(launch_t *launch)
{
    launcher_t *launcher = launch->launcher;

    launcher->devices->ops->stop(engine_of(launch), &launch->job);
    launcher_drain(launcher);
}

bool launch_cancel(launch_t *launch)
{
    launcher_t *launcher = launch->launcher;
    bool cancelled = launcher->devices->ops->cancel(engine_of(launch), &launch->job);

    launcher_drain(launcher);
    return cancelled;
}
