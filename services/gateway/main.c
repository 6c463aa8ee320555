#include "base/log.h"
#include "gateway/service.h"
#include "loop/clock_watch.h"
#include "loop/signals.h"

#include <stdio.h>

typedef struct {
    loop_t *loop;
    gateway_service_t *service;
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
    if (!program->service)
        return; /* its start has failed */
    log_info("stopping", LOG_I64("signal", signum),
             LOG_U64("requests", gateway_service_waiting(program->service)));
    gateway_service_stop(program->service, on_stopped, program->loop);
}

static status_t start(program_t *program, const gateway_options_t *options, err_t *err)
{
    status_t status = loop_create(&program->loop, err);
    if (status == STATUS_OK)
        status = clock_watch_create(&program->clock_watch, program->loop, err);
    if (status == STATUS_OK)
        status = loop_signals_create(&program->signals, program->loop, on_signal, program, err);
    if (status == STATUS_OK)
        status = gateway_service_create(program->loop, options, NULL, &program->service, err);
    return status == STATUS_OK ? gateway_service_open(program->service, err) : status;
}

static void print_ready(const gateway_service_t *service)
{
    printf("ready ");
    gateway_service_print(service);
    printf("\n");
    fflush(stdout);
}

/* What has begun to turn on the loop ends on it. */
static void unwind(program_t *program)
{
    if (!program->service)
        return;
    gateway_service_stop(program->service, on_stopped, program->loop);
    loop_run(program->loop);
}

static void end(program_t *program)
{
    gateway_service_destroy(program->service);
    if (program->signals)
        loop_signals_destroy(program->signals);
    clock_watch_destroy(program->clock_watch);
    if (program->loop)
        loop_destroy(program->loop);
}

static status_t gateway_main(const gateway_options_t *options, err_t *err)
{
    program_t program = {0};
    loop_raise_descriptor_limit();
    status_t status = start(&program, options, err);
    if (status == STATUS_OK) {
        print_ready(program.service);
        loop_run(program.loop);
        log_info("stopped");
    } else {
        unwind(&program);
    }
    end(&program);
    return status;
}

int main(int argc, char **argv)
{
    gateway_options_t options;
    config_t *config;
    int exit_code;
    err_t err = {0};
    if (!config_start(&gateway_options_schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    log_init("gateway", (log_level_t)options.log_level, (log_format_t)options.log_format);
    status_t status = gateway_main(&options, &err);
    config_destroy(config);
    return config_exit(&gateway_options_schema, status, &err);
}
