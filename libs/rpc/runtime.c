#include "rpc/runtime.h"
#include "base/clock.h"
#include "base/log.h"
#include "rpc/internal.h"

#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Timers ---- */

static void timer_unlink(rpc_timer_t *timer)
{
    timer->prev->next = timer->next;
    timer->next->prev = timer->prev;
    timer->active = false;
}

/* An empty batch completes at once, which brings the thread out of its wait so that it sees the new timer. Under
 * the lock, because starting on one call must not happen twice at the same time. */
static void queue_poke(rpc_queue_t *queue)
{
    rpc_hand_over(&queue->poke_tag);
    (void)grpc_call_start_batch(queue->poke, NULL, 0, &queue->poke_tag, NULL);
}

static int64_t queue_wake_at(const rpc_queue_t *queue)
{
    int64_t at_ns = INT64_MAX;
    for (const rpc_timer_t *t = queue->timers.next; t != &queue->timers; t = t->next)
        if (t->at_ns < at_ns)
            at_ns = t->at_ns;
    return at_ns;
}

void rpc_timer_start(rpc_queue_t *queue, rpc_timer_t *timer, int64_t at_ns)
{
    pthread_mutex_lock(&queue->lock);
    if (timer->active)
        timer_unlink(timer);
    bool sooner = at_ns < queue_wake_at(queue);
    timer->at_ns = at_ns;
    timer->active = true;
    timer->next = &queue->timers;
    timer->prev = queue->timers.prev;
    timer->prev->next = timer;
    timer->next->prev = timer;
    if (sooner && !pthread_equal(pthread_self(), queue->thread))
        queue_poke(queue);
    pthread_mutex_unlock(&queue->lock);
}

bool rpc_timer_stop(rpc_queue_t *queue, rpc_timer_t *timer)
{
    pthread_mutex_lock(&queue->lock);
    bool active = timer->active;
    if (active)
        timer_unlink(timer);
    pthread_mutex_unlock(&queue->lock);
    return active;
}

static rpc_timer_t *queue_take_due(rpc_queue_t *queue)
{
    rpc_timer_t *due = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->timers.next != &queue->timers) {
        int64_t now_ns = clock_now_ns();
        for (rpc_timer_t *t = queue->timers.next; t != &queue->timers && !due; t = t->next)
            if (t->at_ns <= now_ns)
                due = t;
        if (due)
            timer_unlink(due);
    }
    pthread_mutex_unlock(&queue->lock);
    return due;
}

/* ---- The thread ---- */

