#include "fermata/up/child.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "fermata/up/lines.h"
#include "loop/timer.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process that the child left behind may hold its pipes open: after this long we stop reading them. */
#define DRAIN_NS (200 * NS_PER_MS)

typedef struct {
    uv_pipe_t pipe;
    lines_t lines;
    bool used;
    bool closed;
} stream_t;

struct child {
    uv_process_t process;
    loop_t *loop;
    char *name;
    const child_ops_t *ops;
    void *arg;
    child_state_t state;
    json_t *ready; /* the ready line's object */
    stream_t out, err;
    loop_timer_t drain;
    bool exited;
    bool process_closed;
    bool freed;
    int pid;
    int64_t exit_status;
    int term_signal;
    int sent_signal;
    char buffer[LINES_MAX_BYTES];
};

static void print_line(void *arg, const char *line)
{
    child_t *child = arg;
    fprintf(stderr, "[%s] %s\n", child->name, line);
}

static void read_ready(child_t *child, const char *text)
{
    json_error_t error;
    json_t *ready = json_loads(text, 0, &error);
    if (!json_is_object(ready)) {
        log_warn("bad_ready_line", LOG_STR("child", child->name), LOG_STR("reason", error.text));
        json_decref(ready);
        return;
    }
    child->ready = ready;
    child->state = CHILD_READY;
    child->ops->on_ready(child, child->arg);
}

static void out_line(void *arg, const char *line)
{
    child_t *child = arg;
    if (child->state == CHILD_STARTING && strncmp(line, "ready {", 7) == 0)
        read_ready(child, line + 6);
    else
        print_line(child, line);
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    child_t *child = handle->data;
    *buf = uv_buf_init(child->buffer, sizeof child->buffer);
}

static void free_if_closed(child_t *child)
{
    if (!child->freed || !child->process_closed || !child->out.closed || !child->err.closed)
        return;
    json_decref(child->ready);
    free(child->name);
    free(child);
}

static void on_stream_closed(uv_handle_t *handle)
{
    child_t *child = handle->data;
    (handle == (uv_handle_t *)&child->out.pipe ? &child->out : &child->err)->closed = true;
    free_if_closed(child);
}

static void close_stream(stream_t *stream)
{
    if (stream->used && !uv_is_closing((uv_handle_t *)&stream->pipe))
        uv_close((uv_handle_t *)&stream->pipe, on_stream_closed);
}

static bool is_open(const stream_t *stream)
{
    return stream->used && !uv_is_closing((const uv_handle_t *)&stream->pipe);
}

static void end_if_drained(child_t *child)
{
    if (!child->exited || is_open(&child->out) || is_open(&child->err) || child->state == CHILD_ENDED)
        return;
    loop_timer_stop(&child->drain);
    child->state = CHILD_ENDED;
    child->ops->on_ended(child, child->arg);
}

static void on_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buf)
{
    child_t *child = handle->data;
    stream_t *stream = handle == (uv_stream_t *)&child->out.pipe ? &child->out : &child->err;
    if (n > 0)
        lines_feed(&stream->lines, buf->base, (size_t)n);
    if (n >= 0)
        return;
    lines_end(&stream->lines);
    close_stream(stream);
    end_if_drained(child);
}

static void on_drained(loop_timer_t *timer, void *arg)
{
    (void)timer;
    child_t *child = arg;
    close_stream(&child->out);
    close_stream(&child->err);
    end_if_drained(child);
}

static void on_exit_status(uv_process_t *process, int64_t exit_status, int term_signal)
{
    child_t *child = process->data;
    child->exited = true;
    child->exit_status = exit_status;
    child->term_signal = term_signal;
    loop_timer_start_in(&child->drain, DRAIN_NS);
    end_if_drained(child);
}

static void open_stream(child_t *child, stream_t *stream, lines_fn_t fn)
{
    uv_pipe_init(loop_uv(child->loop), &stream->pipe, 0);
    stream->pipe.data = child;
    stream->used = true;
    stream->closed = false;
    lines_init(&stream->lines, fn, child);
}

