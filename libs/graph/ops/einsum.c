/*
 * Einsum with letters and an ellipsis: every index is a dimension, and the result sums over those it does not have.
 */
#include "graph/ops/tables.h"

#include <string.h>

enum { MAX_TERMS = 4, MAX_LABELS = 64, ELLIPSIS_LABEL = 128 };

/* Labels: letters; the dimensions of the ellipsis are 128, 129, … from the right end, so that they broadcast. */
typedef struct {
    uint32_t count[MAX_TERMS], out_count, terms;
    unsigned char term[MAX_TERMS][TENSOR_MAX_RANK], out[TENSOR_MAX_RANK];
    uint32_t ellipsis; /* its most dimensions */
    uint32_t label_count;
    unsigned char labels[MAX_LABELS]; /* those of the result first */
    int64_t dims[MAX_LABELS];
} einsum_t;

static status_t bad(op_ctx_t *c)
{
    return op_bad(c, "the equation '%.60s' does not fit the inputs", op_string(c, "equation", ""));
}

/* Reads one term; rank tells how many dimensions the ellipsis has, UINT32_MAX = as many as any term. */
static bool read_term(const char *from, const char *to, uint32_t rank, uint32_t ellipsis,
                      unsigned char *labels, uint32_t *count)
{
    uint32_t letters = 0;
    bool dots = false;
    *count = 0;
    for (const char *p = from; p < to; p++)
        letters += (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
    uint32_t hidden = rank == UINT32_MAX ? ellipsis : rank >= letters ? rank - letters : 0;
    for (const char *p = from; p < to; p++) {
        if (*p == ' ')
            continue;
        if (*p == '.' && to - p >= 3 && p[1] == '.' && p[2] == '.' && !dots) {
            for (uint32_t i = 0; i < hidden; i++) {
                if (*count == TENSOR_MAX_RANK)
                    return false;
                labels[(*count)++] = (unsigned char)(ELLIPSIS_LABEL + hidden - 1 - i);
            }
            dots = true;
            p += 2;
            continue;
        }
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!letter || *count == TENSOR_MAX_RANK)
            return false;
        labels[(*count)++] = (unsigned char)*p;
    }
    return rank == UINT32_MAX || *count == rank;
}

static int find(const einsum_t *e, unsigned char label)
{
    for (uint32_t i = 0; i < e->label_count; i++)
        if (e->labels[i] == label)
            return (int)i;
    return -1;
}

static bool add_label(einsum_t *e, unsigned char label, int64_t dim)
{
    int at = find(e, label);
    if (at < 0) {
        if (e->label_count == MAX_LABELS)
            return false;
        at = (int)e->label_count++;
        e->labels[at] = label;
        e->dims[at] = 1;
    }
    if (dim != 1 && e->dims[at] != 1 && e->dims[at] != dim)
        return false;
    e->dims[at] = dim != 1 ? dim : e->dims[at];
    return true;
}

/* Without "->": the ellipsis, then every letter that occurs once, in alphabetical order. */
static void implicit_result(einsum_t *e)
{
    unsigned seen[256] = {0};
    for (uint32_t t = 0; t < e->terms; t++)
        for (uint32_t i = 0; i < e->count[t]; i++)
            seen[e->term[t][i]]++;
    for (uint32_t i = e->ellipsis; i-- > 0;)
        e->out[e->out_count++] = (unsigned char)(ELLIPSIS_LABEL + i);
    for (unsigned label = 'A'; label <= 'z'; label++)
        if (seen[label] == 1 && e->out_count < TENSOR_MAX_RANK)
            e->out[e->out_count++] = (unsigned char)label;
}

