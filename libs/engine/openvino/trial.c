#include "engine/openvino/trial.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAIRS_MIN = 2,
    PAIRS_MAX = 8,
    WORTH_PERCENT =
        2, /* faster than this: below, the machine's noise decides, and memory is what is certain */
};
#define ENOUGH_NS ((int64_t)100 * 1000 * 1000)

typedef struct {
    compiled_t *compiled;
    int64_t least_ns; /* what else the machine does makes runs longer, never shorter */
} runner_t;

/* The first run of its shapes makes what the later ones find. */
static status_t begin(runner_t *r, const engine_model_info_t *info, const tensor_t *inputs, err_t *err)
{
    uint32_t lane = compiled_lanes(r->compiled);
    status_t status = compiled_reserve(r->compiled, lane, err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->input_count; i++)
        status = compiled_bind_input(r->compiled, lane, i, &inputs[i], err);
    return status == STATUS_OK ? compiled_run(r->compiled, lane, err) : status;
}

static status_t run(runner_t *r, err_t *err)
{
    int64_t begin_ns = clock_now_ns();
    status_t status = compiled_run(r->compiled, compiled_lanes(r->compiled), err);
    int64_t took_ns = clock_now_ns() - begin_ns;
    r->least_ns = took_ns < r->least_ns ? took_ns : r->least_ns;
    return status;
}

static status_t run_pairs(runner_t *own, runner_t *open, err_t *err)
{
    int64_t begin_ns = clock_now_ns();
    status_t status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < PAIRS_MAX; i++) {
        if (i >= PAIRS_MIN && clock_now_ns() - begin_ns > ENOUGH_NS)
            break;
        status = run(own, err);
        if (status == STATUS_OK)
            status = run(open, err);
    }
    return status;
}

static status_t race(runner_t *own, runner_t *open, const engine_model_info_t *info, const tensor_t *inputs,
                     err_t *err)
{
    status_t status = begin(own, info, inputs, err);
    if (status == STATUS_OK)
        status = begin(open, info, inputs, err);
    if (status == STATUS_OK)
        status = run_pairs(own, open, err);
    compiled_give_back(own->compiled, compiled_lanes(own->compiled));
    compiled_give_back(open->compiled, compiled_lanes(open->compiled));
    return status;
}

/* One buffer for all of them, which are only read. */
static void *fill(const engine_model_info_t *info, const tensor_t *inputs, tensor_t *filled)
{
    size_t largest = 1;
    for (uint32_t i = 0; i < info->input_count; i++)
        largest = tensor_bytes(&inputs[i]) > largest ? tensor_bytes(&inputs[i]) : largest;
    void *zeros = calloc(1, largest);
    memcpy(filled, inputs, info->input_count * sizeof *filled);
    for (uint32_t i = 0; i < info->input_count; i++)
        filled[i].data = zeros;
    return zeros;
}

status_t trial_is_worth(compiled_t *own, compiled_t *open, const engine_model_info_t *info,
                        const tensor_t *inputs, bool *worth, err_t *err)
{
    runner_t first = {.compiled = own, .least_ns = INT64_MAX}, second = {open, INT64_MAX};
    tensor_t filled[ENGINE_MAX_IO];
    void *zeros = fill(info, inputs, filled);
    if (!zeros)
        return err_set(err, STATUS_NO_MEMORY, "no memory for inputs to try");
    status_t status = race(&first, &second, info, filled, err);
    free(zeros);
    if (status == STATUS_OK)
        *worth = first.least_ns < second.least_ns / 100 * (100 - WORTH_PERCENT);
    return status;
}
