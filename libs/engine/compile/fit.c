#include "engine/compile/fit.h"

#include <string.h>

void fit_first(fit_t *fit, fit_purpose_t purpose, uint32_t axis_count)
{
    *fit = (fit_t){.purpose = purpose, .axis_count = axis_count};
}

/* All but one, or two, are of the same size. Of n axes n are of a kind alone, n (n - 1) with another. */
static bool set_alone(fit_t *fit, uint32_t *step, fit_kind_t kind)
{
    if (*step >= fit->axis_count) {
        *step -= fit->axis_count;
        return false;
    }
    fit->kinds[*step] = kind;
    return true;
}

static bool set_pair(fit_t *fit, uint32_t *step, fit_kind_t first, fit_kind_t second)
{
    uint32_t others = fit->axis_count - 1, pairs = fit->axis_count * others;

    if (*step >= pairs) {
        *step -= pairs;
        return false;
    }
    uint32_t a = *step / others, b = *step % others;
    fit->kinds[a] = first;
    fit->kinds[b + (b >= a)] = second;
    return true;
}

static bool set_step(fit_t *fit, uint32_t step)
{
    if (fit->purpose == FIT_TO_DESCRIBE)
        return set_alone(fit, &step, FIT_DOUBLE) || set_alone(fit, &step, FIT_ONE_MORE);
    return set_alone(fit, &step, FIT_ONE_MORE) || set_pair(fit, &step, FIT_ONE, FIT_ONE_MORE) ||
           set_alone(fit, &step, FIT_DOUBLE) || set_alone(fit, &step, FIT_ONE) ||
           set_pair(fit, &step, FIT_ONE, FIT_DOUBLE);
}

bool fit_next(fit_t *fit)
{
    uint32_t step = fit->step;

    fit_first(fit, fit->purpose, fit->axis_count);
    if (fit->axis_count < 2 || fit->axis_count > FIT_AXES_MAX || !set_step(fit, step))
        return false;
    fit->step = step + 1;
    return true;
}

int64_t fit_size(const fit_t *fit, uint32_t axis, int64_t size)
{
    switch (axis < FIT_AXES_MAX ? fit->kinds[axis] : FIT_SAME) {
    case FIT_DOUBLE:
        return 2 * size;
    case FIT_ONE_MORE:
        return size + 1;
    case FIT_ONE:
        return 1;
    default:
        return size;
    }
}

/* 1 + the axis of the dimension before that has this name; 0: it is a new one. */
static uint32_t known(const fit_axes_t *axes, const engine_tensor_t *inputs, uint32_t input, uint32_t dim)
{
    const char *name = inputs[input].symbols[dim];

    for (uint32_t i = 0; name && i <= input; i++)
        for (uint32_t k = 0; k < (i < input ? inputs[i].rank : dim); k++)
            if (axes->of[i][k] && inputs[i].symbols[k] && strcmp(inputs[i].symbols[k], name) == 0)
                return axes->of[i][k];
    return 0;
}

void fit_axes(fit_axes_t *axes, const engine_tensor_t *inputs, uint32_t count, uint32_t lead)
{
    *axes = (fit_axes_t){0};
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = lead; k < inputs[i].rank; k++) {
            if (inputs[i].dims[k] >= 0)
                continue;
            uint32_t before = known(axes, inputs, i, k);
            axes->of[i][k] = before ? before : ++axes->count;
        }
    }
}
