/*
 * Attention and RotaryEmbedding of opset 23, which new exporters write in place of their parts.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Queries, keys or values: [batch, heads, length, size], or [batch, length, heads·size]. */
typedef struct {
    int64_t batch, heads, length, size;
    int64_t by_batch, by_head, by_place; /* strides in elements */
    const float *data;
} heads_t;

static status_t heads_of(op_ctx_t *c, uint32_t i, const char *attr, heads_t *h)
{
    const tensor_t *t = op_in(c, i);
    if (!t || t->dtype != DTYPE_F32 || (t->rank != 3 && t->rank != 4))
        return op_unsupported(c, "input %u is not float32 of three or four dimensions", i);
    *h = (heads_t){.batch = t->dims[0], .data = t->data};
    if (t->rank == 4) {
        h->heads = t->dims[1];
        h->length = t->dims[2];
        h->size = t->dims[3];
        h->by_place = h->size;
        h->by_head = h->length * h->size;
    } else {
        h->heads = op_int(c, attr, 0);
        if (h->heads < 1 || t->dims[2] % h->heads)
            return op_bad(c, "%s is %lld for %lld columns", attr, (long long)h->heads, (long long)t->dims[2]);
        h->length = t->dims[1];
        h->size = t->dims[2] / h->heads;
        h->by_head = h->size;
        h->by_place = t->dims[2];
    }
    h->by_batch = h->heads * h->length * h->size;
    return STATUS_OK;
}

static const float *row_of(const heads_t *h, int64_t batch, int64_t head, int64_t place)
{
    return h->data + batch * h->by_batch + head * h->by_head + place * h->by_place;
}

typedef struct {
    heads_t q, k, v, past_k, past_v; /* past: of length 0 when there is none */
    int64_t group;                   /* heads of queries to one of keys and values */
    int64_t keys;                    /* past ones and new ones */
    const tensor_t *mask;
    int64_t mask_strides[4],
        masked_keys; /* strides: 0 where the mask is repeated; keys behind the mask are masked out */
} attention_t;

