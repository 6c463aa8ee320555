#include "graph/ops/walk.h"

static void set_strides(walk_t *w, uint32_t k, const tensor_t *out, const tensor_t *operand)
{
    int64_t own[TENSOR_MAX_RANK];
    tensor_strides(operand, own);
    for (uint32_t d = 0; d < out->rank; d++) {
        int64_t skip = (int64_t)out->rank - operand->rank;
        bool there = d >= skip && operand->dims[d - skip] != 1;
        w->strides[k][d] = there ? own[d - skip] : 0;
    }
}

/* Dimension d runs on in d - 1 for every operand. */
static bool mergeable(const walk_t *w, uint32_t d)
{
    for (uint32_t k = 0; k < w->operands; k++)
        if (w->strides[k][d - 1] != w->strides[k][d] * w->dims[d])
            return false;
    return true;
}

static void drop_dim(walk_t *w, uint32_t d)
{
    w->rank--;
    for (uint32_t i = d; i < w->rank; i++) {
        w->dims[i] = w->dims[i + 1];
        for (uint32_t k = 0; k < w->operands; k++)
            w->strides[k][i] = w->strides[k][i + 1];
    }
}

static void merge_dims(walk_t *w)
{
    for (uint32_t d = w->rank; d-- > 0;)
        if (w->dims[d] == 1 && w->rank > 1)
            drop_dim(w, d);
    for (uint32_t d = w->rank; d-- > 1;) {
        if (!mergeable(w, d))
            continue;
        w->dims[d] *= w->dims[d - 1];
        drop_dim(w, d - 1);
    }
}

bool walk_begin(walk_t *w, const tensor_t *out, const tensor_t *const *operands, uint32_t count)
{
    *w = (walk_t){.rank = out->rank, .operands = count};
    for (uint32_t d = 0; d < out->rank; d++)
        w->dims[d] = out->dims[d];
    for (uint32_t k = 0; k < count; k++)
        set_strides(w, k, out, operands[k]);
    if (w->rank == 0) {
        w->rank = 1;
        w->dims[0] = 1;
    }
    merge_dims(w);
    uint32_t last = w->rank - 1;
    w->row = (size_t)w->dims[last];
    for (uint32_t k = 0; k < count; k++)
        w->step[k] = w->strides[k][last];
    return tensor_count(out) != 0;
}

bool walk_next(walk_t *w)
{
    w->out += w->row;
    for (uint32_t d = w->rank - 1; d-- > 0;) {
        for (uint32_t k = 0; k < w->operands; k++)
            w->offset[k] += w->strides[k][d];
        if (++w->at[d] < w->dims[d])
            return true;
        for (uint32_t k = 0; k < w->operands; k++)
            w->offset[k] -= w->strides[k][d] * w->dims[d];
        w->at[d] = 0;
    }
    return false;
}
