/*
 * What detectors end in: NonMaxSuppression and RoiAlign.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t batch, class, box;
} kept_t;

typedef struct {
    double score;
    int64_t box;
} candidate_t;

static int best_first(const void *a, const void *b)
{
    const candidate_t *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score ? 1 : (x->box > y->box) - (x->box < y->box);
}

static void corners(const float *box, bool centred, double *low, double *high)
{
    for (int i = 0; i < 2; i++) {
        double a = (double)box[i], b = (double)box[i + 2];
        low[i] = centred ? a - b / 2 : fmin(a, b);
        high[i] = centred ? a + b / 2 : fmax(a, b);
    }
}

static double overlap(const float *a, const float *b, bool centred)
{
    double la[2], ha[2], lb[2], hb[2], both = 1, area_a = 1, area_b = 1;
    corners(a, centred, la, ha);
    corners(b, centred, lb, hb);
    for (int i = 0; i < 2; i++) {
        both *= fmax(0, fmin(ha[i], hb[i]) - fmax(la[i], lb[i]));
        area_a *= ha[i] - la[i];
        area_b *= hb[i] - lb[i];
    }
    return area_a + area_b - both > 0 ? both / (area_a + area_b - both) : 0;
}

typedef struct {
    int64_t batches, classes, boxes, most;
    double limit, score;
    bool centred;
    candidate_t *candidates;
    kept_t *kept;
    size_t count, capacity;
} nms_t;

static bool keep(nms_t *n, int64_t batch, int64_t class, int64_t box)
{
    if (n->count == n->capacity) {
        size_t capacity = n->capacity ? 2 * n->capacity : 64;
        kept_t *kept = realloc(n->kept, capacity * sizeof *kept);
        if (!kept)
            return false;
        n->kept = kept;
        n->capacity = capacity;
    }
    n->kept[n->count++] = (kept_t){batch, class, box};
    return true;
}

static bool suppress_class(nms_t *n, const float *boxes, const float *scores, int64_t batch, int64_t class)
{
    int64_t found = 0;
    size_t first = n->count;
    for (int64_t i = 0; i < n->boxes; i++)
        if ((double)scores[i] > n->score)
            n->candidates[found++] = (candidate_t){(double)scores[i], i};
    qsort(n->candidates, (size_t)found, sizeof *n->candidates, best_first);
    for (int64_t i = 0; i < found && (int64_t)(n->count - first) < n->most; i++) {
        const float *box = boxes + 4 * n->candidates[i].box;
        bool free_of_all = true;
        for (size_t k = first; free_of_all && k < n->count; k++)
            free_of_all = overlap(box, boxes + 4 * n->kept[k].box, n->centred) <= n->limit;
        if (free_of_all && !keep(n, batch, class, n->candidates[i].box))
            return false;
    }
    return true;
}

static status_t suppress(op_ctx_t *c, nms_t *n)
{
    const tensor_t *boxes = c->in[0], *scores = c->in[1];
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i] && !c->in[i]->data) {
            c->needs_value = true;
            return err_set(c->err, STATUS_UNAVAILABLE,
                           "the shape of the result depends on the contents of input %u", i);
        }
    bool fits = boxes->rank == 3 && scores->rank == 3 && boxes->dims[2] == 4 &&
                boxes->dims[0] == scores->dims[0] && boxes->dims[1] == scores->dims[2] &&
                boxes->dtype == DTYPE_F32 && scores->dtype == DTYPE_F32;
    if (!fits)
        return op_bad(c, "the boxes and the scores do not fit");
    *n = (nms_t){.batches = scores->dims[0], .classes = scores->dims[1], .boxes = boxes->dims[1]};
    n->most = op_scalar_i64(c, 2, 0);
    n->limit = op_scalar_f64(c, 3, 0);
    n->score = op_scalar_f64(c, 4, -(double)INFINITY);
    n->centred = op_int(c, "center_point_box", 0);
    n->candidates = malloc(((size_t)n->boxes + 1) * sizeof *n->candidates);
    bool ok = n->candidates;
    for (int64_t b = 0; ok && b < n->batches; b++)
        for (int64_t k = 0; ok && k < n->classes; k++)
            ok = suppress_class(n, (const float *)boxes->data + b * n->boxes * 4,
                                (const float *)scores->data + (b * n->classes + k) * n->boxes, b, k);
    free(n->candidates);
    if (ok)
        return STATUS_OK;
    free(n->kept);
    return err_set(c->err, STATUS_NO_MEMORY, "no memory for boxes");
}

static status_t infer_nms(op_ctx_t *c)
{
    nms_t n = {0};
    status_t status = suppress(c, &n);
    if (status != STATUS_OK)
        return status;
    free(n.kept);
    return op_set(c, 0, DTYPE_I64, 2, (int64_t[]){(int64_t)n.count, 3});
}

static status_t eval_nms(op_ctx_t *c)
{
    nms_t n = {0};
    status_t status = suppress(c, &n);
    if (status != STATUS_OK)
        return status;
    if (n.count)
        memcpy(c->out[0]->data, n.kept, n.count * sizeof *n.kept);
    free(n.kept);
    return STATUS_OK;
}

static status_t infer_roi_align(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *rois = c->in[1], *batches = c->in[2];
    bool fits = x->rank == 4 && rois->rank == 2 && rois->dims[1] == 4 &&
                tensor_count(batches) == (size_t)rois->dims[0] && x->dtype == DTYPE_F32 &&
                rois->dtype == DTYPE_F32;
    fits &= op_int(c, "sampling_ratio", 0) <= 4096 && tensor_count(x);
    if (!fits)
        return op_bad(c, "the regions do not fit the input");
    return op_set(
        c, 0, DTYPE_F32, 4,
        (int64_t[]){rois->dims[0], x->dims[1], op_int(c, "output_height", 1), op_int(c, "output_width", 1)});
}

typedef struct {
    const float *plane;
    int64_t h, w;
} plane_t;

/* Weighted corners of a point, each as value times weight: avg adds them, max takes the largest (as ONNX has it). */
static double bilinear(const plane_t *p, double y, double x, bool max)
{
    if (!(y >= -1 && y <= (double)p->h && x >= -1 && x <= (double)p->w))
        return 0;
    y = fmax(y, 0);
    x = fmax(x, 0);
    int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    if (y0 >= p->h - 1) {
        y0 = p->h - 1;
        y = (double)y0;
    }
    if (x0 >= p->w - 1) {
        x0 = p->w - 1;
        x = (double)x0;
    }
    int64_t y1 = y0 + 1 < p->h ? y0 + 1 : y0, x1 = x0 + 1 < p->w ? x0 + 1 : x0;
    double fy = y - (double)y0, fx = x - (double)x0;
    double v[4] = {(1 - fy) * (1 - fx) * (double)p->plane[y0 * p->w + x0],
                   (1 - fy) * fx * (double)p->plane[y0 * p->w + x1],
                   fy * (1 - fx) * (double)p->plane[y1 * p->w + x0],
                   fy * fx * (double)p->plane[y1 * p->w + x1]};
    return max ? fmax(fmax(v[0], v[1]), fmax(v[2], v[3])) : v[0] + v[1] + v[2] + v[3];
}

