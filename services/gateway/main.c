#include "base/log.h"
#include "gateway/loops.h"
#include "loop/program.h"

typedef struct {
    loop_program_t around;
    gateway_loops_t *gateways;
} program_t;

static void on_stopped(void *arg)
{
    loop_stop(arg);
}

static void on_signal(void *arg, int signum)
{
    const program_t *program = arg;
    if (!program->gateways)
        return; /* its start has failed */
    log_info("stopping", LOG_I64("signal", signum),
             LOG_U64("requests", gateway_loops_waiting(program->gateways)));
    gateway_loops_stop(program->gateways, on_stopped, program->around.loop);
}

static void on_hangup(void *arg, int signum)
{
    const program_t *program = arg;
    if (program->gateways)
        gateway_loops_reread(program->gateways);
    log_info("read_again", LOG_I64("signal", signum));
}

static status_t start(program_t *program, const gateway_options_t *options, err_t *err)
{
    status_t status = loop_program_open(&program->around, on_signal, program, err);
    if (status == STATUS_OK)
        loop_program_on_hangup(&program->around, on_hangup);
    if (status == STATUS_OK)
        status = gateway_loops_create(program->around.loop, options, NULL, &program->gateways, err);
    return status == STATUS_OK ? gateway_loops_open(program->gateways, err) : status;
}

static status_t gateway_main(const gateway_options_t *options, err_t *err)
{
    program_t program = {0};
    status_t status = start(&program, options, err);
    if (status == STATUS_OK) {
        gateway_loops_print_ready(program.gateways);
        loop_program_ready(&program.around);
        loop_run(program.around.loop);
        log_info("stopped");
    }
    gateway_loops_destroy(program.gateways);
    loop_program_close(&program.around);
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
    if (gateway_options_check(&options, &err) != STATUS_OK)
        return config_misused(&gateway_options_schema, config, &err);
    status_t status = gateway_main(&options, &err);
    config_destroy(config);
    return config_exit(&gateway_options_schema, status, &err);
}
