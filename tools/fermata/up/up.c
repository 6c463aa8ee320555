#include "fermata/up/up.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "fermata/command.h"
#include "fermata/up/certs.h"
#include "screen/log_folder.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A service that dies at each start must not keep the machine busy. */
#define RESTART_DELAY_NS NS_PER_S

/* How often the screen is drawn while all starts. */
#define DRAW_NS (250 * NS_PER_MS)
enum { SCREEN_MAX_BYTES = 64 << 10 };

static void start_stopping(up_t *up, int exit_code);

/* In the place of what the screen shows, which is drawn again below it. */
static void say(up_t *up, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(up_t *up, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    screen_clear(&up->screen);
    fprintf(stderr, "fermata up: %s\n", text);
}

static member_t *scheduler_of(up_t *up)
{
    return &up->members[0];
}

static bool is_alive(const member_t *m)
{
    return m->child;
}

/* What the services reported is kept, for the next life of this one and for the report. */
static void keep_address(char **kept, const child_t *child, const char *what)
{
    const char *address = child_address(child, what);
    free(*kept);
    *kept = address ? strdup(address) : NULL;
}

static void forget_addresses(addresses_t *a)
{
    free(a->http);
    free(a->grpc);
    free(a->metrics);
    free(a->data);
    *a = (addresses_t){0};
}

/* "" when it logs to stderr. */
static void log_path_of(const member_t *m, char *path, size_t path_bytes)
{
    const char *folder = m->up->log_folder;
    path[0] = '\0';
    if (folder[0] != '\0')
        snprintf(path, path_bytes, "%s/%s.log", folder, m->name);
}

static const child_ops_t child_ops;

static status_t start_member(member_t *m, err_t *err)
{
    up_t *up = m->up;
    words_t words;
    char log_path[UP_PATH_BYTES + sizeof m->name + sizeof ".log"];
    log_path_of(m, log_path, sizeof log_path);
    words_init(&words);
    up_words(&words, up->options, up->bin_dir, m->role, m->index, scheduler_of(up)->addresses.grpc,
             &m->addresses);
    child_options_t options = {.name = m->name,
                               .self = up->self,
                               .words = &words,
                               .log_path = log_path[0] ? log_path : NULL,
                               .ops = &child_ops,
                               .arg = m};
    status_t st = words.failed ? err_set(err, STATUS_NO_MEMORY, "too many flags for %s", m->name)
                               : child_start(&m->child, up->loop, &options, err);
    words_dispose(&words);
    return st;
}

static void start_member_or_stop(member_t *m)
{
    err_t err = {0};
    if (start_member(m, &err) == STATUS_OK)
        return;
    say(m->up, "%s", err.text);
    start_stopping(m->up, EXIT_CODE_FAILED);
}

static void start_all_but_scheduler(up_t *up)
{
    up->phase = UP_SERVICES;
    for (size_t i = 1; i < up->members_len && up->phase == UP_SERVICES; i++)
        start_member_or_stop(&up->members[i]);
}

static void end_drawing(up_t *up)
{
    loop_timer_stop(&up->draw);
    screen_clear(&up->screen);
    up->screen.live = false;
}

static void on_draw(loop_timer_t *timer, void *arg)
{
    up_t *up = arg;
    strbuf_t text;
    strbuf_init(&text, SCREEN_MAX_BYTES);
    up_report_start(up, &text);
    screen_draw(&up->screen, text.data);
    strbuf_dispose(&text);
    loop_timer_start_in(timer, DRAW_NS);
}

static void start_drawing(up_t *up)
{
    /* Logs that go to stderr would tear it apart, and a program wants none of it. */
    screen_init(&up->screen, stderr);
    up->screen.live = up->screen.live && up->log_folder[0] != '\0' && !up->options->json;
    if (up->screen.live)
        loop_timer_start_in(&up->draw, 0);
}

static void on_models_settled(void *arg, const model_state_t *models, size_t models_len, bool any_ready)
{
    up_t *up = arg;
    /* The table of those that serve has the others, too. */
    for (size_t i = 0; i < models_len && (up->options->json || !any_ready); i++)
        if (models[i].readiness == MODEL_HAS_FAILED)
            say(up, "model %s is not ready: %s", models[i].name, models[i].reason);
    if (!any_ready) {
        say(up, "no model could be loaded");
        start_stopping(up, EXIT_CODE_FAILED);
        return;
    }
    up->phase = UP_RUNNING;
    loop_timer_stop(&up->limit);
    end_drawing(up);
    (up->options->json ? up_report_json : up_report_text)(up, models, models_len);
}

static void start_waiting_for_models(up_t *up)
{
    const char *addresses[64];
    size_t len = 0;
    err_t err = {0};
    up->phase = UP_MODELS;
    for (size_t i = 0; i < up->members_len; i++)
        if (up->members[i].role == ROLE_GATEWAY)
            addresses[len++] = up->members[i].addresses.http;
    if (readiness_create(&up->readiness, up->loop, addresses, len, scheduler_of(up)->addresses.http, up->tls,
                         up->options->keys, on_models_settled, up, &err) == STATUS_OK)
        return;
    say(up, "%s", err.text);
    start_stopping(up, EXIT_CODE_FAILED);
}

static bool all_ready(const up_t *up)
{
    for (size_t i = 0; i < up->members_len; i++)
        if (!is_alive(&up->members[i]) || child_state(up->members[i].child) != CHILD_READY)
            return false;
    return true;
}

/* The addresses without which nothing goes on. */
static bool is_complete(const member_t *m)
{
    return (m->role != ROLE_SCHEDULER || m->addresses.grpc) && (m->role != ROLE_GATEWAY || m->addresses.http);
}

static void on_child_ready(child_t *child, void *arg)
{
    member_t *m = arg;
    up_t *up = m->up;
    keep_address(&m->addresses.http, child, "http");
    keep_address(&m->addresses.grpc, child, "grpc");
    keep_address(&m->addresses.metrics, child, "metrics");
    keep_address(&m->addresses.data, child, "data");
    if (up->phase == UP_STOPPING)
        return;
    if (!is_complete(m)) {
        say(up, "the ready line of %s lacks its address", m->name);
        start_stopping(up, EXIT_CODE_FAILED);
    } else if (up->phase == UP_RUNNING) {
        say(up, "%s (pid %d) runs again", m->name, child_pid(child));
    } else if (up->phase == UP_SCHEDULER) {
        start_all_but_scheduler(up);
    } else if (up->phase == UP_SERVICES && all_ready(up)) {
        start_waiting_for_models(up);
    }
}

static bool any_alive(const up_t *up, role_t role)
{
    for (size_t i = 0; i < up->members_len; i++)
        if (up->members[i].role == role && is_alive(&up->members[i]))
            return true;
    return false;
}

static void signal_role(up_t *up, role_t role, int signum)
{
    for (size_t i = 0; i < up->members_len; i++)
        if (up->members[i].role == role && is_alive(&up->members[i]))
            child_signal(up->members[i].child, signum);
}

/* Goes on to the next kind that still has a living member; at the end the loop stops. */
static void stop_next(up_t *up)
{
    while (up->stopping < ROLES && !any_alive(up, up->stopping))
        up->stopping++;
    if (up->stopping == ROLES) {
        up->phase = UP_ENDED;
        loop_stop(up->loop);
        return;
    }
    signal_role(up, up->stopping, SIGTERM);
    loop_timer_start_in(&up->limit, up->options->grace_ns);
}

static void start_stopping(up_t *up, int exit_code)
{
    if (exit_code != EXIT_CODE_OK)
        up->exit_code = exit_code;
    if (up->phase >= UP_STOPPING)
        return;
    up->phase = UP_STOPPING;
    up->stopping = (role_t)0;
    end_drawing(up);
    for (size_t i = 0; i < up->members_len; i++)
        loop_timer_stop(&up->members[i].restart);
    stop_next(up);
}

static void kill_stubborn(up_t *up)
{
    for (size_t i = 0; i < up->members_len; i++) {
        member_t *m = &up->members[i];
        if (m->role != up->stopping || !is_alive(m))
            continue;
        char grace[32];
        say(up, "%s (pid %d) did not stop within %s: killing it", m->name, child_pid(m->child),
            value_format_duration(up->options->grace_ns, grace, sizeof grace));
        child_signal(m->child, SIGKILL);
    }
    up->exit_code = EXIT_CODE_FAILED;
}

static void say_what_is_missing(up_t *up)
{
    char limit[32];
    value_format_duration(up->options->ready_timeout_ns, limit, sizeof limit);
    if (up->phase == UP_MODELS) {
        say(up, "not ready within %s: waiting for %s", limit, readiness_waiting_for(up->readiness));
        return;
    }
    for (size_t i = 0; i < up->members_len; i++)
        if (is_alive(&up->members[i]) && child_state(up->members[i].child) == CHILD_STARTING)
            say(up, "not ready within %s: %s (pid %d) has not printed its ready line", limit,
                up->members[i].name, child_pid(up->members[i].child));
}

static void on_limit(loop_timer_t *timer, void *arg)
{
    (void)timer;
    up_t *up = arg;
    if (up->phase == UP_STOPPING) {
        kill_stubborn(up);
        return;
    }
    say_what_is_missing(up);
    start_stopping(up, EXIT_CODE_FAILED);
}

static void on_restart(loop_timer_t *timer, void *arg)
{
    (void)timer;
    start_member_or_stop(arg);
}

static bool anything_alive(const up_t *up)
{
    for (size_t i = 0; i < up->members_len; i++)
        if (is_alive(&up->members[i]))
            return true;
    return false;
}

/* What it said last is most often why. */
static void say_end_of_log(const member_t *m)
{
    char path[UP_PATH_BYTES + sizeof m->name + sizeof ".log"], line[1024], last[1024] = "";
    log_path_of(m, path, sizeof path);
    FILE *file = path[0] != '\0' ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file))
        memcpy(last, line, strlen(line) + 1);
    if (file)
        fclose(file);
    last[strcspn(last, "\n")] = '\0';
    if (last[0] != '\0')
        say(m->up, "%s ends: %s", path, last);
}

