#include "engine/onednn/lower/conv_way.h"

#include "engine/onednn/lower/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMPL_BYTES = 48, TRIED_ROWS = 8 };

static const double TRIED_OPS = 2e9; /* 20 ms of one thread, or less */
static const double WORTH_OPS = 1e7; /* of a row: what takes less than .1 ms is not worth the memory */

typedef struct {
    dnnl_alg_kind_t alg;
    bool in_hand;          /* from the main layout of the input */
    char impl[IMPL_BYTES]; /* empty: the first that oneDNN has */
    uint32_t fused;
} conv_way_t;

/* All that the times depend on, but the number of threads, which is one for a model. Compared as bytes. */
typedef struct {
    int64_t rows, weights[2], in[WINDOW_MAX_DIMS], before[WINDOW_MAX_DIMS], after[WINDOW_MAX_DIMS];
    int64_t block; /* of the layout in hand */
    struct {
        int32_t kind, op;
    } tails[NODE_MAX_EPILOGUE];
} conv_key_t;

struct conv_choice {
    conv_choice_t *next;
    conv_key_t key;
    conv_way_t way;
};

void conv_choices_init(conv_choices_t *choices)
{
    choices->first = NULL;
    pthread_mutex_init(&choices->choosing, NULL);
}

void conv_choices_dispose(conv_choices_t *choices)
{
    for (conv_choice_t *next, *c = choices->first; c; c = next) {
        next = c->next;
        free(c);
    }
    pthread_mutex_destroy(&choices->choosing);
}

/* ---- Descriptors ---- */

/* In blocks of channels; 0: it is not. */
static int64_t block_of(const layout_t *layout)
{
    const dnnl_blocking_desc_t *blocking = &layout->md.format_desc.blocking;
    bool blocked = !layout->plain && layout->md.format_kind == dnnl_blocked && blocking->inner_nblks == 1 &&
                   blocking->inner_idxs[0] == 1;
    return blocked ? (int64_t)blocking->inner_blks[0] : 0;
}

static dnnl_memory_desc_t with_rows(dnnl_memory_desc_t md, int64_t rows)
{
    md.dims[0] = md.padded_dims[0] = rows;
    return md;
}

typedef union {
    dnnl_convolution_desc_t conv;
    dnnl_deconvolution_desc_t deconv;
} conv_desc_t;

/* For so many rows. */
static dnnl_status_t describe(lower_t *l, const node_t *node, const conv_t *c, const conv_way_t *way,
                              int64_t rows, conv_desc_t *desc)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *y = lower_tensor(l, node->out[0]);
    int32_t bias = lower_input(node, 2);
    dnnl_memory_desc_t src =
        with_rows(way->in_hand ? lower_main(l, node->in[0])->md : md_any(x->rank, x->dims), rows);
    dnnl_memory_desc_t dst = with_rows(md_any(y->rank, y->dims), rows);
    dnnl_memory_desc_t weights = md_any(c->weight_rank, c->weight_dims), bias_md = {0};
    if (bias >= 0)
        md_of(lower_tensor(l, bias), &bias_md);
    return c->transposed
               ? dnnl_dilated_deconvolution_forward_desc_init(
                     &desc->deconv, dnnl_forward_inference, way->alg, &src, &weights,
                     bias >= 0 ? &bias_md : NULL, &dst, c->strides, c->dilates, c->before, c->after)
               : dnnl_dilated_convolution_forward_desc_init(&desc->conv, dnnl_forward_inference, way->alg,
                                                            &src, &weights, bias >= 0 ? &bias_md : NULL, &dst,
                                                            c->strides, c->dilates, c->before, c->after);
}

