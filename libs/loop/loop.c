#include "loop/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/internal.h"

#include <stdlib.h>
#include <sys/resource.h>

static void run_jobs(void *arg, mailbox_node_t *first)
{
    (void)arg;
    while (first) {
        loop_job_t *job = CONTAINER_OF(first, loop_job_t, node);
        first = first->next; /* before fn, which may free the job */
        job->fn(job->arg);
    }
}

static void on_stop(uv_async_t *async)
{
    uv_stop(async->loop);
}

static status_t open_parts(loop_t *loop, err_t *err)
{
    int rc = uv_async_init(&loop->uv, &loop->stop, on_stop);
    if (rc != 0)
        return err_set(err, STATUS_IO, "cannot create a wake-up handle: %s", uv_strerror(rc));
    status_t st = spin_init(loop, err);
    if (st == STATUS_OK)
        st = mailbox_init(&loop->jobs, loop, run_jobs, NULL, err);
    return st == STATUS_OK ? timers_init(loop, err) : st;
}

static void close_quietly(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void loop_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

status_t loop_create(loop_t **out, err_t *err)
{
    loop_t *loop = calloc(1, sizeof *loop);
    if (!loop)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an event loop");
    int rc = uv_loop_init(&loop->uv);
    if (rc != 0) {
        free(loop);
        return err_set(err, STATUS_IO, "cannot create an event loop: %s", uv_strerror(rc));
    }
    loop->thread = pthread_self();
    status_t st = open_parts(loop, err);
    if (st != STATUS_OK) {
        mailbox_dispose(&loop->jobs);
        uv_walk(&loop->uv, close_quietly, NULL);
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        uv_loop_close(&loop->uv);
        free(loop);
        return st;
    }
    *out = loop;
    return STATUS_OK;
}

static void close_forgotten(uv_handle_t *handle, void *arg)
{
    if (!uv_is_closing(handle))
        log_error("loop_handle_forgotten", LOG_STR("type", uv_handle_type_name(handle->type)));
    close_quietly(handle, arg);
}

void loop_destroy(loop_t *loop)
{
    if (!loop)
        return;
    loop->thread = pthread_self();
    mailbox_dispose(&loop->jobs);
    timers_dispose(loop);
    spin_dispose(loop);
    uv_close((uv_handle_t *)&loop->stop, NULL);
    uv_run(&loop->uv, UV_RUN_NOWAIT); /* close callbacks may close more */
    uv_walk(&loop->uv, close_forgotten, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&loop->uv);
    if (rc != 0)
        log_error("loop_not_closed", LOG_STR("reason", uv_strerror(rc)));
    timers_free(loop);
    free(loop);
}

/* The stop handle is active, so uv_run returns only because of uv_stop. */
void loop_run(loop_t *loop)
{
    loop->thread = pthread_self();
    while (!atomic_load_explicit(&loop->stopping, memory_order_acquire))
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    atomic_store_explicit(&loop->stopping, false, memory_order_release);
}

void loop_stop(loop_t *loop)
{
    atomic_store_explicit(&loop->stopping, true, memory_order_release);
    uv_async_send(&loop->stop);
}

static void wake_up(loop_timer_t *timer, void *arg)
{
    (void)timer;
    (void)arg;
}

void loop_run_once(loop_t *loop, int64_t timeout_ns)
{
    loop_timer_t limit;
    loop->thread = pthread_self();
    if (timeout_ns <= 0 || loop_timer_init(&limit, loop, wake_up, NULL, NULL) != STATUS_OK) {
        uv_run(&loop->uv, UV_RUN_NOWAIT);
        return;
    }
    loop_timer_start_in(&limit, timeout_ns);
    uv_run(&loop->uv, UV_RUN_ONCE);
    loop_timer_dispose(&limit);
}

uv_loop_t *loop_uv(loop_t *loop)
{
    return &loop->uv;
}

int64_t loop_now_ns(void)
{
    return clock_now_ns();
}

bool loop_on_thread(const loop_t *loop)
{
    return pthread_equal(loop->thread, pthread_self());
}

void loop_post_job(loop_t *loop, loop_job_t *job)
{
    mailbox_post(&loop->jobs, &job->node);
}

typedef struct {
    loop_job_t job;
    loop_fn_t fn;
    void *arg;
} owned_job_t;

static void run_owned(void *arg)
{
    owned_job_t owned = *(owned_job_t *)arg;
    free(arg);
    owned.fn(owned.arg);
}

status_t loop_post(loop_t *loop, loop_fn_t fn, void *arg)
{
    owned_job_t *owned = malloc(sizeof *owned);
    if (!owned)
        return STATUS_NO_MEMORY;
    *owned = (owned_job_t){.job = {.fn = run_owned, .arg = owned}, .fn = fn, .arg = arg};
    loop_post_job(loop, &owned->job);
    return STATUS_OK;
}