/* A cluster outlives its members: once it runs, the death of one is told and the rest goes on. */
static void on_death(member_t *m, const char *ending, int pid, bool was_ready)
{
    up_t *up = m->up;
    bool running = up->phase == UP_RUNNING, restart = up->options->restart && running;
    bool goes_on = running && anything_alive(up);
    say(up, "%s (pid %d) %s%s%s", m->name, pid, ending, was_ready ? "" : " before it was ready",
        restart   ? "; starting it again"
        : goes_on ? "; the rest goes on"
                  : "; stopping everything");
    say_end_of_log(m);
    if (restart)
        loop_timer_start_in(&m->restart, RESTART_DELAY_NS);
    else if (!goes_on)
        start_stopping(up, EXIT_CODE_FAILED);
}

static void on_child_ended(child_t *child, void *arg)
{
    member_t *m = arg;
    up_t *up = m->up;
    char ending[96];
    int pid = child_pid(child);
    bool well = child_ended_well(child), was_ready = child_address(child, "service");
    child_ending(child, ending, sizeof ending);
    m->child = NULL;
    child_destroy(child);
    if (up->phase != UP_STOPPING) {
        on_death(m, ending, pid, was_ready);
        return;
    }
    if (!well) {
        say(up, "%s (pid %d) %s", m->name, pid, ending);
        up->exit_code = EXIT_CODE_FAILED;
    }
    if (!any_alive(up, up->stopping))
        stop_next(up);
}