/* The kernel of that name, or the first. */
static dnnl_status_t find_impl(lower_t *l, const conv_desc_t *desc, const char *impl,
                               dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_desc_iterator_t at;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(&at, desc, attr, l->engine, NULL);
    if (status != dnnl_success)
        return status;
    do {
        *pd = dnnl_primitive_desc_iterator_fetch(at);
        if (!*pd)
            status = dnnl_out_of_memory;
        else if (!*impl || !strcmp(lower_impl(*pd), impl))
            break;
        else
            dnnl_primitive_desc_destroy(*pd);
        if (status == dnnl_success)
            status = dnnl_primitive_desc_iterator_next(at);
    } while (status == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(at);
    return status == dnnl_iterator_ends ? dnnl_unimplemented : status;
}

static status_t make(lower_t *l, const node_t *node, const conv_t *c, const conv_way_t *way, int64_t rows,
                     conv_made_t *made)
{
    node_t head = *node;
    conv_desc_t desc;
    dnnl_primitive_attr_t attr;
    head.epilogue_count = made->fused = way->fused;
    status_t status = lower_attr(l, &head, &attr, &made->sum);
    if (status != STATUS_OK)
        return status;
    dnnl_status_t found = describe(l, node, c, way, rows, &desc);
    if (found == dnnl_success)
        found = find_impl(l, &desc, way->impl, attr, &made->pd);
    dnnl_primitive_attr_destroy(attr);
    return lower_status(l, found);
}

/* ---- Direct ---- */

/* The first addition behind a function; their number when there is none. */
static uint32_t late_addition(const node_t *node)
{
    uint32_t i = 1;
    while (i < node->epilogue_count && node->epilogue[i].kind != EPILOGUE_ADD)
        i++;
    return i < node->epilogue_count ? i : node->epilogue_count;
}

static bool is_slow(const_dnnl_primitive_desc_t pd)
{
    return lower_is_reference(pd) || strstr(lower_impl(pd), "gemm:");
}

static bool stays_in_blocks(lower_t *l, const node_t *node, const conv_t *c, conv_way_t *way)
{
    conv_made_t made;
    way->in_hand = !c->transposed && block_of(lower_main(l, node->in[0])) > 0;
    if (!way->in_hand || make(l, node, c, way, lower_tensor(l, node->in[0])->dims[0], &made) != STATUS_OK) {
        way->in_hand = false;
        return false;
    }
    way->in_hand = !is_slow(made.pd);
    dnnl_primitive_desc_destroy(made.pd);
    return way->in_hand;
}

/* Without AVX-512 oneDNN's kernels take an addition before a function only: the residual behind Conv and SiLU is a step of
 * its own there, for the reference takes forty times as long. */
static status_t direct_way(lower_t *l, const node_t *node, const conv_t *c, conv_way_t *way)
{
    uint32_t late = late_addition(node);
    conv_made_t made;
    *way = (conv_way_t){.alg = c->transposed ? dnnl_deconvolution_direct : dnnl_convolution_direct,
                        .fused = node->epilogue_count};
    if (stays_in_blocks(l, node, c, way) || late == node->epilogue_count)
        return STATUS_OK;
    status_t status = make(l, node, c, way, lower_tensor(l, node->in[0])->dims[0], &made);
    if (status != STATUS_OK)
        return status;
    if (lower_is_reference(made.pd))
        way->fused = late;
    dnnl_primitive_desc_destroy(made.pd);
    return STATUS_OK;
}

/* ---- Winograd ---- */

static double row_ops(const conv_t *c)
{
    double ops = 2 * (double)c->weight_dims[0] * (double)c->weight_dims[1];
    for (uint32_t d = 0; d < c->w.dims; d++)
        ops *= (double)(c->w.out[d] * c->w.kernel[d]);
    return ops;
}

static bool may_be_winograd(const lower_t *l, const node_t *node, const conv_t *c)
{
    bool fits = !c->transposed && c->groups == 1 && c->w.dims == 2 && lower_is_constant(l, node->in[1]);
    for (uint32_t d = 0; fits && d < c->w.dims; d++)
        fits = c->w.kernel[d] == 3 && c->w.stride[d] == 1 && c->w.dilation[d] == 1;
    return fits && row_ops(c) >= WORTH_OPS;
}

static bool may_take(const lower_t *l, const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *weights = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    return !is_slow(pd) && strstr(lower_impl(pd), "wino") &&
           weights_may_spend(l->weights, dnnl_memory_desc_get_size(weights));
}

/* Of the first so many of the epilogue: oneDNN's kernels, at most `room`. */
static uint32_t winograd_kernels(lower_t *l, const node_t *node, const conv_t *c, int64_t rows,
                                 uint32_t fused, conv_way_t *ways, uint32_t room)
{
    conv_way_t way = {.alg = dnnl_convolution_winograd, .fused = fused};
    node_t head = *node;
    conv_desc_t desc;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_iterator_t at;
    int32_t sum;
    uint32_t count = 0;
    head.epilogue_count = fused;
    if (lower_attr(l, &head, &attr, &sum) != STATUS_OK)
        return 0;
    bool more = describe(l, node, c, &way, rows, &desc) == dnnl_success &&
                dnnl_primitive_desc_iterator_create(&at, &desc, attr, l->engine, NULL) == dnnl_success;
    dnnl_primitive_attr_destroy(attr);
    if (!more)
        return 0;
    do {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(at);
        if (pd && may_take(l, pd)) {
            (void)snprintf(way.impl, sizeof way.impl, "%s", lower_impl(pd));
            ways[count++] = way;
        }
        dnnl_primitive_desc_destroy(pd);
    } while (count < room && dnnl_primitive_desc_iterator_next(at) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(at);
    return count;
}

/* ---- Choosing ---- */

static int64_t tried_rows(const lower_t *l, const node_t *node, const conv_t *c)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    double most = TRIED_OPS / row_ops(c);
    int64_t rows = x->dims[0] < TRIED_ROWS ? x->dims[0] : TRIED_ROWS;
    return most < 1 ? 1 : most < (double)rows ? (int64_t)most : rows;
}

static conv_key_t key_of(const lower_t *l, const node_t *node, const conv_t *c, int64_t rows)
{
    conv_key_t key;
    memset(&key, 0, sizeof key);
    key.rows = rows;
    key.block = block_of(lower_main(l, node->in[0]));
    memcpy(key.weights, c->weight_dims, sizeof key.weights);
    memcpy(key.in, c->w.in, sizeof key.in);
    memcpy(key.before, c->before, sizeof key.before);
    memcpy(key.after, c->after, sizeof key.after);
    for (uint32_t i = 0; i < node->epilogue_count; i++) {
        key.tails[i].kind = (int32_t)node->epilogue[i].kind;
        key.tails[i].op = node->epilogue[i].kind == EPILOGUE_ADD ? 0 : (int32_t)node->epilogue[i].function.op;
    }
    return key;
}

static bool add_reorder(lower_t *l, const node_t *node, int64_t rows, const dnnl_memory_desc_t *to,
                        trial_way_t *way)
{
    dnnl_memory_desc_t from = with_rows(lower_main(l, node->in[0])->md, rows);
    return dnnl_memory_desc_equal(&from, to) ||
           dnnl_reorder_primitive_desc_create(&way->steps[way->count++], &from, l->engine, to, l->engine,
                                              l->attr) == dnnl_success;
}

/* An addition takes about as long as a function does. */
static bool add_rest(lower_t *l, const node_t *node, uint32_t first, const dnnl_memory_desc_t *md,
                     trial_way_t *way)
{
    for (uint32_t i = first; i < node->epilogue_count && way->count < TRIAL_MAX_STEPS; i++) {
        const epilogue_t *tail = &node->epilogue[i];
        eltwise_t e = tail->kind == EPILOGUE_ADD ? (eltwise_t){0} : lower_eltwise(&tail->function);
        dnnl_alg_kind_t alg = e.count ? e.step[0].alg : dnnl_eltwise_linear;
        dnnl_eltwise_desc_t desc;
        if (dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference, alg, md, e.step[0].alpha,
                                           e.step[0].beta) != dnnl_success ||
            dnnl_primitive_desc_create(&way->steps[way->count++], &desc, l->attr, l->engine, NULL) !=
                dnnl_success)
            return false;
    }
    return true;
}

