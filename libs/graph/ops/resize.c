/*
 * Resize, Upsample and GridSample: interpolation. Resize is separable: one weighted sum per dimension in turn.
 */
#include "graph/ops/resize.h"

#include "graph/ops/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    COORD_HALF_PIXEL,
    COORD_PYTORCH,
    COORD_ALIGN,
    COORD_ASYMMETRIC,
    COORD_TF_HALF,
    COORD_TF_CROP,
    COORD_SYMMETRIC
} coord_t;

typedef struct {
    char mode; /* 'n'earest, 'l'inear, 'c'ubic */
    coord_t coord;
    const char *nearest;
    double cubic_a, extrapolation;
    bool exclude_outside, antialias;
    int64_t out[TENSOR_MAX_RANK];
    double scale[TENSOR_MAX_RANK], start[TENSOR_MAX_RANK], end[TENSOR_MAX_RANK];
} resize_t;

static status_t read_coord(op_ctx_t *c, resize_t *r)
{
    static const char *const names[] = {"half_pixel",          "pytorch_half_pixel",   "align_corners",
                                        "asymmetric",          "tf_half_pixel_for_nn", "tf_crop_and_resize",
                                        "half_pixel_symmetric"};
    bool old = c->node->opset < 11 || !strcmp(c->node->op->name, "Upsample");
    const char *name = old ? "asymmetric" : op_string(c, "coordinate_transformation_mode", "half_pixel");
    for (int i = 0; i < 7; i++)
        if (!strcmp(names[i], name)) {
            r->coord = (coord_t)i;
            return STATUS_OK;
        }
    return op_unsupported(c, "the coordinate transformation '%.40s' is not supported", name);
}

static status_t read_floats(op_ctx_t *c, uint32_t i, double *to, uint32_t want, bool *there)
{
    const tensor_t *t = op_in(c, i);
    *there = t && tensor_count(t);
    if (!*there)
        return STATUS_OK;
    if (!t->data) {
        c->needs_value = true;
        return err_set(c->err, STATUS_UNAVAILABLE,
                       "the shape of the result depends on the contents of input %u", i);
    }
    if (tensor_count(t) != want)
        return op_bad(c, "input %u has %zu elements for %u dimensions", i, tensor_count(t), want);
    for (uint32_t k = 0; k < want; k++)
        to[k] = tensor_get_f64(t, k);
    return STATUS_OK;
}

static status_t axes_of(op_ctx_t *c, uint32_t *axes, uint32_t *count)
{
    const attr_t *a = op_ints(c, "axes");
    const tensor_t *x = c->in[0];
    *count = a ? a->count : x->rank;
    for (uint32_t i = 0; i < *count && i < TENSOR_MAX_RANK; i++) {
        axes[i] = i;
        status_t status = a ? op_axis(c, a->ints[i], x->rank, &axes[i]) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
    }
    return *count > x->rank ? op_bad(c, "there are more axes than dimensions") : STATUS_OK;
}

static void by_scales(resize_t *r, const tensor_t *x, const uint32_t *axes, uint32_t count,
                      const double *scales)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = axes[i];
        r->scale[d] = scales[i];
        double size =
            r->coord == COORD_TF_CROP ? (double)x->dims[d] * (r->end[d] - r->start[d]) : (double)x->dims[d];
        double out = floor(size * scales[i]);
        r->out[d] = out >= 0 && out < 1e15 ? (int64_t)out : -1;
    }
}

/* keep_aspect_ratio_policy (opset 18): one scale for all axes, the smallest or the largest. */
static void by_sizes(op_ctx_t *c, resize_t *r, const uint32_t *axes, uint32_t count, const double *sizes)
{
    const tensor_t *x = c->in[0];
    const char *policy = op_string(c, "keep_aspect_ratio_policy", "stretch");
    bool stretch = !strcmp(policy, "stretch"), larger = !strcmp(policy, "not_smaller");
    double common = larger ? 0 : (double)INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        double scale = sizes[i] / (double)x->dims[axes[i]];
        common = larger ? fmax(common, scale) : fmin(common, scale);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = axes[i];
        r->out[d] =
            op_saturate(stretch ? sizes[i] : floor((double)x->dims[d] * common + 0.5), -1, INT64_C(1) << 50);
        r->scale[d] = stretch ? sizes[i] / (double)x->dims[d] : common;
    }
}

