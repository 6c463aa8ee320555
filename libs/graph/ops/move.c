/*
 * Operators that move elements without looking at them: all are strided copies.
 */
#include "graph/ops/strided.h"
#include "graph/ops/tables.h"

#include <stdlib.h>
#include <string.h>

static char *at(const tensor_t *t, int64_t element)
{
    return (char *)t->data + element * (int64_t)dtype_size(t->dtype);
}

static status_t permutation(op_ctx_t *c, uint32_t *perm)
{
    const tensor_t *in = c->in[0];
    const attr_t *a = op_ints(c, "perm");
    unsigned seen = 0;
    if (a && a->count != in->rank)
        return op_bad(c, "'perm' has %u elements for %u dimensions", a->count, in->rank);
    for (uint32_t d = 0; d < in->rank; d++) {
        int64_t from = a ? a->ints[d] : in->rank - 1 - d;
        if (from < 0 || from >= in->rank || (seen & 1u << from))
            return op_bad(c, "'perm' is no permutation of %u dimensions", in->rank);
        seen |= 1u << from;
        perm[d] = (uint32_t)from;
    }
    return STATUS_OK;
}

static status_t infer_transpose(op_ctx_t *c)
{
    uint32_t perm[TENSOR_MAX_RANK];
    int64_t dims[TENSOR_MAX_RANK];
    status_t status = permutation(c, perm);
    if (status != STATUS_OK)
        return status;
    for (uint32_t d = 0; d < c->in[0]->rank; d++)
        dims[d] = c->in[0]->dims[perm[d]];
    return op_set(c, 0, c->in[0]->dtype, c->in[0]->rank, dims);
}

static status_t eval_transpose(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    uint32_t perm[TENSOR_MAX_RANK];
    int64_t from[TENSOR_MAX_RANK], own[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK];
    status_t status = permutation(c, perm);
    if (status != STATUS_OK)
        return status;
    tensor_strides(in, own);
    tensor_strides(out, to);
    for (uint32_t d = 0; d < in->rank; d++)
        from[d] = own[perm[d]];
    strided_copy(out->data, to, in->data, from, out->rank, out->dims, dtype_size(in->dtype));
    return STATUS_OK;
}

static status_t infer_concat(op_ctx_t *c)
{
    tensor_t all = *c->in[0];
    uint32_t axis;
    status_t status = op_axis(c, op_int(c, "axis", 1), all.rank, &axis);
    for (uint32_t i = 1; status == STATUS_OK && i < c->in_count; i++) {
        const tensor_t *t = c->in[i];
        bool fits = t && t->dtype == all.dtype && t->rank == all.rank;
        for (uint32_t d = 0; fits && d < all.rank; d++)
            fits = d == axis || t->dims[d] == all.dims[d];
        if (!fits)
            return op_bad(c, "input %u does not fit the first one", i);
        all.dims[axis] += t->dims[axis];
    }
    return status == STATUS_OK ? op_set_like(c, 0, &all) : status;
}

static status_t eval_concat(op_ctx_t *c)
{
    tensor_t *out = c->out[0];
    uint32_t axis;
    status_t status = op_axis(c, op_int(c, "axis", 1), out->rank, &axis);
    if (status != STATUS_OK)
        return status;
    size_t size = dtype_size(out->dtype), outer = tensor_count_range(out, 0, axis);
    size_t inner = tensor_count_range(out, axis + 1, out->rank) * size,
           to_row = (size_t)out->dims[axis] * inner;
    char *to = out->data;
    for (uint32_t i = 0; i < c->in_count; i++) {
        size_t row = (size_t)c->in[i]->dims[axis] * inner;
        for (size_t o = 0; row && o < outer; o++)
            memcpy(to + o * to_row, (const char *)c->in[i]->data + o * row, row);
        to += row;
    }
    return STATUS_OK;
}

static status_t split_sizes(op_ctx_t *c, uint32_t *axis, ints_t *sizes)
{
    const tensor_t *in = c->in[0];
    status_t status = op_axis(c, op_int(c, "axis", 0), in->rank, axis);
    if (status == STATUS_OK)
        status = op_read_ints_either(c, "split", 1, sizes);
    if (status != STATUS_OK)
        return status;
    int64_t total = in->dims[*axis], parts = op_int(c, "num_outputs", c->out_count), sum = 0;
    if (parts != c->out_count)
        return op_bad(c, "num_outputs is %lld, and there are %u outputs", (long long)parts, c->out_count);
    if (!sizes->count) {
        if (parts > OP_MAX_INTS)
            return op_unsupported(c, "a split into more than %d parts", OP_MAX_INTS);
        int64_t each = (total + parts - 1) / parts;
        sizes->count = c->out_count;
        for (int64_t i = 0; i < parts; i++)
            sizes->v[i] = i * each > total ? 0 : (i + 1) * each > total ? total - i * each : each;
    }
    for (uint32_t i = 0; i < sizes->count; i++) {
        if (sizes->v[i] < 0)
            return op_bad(c, "part %u has a negative size", i);
        sum += sizes->v[i] < total ? sizes->v[i] : total;
    }
    if (sizes->count != c->out_count || sum != total)
        return op_bad(c, "the parts do not make up dimension %u of %lld", *axis, (long long)total);
    return STATUS_OK;
}