static gpr_timespec queue_deadline(rpc_queue_t *queue)
{
    pthread_mutex_lock(&queue->lock);
    int64_t at_ns = queue_wake_at(queue);
    pthread_mutex_unlock(&queue->lock);
    if (at_ns == INT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    int64_t left_ns = at_ns - clock_now_ns();
    return rpc_deadline_after(left_ns > 0 ? left_ns : 0);
}

static void *queue_run(void *arg)
{
    rpc_queue_t *queue = arg;
    for (;;) {
        grpc_event event = grpc_completion_queue_next(queue->cq, queue_deadline(queue), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE) {
            rpc_tag_t *tag = event.tag;
            rpc_take_over(tag);
            tag->done(tag, event.success != 0);
        }
        rpc_timer_t *due;
        while ((due = queue_take_due(queue)))
            due->fire(due);
    }
}

static void poke_done(rpc_tag_t *tag, bool ok)
{
    (void)tag;
    (void)ok;
}

static status_t queue_init(rpc_queue_t *queue, rpc_runtime_t *runtime, err_t *err)
{
    queue->runtime = runtime;
    queue->timers.prev = queue->timers.next = &queue->timers;
    queue->poke_tag.done = poke_done;
    pthread_mutex_init(&queue->lock, NULL);
    queue->cq = grpc_completion_queue_create_for_next(NULL);
    queue->poke = grpc_channel_create_call(runtime->lame, NULL, GRPC_PROPAGATE_DEFAULTS, queue->cq,
                                           grpc_slice_from_static_string("/poke"), NULL,
                                           gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    /* The lock keeps the thread from running ahead of queue->thread, which rpc_timer_start compares with. */
    pthread_mutex_lock(&queue->lock);
    int rc = pthread_create(&queue->thread, NULL, queue_run, queue);
    pthread_mutex_unlock(&queue->lock);
    if (rc != 0) {
        grpc_call_unref(queue->poke);
        grpc_completion_queue_shutdown(queue->cq);
        grpc_completion_queue_destroy(queue->cq);
        pthread_mutex_destroy(&queue->lock);
        return err_set(err, STATUS_NO_MEMORY, "rpc: no thread: %s", strerror(rc));
    }
    pthread_setname_np(queue->thread, runtime->name);
    return STATUS_OK;
}

static void queue_dispose(rpc_queue_t *queue)
{
    grpc_completion_queue_shutdown(queue->cq);
    pthread_join(queue->thread, NULL);
    grpc_call_unref(queue->poke);
    grpc_completion_queue_destroy(queue->cq);
    pthread_mutex_destroy(&queue->lock);
}

/* ---- The runtime ---- */

static void deliver_list(void *arg, mailbox_node_t *first)
{
    (void)arg;
    while (first) {
        mailbox_node_t *next =
            first->next; /* the actor may be posted again, or freed, while it is delivered */
        rpc_actor_t *actor = container_of(first, rpc_actor_t, node);
        actor->deliver(actor);
        first = next;
    }
}

void rpc_actor_post(rpc_runtime_t *runtime, rpc_actor_t *actor)
{
    if (runtime->direct)
        actor->deliver(actor);
    else
        mailbox_post(&runtime->mailbox, &actor->node);
}

rpc_queue_t *rpc_runtime_pick(rpc_runtime_t *runtime)
{
    unsigned turn = atomic_fetch_add_explicit(&runtime->next_queue, 1, memory_order_relaxed);
    return &runtime->queues[turn % runtime->queue_count];
}

/* What gRPC says is for whoever debugs the connection itself; callers get a status and a text of ours. */
static void log_of_grpc(gpr_log_func_args *args)
{
    log_debug("grpc", LOG_STR("file", args->file), LOG_I64("line", args->line),
              LOG_STR("text", args->message));
}

status_t rpc_runtime_create(const rpc_runtime_options_t *options, rpc_runtime_t **runtime, err_t *err)
{
    unsigned threads = options->threads != 0 ? options->threads : 1;
    if (threads > RPC_THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "rpc: at most %d threads", RPC_THREADS_MAX);
    rpc_runtime_t *rt = calloc(1, sizeof *rt);
    if (!rt)
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    rt->direct = !options->loop;
    (void)snprintf(rt->name, sizeof rt->name, "%s", options->name ? options->name : "rpc");
    status_t status = STATUS_OK;
    if (!rt->direct)
        status = mailbox_init(&rt->mailbox, options->loop, deliver_list, rt, err);
    if (status != STATUS_OK) {
        free(rt);
        return status;
    }
    gpr_set_log_function(log_of_grpc);
    grpc_init();
    rt->lame = grpc_lame_client_channel_create("poke", GRPC_STATUS_UNAVAILABLE, "poke");
    for (; rt->queue_count < threads && status == STATUS_OK; rt->queue_count += status == STATUS_OK)
        status = queue_init(&rt->queues[rt->queue_count], rt, err);
    if (status != STATUS_OK) {
        rpc_runtime_destroy(rt);
        return status;
    }
    *runtime = rt;
    return STATUS_OK;
}

void rpc_runtime_destroy(rpc_runtime_t *runtime)
{
    if (!runtime)
        return;
    for (unsigned i = 0; i < runtime->queue_count; i++)
        queue_dispose(&runtime->queues[i]);
    grpc_channel_destroy(runtime->lame);
    if (!runtime->direct)
        mailbox_dispose(&runtime->mailbox);
    free(runtime);
    grpc_shutdown();
}

bool rpc_start(grpc_call *call, const grpc_op *ops, size_t count, rpc_tag_t *tag)
{
    rpc_hand_over(tag);
    grpc_call_error error = grpc_call_start_batch(call, ops, count, tag, NULL);
    if (error == GRPC_CALL_OK)
        return true;
    log_error("rpc_batch_refused", LOG_I64("error", error), LOG_I64("op", count > 0 ? (int)ops[0].op : -1));
    return false;
}

#ifdef RPC_TSAN
/* Debian's gRPC and what it stands on are not instrumented: the sanitizer sees their memory accesses through libc but
 * not their locks. Our own code never has one of their frames above it, so nothing of ours is hidden by this. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libgrpc.so\n"
           "called_from_lib:libgpr.so\n"
           "called_from_lib:libupb.so\n"
           "race:libgrpc.so\n"
           "race:libgpr.so\n"
           "race:libupb.so\n"
           "race:libabsl_*.so\n"
           "race:rpc_slice_text\n" /* reads the text of a status, which libgrpc built through libstdc++ */
           /* libuv closes its epoll descriptor by a system call that the sanitizer does not see, opendir opens one of
            * the same number likewise, and closedir is then its first sight of the new one. */
           "race:closedir\n";
}
#endif