static status_t parse(op_ctx_t *c, einsum_t *e)
{
    const char *equation = op_string(c, "equation", ""), *arrow = strstr(equation, "->");
    const char *end = arrow ? arrow : equation + strlen(equation), *from = equation;
    memset(e, 0, sizeof *e);
    if (c->in_count > MAX_TERMS)
        return op_unsupported(c, "more than %d operands are not supported", MAX_TERMS);
    for (uint32_t t = 0; t < c->in_count; t++) {
        const char *comma = memchr(from, ',', (size_t)(end - from)), *to = comma ? comma : end;
        if (!c->in[t] || !read_term(from, to, c->in[t]->rank, 0, e->term[t], &e->count[t]) ||
            (t + 1 < c->in_count && !comma))
            return bad(c);
        for (uint32_t i = 0; i < e->count[t]; i++)
            if (e->term[t][i] >= ELLIPSIS_LABEL && e->term[t][i] - ELLIPSIS_LABEL + 1u > e->ellipsis)
                e->ellipsis = e->term[t][i] - ELLIPSIS_LABEL + 1u;
        from = to + 1;
        e->terms++;
    }
    if (!arrow)
        implicit_result(e);
    else if (!read_term(arrow + 2, arrow + strlen(arrow), UINT32_MAX, e->ellipsis, e->out, &e->out_count))
        return bad(c);
    for (uint32_t i = 0; i < e->out_count; i++)
        if (find(e, e->out[i]) >= 0 || !add_label(e, e->out[i], 1))
            return bad(c);
    for (uint32_t t = 0; t < e->terms; t++)
        for (uint32_t i = 0; i < e->count[t]; i++)
            if (!add_label(e, e->term[t][i], c->in[t]->dims[i]))
                return bad(c);
    return STATUS_OK;
}

static status_t infer(op_ctx_t *c)
{
    einsum_t e;
    status_t status = parse(c, &e);
    if (status != STATUS_OK)
        return status;
    for (uint32_t t = 0; t < e.terms; t++)
        if (c->in[t]->dtype != DTYPE_F32 && c->in[t]->dtype != DTYPE_F64)
            return op_unsupported(c, "element type %s is not supported", dtype_name(c->in[t]->dtype));
    return op_set(c, 0, c->in[0]->dtype, e.out_count, e.dims);
}

static double load(const tensor_t *t, int64_t i)
{
    return t->dtype == DTYPE_F32 ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
}

static void set_strides(const op_ctx_t *c, const einsum_t *e, int64_t strides[MAX_TERMS][MAX_LABELS])
{
    memset(strides, 0, sizeof(int64_t[MAX_TERMS][MAX_LABELS]));
    for (uint32_t t = 0; t < e->terms; t++) {
        int64_t own[TENSOR_MAX_RANK];
        tensor_strides(c->in[t], own);
        for (uint32_t i = 0; i < e->count[t]; i++)
            if (c->in[t]->dims[i] != 1)
                strides[t][find(e, e->term[t][i])] += own[i]; /* a repeated letter walks the diagonal */
    }
}

/* Steps through dims [from, to), last fastest; false when all are done. */
static bool step(const einsum_t *e, uint32_t from, uint32_t to, int64_t *at, int64_t *offset,
                 int64_t strides[MAX_TERMS][MAX_LABELS])
{
    for (uint32_t d = to; d-- > from;) {
        for (uint32_t t = 0; t < e->terms; t++)
            offset[t] += strides[t][d];
        if (++at[d] < e->dims[d])
            return true;
        for (uint32_t t = 0; t < e->terms; t++)
            offset[t] -= strides[t][d] * e->dims[d];
        at[d] = 0;
    }
    return false;
}

static status_t eval(op_ctx_t *c)
{
    int64_t strides[MAX_TERMS][MAX_LABELS], at[MAX_LABELS] = {0}, offset[MAX_TERMS] = {0};
    einsum_t e;
    status_t status = parse(c, &e);
    size_t n = tensor_count(c->out[0]), summed = 1;
    if (status != STATUS_OK)
        return status;
    set_strides(c, &e, strides);
    for (uint32_t d = e.out_count; d < e.label_count; d++)
        summed *= (size_t)e.dims[d];
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t s = 0; s < summed; s++) {
            double product = 1;
            for (uint32_t t = 0; t < e.terms; t++)
                product *= load(c->in[t], offset[t]);
            sum += product;
            step(&e, e.out_count, e.label_count, at, offset, strides);
        }
        if (c->out[0]->dtype == DTYPE_F32)
            ((float *)c->out[0]->data)[i] = (float)sum;
        else
            ((double *)c->out[0]->data)[i] = sum;
        step(&e, 0, e.out_count, at, offset, strides);
    }
    return STATUS_OK;
}

const op_t ops_einsum[] = {
    {"Einsum", 1, MAX_TERMS, 1, 1, OP_HEAVY, infer, eval, NULL, NULL, 12, .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