static status_t read_mask(op_ctx_t *c, attention_t *a)
{
    const tensor_t *mask = a->mask = op_in(c, 3);
    int64_t dims[4] = {a->q.batch, a->q.heads, a->q.length, a->keys}, stride = 1;
    a->masked_keys = a->keys;
    if (!mask)
        return STATUS_OK;
    if (mask->rank > 4 || mask->rank < 1 || (mask->dtype != DTYPE_F32 && mask->dtype != DTYPE_BOOL))
        return op_unsupported(c, "the mask is neither float32 nor bool of up to four dimensions");
    for (uint32_t d = mask->rank, at = 4; d-- > 0;) {
        int64_t dim = mask->dims[d];
        at--;
        if (at == 3 && dim != 1 && dim < a->keys)
            a->masked_keys = dim;
        else if (dim != 1 && dim != dims[at])
            return op_bad(c, "the mask does not fit the scores");
        a->mask_strides[at] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
    return STATUS_OK;
}

static status_t read_past(op_ctx_t *c, attention_t *a)
{
    if (!op_in(c, 4) != !op_in(c, 5))
        return op_bad(c, "past keys and values come together");
    if (!op_in(c, 4))
        return STATUS_OK;
    status_t status = heads_of(c, 4, "kv_num_heads", &a->past_k);
    if (status == STATUS_OK)
        status = heads_of(c, 5, "kv_num_heads", &a->past_v);
    if (status != STATUS_OK)
        return status;
    bool fits = a->past_k.batch == a->k.batch && a->past_k.heads == a->k.heads &&
                a->past_k.size == a->k.size && a->past_v.batch == a->v.batch &&
                a->past_v.heads == a->v.heads && a->past_v.size == a->v.size &&
                a->past_k.length == a->past_v.length;
    return fits ? STATUS_OK : op_bad(c, "the past keys or values do not fit the new ones");
}

static status_t read_attention(op_ctx_t *c, attention_t *a)
{
    *a = (attention_t){0};
    if (op_in(c, 6) || op_out(c, 3))
        return op_unsupported(c, "lengths of padded keys and the scores as a result are not supported");
    status_t status = heads_of(c, 0, "q_num_heads", &a->q);
    if (status == STATUS_OK)
        status = heads_of(c, 1, "kv_num_heads", &a->k);
    if (status == STATUS_OK)
        status = heads_of(c, 2, "kv_num_heads", &a->v);
    if (status != STATUS_OK)
        return status;
    bool fits = a->q.batch == a->k.batch && a->k.batch == a->v.batch && a->q.size == a->k.size &&
                a->k.length == a->v.length && a->k.heads == a->v.heads && a->k.heads > 0 &&
                a->q.heads % a->k.heads == 0 && c->in[0]->rank == c->in[1]->rank;
    if (!fits)
        return op_bad(c, "queries, keys and values do not fit each other");
    a->group = a->q.heads / a->k.heads;
    status = read_past(c, a);
    a->keys = a->past_k.length + a->k.length;
    return status == STATUS_OK ? read_mask(c, a) : status;
}

static status_t infer_attention(op_ctx_t *c)
{
    attention_t a;
    status_t status = read_attention(c, &a);
    if (status != STATUS_OK)
        return status;
    bool flat = c->in[0]->rank == 3;
    int64_t wide[] = {a.q.batch, a.q.heads, a.q.length, a.v.size},
            narrow[] = {a.q.batch, a.q.length, a.q.heads * a.v.size};
    status = op_set(c, 0, DTYPE_F32, flat ? 3 : 4, flat ? narrow : wide);
    if (status == STATUS_OK)
        status = op_set(c, 1, DTYPE_F32, 4, (int64_t[]){a.k.batch, a.k.heads, a.keys, a.k.size});
    return status == STATUS_OK
               ? op_set(c, 2, DTYPE_F32, 4, (int64_t[]){a.v.batch, a.v.heads, a.keys, a.v.size})
               : status;
}

/* Row `place` of the past ones and the new ones, one behind the other. */
static const float *joined_row(const heads_t *past, const heads_t *now, int64_t batch, int64_t head,
                               int64_t place)
{
    return place < past->length ? row_of(past, batch, head, place)
                                : row_of(now, batch, head, place - past->length);
}

static double mask_of(const attention_t *a, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    if (!a->mask)
        return 0;
    if (key >= a->masked_keys)
        return -INFINITY;
    int64_t at = batch * a->mask_strides[0] + head * a->mask_strides[1] + query * a->mask_strides[2] +
                 key * a->mask_strides[3];
    if (a->mask->dtype == DTYPE_F32)
        return (double)((const float *)a->mask->data)[at];
    return ((const uint8_t *)a->mask->data)[at] ? 0 : -INFINITY;
}

typedef struct {
    double scale, softcap;
    bool causal;
} attention_how_t;

/* In strands that the compiler keeps in one vector. */
static double dot(const float *a, const float *b, int64_t n)
{
    enum { STRANDS = 16 };
    float sums[STRANDS] = {0};
    double sum = 0;
    int64_t i = 0;
    for (; i + STRANDS <= n; i += STRANDS)
        for (int s = 0; s < STRANDS; s++)
            sums[s] += a[i + s] * b[i + s];
    for (int s = 0; s < STRANDS; s++)
        sum += (double)sums[s];
    for (; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The shares of all keys in one query's answer; all zero where everything is masked out. */
static void weigh(const attention_t *a, const attention_how_t *how, int64_t batch, int64_t head,
                  int64_t query, double *shares)
{
    const float *q = row_of(&a->q, batch, head, query);
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->keys; j++) {
        const float *k = joined_row(&a->past_k, &a->k, batch, head / a->group, j);
        double score = dot(q, k, a->q.size);
        score *= how->scale;
        if (how->softcap > 0)
            score = how->softcap * tanh(score / how->softcap);
        if (how->causal && j > query + a->past_k.length)
            score = -INFINITY;
        shares[j] = score + mask_of(a, batch, head, query, j);
        most = fmax(most, shares[j]);
    }
    for (int64_t j = 0; j < a->keys; j++)
        sum += shares[j] = most > -INFINITY ? exp(shares[j] - most) : 0;
    for (int64_t j = 0; sum > 0 && j < a->keys; j++)
        shares[j] /= sum;
}

static void answer(const attention_t *a, int64_t batch, int64_t head, const double *shares, float *to)
{
    memset(to, 0, (size_t)a->v.size * sizeof(*to));
    for (int64_t j = 0; j < a->keys; j++) {
        const float *v = joined_row(&a->past_v, &a->v, batch, head / a->group, j);
        const float share = (float)shares[j];
        for (int64_t i = 0; share != 0 && i < a->v.size; i++)
            to[i] += share * v[i];
    }
}

static void join(const heads_t *past, const heads_t *now, tensor_t *to)
{
    float *at = to ? to->data : NULL;
    for (int64_t b = 0; at && b < now->batch; b++)
        for (int64_t h = 0; h < now->heads; h++)
            for (int64_t j = 0; j < past->length + now->length; j++, at += now->size)
                memcpy(at, joined_row(past, now, b, h, j), (size_t)now->size * sizeof(*at));
}

static status_t eval_attention(op_ctx_t *c)
{
    attention_t a;
    status_t status = read_attention(c, &a);
    if (status != STATUS_OK)
        return status;
    attention_how_t how = {.scale = op_float(c, "scale", a.q.size > 0 ? 1 / sqrt((double)a.q.size) : 1),
                           .softcap = op_float(c, "softcap", 0),
                           .causal = op_int(c, "is_causal", 0)};
    double *shares = malloc(((size_t)a.keys + 1) * sizeof(*shares));
    if (!shares)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory for the scores");
    bool flat = c->in[0]->rank == 3;
    int64_t by_place = flat ? a.q.heads * a.v.size : a.v.size,
            by_head = flat ? a.v.size : a.q.length * a.v.size;
    float *out = op_out(c, 0) ? c->out[0]->data : NULL;
    for (int64_t b = 0; out && b < a.q.batch; b++)
        for (int64_t h = 0; h < a.q.heads; h++)
            for (int64_t i = 0; i < a.q.length; i++) {
                weigh(&a, &how, b, h, i, shares);
                answer(&a, b, h, shares,
                       out + b * a.q.heads * a.q.length * a.v.size + h * by_head + i * by_place);
            }
    free(shares);
    join(&a.past_k, &a.k, op_out(c, 1));
    join(&a.past_v, &a.v, op_out(c, 2));
    return STATUS_OK;
}

/* ---- RotaryEmbedding ---- */

typedef struct {
    heads_t x;
    int64_t turned; /* the first columns of each head, in pairs; the others stay */
    const tensor_t *cosines, *sines, *places;
} rotary_t;

static status_t read_rotary(op_ctx_t *c, rotary_t *r)
{
    status_t status = heads_of(c, 0, "num_heads", &r->x);
    if (status != STATUS_OK)
        return status;
    r->turned = op_int(c, "rotary_embedding_dim", 0);
    r->turned = r->turned ? r->turned : r->x.size;
    r->cosines = c->in[1];
    r->sines = c->in[2];
    r->places = op_in(c, 3);
    uint32_t rank = r->places ? 2 : 3;
    bool fits = r->turned > 0 && r->turned <= r->x.size && r->turned % 2 == 0 && r->cosines->rank == rank &&
                r->cosines->dtype == DTYPE_F32 && r->sines->dtype == DTYPE_F32 &&
                tensor_same_shape(r->cosines, r->sines) && r->cosines->dims[rank - 1] == r->turned / 2;
    if (fits && r->places)
        fits = r->places->dtype == DTYPE_I64 && tensor_count(r->places) == (size_t)(r->x.batch * r->x.length);
    else if (fits)
        fits = r->cosines->dims[0] == r->x.batch && r->cosines->dims[1] == r->x.length;
    return fits ? STATUS_OK : op_bad(c, "the cosines, sines or places do not fit the input");
}

static status_t infer_rotary(op_ctx_t *c)
{
    rotary_t r;
    status_t status = read_rotary(c, &r);
    return status == STATUS_OK ? op_infer_same(c) : status;
}

static void turn(const rotary_t *r, bool interleaved, const float *x, int64_t row, float *y)
{
    int64_t half = r->turned / 2;
    const float *cosine = (const float *)r->cosines->data + row * half;
    const float *sine = (const float *)r->sines->data + row * half;
    memcpy(y, x, (size_t)r->x.size * sizeof(*y));
    for (int64_t i = 0; i < half; i++) {
        int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
        y[a] = cosine[i] * x[a] - sine[i] * x[b];
        y[b] = sine[i] * x[a] + cosine[i] * x[b];
    }
}

static status_t eval_rotary(op_ctx_t *c)
{
    rotary_t r;
    status_t status = read_rotary(c, &r);
    if (status != STATUS_OK)
        return status;
    bool interleaved = op_int(c, "interleaved", 0);
    for (int64_t b = 0; b < r.x.batch; b++)
        for (int64_t p = 0; p < r.x.length; p++) {
            int64_t row = b * r.x.length + p;
            if (r.places)
                row = ((const int64_t *)r.places->data)[row];
            if (r.places && (row < 0 || row >= r.cosines->dims[0]))
                return op_bad(c, "place %lld is not within 0..%lld", (long long)row,
                              (long long)r.cosines->dims[0] - 1);
            for (int64_t h = 0; h < r.x.heads; h++) {
                const float *x = row_of(&r.x, b, h, p);
                turn(&r, interleaved, x, row, (float *)c->out[0]->data + (x - r.x.data));
            }
        }
    return STATUS_OK;
}

const op_t ops_attention[] = {
    {"Attention", 3, 7, 1, 4, OP_HEAVY, infer_attention, eval_attention, NULL, NULL, 23,
     .rows.kind = ROWS_KEPT},
    {"RotaryEmbedding", 3, 4, 1, 1, 0, infer_rotary, eval_rotary, NULL, NULL, 23, .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