/* stdin: nothing. stdout: our pipe. stderr: our pipe, or the log file. */
static status_t spawn(child_t *child, const child_options_t *options, int log_fd, err_t *err)
{
    char parent[16];
    char *args[WORDS_MAX + 4] = {(char *)(uintptr_t)options->self, (char *)(uintptr_t) "child-exec", parent};
    snprintf(parent, sizeof parent, "%d", getpid());
    memcpy(args + 3, options->words->items, (options->words->len + 1) * sizeof *args);
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->out.pipe},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->err.pipe},
    };
    if (log_fd >= 0)
        stdio[2] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = log_fd};
    uv_process_options_t spawn_options = {
        .exit_cb = on_exit_status, .file = options->self, .args = args, .stdio_count = 3, .stdio = stdio};
    int rc = uv_spawn(loop_uv(child->loop), &child->process, &spawn_options);
    if (rc != 0)
        return err_set(err, STATUS_IO, "cannot start %s: %s", child->name, uv_strerror(rc));
    child->pid = child->process.pid;
    return STATUS_OK;
}

static status_t open_log(const char *path, int *fd, err_t *err)
{
    *fd = -1;
    if (!path)
        return STATUS_OK;
    err_t why;
    return file_append(path, 0644, fd, &why) == STATUS_OK
               ? STATUS_OK
               : err_set(err, why.code, "cannot write %s", why.text);
}

static child_t *new_child(loop_t *loop, const child_options_t *options)
{
    child_t *child = calloc(1, sizeof *child);
    if (!child || !(child->name = strdup(options->name))) {
        free(child);
        return NULL;
    }
    child->loop = loop;
    child->ops = options->ops;
    child->arg = options->arg;
    child->process.data = child;
    child->out.closed = child->err.closed = true;
    return child;
}

static void start_reading(stream_t *stream)
{
    if (stream->used)
        uv_read_start((uv_stream_t *)&stream->pipe, on_buffer, on_read);
}

status_t child_start(child_t **out, loop_t *loop, const child_options_t *options, err_t *err)
{
    int log_fd;
    status_t st = open_log(options->log_path, &log_fd, err);
    if (st != STATUS_OK)
        return st;
    child_t *child = new_child(loop, options);
    if (!child || loop_timer_init(&child->drain, loop, on_drained, child, NULL) != STATUS_OK)
        st = err_set(err, STATUS_NO_MEMORY, "no memory for a child process");
    if (st == STATUS_OK) {
        open_stream(child, &child->out, out_line);
        if (log_fd < 0)
            open_stream(child, &child->err, print_line);
        st = spawn(child, options, log_fd, err);
    }
    if (log_fd >= 0)
        close(log_fd);
    if (st != STATUS_OK) {
        child_destroy(child);
        return st;
    }
    start_reading(&child->out);
    start_reading(&child->err);
    *out = child;
    return STATUS_OK;
}

static void on_process_closed(uv_handle_t *handle)
{
    child_t *child = handle->data;
    child->process_closed = true;
    free_if_closed(child);
}

void child_destroy(child_t *child)
{
    if (!child)
        return;
    loop_timer_dispose(&child->drain);
    close_stream(&child->out);
    close_stream(&child->err);
    child->freed = true;
    if (child->process.loop) { /* uv_spawn was reached, even if it failed */
        uv_close((uv_handle_t *)&child->process, on_process_closed);
        return;
    }
    child->process_closed = true;
    free_if_closed(child);
}

void child_signal(child_t *child, int signum)
{
    if (child->exited)
        return;
    child->sent_signal = signum;
    uv_process_kill(&child->process, signum);
}

child_state_t child_state(const child_t *child)
{
    return child->state;
}

int child_pid(const child_t *child)
{
    return child->pid;
}

const char *child_address(const child_t *child, const char *what)
{
    return json_string_value(json_object_get(child->ready, what));
}

bool child_ended_well(const child_t *child)
{
    return child->term_signal != 0 ? child->term_signal == SIGTERM && child->sent_signal == SIGTERM
                                   : child->exit_status == 0;
}

const char *child_ending(const child_t *child, char *text, size_t text_bytes)
{
    if (child->term_signal != 0)
        snprintf(text, text_bytes, "was killed by signal %d (%s)", child->term_signal,
                 strsignal(child->term_signal));
    else
        snprintf(text, text_bytes, "exited with status %d", (int)child->exit_status);
    return text;
}
