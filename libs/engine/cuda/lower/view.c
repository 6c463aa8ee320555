#include "engine/cuda/lower/view.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VIEWS = K_MAX_INPUTS + 1 };

int64_t view_count(const view_t *v)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < v->rank; d++)
        count *= v->dims[d];
    return count;
}

/* Dimensions from the outermost to the innermost. */
static void layout_order(uint32_t rank, layout_kind_t layout, uint32_t *order)
{
    for (uint32_t d = 0; d < rank; d++)
        order[d] = d;
    if (layout == LAYOUT_PLAIN || rank < 3)
        return;
    for (uint32_t d = 1; d + 1 < rank; d++)
        order[d] = d + 1;
    order[rank - 1] = 1;
}

void view_set_layout(view_t *v, layout_kind_t layout)
{
    uint32_t order[TENSOR_MAX_RANK];
    int64_t stride = 1;
    layout_order(v->rank, layout, order);
    for (uint32_t i = v->rank; i-- > 0;) {
        v->strides[order[i]] = stride;
        stride *= v->dims[order[i]];
    }
}

static bool same_strides(const view_t *a, const view_t *b)
{
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dims[d] != 1 && a->strides[d] != b->strides[d])
            return false;
    return true;
}

bool view_is(const view_t *v, layout_kind_t layout)
{
    view_t dense = *v;
    view_set_layout(&dense, layout);
    return same_strides(v, &dense);
}

bool view_is_dense(const view_t *v)
{
    int64_t expected = 1;
    bool used[TENSOR_MAX_RANK] = {false};
    for (uint32_t n = 0; n < v->rank; n++) {
        uint32_t next = UINT32_MAX;
        for (uint32_t d = 0; d < v->rank; d++)
            if (!used[d] && (v->dims[d] == 1 || v->strides[d] == expected)) {
                next = d;
                if (v->dims[d] == 1)
                    break;
            }
        if (next == UINT32_MAX)
            return false;
        used[next] = true;
        expected *= v->dims[next];
    }
    return true;
}

bool view_broadcast(const view_t *v, uint32_t rank, const int64_t *dims, view_t *out)
{
    if (v->rank > rank)
        return false;
    view_t wide = *v;
    uint32_t skip = rank - v->rank;
    wide.rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t own = d < skip ? 1 : v->dims[d - skip];
        if (own != 1 && own != dims[d])
            return false;
        wide.dims[d] = dims[d];
        wide.strides[d] = own == 1 ? 0 : v->strides[d - skip];
    }
    *out = wide;
    return true;
}

/*
 * Groups of old dimensions are matched with groups of new ones of the same product. The old ones of a group must be
 * walked through by one stride; the new ones then share it out.
 */
bool view_reshape(const view_t *v, uint32_t rank, const int64_t *dims, view_t *out)
{
    int64_t old_dims[TENSOR_MAX_RANK], old_strides[TENSOR_MAX_RANK];
    uint32_t old_rank = 0, i = 0;
    view_t made = *v;
    for (uint32_t d = 0; d < v->rank; d++)
        if (v->dims[d] != 1) {
            old_dims[old_rank] = v->dims[d];
            old_strides[old_rank++] = v->strides[d];
        }
    made.rank = rank;
    memcpy(made.dims, dims, rank * sizeof *dims);
    for (uint32_t n = 0; n < rank;) {
        if (dims[n] == 1) {
            made.strides[n++] = 0;
            continue;
        }
        if (i == old_rank)
            return false;
        int64_t have = old_dims[i], want = dims[n];
        uint32_t last_old = i, last_new = n;
        while (have != want) {
            if (have < want) {
                if (++last_old == old_rank ||
                    old_strides[last_old - 1] != old_strides[last_old] * old_dims[last_old])
                    return false;
                have *= old_dims[last_old];
            } else {
                if (++last_new == rank)
                    return false;
                want *= dims[last_new];
            }
        }
        int64_t stride = old_strides[last_old];
        for (uint32_t d = last_new + 1; d-- > n;) {
            made.strides[d] = stride;
            stride *= dims[d];
        }
        i = last_old + 1;
        n = last_new + 1;
    }
    if (i != old_rank)
        return false;
    *out = made;
    return true;
}