static bool describe_trial(lower_t *l, const node_t *node, const conv_t *c, const conv_way_t *way,
                           int64_t rows, trial_way_t *trial)
{
    conv_made_t made;
    if (make(l, node, c, way, rows, &made) != STATUS_OK)
        return false;
    if (!add_reorder(l, node, rows, dnnl_primitive_desc_query_md(made.pd, dnnl_query_src_md, 0), trial)) {
        dnnl_primitive_desc_destroy(made.pd);
        return false;
    }
    trial->steps[trial->count++] = made.pd;
    return add_rest(l, node, way->fused, dnnl_primitive_desc_query_md(made.pd, dnnl_query_dst_md, 0), trial);
}

/* The first of the ways where no trial was possible. */
static uint32_t try_ways(lower_t *l, const node_t *node, const conv_t *c, const conv_way_t *ways,
                         uint32_t count, int64_t rows)
{
    trial_way_t trials[TRIAL_MAX_WAYS] = {0};
    bool ok = true;
    for (uint32_t w = 0; ok && w < count; w++)
        ok = describe_trial(l, node, c, &ways[w], rows, &trials[w]);
    uint32_t best = ok ? trial_fastest(trials, count, l->engine, l->stream) : UINT32_MAX;
    for (uint32_t w = 0; w < count; w++)
        for (uint32_t s = 0; s < trials[w].count; s++)
            dnnl_primitive_desc_destroy(trials[w].steps[s]);
    return best == UINT32_MAX ? 0 : best;
}

