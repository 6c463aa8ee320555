#include "launch.h"

static void launcher_deliver(void *arg, mailbox_node_t *first)
{
    (void)arg;
    for (mailbox_node_t *node = first; node;) {
        launch_t *launch = CONTAINER_OF(node, launch_t, node);
        node = node->next;
        launch->ended(launch);
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
        launch->ended(launch);
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

status_t launcher_init(launcher_t *launcher, loop_t *loop, const engine_ops_t *ops, err_t *err)
{
    *launcher = (launcher_t){.loop = loop, .ops = ops};
    return mailbox_init(&launcher->mailbox, loop, launcher_deliver, launcher, err);
}

void launcher_close(launcher_t *launcher)
{
    launcher->closed = true;
}

void launcher_dispose(launcher_t *launcher)
{
    mailbox_dispose(&launcher->mailbox);
}

void launch_submit(launcher_t *launcher, engine_t *engine, launch_t *launch)
{
    launch->launcher = launcher;
    launch->job.done = launch_on_engine;
    launch->job.arg = launch;
    if (launcher->closed)
        launch_on_engine(&launch->job, STATUS_CANCELLED, NULL);
    else
        launcher->ops->submit(engine, &launch->job);
    launcher_drain(launcher);
}

void launch_stop(engine_t *engine, launch_t *launch)
{
    launcher_t *launcher = launch->launcher;

    launcher->ops->stop(engine, &launch->job);
    launcher_drain(launcher);
}

bool launch_cancel(engine_t *engine, launch_t *launch)
{
    launcher_t *launcher = launch->launcher;
    bool cancelled = launcher->ops->cancel(engine, &launch->job);

    launcher_drain(launcher);
    return cancelled;
}
