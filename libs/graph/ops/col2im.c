/*
 * Col2Im: columns, each a patch of a picture, summed up where they overlap; what a convolution's input looks
 * like from its columns. Any number of dimensions.
 */
#include "graph/ops/tables.h"

#include <string.h>

enum { SPACE_MAX = TENSOR_MAX_RANK - 2 };

typedef struct {
    uint32_t rank; /* of the picture, without batch and channels */
    int64_t image[SPACE_MAX], block[SPACE_MAX], stride[SPACE_MAX], dilation[SPACE_MAX], before[SPACE_MAX];
    int64_t places[SPACE_MAX]; /* of the block */
    int64_t batch, channels, patch, columns, pixels;
} col2im_t;

static const int64_t LARGEST = INT64_C(1) << 31;

/* Fits the block into one dimension of the picture. */
static bool fit(col2im_t *p, uint32_t d, int64_t after)
{
    int64_t in = p->image[d], k = p->block[d], s = p->stride[d], l = p->dilation[d], b = p->before[d];
    if (in < 1 || in > LARGEST || k < 1 || k > LARGEST || s < 1 || s > LARGEST || l < 1 || l > LARGEST ||
        b < 0 || b > LARGEST || after < 0 || after > LARGEST || in + b + after < l * (k - 1) + 1)
        return false;
    p->places[d] = (in + b + after - l * (k - 1) - 1) / s + 1;
    return !__builtin_mul_overflow(p->patch, k, &p->patch) &&
           !__builtin_mul_overflow(p->pixels, in, &p->pixels) &&
           !__builtin_mul_overflow(p->columns, p->places[d], &p->columns);
}

static status_t read_col2im(op_ctx_t *c, col2im_t *p)
{
    const tensor_t *x = c->in[0];
    const attr_t *strides = op_ints(c, "strides"), *dilations = op_ints(c, "dilations"),
                 *pads = op_ints(c, "pads");
    ints_t image, block;
    status_t status = op_read_ints(c, 1, &image);
    if (status == STATUS_OK)
        status = op_read_ints(c, 2, &block);
    if (status != STATUS_OK)
        return status;
    if (x->dtype != DTYPE_F32 || x->rank != 3)
        return op_unsupported(c, "only float32 columns [batch, channels · patch, columns] are supported");
    *p = (col2im_t){.rank = image.count, .batch = x->dims[0], .patch = 1, .columns = 1, .pixels = 1};
    bool fits = image.count == block.count && image.count >= 1 && image.count <= SPACE_MAX &&
                (!strides || strides->count == p->rank) && (!dilations || dilations->count == p->rank) &&
                (!pads || pads->count == 2 * p->rank);
    for (uint32_t d = 0; fits && d < p->rank; d++) {
        p->image[d] = image.v[d];
        p->block[d] = block.v[d];
        p->stride[d] = strides ? strides->ints[d] : 1;
        p->dilation[d] = dilations ? dilations->ints[d] : 1;
        p->before[d] = pads ? pads->ints[d] : 0;
        fits = fit(p, d, pads ? pads->ints[d + p->rank] : 0);
    }
    if (!fits || x->dims[1] % p->patch || x->dims[2] != p->columns)
        return op_bad(c, "the columns do not make up such a picture");
    p->channels = x->dims[1] / p->patch;
    return STATUS_OK;
}

static status_t infer_col2im(op_ctx_t *c)
{
    col2im_t p;
    int64_t dims[TENSOR_MAX_RANK];
    status_t status = read_col2im(c, &p);
    if (status != STATUS_OK)
        return status;
    dims[0] = p.batch;
    dims[1] = p.channels;
    memcpy(dims + 2, p.image, p.rank * sizeof(*dims));
    return op_set(c, 0, DTYPE_F32, p.rank + 2, dims);
}

/* Which pixel of the picture element `in_patch` of a column is; -1: it lies in the padding. */
static int64_t pixel_of(const col2im_t *p, int64_t in_patch, int64_t column)
{
    int64_t pixel = 0, step = 1;
    for (uint32_t d = p->rank; d-- > 0;) {
        int64_t at =
            column % p->places[d] * p->stride[d] + in_patch % p->block[d] * p->dilation[d] - p->before[d];
        if (at < 0 || at >= p->image[d])
            return -1;
        pixel += at * step;
        step *= p->image[d];
        column /= p->places[d];
        in_patch /= p->block[d];
    }
    return pixel;
}

static status_t eval_col2im(op_ctx_t *c)
{
    col2im_t p;
    status_t status = read_col2im(c, &p);
    if (status != STATUS_OK)
        return status;
    const float *from = c->in[0]->data;
    memset(c->out[0]->data, 0, tensor_bytes(c->out[0]));
    for (int64_t plane = 0; plane < p.batch * p.channels; plane++) {
        float *to = (float *)c->out[0]->data + plane * p.pixels;
        for (int64_t k = 0; k < p.patch; k++)
            for (int64_t column = 0; column < p.columns; column++, from++) {
                int64_t pixel = pixel_of(&p, k, column);
                if (pixel >= 0)
                    to[pixel] += *from;
            }
    }
    return STATUS_OK;
}

const op_t ops_col2im[] = {
    {"Col2Im", 3, 3, 1, 1, OP_HEAVY, infer_col2im, eval_col2im, NULL, NULL, 18, .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