static const child_ops_t child_ops = {.on_ready = on_child_ready, .on_ended = on_child_ended};

static void on_signal(void *arg, int signum)
{
    up_t *up = arg;
    say(up, "%s: stopping", strsignal(signum));
    start_stopping(up, EXIT_CODE_OK);
}

static status_t add_member(up_t *up, role_t role, uint32_t index, err_t *err)
{
    member_t *m = &up->members[up->members_len];
    *m = (member_t){.up = up, .role = role, .index = index};
    if (role == ROLE_SCHEDULER)
        snprintf(m->name, sizeof m->name, "%s", role_name(role));
    else
        snprintf(m->name, sizeof m->name, "%s-%u", role_name(role), index);
    status_t st = loop_timer_init(&m->restart, up->loop, on_restart, m, err);
    up->members_len += st == STATUS_OK;
    return st;
}

static status_t add_members(up_t *up, err_t *err)
{
    uint32_t gateways = (uint32_t)up->options->gateways, workers = (uint32_t)up->options->workers;
    up->members = calloc(1 + gateways + workers, sizeof *up->members);
    if (!up->members)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the services");
    status_t st = add_member(up, ROLE_SCHEDULER, 0, err);
    for (uint32_t i = 0; i < gateways && st == STATUS_OK; i++)
        st = add_member(up, ROLE_GATEWAY, i, err);
    for (uint32_t i = 0; i < workers && st == STATUS_OK; i++)
        st = add_member(up, ROLE_WORKER, i, err);
    return st;
}