static status_t read_roi(op_ctx_t *c, resize_t *r, const uint32_t *axes, uint32_t count)
{
    double roi[2 * TENSOR_MAX_RANK];
    bool there;
    if (r->coord != COORD_TF_CROP)
        return STATUS_OK;
    status_t status = read_floats(c, 1, roi, 2 * count, &there);
    for (uint32_t i = 0; status == STATUS_OK && there && i < count; i++) {
        r->start[axes[i]] = roi[i];
        r->end[axes[i]] = roi[i + count];
    }
    return status;
}

/* Upsample and Resize before opset 11: (x, scales); since then (x, roi, scales, sizes). */
static status_t read_resize(op_ctx_t *c, resize_t *r)
{
    const tensor_t *x = c->in[0];
    bool upsample = !strcmp(c->node->op->name, "Upsample"), old = upsample || c->node->opset < 11;
    uint32_t axes[TENSOR_MAX_RANK], count;
    double numbers[TENSOR_MAX_RANK];
    bool there = false;
    *r = (resize_t){.mode = *op_string(c, "mode", "nearest"),
                    .nearest = old ? "floor" : op_string(c, "nearest_mode", "round_prefer_floor"),
                    .cubic_a = op_float(c, "cubic_coeff_a", -0.75),
                    .extrapolation = op_float(c, "extrapolation_value", 0),
                    .exclude_outside = op_int(c, "exclude_outside", 0),
                    .antialias = op_int(c, "antialias", 0)};
    for (uint32_t d = 0; d < x->rank; d++) {
        r->out[d] = x->dims[d];
        r->scale[d] = r->end[d] = 1;
    }
    status_t status = read_coord(c, r);
    if (status == STATUS_OK)
        status = axes_of(c, axes, &count);
    if (status == STATUS_OK)
        status = read_roi(c, r, axes, count);
    const attr_t *attr = node_attr(c->node, "scales");
    if (status == STATUS_OK && attr && attr->kind == ATTR_FLOATS && attr->count == count) {
        for (uint32_t i = 0; i < count; i++)
            numbers[i] = (double)attr->floats[i];
        by_scales(r, x, axes, count, numbers);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = read_floats(c, old ? 1 : 2, numbers, count, &there);
    if (status == STATUS_OK && there)
        by_scales(r, x, axes, count, numbers);
    if (status != STATUS_OK || there)
        return status;
    status = read_floats(c, 3, numbers, count, &there);
    if (status == STATUS_OK && !there)
        status = op_bad(c, "neither scales nor sizes are given");
    if (status == STATUS_OK)
        by_sizes(c, r, axes, count, numbers);
    return status;
}

static bool usable_scales(const resize_t *r, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++)
        if (!(r->scale[d] > 1e-9 && r->scale[d] < 1e9 && fabs(r->start[d]) < 1e9 && fabs(r->end[d]) < 1e9))
            return false;
    return true;
}

static status_t infer_resize(op_ctx_t *c)
{
    resize_t r;
    status_t status = read_resize(c, &r);
    if (status == STATUS_OK && c->in[0]->dtype != DTYPE_F32 && r.mode != 'n')
        status = op_unsupported(c, "interpolation of %s is not supported", dtype_name(c->in[0]->dtype));
    if (status == STATUS_OK && (!tensor_count(c->in[0]) || !usable_scales(&r, c->in[0]->rank)))
        status = op_bad(c, "the input is empty, or a scale makes no sense");
    return status == STATUS_OK ? op_set(c, 0, c->in[0]->dtype, c->in[0]->rank, r.out) : status;
}