typedef struct {
    double y, x, bin_h, bin_w;
    int64_t samples_h, samples_w;
    bool max;
} roi_t;

static double pool_bin(const plane_t *p, const roi_t *r, int64_t i, int64_t j)
{
    double sum = 0, most = -(double)INFINITY;
    for (int64_t a = 0; a < r->samples_h; a++)
        for (int64_t b = 0; b < r->samples_w; b++) {
            double y = r->y + ((double)i + ((double)a + 0.5) / (double)r->samples_h) * r->bin_h;
            double x = r->x + ((double)j + ((double)b + 0.5) / (double)r->samples_w) * r->bin_w;
            double v = bilinear(p, y, x, r->max);
            sum += v;
            most = fmax(most, v);
        }
    return r->max ? most : sum / fmax((double)(r->samples_h * r->samples_w), 1);
}

static roi_t read_roi(const op_ctx_t *c, const float *box)
{
    bool half =
        !strcmp(op_string(c, "coordinate_transformation_mode", c->node->opset >= 16 ? "half_pixel" : "none"),
                "half_pixel");
    double scale = op_float(c, "spatial_scale", 1), shift = half ? 0.5 : 0;
    double x0 = (double)box[0] * scale - shift, y0 = (double)box[1] * scale - shift;
    double w = (double)box[2] * scale - shift - x0, h = (double)box[3] * scale - shift - y0;
    int64_t ratio = op_int(c, "sampling_ratio", 0);
    w = half ? w : fmax(w, 1);
    h = half ? h : fmax(h, 1);
    roi_t r = {
        .y = y0, .x = x0, .bin_h = h / (double)c->out[0]->dims[2], .bin_w = w / (double)c->out[0]->dims[3]};
    r.samples_h = ratio > 0 ? ratio : (int64_t)fmin(fmax(ceil(r.bin_h), 0), 4096);
    r.samples_w = ratio > 0 ? ratio : (int64_t)fmin(fmax(ceil(r.bin_w), 0), 4096);
    r.max = !strcmp(op_string(c, "mode", "avg"), "max");
    return r;
}

static status_t eval_roi_align(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *y = c->out[0];
    float *out = y->data;
    for (int64_t n = 0; n < y->dims[0]; n++) {
        int64_t batch = tensor_get_i64(c->in[2], (size_t)n);
        if (batch < 0 || batch >= x->dims[0])
            return op_bad(c, "region %lld is in picture %lld of %lld", (long long)n, (long long)batch,
                          (long long)x->dims[0]);
        roi_t r = read_roi(c, (const float *)c->in[1]->data + 4 * n);
        for (int64_t ch = 0; ch < x->dims[1]; ch++) {
            plane_t p = {(const float *)x->data + (batch * x->dims[1] + ch) * x->dims[2] * x->dims[3],
                         x->dims[2], x->dims[3]};
            for (int64_t i = 0; i < y->dims[2]; i++)
                for (int64_t j = 0; j < y->dims[3]; j++)
                    *out++ = (float)pool_bin(&p, &r, i, j);
        }
    }
    return STATUS_OK;
}

const op_t ops_vision[] = {
    {"NonMaxSuppression", 2, 5, 1, 1, OP_HEAVY, infer_nms, eval_nms, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"RoiAlign", 3, 3, 1, 1, OP_HEAVY, infer_roi_align, eval_roi_align, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