static status_t open_up(up_t *up, err_t *err)
{
    status_t st = loop_create(&up->loop, err);
    if (st == STATUS_OK)
        st = loop_timer_init(&up->limit, up->loop, on_limit, up, err);
    if (st == STATUS_OK)
        st = loop_timer_init(&up->draw, up->loop, on_draw, up, err);
    if (st == STATUS_OK)
        st = loop_signals_create(&up->signals, up->loop, on_signal, up, err);
    return st == STATUS_OK ? add_members(up, err) : st;
}

static void close_up(up_t *up)
{
    readiness_destroy(up->readiness);
    for (size_t i = 0; i < up->members_len; i++) {
        loop_timer_dispose(&up->members[i].restart);
        forget_addresses(&up->members[i].addresses);
    }
    loop_signals_destroy(up->signals);
    loop_timer_dispose(&up->limit);
    loop_timer_dispose(&up->draw);
    loop_destroy(up->loop);
    tls_context_destroy(up->tls);
    free(up->members);
}

static status_t choose_logs(up_t *up, err_t *err)
{
    const up_options_t *o = up->options;
    return log_folder_is_wanted((log_to_t)o->log_to, o->log_dir)
               ? log_folder_find("up", o->log_dir, up->log_folder, sizeof up->log_folder, err)
               : STATUS_OK;
}

static status_t run_up(const up_options_t *options, const char *self, const char *bin_dir, int *exit_code,
                       err_t *err)
{
    up_t up = {.options = options, .self = self, .bin_dir = bin_dir, .started_ns = clock_now_ns()};
    status_t st = choose_logs(&up, err);
    if (st == STATUS_OK)
        st = up_certs_make(options, err);
    if (st != STATUS_OK)
        return st;
    st = open_up(&up, err);
    if (st == STATUS_OK)
        st = up_certs_open(options, &up.tls, err);
    if (st == STATUS_OK) {
        start_drawing(&up);
        st = start_member(scheduler_of(&up), err);
    }
    if (st == STATUS_OK) {
        loop_timer_start_in(&up.limit, options->ready_timeout_ns);
        loop_run(up.loop);
        *exit_code = up.exit_code;
    }
    close_up(&up);
    return st;
}

/* Our own path, and the folder that the services lie in. */
static status_t find_programs(const up_options_t *options, char *self, char *dir, size_t bytes, err_t *err)
{
    ssize_t n = readlink("/proc/self/exe", self, bytes - 1);
    if (n < 0)
        return err_set(err, STATUS_IO, "cannot find out where the program is");
    self[n] = '\0';
    snprintf(dir, bytes, "%s", options->bin_dir ? options->bin_dir : self);
    if (!options->bin_dir)
        *strrchr(dir, '/') = '\0';
    return STATUS_OK;
}

static int run(int argc, char **argv)
{
    up_options_t options;
    config_t *config;
    int exit_code;
    if (!config_start(&up_schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    char self[4096], dir[4096];
    log_init("fermata", (log_level_t)options.log_level, (log_format_t)options.log_format);
    status_t st = up_options_finish(&options, config, &err);
    if (st != STATUS_OK)
        return config_misused(&up_schema, config, &err);
    cpus_t cpus;
    cpus_look(&cpus);
    up_options_share(&options, cpus.usable);
    st = find_programs(&options, self, dir, sizeof self, &err);
    if (st == STATUS_OK)
        st = run_up(&options, self, dir, &exit_code, &err);
    config_destroy(config);
    return st == STATUS_OK ? exit_code : config_exit(&up_schema, st, &err);
}

const command_t command_up = {"up", "start a scheduler, gateways and workers on this machine", run};
