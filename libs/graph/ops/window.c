#include "graph/ops/window.h"

#include <string.h>

/* Larger attributes are mistakes and would overflow the sums below. */
#define MAX_ATTR (INT64_C(1) << 31)

static status_t read_list(op_ctx_t *c, const char *name, uint32_t count, int64_t otherwise, int64_t lowest,
                          int64_t *to)
{
    const attr_t *a = op_ints(c, name);
    if (a && a->count != count)
        return op_bad(c, "'%s' has %u elements where %u are wanted", name, a->count, count);
    for (uint32_t i = 0; i < count; i++) {
        to[i] = a ? a->ints[i] : otherwise;
        if (to[i] < lowest || to[i] > MAX_ATTR)
            return op_bad(c, "'%s' has the element %lld", name, (long long)to[i]);
    }
    return STATUS_OK;
}

static status_t begin(op_ctx_t *c, window_t *w, const int64_t *kernel)
{
    const tensor_t *in = c->in[0];
    int64_t pads[2 * WINDOW_MAX_DIMS];
    if (in->rank < 3 || in->rank > 2 + WINDOW_MAX_DIMS)
        return op_unsupported(c, "an input of %u dimensions is not supported (3 to 5 are)", in->rank);
    w->dims = in->rank - 2;
    for (uint32_t i = 0; i < w->dims; i++) {
        w->in[i] = in->dims[i + 2];
        w->kernel[i] = kernel[i];
        if (kernel[i] < 1 || kernel[i] > MAX_ATTR)
            return op_bad(c, "the kernel has the size %lld", (long long)kernel[i]);
    }
    status_t status = read_list(c, "strides", w->dims, 1, 1, w->stride);
    if (status == STATUS_OK)
        status = read_list(c, "dilations", w->dims, 1, 1, w->dilation);
    if (status == STATUS_OK)
        status = read_list(c, "pads", 2 * w->dims, 0, -MAX_ATTR, pads);
    for (uint32_t i = 0; status == STATUS_OK && i < w->dims; i++) {
        w->before[i] = pads[i];
        w->after[i] = pads[i + w->dims];
    }
    return status;
}

static void pad_same(window_t *w, uint32_t i, bool upper)
{
    int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
    w->out[i] = (w->in[i] + w->stride[i] - 1) / w->stride[i];
    int64_t total = (w->out[i] - 1) * w->stride[i] + extent - w->in[i];
    total = total > 0 ? total : 0;
    w->before[i] = upper ? total / 2 : (total + 1) / 2;
    w->after[i] = total - w->before[i];
}

static status_t size_of(op_ctx_t *c, window_t *w, uint32_t i, bool ceil_mode)
{
    int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t room = w->in[i] + w->before[i] + w->after[i] - extent;
    if (room < 0 && w->in[i] > 0)
        return op_bad(c, "the kernel (%lld) is larger than the padded input (%lld)", (long long)extent,
                      (long long)(room + extent));
    w->out[i] = room < 0 ? 0 : room / w->stride[i] + 1;
    /* One more window, unless it would begin in the padding behind the input. */
    if (ceil_mode && room >= 0 && room % w->stride[i] && w->out[i] * w->stride[i] < w->in[i] + w->before[i])
        w->out[i]++;
    return STATUS_OK;
}

status_t window_read(op_ctx_t *c, window_t *w, const int64_t *kernel)
{
    status_t status = begin(c, w, kernel);
    const char *pad = op_string(c, "auto_pad", "NOTSET");
    bool same = !strncmp(pad, "SAME_", 5);
    for (uint32_t i = 0; status == STATUS_OK && i < w->dims; i++) {
        if (same) {
            pad_same(w, i, !strcmp(pad, "SAME_UPPER"));
            continue;
        }
        if (!strcmp(pad, "VALID"))
            w->before[i] = w->after[i] = 0;
        status = size_of(c, w, i, op_int(c, "ceil_mode", 0));
    }
    return status;
}

status_t window_read_transposed(op_ctx_t *c, window_t *w, const int64_t *kernel)
{
    int64_t extra[WINDOW_MAX_DIMS], want[WINDOW_MAX_DIMS];
    const char *pad = op_string(c, "auto_pad", "NOTSET");
    bool same = !strncmp(pad, "SAME_", 5), upper = !strcmp(pad, "SAME_UPPER"),
         given = op_ints(c, "output_shape");
    status_t status = begin(c, w, kernel);
    if (status == STATUS_OK)
        status = read_list(c, "output_padding", w->dims, 0, 0, extra);
    if (status == STATUS_OK)
        status = read_list(c, "output_shape", w->dims, 0, 0, want);
    for (uint32_t i = 0; status == STATUS_OK && i < w->dims; i++) {
        int64_t full = w->stride[i] * (w->in[i] - 1) + extra[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (given || same) {
            int64_t total = full - (given ? want[i] : w->in[i] * w->stride[i]);
            total = total > 0 ? total : 0;
            w->before[i] = upper ? total / 2 : total - total / 2;
            w->after[i] = total - w->before[i];
        }
        w->out[i] = given ? want[i] : full - w->before[i] - w->after[i];
        if (w->out[i] < 0)
            status = op_bad(c, "the padding is larger than the result");
    }
    return status;
}