/* Position in the input of position i of the output. */
static double source(const resize_t *r, uint32_t d, double i, double in, double out)
{
    double scale = r->scale[d];
    switch (r->coord) {
    case COORD_PYTORCH:
        return out > 1 ? (i + 0.5) / scale - 0.5 : 0;
    case COORD_ALIGN:
        return out > 1 ? i * (in - 1) / (in * scale - 1) : 0; /* not rounded down, as in ONNX's reference */
    case COORD_ASYMMETRIC:
        return i / scale;
    case COORD_TF_HALF:
        return (i + 0.5) / scale;
    case COORD_TF_CROP:
        return out > 1 ? r->start[d] * (in - 1) + i * (r->end[d] - r->start[d]) * (in - 1) / (out - 1)
                       : 0.5 * (r->start[d] + r->end[d]) * (in - 1);
    case COORD_SYMMETRIC: {
        double adjustment = out / (scale * in), centre = in / 2, offset = centre * (1 - adjustment);
        return offset + (i + 0.5) / scale - 0.5;
    }
    default:
        return (i + 0.5) / scale - 0.5;
    }
}

static double pick_nearest(const char *mode, double x)
{
    if (!strcmp(mode, "floor"))
        return floor(x);
    if (!strcmp(mode, "ceil"))
        return ceil(x);
    return !strcmp(mode, "round_prefer_ceil") ? floor(x + 0.5) : ceil(x - 0.5);
}

static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double kernel(const resize_t *r, double x)
{
    if (r->mode == 'l')
        return fmax(0, 1 - fabs(x));
    return cubic(r->cubic_a, x);
}

/* The taps of one output position: weights of input positions first … first + count - 1 (clamped when read). */
enum { MAX_TAPS = 512 };
typedef struct {
    int64_t first;
    int count;
    bool outside;
    double weight[MAX_TAPS];
} taps_t;

static void make_taps(const resize_t *r, uint32_t d, int64_t in, int64_t i, taps_t *t)
{
    double x = source(r, d, (double)i, (double)in, (double)r->out[d]);
    t->outside = r->coord == COORD_TF_CROP && (x < 0 || x > (double)in - 1);
    if (r->mode == 'n') {
        *t = (taps_t){
            .first = (int64_t)pick_nearest(r->nearest, x), .count = 1, .outside = t->outside, .weight = {1}};
        return;
    }
    double stretch = r->antialias && r->scale[d] < 1 ? r->scale[d] : 1, sum = 0;
    double reach = (r->mode == 'l' ? 1 : 2) / stretch;
    t->first = (int64_t)floor(x - reach) + 1;
    t->count =
        (int)fmin(ceil(x + reach) - (double)t->first, MAX_TAPS); /* both are finite, see usable_scales */
    t->count = t->count < 1 ? 1 : t->count;
    for (int k = 0; k < t->count; k++) {
        int64_t at = t->first + k;
        bool dropped = r->exclude_outside && (at < 0 || at >= in);
        t->weight[k] = dropped ? 0 : kernel(r, (x - (double)at) * stretch);
        sum += t->weight[k];
    }
    for (int k = 0; sum != 0 && k < t->count; k++)
        t->weight[k] /= sum;
}

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* One dimension of float data: [outer, in, inner] -> [outer, out, inner]. */
static void resize_dim(const resize_t *r, uint32_t d, const float *from, float *to, size_t outer, int64_t in,
                       size_t inner)
{
    int64_t out = r->out[d];
    taps_t taps;
    for (int64_t i = 0; i < out; i++) {
        make_taps(r, d, in, i, &taps);
        for (size_t o = 0; o < outer; o++)
            for (size_t k = 0; k < inner; k++) {
                double sum = 0;
                for (int t = 0; t < taps.count; t++)
                    sum += taps.weight[t] *
                           (double)from[(o * (size_t)in + (size_t)clamp(taps.first + t, in)) * inner + k];
                to[(o * (size_t)out + (size_t)i) * inner + k] =
                    (float)(taps.outside ? r->extrapolation : sum);
            }
    }
}