void view_permute(const view_t *v, const uint32_t *perm, view_t *out)
{
    view_t made = *v;
    for (uint32_t d = 0; d < v->rank; d++) {
        made.dims[d] = v->dims[perm[d]];
        made.strides[d] = v->strides[perm[d]];
    }
    *out = made;
}

void view_slice(view_t *v, uint32_t d, int64_t start, int64_t count, int64_t step)
{
    v->offset += start * v->strides[d];
    v->strides[d] *= step;
    v->dims[d] = count;
}

bool view_fits(const view_t *v)
{
    int64_t low = 0, high = 1, count = 1;
    for (uint32_t d = 0; d < v->rank; d++) {
        int64_t reach;
        if (v->dims[d] > INT32_MAX || __builtin_mul_overflow(count, v->dims[d], &count) ||
            count > INT32_MAX ||
            __builtin_mul_overflow(v->dims[d] ? v->dims[d] - 1 : 0, v->strides[d], &reach))
            return false;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
        if (low < -(int64_t)INT32_MAX || high > INT32_MAX)
            return false;
    }
    return true;
}

typedef struct {
    uint32_t rank;
    int64_t dims[TENSOR_MAX_RANK], strides[MAX_VIEWS][TENSOR_MAX_RANK];
} walk_t;

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Insertion by the strides of view 0, large ones outside; a stride of 0 stays where it is. */
static void add_dim(walk_t *w, const view_t *const *views, uint32_t count, uint32_t d)
{
    uint32_t at = w->rank++;
    int64_t own = magnitude(views[0]->strides[d]);
    for (; own && at > 0 && w->strides[0][at - 1] && magnitude(w->strides[0][at - 1]) < own; at--) {
        w->dims[at] = w->dims[at - 1];
        for (uint32_t v = 0; v < count; v++)
            w->strides[v][at] = w->strides[v][at - 1];
    }
    w->dims[at] = views[0]->dims[d];
    for (uint32_t v = 0; v < count; v++)
        w->strides[v][at] = views[v]->strides[d];
}

static bool merges(const walk_t *w, uint32_t count, uint32_t d)
{
    for (uint32_t v = 0; v < count; v++)
        if (w->strides[v][d] != w->strides[v][d + 1] * w->dims[d + 1])
            return false;
    return true;
}

static void merge(walk_t *w, uint32_t count)
{
    for (uint32_t d = w->rank ? w->rank - 1 : 0; d-- > 0;) {
        if (!merges(w, count, d))
            continue;
        w->dims[d] *= w->dims[d + 1];
        for (uint32_t v = 0; v < count; v++)
            w->strides[v][d] = w->strides[v][d + 1];
        for (uint32_t e = d + 1; e + 1 < w->rank; e++) {
            w->dims[e] = w->dims[e + 1];
            for (uint32_t v = 0; v < count; v++)
                w->strides[v][e] = w->strides[v][e + 1];
        }
        w->rank--;
    }
}

void view_collapse(const view_t *const *views, uint32_t count, k_space_t *space, k_view_t *const *k)
{
    walk_t w = {.rank = 0};
    for (uint32_t d = 0; d < views[0]->rank; d++)
        if (views[0]->dims[d] != 1)
            add_dim(&w, views, count, d);
    merge(&w, count);
    *space = (k_space_t){.rank = (int32_t)w.rank, .count = (int32_t)view_count(views[0])};
    for (uint32_t d = 0; d < w.rank; d++) {
        space->dims[d] = (int32_t)w.dims[d];
        for (uint32_t v = 0; v < count; v++)
            k[v]->strides[d] = (int32_t)w.strides[v][d];
    }
    for (uint32_t v = 0; v < count; v++)
        k[v]->dtype = (int32_t)views[v]->dtype;
}

void view_space(const view_t *v, k_space_t *space)
{
    *space = (k_space_t){.rank = (int32_t)v->rank, .count = (int32_t)view_count(v)};
    for (uint32_t d = 0; d < v->rank; d++)
        space->dims[d] = (int32_t)v->dims[d];
}

void view_strides(const view_t *v, k_view_t *k)
{
    k->dtype = (int32_t)v->dtype;
    for (uint32_t d = 0; d < v->rank; d++)
        k->strides[d] = (int32_t)v->strides[d];
}
