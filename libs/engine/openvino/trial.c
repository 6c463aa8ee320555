#include "engine/openvino/trial.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAIRS_MIN = 5,
    PAIRS_MAX = 9,
    WORTH_PERMILLE = 980, /* faster than this part: below, noise decides, and memory is what is certain */
};
#define ENOUGH_NS (100 * NS_PER_MS)

typedef struct {
    compiled_t *own, *open;
    bool alone; /* one thread computes, which runs them: how long it waits for a CPU says nothing */
} trial_t;

/* Of several threads nobody knows who had which part. */
static int64_t time_ns(const trial_t *t)
{
    struct timespec ts;
    clock_gettime(t->alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* The first run of its shapes makes what the later ones find. */
static status_t begin(compiled_t *c, const engine_model_info_t *info, const tensor_t *inputs, err_t *err)
{
    uint32_t lane = compiled_lanes(c);
    status_t status = compiled_reserve(c, lane, err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->input_count; i++)
        status = compiled_bind_input(c, lane, i, &inputs[i], err);
    return status == STATUS_OK ? compiled_run(c, lane, err) : status;
}

static status_t run(const trial_t *t, compiled_t *c, int64_t *took_ns, err_t *err)
{
    int64_t begin_ns = time_ns(t);
    status_t status = compiled_run(c, compiled_lanes(c), err);
    *took_ns = time_ns(t) - begin_ns + 1;
    return status;
}

/* What one's own takes, in thousandths of the open one. */
static status_t run_pair(const trial_t *t, bool own_first, int64_t *permille, err_t *err)
{
    int64_t own_ns, open_ns;
    status_t status = own_first ? run(t, t->own, &own_ns, err) : run(t, t->open, &open_ns, err);
    if (status == STATUS_OK)
        status = own_first ? run(t, t->open, &open_ns, err) : run(t, t->own, &own_ns, err);
    if (status == STATUS_OK)
        *permille = own_ns * 1000 / open_ns;
    return status;
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median of pairs: a processor that is fast in one moment and slow in the next is so for both of most pairs. */
static status_t run_pairs(const trial_t *t, bool *worth, err_t *err)
{
    int64_t permille[PAIRS_MAX], begin_ns = time_ns(t);
    size_t pairs = 0;
    while (pairs < PAIRS_MAX && (pairs < PAIRS_MIN || time_ns(t) - begin_ns < ENOUGH_NS)) {
        status_t status = run_pair(t, pairs % 2, &permille[pairs], err);
        if (status != STATUS_OK)
            return status;
        pairs++;
    }
    qsort(permille, pairs, sizeof permille[0], compare);
    *worth = permille[pairs / 2] < WORTH_PERMILLE;
    return STATUS_OK;
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

status_t trial_is_worth(compiled_t *own, compiled_t *open, uint32_t threads, const engine_model_info_t *info,
                        const tensor_t *inputs, bool *worth, err_t *err)
{
    const trial_t t = {.own = own, .open = open, .alone = threads == 1};
    tensor_t filled[ENGINE_MAX_IO];
    void *zeros = fill(info, inputs, filled);
    if (!zeros)
        return err_set(err, STATUS_NO_MEMORY, "no memory for inputs to try");
    status_t status = begin(own, info, filled, err);
    if (status == STATUS_OK)
        status = begin(open, info, filled, err);
    if (status == STATUS_OK)
        status = run_pairs(&t, worth, err);
    compiled_give_back(own, compiled_lanes(own));
    compiled_give_back(open, compiled_lanes(open));
    free(zeros);
    return status;
}
