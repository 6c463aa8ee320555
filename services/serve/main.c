#include "base/clock.h"
#include "base/log.h"
#include "loop/program.h"
#include "loop/timer.h"
#include "screen/log_folder.h"
#include "screen/screen.h"
#include "serve/report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* While models are being loaded: how often it is looked whether they are. */
static const int64_t LOOK_NS = 5 * NS_PER_MS;
/* How often the screen is drawn meanwhile. */
static const int64_t DRAW_NS = 250 * NS_PER_MS;

enum { FOLDER_BYTES = 4096, SCREEN_MAX_BYTES = 64 << 10 };

typedef struct {
    const serve_options_t *options;
    loop_program_t around;
    loop_timer_t look;
    int64_t started_ns;
    int exit_code;
    bool stop_wanted;
    serve_t *serve;
    char log_folder[FOLDER_BYTES]; /* "": the log goes to stderr */
    FILE *people;                  /* stderr, as it was */
    int kept;                      /* its descriptor; -1: it is as it was */
    screen_t screen;
    int64_t drawn_ns;
} program_t;

static void on_stopped(void *arg)
{
    loop_stop(arg);
}

static void on_signal(void *arg, int signum)
{
    program_t *program = arg;

    program->stop_wanted = true; /* it may be starting still */
    if (program->serve)
        serve_stop(program->serve, strsignal(signum));
}

static void on_hangup(void *arg, int signum)
{
    const program_t *program = arg;

    (void)signum;
    if (program->serve)
        serve_reread(program->serve);
}

static void draw(program_t *program)
{
    int64_t now_ns = clock_now_ns();
    strbuf_t text;

    if (!program->screen.live || now_ns < program->drawn_ns + DRAW_NS)
        return;
    program->drawn_ns = now_ns;
    strbuf_init(&text, SCREEN_MAX_BYTES);
    report_progress(program->serve, now_ns - program->started_ns, screen_has_colours(program->people), &text);
    strbuf_printf(&text, "\nLog: %s/serve.log", program->log_folder);
    screen_draw(&program->screen, text.data);
    strbuf_dispose(&text);
}

static void settle(program_t *program)
{
    screen_clear(&program->screen);
    if (report_is_of_failure(program->serve) &&
        program->options->worker.model_control == MODEL_CONTROL_NONE) {
        report_failure(program->serve, program->people);
        fprintf(program->people, "fermata serve: no model could be loaded\n");
        fflush(program->people);
        program->exit_code = EXIT_CODE_FAILED;
        serve_stop(program->serve, "nothing to serve");
    } else if (program->options->json) {
        report_json(program->serve);
    } else {
        report_text(program->serve, clock_now_ns() - program->started_ns, program->log_folder);
    }
}

/* Told in the turn after the one that settled it: by then clients are told so, too. */
static void on_look(loop_timer_t *timer, void *arg)
{
    program_t *program = arg;

    if (program->stop_wanted) {
        screen_clear(&program->screen);
    } else if (!report_is_due(program->serve)) {
        draw(program);
        loop_timer_start_in(timer, LOOK_NS);
    } else {
        settle(program);
        if (!program->exit_code)
            loop_program_ready(&program->around);
    }
}

/* From here on stderr is the log's, if that is not to be on the screen. */
static status_t choose_log(program_t *program, err_t *err)
{
    const serve_options_t *o = program->options;

    program->people = stderr;
    program->kept = -1;
    if (!log_folder_is_wanted((log_to_t)o->log_to, o->log_dir))
        return STATUS_OK;
    status_t status =
        log_folder_find("serve", o->log_dir, program->log_folder, sizeof(program->log_folder), err);
    if (status == STATUS_OK)
        status = log_folder_enter(program->log_folder, "serve", &program->kept, err);
    if (status != STATUS_OK)
        return status;
    FILE *people = fdopen(program->kept, "w");
    program->people = people ? people : stderr;
    screen_init(&program->screen, program->people);
    program->screen.live = program->screen.live && !o->json;
    return STATUS_OK;
}

static void give_back_stderr(program_t *program)
{
    screen_clear(&program->screen);
    if (program->kept < 0)
        return;
    fflush(stderr);
    dup2(program->kept, STDERR_FILENO);
    if (program->people != stderr)
        fclose(program->people);
}

static status_t start(program_t *program, const serve_options_t *options, err_t *err)
{
    status_t status = loop_program_open(&program->around, on_signal, program, err);
    loop_t *loop = program->around.loop;

    if (status == STATUS_OK)
        loop_program_on_hangup(&program->around, on_hangup);
    if (status == STATUS_OK)
        status = loop_timer_init(&program->look, loop, on_look, program, err);
    if (status == STATUS_OK)
        status = serve_create(loop, options, &program->serve, err);
    if (status != STATUS_OK)
        return status;
    serve_on_stopped(program->serve, on_stopped, loop);
    if (program->stop_wanted)
        serve_stop(program->serve, "a signal while it started");
    draw(program); /* once in any case, however soon all is loaded */
    loop_timer_start_in(&program->look, LOOK_NS);
    return STATUS_OK;
}

static status_t serve_main(const serve_options_t *options, int *exit_code, err_t *err)
{
    program_t program = {.options = options, .started_ns = clock_now_ns()};
    status_t status = choose_log(&program, err);

    if (status == STATUS_OK)
        status = start(&program, options, err);

    if (status == STATUS_OK) {
        loop_run(program.around.loop);
        log_info("stopped");
        *exit_code = program.exit_code;
    }
    serve_destroy(program.serve);
    if (program.look.loop)
        loop_timer_dispose(&program.look);
    loop_program_close(&program.around);
    give_back_stderr(&program);
    return status;
}

int main(int argc, char **argv)
{
    const config_schema_t *schema = serve_options_schema();
    serve_options_t options = {0}; /* not all of it has a row */
    config_t *config;
    int exit_code;
    err_t err = {0};

    if (!config_start(schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    log_init("serve", (log_level_t)options.log_level, (log_format_t)options.log_format);
    if (serve_options_finish(&options, &err) != STATUS_OK)
        return config_misused(schema, config, &err);
    status_t status = serve_main(&options, &exit_code, &err);
    config_destroy(config);
    return status == STATUS_OK ? exit_code : config_exit(schema, status, &err);
}
