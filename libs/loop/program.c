#include "loop/program.h"

status_t loop_program_open(loop_program_t *program, loop_signal_fn_t on_stop, void *arg, err_t *err)
{
    *program = (loop_program_t){0};
    loop_raise_descriptor_limit();
    status_t status = loop_create(&program->loop, err);
    if (status == STATUS_OK)
        status = clock_watch_create(&program->clock_watch, program->loop, err);
    if (status == STATUS_OK)
        status = loop_signals_create(&program->signals, program->loop, on_stop, arg, err);
    return status;
}

void loop_program_close(loop_program_t *program)
{
    if (program->signals)
        loop_signals_destroy(program->signals);
    clock_watch_destroy(program->clock_watch);
    if (program->loop)
        loop_destroy(program->loop);
}
