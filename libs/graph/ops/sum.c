#include "graph/ops/sum.h"

#include <string.h>

enum { TILE = 256, LANES = 8 };

/* Dimensions of one kind, kept or summed over, of which neighbours are one: elements lie `stride` apart. */
typedef struct {
    uint32_t count;
    int64_t dims[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
} span_t;

static void span_add(span_t *span, int64_t dim, int64_t stride)
{
    if (dim == 1)
        return;
    if (span->count && span->strides[span->count - 1] == dim * stride) {
        span->dims[span->count - 1] *= dim;
        span->strides[span->count - 1] = stride;
        return;
    }
    span->dims[span->count] = dim;
    span->strides[span->count++] = stride;
}

/* Without the last one: how many there are, and where the i-th is. */
static size_t outer_count(const span_t *span)
{
    size_t count = 1;
    for (uint32_t d = 0; d + 1 < span->count; d++)
        count *= (size_t)span->dims[d];
    return count;
}

static size_t outer_offset(const span_t *span, size_t i)
{
    size_t offset = 0;
    for (uint32_t d = span->count; d-- > 1; i /= (size_t)span->dims[d - 1])
        offset += i % (size_t)span->dims[d - 1] * (size_t)span->strides[d - 1];
    return offset;
}

static size_t inner_count(const span_t *span)
{
    return span->count ? (size_t)span->dims[span->count - 1] : 1;
}

static size_t inner_stride(const span_t *span)
{
    return span->count ? (size_t)span->strides[span->count - 1] : 0;
}

/* ---- What lies together is summed ---- */

static double sum_run(const float *x, size_t count)
{
    double lanes[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (uint32_t l = 0; l < LANES; l++)
            lanes[l] += (double)x[i + l];
    for (; i < count; i++)
        sum += (double)x[i];
    for (uint32_t l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

static double sum_at(const float *x, const span_t *summed)
{
    size_t outer = outer_count(summed), inner = inner_count(summed), stride = inner_stride(summed);
    double sum = 0;
    for (size_t o = 0; o < outer; o++) {
        const float *run = x + outer_offset(summed, o);
        if (stride == 1)
            sum += sum_run(run, inner);
        else
            for (size_t i = 0; i < inner; i++)
                sum += (double)run[i * stride];
    }
    return sum;
}

static void sum_each(const float *x, const span_t *kept, const span_t *summed, double count, float *y)
{
    size_t outer = outer_count(kept), inner = inner_count(kept), stride = inner_stride(kept);
    for (size_t o = 0; o < outer; o++) {
        const float *from = x + outer_offset(kept, o);
        for (size_t i = 0; i < inner; i++)
            *y++ = (float)(sum_at(from + i * stride, summed) / count);
    }
}

/* ---- What lies together is kept ---- */

static void sum_tile(const float *x, const span_t *summed, size_t width, double count, float *y)
{
    size_t outer = outer_count(summed), inner = inner_count(summed), stride = inner_stride(summed);
    double sums[TILE];
    memset(sums, 0, width * sizeof *sums);
    for (size_t o = 0; o < outer; o++) {
        const float *row = x + outer_offset(summed, o);
        for (size_t i = 0; i < inner; i++, row += stride)
            for (size_t k = 0; k < width; k++)
                sums[k] += (double)row[k];
    }
    for (size_t k = 0; k < width; k++)
        y[k] = (float)(sums[k] / count);
}

static void sum_runs(const float *x, const span_t *kept, const span_t *summed, double count, float *y)
{
    size_t outer = outer_count(kept), inner = inner_count(kept);
    for (size_t o = 0; o < outer; o++) {
        const float *from = x + outer_offset(kept, o);
        for (size_t i = 0; i < inner; i += TILE) {
            size_t width = inner - i < TILE ? inner - i : TILE;
            sum_tile(from + i, summed, width, count, y);
            y += width;
        }
    }
}

void sum_f32(const tensor_t *x, unsigned mask, double count, float *y)
{
    span_t kept = {0}, summed = {0};
    int64_t strides[TENSOR_MAX_RANK];
    tensor_strides(x, strides);
    for (uint32_t d = 0; d < x->rank; d++)
        span_add(mask & 1u << d ? &summed : &kept, x->dims[d], strides[d]);
    if (inner_stride(&kept) == 1)
        sum_runs(x->data, &kept, &summed, count, y);
    else
        sum_each(x->data, &kept, &summed, count, y);
}