static void nearest_dim(const resize_t *r, uint32_t d, const char *from, char *to, size_t outer, int64_t in,
                        size_t row)
{
    int64_t out = r->out[d];
    taps_t taps;
    for (int64_t i = 0; i < out; i++) {
        make_taps(r, d, in, i, &taps);
        for (size_t o = 0; o < outer; o++)
            memcpy(to + (o * (size_t)out + (size_t)i) * row,
                   from + (o * (size_t)in + (size_t)clamp(taps.first, in)) * row, row);
    }
}

static bool is_float_path(const op_ctx_t *c, const resize_t *r)
{
    return c->in[0]->dtype == DTYPE_F32 && (r->mode != 'n' || r->coord == COORD_TF_CROP);
}

static bool changes(const resize_t *r, const tensor_t *x, uint32_t d)
{
    return r->out[d] != x->dims[d] || r->scale[d] != 1 || r->coord == COORD_TF_CROP;
}

static status_t eval_resize(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    tensor_t now = *x;
    resize_t r;
    status_t status = read_resize(c, &r);
    blob_t *held = NULL;
    for (uint32_t d = 0; status == STATUS_OK && d < x->rank; d++) {
        if (!changes(&r, x, d))
            continue;
        size_t outer = tensor_count_range(&now, 0, d), inner = tensor_count_range(&now, d + 1, now.rank);
        tensor_t next = now;
        next.dims[d] = r.out[d];
        blob_t *blob = blob_create(tensor_bytes(&next));
        if (!blob) {
            status = err_set(c->err, STATUS_NO_MEMORY, "no memory to resize");
            break;
        }
        next.data = blob_data(blob);
        if (is_float_path(c, &r))
            resize_dim(&r, d, now.data, next.data, outer, x->dims[d], inner);
        else
            nearest_dim(&r, d, now.data, next.data, outer, x->dims[d], inner * dtype_size(x->dtype));
        blob_unref(held);
        held = blob;
        now = next;
    }
    if (status == STATUS_OK && tensor_bytes(&now))
        memcpy(c->out[0]->data, now.data, tensor_bytes(&now));
    blob_unref(held);
    return status;
}

/* ---- By centres ---- */

static bool is_nearest(const resize_t *r, uint32_t d, int64_t in)
{
    float sizes[] = {(float)in, (float)r->out[d]};
    taps_t taps;
    bool same = true;
    for (int64_t i = 0; same && i < r->out[d]; i++) {
        make_taps(r, d, in, i, &taps);
        same = clamp(taps.first, in) == (int64_t)roundf(((float)i + 0.5f) * sizes[0] / sizes[1] - 0.5f);
    }
    return same;
}

static bool is_linear(const resize_t *r, uint32_t d, int64_t in)
{
    const double nearly = 1e-6;
    double sizes[] = {(double)in, (double)r->out[d]};
    bool same = !r->exclude_outside && (!r->antialias || r->scale[d] >= 1);
    for (int64_t i = 0; same && i < r->out[d]; i++)
        same = fabs(source(r, d, (double)i, sizes[0], sizes[1]) -
                    (((double)i + 0.5) * sizes[0] / sizes[1] - 0.5)) <= nearly;
    return same;
}

resize_kind_t resize_by_centres(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    resize_t r;
    bool same = read_resize(c, &r) == STATUS_OK && r.mode != 'c' && r.coord != COORD_TF_CROP;
    for (uint32_t d = 0; same && d < x->rank; d++)
        same = r.mode == 'n' ? is_nearest(&r, d, x->dims[d]) : is_linear(&r, d, x->dims[d]);
    return !same ? RESIZE_OTHERWISE : r.mode == 'n' ? RESIZE_NEAREST : RESIZE_LINEAR;
}

