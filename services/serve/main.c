#include "base/log.h"
#include "loop/clock_watch.h"
#include "loop/signals.h"
#include "serve/serve.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    loop_t *loop;
    serve_t *serve;
    loop_signals_t *signals;
    clock_watch_t *clock_watch;
} program_t;

static void on_stopped(void *arg)
{
    loop_stop(arg);
}

static void on_signal(void *arg, int signum)
{
    const program_t *program = arg;

    serve_stop(program->serve, strsignal(signum));
}

static status_t start(program_t *program, const serve_options_t *options, err_t *err)
{
    status_t status = loop_create(&program->loop, err);

    if (status == STATUS_OK)
        status = clock_watch_create(&program->clock_watch, program->loop, err);
    if (status == STATUS_OK)
        status = loop_signals_create(&program->signals, program->loop, on_signal, program, err);
    if (status == STATUS_OK)
        status = serve_create(program->loop, options, &program->serve, err);
    if (status == STATUS_OK)
        serve_on_stopped(program->serve, on_stopped, program->loop);
    return status;
}

static void print_ready(const serve_t *serve)
{
    printf("ready ");
    serve_print(serve);
    printf("\n");
    fflush(stdout);
}

/* Also unwinds a start that failed half-way. */
static void end(program_t *program)
{
    serve_destroy(program->serve);
    if (program->signals)
        loop_signals_destroy(program->signals);
    clock_watch_destroy(program->clock_watch);
    if (program->loop)
        loop_destroy(program->loop);
}

static status_t serve_main(const serve_options_t *options, err_t *err)
{
    program_t program = {0};

    loop_raise_descriptor_limit();
    status_t status = start(&program, options, err);
    if (status == STATUS_OK) {
        print_ready(program.serve);
        loop_run(program.loop);
        log_info("stopped");
    }
    end(&program);
    return status;
}

int main(int argc, char **argv)
{
    const config_schema_t *schema = serve_options_schema();
    serve_options_t options;
    config_t *config;
    int exit_code;
    err_t err = {0};

    if (!config_start(schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    const char *mistake = worker_options_mistake(&options.worker);
    if (mistake) {
        fprintf(stderr, "fermata-serve: %s\n", mistake);
        config_destroy(config);
        return EXIT_CODE_USAGE;
    }
    log_init("serve", (log_level_t)options.log_level, (log_format_t)options.log_format);
    status_t status = serve_main(&options, &err);
    config_destroy(config);
    return config_exit(schema, status, &err);
}