static status_t infer_split(op_ctx_t *c)
{
    ints_t sizes;
    uint32_t axis;
    status_t status = split_sizes(c, &axis, &sizes);
    for (uint32_t i = 0; status == STATUS_OK && i < c->out_count; i++) {
        tensor_t part = *c->in[0];
        part.dims[axis] = sizes.v[i];
        status = op_set_like(c, i, &part);
    }
    return status;
}

static status_t eval_split(op_ctx_t *c)
{
    ints_t sizes;
    uint32_t axis;
    status_t status = split_sizes(c, &axis, &sizes);
    if (status != STATUS_OK)
        return status;
    const tensor_t *in = c->in[0];
    size_t inner = tensor_count_range(in, axis + 1, in->rank) * dtype_size(in->dtype);
    size_t outer = tensor_count_range(in, 0, axis), from_row = (size_t)in->dims[axis] * inner;
    const char *from = in->data;
    for (uint32_t i = 0; i < c->out_count; i++) {
        size_t row = (size_t)sizes.v[i] * inner;
        for (size_t o = 0; c->out[i] && row && o < outer; o++)
            memcpy((char *)c->out[i]->data + o * row, from + o * from_row, row);
        from += row;
    }
    return STATUS_OK;
}

typedef struct {
    int64_t start[TENSOR_MAX_RANK], step[TENSOR_MAX_RANK], count[TENSOR_MAX_RANK];
} slice_t;

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void slice_axis(slice_t *s, uint32_t axis, int64_t dim, int64_t start, int64_t end, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
    start = clamp(start < 0 ? start + dim : start, step > 0 ? 0 : low, high);
    end = clamp(end < 0 ? (end < -dim ? -1 - (step > 0) * 0 : end + dim) : end, low, high);
    /* Written so that a step of any size cannot overflow. */
    int64_t span = step > 0 ? end - start : start - end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    s->start[axis] = start;
    s->step[axis] = step;
    s->count[axis] = span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
    if (s->count[axis] <= 1)
        s->step[axis] = 1;
}

static status_t read_slice(op_ctx_t *c, slice_t *s)
{
    const tensor_t *in = c->in[0];
    ints_t starts, ends, axes, steps;
    status_t status = op_read_ints_either(c, "starts", 1, &starts);
    if (status == STATUS_OK)
        status = op_read_ints_either(c, "ends", 2, &ends);
    if (status == STATUS_OK)
        status = op_read_ints_either(c, "axes", 3, &axes);
    if (status == STATUS_OK)
        status = op_read_ints(c, 4, &steps);
    if (status != STATUS_OK)
        return status;
    bool fits = starts.count == ends.count && (!axes.count || axes.count == starts.count) &&
                (!steps.count || steps.count == starts.count) && starts.count <= in->rank;
    if (!fits)
        return op_bad(c, "starts, ends, axes and steps do not fit together");
    for (uint32_t d = 0; d < in->rank; d++)
        slice_axis(s, d, in->dims[d], 0, in->dims[d], 1);
    for (uint32_t i = 0; i < starts.count; i++) {
        uint32_t axis;
        status = op_axis(c, axes.count ? axes.v[i] : i, in->rank, &axis);
        if (status != STATUS_OK)
            return status;
        if (steps.count && steps.v[i] == 0)
            return op_bad(c, "step %u is 0", i);
        slice_axis(s, axis, in->dims[axis], starts.v[i], ends.v[i], steps.count ? steps.v[i] : 1);
    }
    return STATUS_OK;
}

static status_t infer_slice(op_ctx_t *c)
{
    slice_t s;
    status_t status = read_slice(c, &s);
    return status == STATUS_OK ? op_set(c, 0, c->in[0]->dtype, c->in[0]->rank, s.count) : status;
}

static status_t eval_slice(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    slice_t s;
    status_t status = read_slice(c, &s);
    if (status != STATUS_OK || !tensor_count(c->out[0]))
        return status;
    int64_t from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK], first = 0;
    tensor_strides(in, from);
    tensor_strides(c->out[0], to);
    for (uint32_t d = 0; d < in->rank; d++) {
        first += s.start[d] * from[d];
        from[d] *= s.step[d];
    }
    strided_copy(c->out[0]->data, to, at(in, first), from, in->rank, s.count, dtype_size(in->dtype));
    return STATUS_OK;
}

