/*
 * A chain of elementwise functions as one kernel.
 */
#include "engine/cuda/lower/lower.h"

#include <string.h>

static bool type_has_op(dtype_t compute, ew_op_t op)
{
    if (compute == DTYPE_F32)
        return true;
    if (compute == DTYPE_F64 && (op == EW_POW || op == EW_SQRT || op == EW_FLOOR || op == EW_CEIL))
        return true;
    return op < EW_POW || (op >= EW_ABS && op <= EW_IDENTITY);
}

bool ew_add_op(ew_t *e, ew_op_t op, double a, double b)
{
    if (e->op_count == K_MAX_OPS || !type_has_op(e->compute, op))
        return false;
    e->ops[e->op_count++] = (k_ew_op_t){.op = (int32_t)op, .input = K_IMMEDIATE, .a = a, .b = b};
    return true;
}

bool ew_add_view(ew_t *e, ew_op_t op, const view_t *view)
{
    if (e->view_count == K_MAX_INPUTS || !ew_add_op(e, op, 0, 0))
        return false;
    e->ops[e->op_count - 1].input = (int32_t)e->view_count;
    e->views[e->view_count++] = *view;
    return true;
}

bool ew_kernel(const ew_t *e, const view_t *out, k_elementwise_t *k)
{
    view_t wide[K_MAX_INPUTS];
    const view_t *views[K_MAX_INPUTS + 1] = {out};
    k_view_t *to[K_MAX_INPUTS + 1] = {&k->out};
    for (uint32_t i = 0; i < e->view_count; i++) {
        if (!view_broadcast(&e->views[i], out->rank, out->dims, &wide[i]))
            return false;
        views[i + 1] = &wide[i];
        to[i + 1] = &k->in[i];
    }
    view_collapse(views, e->view_count + 1, &k->space, to);
    k->compute = (int32_t)e->compute;
    k->op_count = (int32_t)e->op_count;
    memcpy(k->ops, e->ops, sizeof k->ops);
    return true;
}