static const conv_choice_t *chosen(const conv_choices_t *choices, const conv_key_t *key)
{
    const conv_choice_t *c = choices->first;
    while (c && memcmp(&c->key, key, sizeof *key) != 0)
        c = c->next;
    return c;
}

static void keep(conv_choices_t *choices, const conv_key_t *key, const conv_way_t *way)
{
    conv_choice_t *c = malloc(sizeof *c);
    if (!c)
        return; /* it will be tried again */
    *c = (conv_choice_t){.next = choices->first, .key = *key, .way = *way};
    choices->first = c;
}

static void choose(lower_t *l, const node_t *node, const conv_t *c, conv_way_t *way)
{
    conv_way_t ways[TRIAL_MAX_WAYS] = {*way};
    int64_t rows = tried_rows(l, node, c);
    conv_key_t key = key_of(l, node, c, rows);
    pthread_mutex_lock(&l->choices->choosing);
    const conv_choice_t *known = chosen(l->choices, &key);
    if (known) {
        *way = known->way;
    } else {
        uint32_t count =
            1 + winograd_kernels(l, node, c, rows, node->epilogue_count, ways + 1, TRIAL_MAX_WAYS - 1);
        if (count == 1 && node->epilogue_count)
            count += winograd_kernels(l, node, c, rows, 0, ways + 1, TRIAL_MAX_WAYS - 1);
        if (count > 1)
            *way = ways[try_ways(l, node, c, ways, count, rows)];
        keep(l->choices, &key, way);
    }
    pthread_mutex_unlock(&l->choices->choosing);
}

status_t conv_make(lower_t *l, const node_t *node, const conv_t *c, conv_made_t *made)
{
    int64_t rows = lower_tensor(l, node->in[0])->dims[0];
    conv_way_t direct, way;
    status_t status = direct_way(l, node, c, &direct);
    if (status != STATUS_OK)
        return status;
    way = direct;
    if (may_be_winograd(l, node, c))
        choose(l, node, c, &way);
    status = make(l, node, c, &way, rows, made);
    return status == STATUS_UNSUPPORTED && *way.impl ? make(l, node, c, &direct, rows, made) : status;
}