static status_t infer_expand(op_ctx_t *c)
{
    ints_t want;
    tensor_t out, shape = {.dtype = c->in[0]->dtype};
    status_t status = op_read_ints(c, 1, &want);
    if (status != STATUS_OK)
        return status;
    if (want.count > TENSOR_MAX_RANK)
        return op_unsupported(c, "the result has %u dimensions", want.count);
    shape.rank = want.count;
    memcpy(shape.dims, want.v, want.count * sizeof want.v[0]);
    status = op_broadcast(c, c->in[0], &shape, &out);
    return status == STATUS_OK ? op_set_like(c, 0, &out) : status;
}

static status_t eval_expand(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    int64_t own[TENSOR_MAX_RANK], from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK];
    uint32_t skip = out->rank - in->rank;
    tensor_strides(in, own);
    tensor_strides(out, to);
    for (uint32_t d = 0; d < out->rank; d++)
        from[d] = d < skip || in->dims[d - skip] == 1 ? 0 : own[d - skip];
    strided_copy(out->data, to, in->data, from, out->rank, out->dims, dtype_size(in->dtype));
    return STATUS_OK;
}

/* Until opset 5 there is a count and an axis; since 6 a count per dimension. */
static status_t infer_tile(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    ints_t repeats;
    status_t status = op_read_ints(c, 1, &repeats);
    if (status != STATUS_OK)
        return status;
    if (repeats.count != in->rank)
        return op_bad(c, "there are %u repeats for %u dimensions", repeats.count, in->rank);
    int64_t dims[TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < in->rank; d++) {
        if (repeats.v[d] < 0 || __builtin_mul_overflow(in->dims[d], repeats.v[d], &dims[d]))
            return op_bad(c, "repeat %u is negative or too large", d);
    }
    return op_set(c, 0, in->dtype, in->rank, dims);
}

/* Each dimension becomes two, the repeat (stride 0) and its own; done dimension by dimension to stay
 * within the rank. */
static status_t eval_tile(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    if (!tensor_count(out))
        return STATUS_OK;
    size_t size = dtype_size(in->dtype);
    int64_t from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK], done[TENSOR_MAX_RANK];
    tensor_strides(in, from);
    tensor_strides(out, to);
    memcpy(done, in->dims, sizeof done);
    strided_copy(out->data, to, in->data, from, in->rank, in->dims, size);
    for (uint32_t d = in->rank; d-- > 0;) {
        int64_t period = in->dims[d];
        for (int64_t r = period; r < out->dims[d]; r += period)
            strided_copy(at(out, r * to[d]), to, out->data, to, in->rank, done, size);
        done[d] = out->dims[d];
    }
    return STATUS_OK;
}

static status_t infer_depth_to_space(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    int64_t b = op_int(c, "blocksize", 0);
    if (in->rank != 4 || b < 1 || b > 1 << 15 || in->dims[1] % (b * b))
        return op_bad(c, "the input does not divide into blocks of %lld", (long long)b);
    return op_set(c, 0, in->dtype, 4,
                  (int64_t[]){in->dims[0], in->dims[1] / (b * b), in->dims[2] * b, in->dims[3] * b});
}

/* DCR: depth is [b, b, C]; CRD: [C, b, b]. Seen as six dimensions n, c, y, by, x, bx. */
static status_t eval_depth_to_space(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    int64_t b = op_int(c, "blocksize", 1), h = in->dims[2], w = in->dims[3], depth = in->dims[1] / (b * b);
    bool crd = !strcmp(op_string(c, "mode", "DCR"), "CRD");
    int64_t plane = h * w, dims[6] = {in->dims[0], depth, h, b, w, b};
    int64_t from[6] = {
        in->dims[1] * plane,        crd ? b * b * plane : plane, w, crd ? b * plane : b * depth * plane, 1,
        crd ? plane : depth * plane};
    int64_t to[6] = {in->dims[1] * plane, plane * b * b, b * w * b, w * b, b, 1};
    strided_copy(c->out[0]->data, to, in->data, from, 6, dims, dtype_size(in->dtype));
    return STATUS_OK;
}

static status_t infer_space_to_depth(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    int64_t b = op_int(c, "blocksize", 0);
    if (in->rank != 4 || b < 1 || b > 1 << 15 || in->dims[2] % b || in->dims[3] % b)
        return op_bad(c, "the input does not divide into blocks of %lld", (long long)b);
    return op_set(c, 0, in->dtype, 4,
                  (int64_t[]){in->dims[0], in->dims[1] * b * b, in->dims[2] / b, in->dims[3] / b});
}

