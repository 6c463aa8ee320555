#include "graph/ops/strided.h"

#include <string.h>

typedef struct {
    uint32_t rank;
    int64_t dims[TENSOR_MAX_RANK + 1], to[TENSOR_MAX_RANK + 1], from[TENSOR_MAX_RANK + 1];
} plan_t;

/* Ones vanish, neighbours that run on in both layouts merge: fewer, longer rows. */
static void simplify(plan_t *p, uint32_t rank, const int64_t *dims, const int64_t *to, const int64_t *from)
{
    p->rank = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] == 1)
            continue;
        uint32_t last = p->rank - 1;
        if (p->rank && p->to[last] == to[d] * dims[d] && p->from[last] == from[d] * dims[d]) {
            p->dims[last] *= dims[d];
            p->to[last] = to[d];
            p->from[last] = from[d];
            continue;
        }
        p->dims[p->rank] = dims[d];
        p->to[p->rank] = to[d];
        p->from[p->rank++] = from[d];
    }
    if (!p->rank) {
        p->rank = 1;
        p->dims[0] = p->to[0] = p->from[0] = 1;
    }
}

#define COPY_ROW(T)                     \
    {                                   \
        const T *in = from;             \
        T *out = to;                    \
        for (int64_t i = 0; i < n; i++) \
            out[i * st] = in[i * sf];   \
        break;                          \
    }

static void copy_elements(void *to, int64_t st, const void *from, int64_t sf, int64_t n, size_t size)
{
    switch (size) {
    case 1:
        COPY_ROW(uint8_t)
    case 2:
        COPY_ROW(uint16_t)
    case 4:
        COPY_ROW(uint32_t)
    default:
        COPY_ROW(uint64_t)
    }
}

static void copy_row(char *to, int64_t st, const char *from, int64_t sf, int64_t n, size_t size)
{
    if (st == 1 && sf == 1)
        memcpy(to, from, (size_t)n * size);
    else
        copy_elements(to, st, from, sf, n, size);
}

void strided_copy(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides,
                  uint32_t rank, const int64_t *dims, size_t size)
{
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] <= 0)
            return;
    plan_t p;
    simplify(&p, rank, dims, to_strides, from_strides);
    uint32_t last = p.rank - 1;
    int64_t at[TENSOR_MAX_RANK + 1] = {0}, to_at = 0, from_at = 0, width = (int64_t)size;
    for (;;) {
        copy_row((char *)to + to_at * width, p.to[last], (const char *)from + from_at * width, p.from[last],
                 p.dims[last], size);
        uint32_t d = last;
        while (d-- > 0) {
            to_at += p.to[d];
            from_at += p.from[d];
            if (++at[d] < p.dims[d])
                break;
            to_at -= p.to[d] * p.dims[d];
            from_at -= p.from[d] * p.dims[d];
            at[d] = 0;
        }
        if (d == UINT32_MAX)
            return;
    }
}