static status_t infer_grid_sample(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *grid = c->in[1];
    bool fits = x->rank == 4 && grid->rank == 4 && grid->dims[3] == 2 && grid->dims[0] == x->dims[0] &&
                x->dtype == DTYPE_F32 && grid->dtype == DTYPE_F32 && x->dims[2] > 0 && x->dims[3] > 0;
    if (!fits)
        return op_unsupported(c, "only float32 pictures (4 dimensions) with their grids are supported");
    return op_set(c, 0, x->dtype, 4, (int64_t[]){x->dims[0], x->dims[1], grid->dims[1], grid->dims[2]});
}

typedef struct {
    const float *plane;
    int64_t h, w;
    char padding; /* 'z'eros, 'b'order, 'r'eflection */
    bool align;
} sampler_t;

static double reflect(double x, double low, double high)
{
    double range = high - low;
    if (range <= 0)
        return low;
    x = fmod(fabs(x - low), 2 * range);
    return low + (x > range ? 2 * range - x : x);
}

static double pixel(const sampler_t *s, double y, double x)
{
    if (s->padding == 'r') {
        x = s->align ? reflect(x, 0, (double)s->w - 1) : reflect(x, -0.5, (double)s->w - 0.5);
        y = s->align ? reflect(y, 0, (double)s->h - 1) : reflect(y, -0.5, (double)s->h - 0.5);
    }
    if (s->padding != 'z') {
        x = fmin(fmax(x, 0), (double)s->w - 1);
        y = fmin(fmax(y, 0), (double)s->h - 1);
    }
    bool inside = x >= 0 && x <= (double)s->w - 1 && y >= 0 && y <= (double)s->h - 1;
    return inside ? (double)s->plane[(int64_t)y * s->w + (int64_t)x] : 0;
}

static double sample(const sampler_t *s, char mode, double y, double x)
{
    int reach = mode == 'n' ? 0 : mode == 'b' ? 1 : 2;
    double sum = 0;
    if (!isfinite(x) || !isfinite(y) || fabs(x) > 1e9 || fabs(y) > 1e9)
        return 0;
    if (!reach)
        return pixel(s, rint(y), rint(x));
    for (int j = 1 - reach; j <= reach; j++)
        for (int i = 1 - reach; i <= reach; i++) {
            double py = floor(y) + j, px = floor(x) + i;
            double wy = reach == 1 ? 1 - fabs(y - py) : cubic(-0.75, y - py);
            double wx = reach == 1 ? 1 - fabs(x - px) : cubic(-0.75, x - px);
            sum += wy * wx * pixel(s, py, px);
        }
    return sum;
}

static status_t eval_grid_sample(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *grid = c->in[1];
    const char *name = op_string(c, "mode", "bilinear");
    char mode = !strcmp(name, "bicubic") || !strcmp(name, "cubic") ? 'c' : *name == 'n' ? 'n' : 'b';
    sampler_t s = {.h = x->dims[2], .w = x->dims[3], .padding = *op_string(c, "padding_mode", "zeros")};
    s.align = op_int(c, "align_corners", 0);
    int64_t places = grid->dims[1] * grid->dims[2];
    float *out = c->out[0]->data;
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t ch = 0; ch < x->dims[1]; ch++)
            for (int64_t p = 0; p < places; p++) {
                const float *at = (const float *)grid->data + (n * places + p) * 2;
                double gx = (double)at[0] + 1, gy = (double)at[1] + 1, w = (double)s.w, h = (double)s.h;
                s.plane = (const float *)x->data + (n * x->dims[1] + ch) * s.h * s.w;
                *out++ = (float)sample(&s, mode, s.align ? gy / 2 * (h - 1) : (gy * h - 1) / 2,
                                       s.align ? gx / 2 * (w - 1) : (gx * w - 1) / 2);
            }
    return STATUS_OK;
}

const op_t ops_resize[] = {
    {"GridSample", 2, 2, 1, 1, OP_HEAVY, infer_grid_sample, eval_grid_sample, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {"Resize", 1, 4, 1, 1, OP_HEAVY, infer_resize, eval_resize, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_RESIZE},
    {"Upsample", 1, 2, 1, 1, OP_HEAVY, infer_resize, eval_resize, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_RESIZE},
    {.name = NULL},
};