static status_t eval_space_to_depth(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    int64_t b = op_int(c, "blocksize", 1), h = in->dims[2] / b, w = in->dims[3] / b, depth = in->dims[1];
    int64_t plane = h * w, dims[6] = {in->dims[0], depth, h, b, w, b};
    int64_t from[6] = {depth * plane * b * b, plane * b * b, b * w * b, w * b, b, 1};
    int64_t to[6] = {depth * plane * b * b, plane, w, b * depth * plane, 1, depth * plane};
    strided_copy(c->out[0]->data, to, in->data, from, 6, dims, dtype_size(in->dtype));
    return STATUS_OK;
}

static status_t eval_trilu(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    if (in->rank < 2)
        return op_bad(c, "the input is no matrix");
    int64_t k = op_scalar_i64(c, 1, 0), rows = in->dims[in->rank - 2], columns = in->dims[in->rank - 1];
    bool upper = op_int(c, "upper", 1);
    size_t size = dtype_size(in->dtype), matrices = tensor_count_range(in, 0, in->rank - 2);
    if (tensor_bytes(in))
        memcpy(c->out[0]->data, in->data, tensor_bytes(in));
    k = clamp(k, -rows - 1, columns + 1);
    for (size_t m = 0; m < matrices; m++) {
        for (int64_t r = 0; r < rows; r++) {
            int64_t from = upper ? 0 : clamp(r + k + 1, 0, columns),
                    to = upper ? clamp(r + k, 0, columns) : columns;
            char *row = at(c->out[0], ((int64_t)m * rows + r) * columns);
            if (to > from)
                memset(row + (size_t)from * size, 0, (size_t)(to - from) * size);
        }
    }
    return STATUS_OK;
}

/* Each sequence of the batch is turned round up to its own length. */
static status_t eval_reverse_sequence(op_ctx_t *c)
{
    const tensor_t *in = c->in[0], *lens = c->in[1];
    int64_t time = op_int(c, "time_axis", 0), batch = op_int(c, "batch_axis", 1);
    bool fits = in->rank >= 2 && ((time == 0 && batch == 1) || (time == 1 && batch == 0)) &&
                tensor_count(lens) == (size_t)in->dims[batch];
    if (!fits)
        return op_bad(c, "the axes or the lengths do not fit the input");
    size_t row = tensor_count_range(in, 2, in->rank) * dtype_size(in->dtype);
    int64_t strides[2] = {in->dims[1], 1};
    for (int64_t b = 0; b < in->dims[batch]; b++) {
        int64_t len = clamp(tensor_get_i64(lens, (size_t)b), 0, in->dims[time]);
        for (int64_t t = 0; t < in->dims[time]; t++) {
            int64_t from = t < len ? len - 1 - t : t;
            size_t to_row = (size_t)(b * strides[batch] + t * strides[time]);
            size_t from_row = (size_t)(b * strides[batch] + from * strides[time]);
            if (row)
                memcpy((char *)c->out[0]->data + to_row * row, (const char *)in->data + from_row * row, row);
        }
    }
    return STATUS_OK;
}

const op_t ops_move[] = {
    {"Concat", 1, 255, 1, 1, 0, infer_concat, eval_concat, NULL, NULL, 0,
     .rows = {ROWS_ALONG_AXIS, "axis", 1}, .kind = OP_CONCAT},
    {"DepthToSpace", 1, 1, 1, 1, 0, infer_depth_to_space, eval_depth_to_space, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT, .kind = OP_DEPTH_TO_SPACE},
    {"Expand", 2, 2, 1, 1, 0, infer_expand, eval_expand, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_EXPAND},
    {"ReverseSequence", 2, 2, 1, 1, 0, op_infer_same, eval_reverse_sequence, NULL, NULL, 0,
     .rows = {ROWS_ALONG_AXIS, "time_axis", 0}},
    {"Slice", 1, 5, 1, 1, 0, infer_slice, eval_slice, NULL, NULL, 0, .rows.kind = ROWS_MIXED,
     .kind = OP_SLICE},
    {"SpaceToDepth", 1, 1, 1, 1, 0, infer_space_to_depth, eval_space_to_depth, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT, .kind = OP_SPACE_TO_DEPTH},
    {"Split", 1, 2, 1, 255, 0, infer_split, eval_split, NULL, NULL, 0, .rows = {ROWS_ALONG_AXIS, "axis", 0},
     .kind = OP_SPLIT},
    {"Tile", 2, 2, 1, 1, 0, infer_tile, eval_tile, NULL, NULL, 0, .rows.kind = ROWS_KEPT, .kind = OP_TILE},
    {"Transpose", 1, 1, 1, 1, 0, infer_transpose, eval_transpose, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_TRANSPOSE},
    {"Trilu", 1, 2, 1, 1, 0, op_infer_same, eval_trilu, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
