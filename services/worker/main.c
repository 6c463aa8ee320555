#include "base/log.h"
#include "loop/program.h"
#include "worker/service.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    loop_program_t around;
    worker_service_t *service;
} program_t;

static void on_stopped(void *arg)
{
    loop_stop(arg);
}

static void on_signal(void *arg, int signum)
{
    const program_t *program = arg;

    worker_service_stop(program->service, strsignal(signum));
}

static void on_hangup(void *arg, int signum)
{
    const program_t *program = arg;

    (void)signum;
    if (program->service)
        worker_service_reread(program->service);
}

static status_t start(program_t *program, const worker_options_t *options, err_t *err)
{
    status_t status = loop_program_open(&program->around, on_signal, program, err);

    if (status == STATUS_OK)
        loop_program_on_hangup(&program->around, on_hangup);
    if (status == STATUS_OK)
        status = worker_service_create(program->around.loop, options, NULL, &program->service, err);
    if (status == STATUS_OK)
        worker_service_on_stopped(program->service, on_stopped, program->around.loop);
    return status;
}

static status_t worker_main(const worker_options_t *options, err_t *err)
{
    program_t program = {0};
    status_t status = start(&program, options, err);

    if (status == STATUS_OK) {
        worker_service_print_ready(program.service);
        loop_program_ready(&program.around);
        loop_run(program.around.loop);
        log_info("stopped");
    }
    worker_service_destroy(program.service);
    loop_program_close(&program.around);
    return status;
}

int main(int argc, char **argv)
{
    worker_options_t options;
    config_t *config;
    int exit_code;
    err_t err = {0};

    if (!config_start(&worker_options_schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    const char *mistake = worker_options_mistake(&options);
    if (mistake) {
        fprintf(stderr, "fermata-worker: %s\n", mistake);
        config_destroy(config);
        return EXIT_CODE_USAGE;
    }
    log_init("worker", (log_level_t)options.log_level, (log_format_t)options.log_format);
    if (worker_options_check(&options, &err) != STATUS_OK)
        return config_misused(&worker_options_schema, config, &err);
    status_t status = worker_main(&options, &err);
    config_destroy(config);
    return config_exit(&worker_options_schema, status, &err);
}
