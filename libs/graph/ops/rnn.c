/*
 * RNN, GRU and LSTM with their default activations, both directions and both layouts.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
    char kind; /* 'R'NN, 'G'RU, 'L'STM */
    int64_t gates, hidden, input, batch, steps, directions;
    bool batch_first, reverse; /* reverse: of the only direction */
} cell_t;

static status_t check_activations(op_ctx_t *c, const cell_t *k)
{
    static const char *const defaults[3][3] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    int row = k->kind == 'R' ? 0 : k->kind == 'G' ? 1 : 2;
    const attr_t *a = node_attr(c->node, "activations");
    for (uint32_t i = 0; a && a->kind == ATTR_STRINGS && i < a->count; i++)
        if (strcasecmp(a->strings[i], defaults[row][i % (uint32_t)(row + 1)]) != 0)
            return op_unsupported(c, "the activation '%.40s' is not supported", a->strings[i]);
    if (node_attr(c->node, "clip") || op_int(c, "input_forget", 0))
        return op_unsupported(c, "clip and input_forget are not supported");
    return STATUS_OK;
}

static bool has_shape(const tensor_t *t, uint32_t rank, const int64_t *dims)
{
    bool fits = !t || (t->rank == rank && t->dtype == DTYPE_F32);
    for (uint32_t d = 0; t && fits && d < rank; d++)
        fits = t->dims[d] == dims[d];
    return fits;
}

static status_t read_cell(op_ctx_t *c, cell_t *k)
{
    const tensor_t *x = c->in[0], *w = c->in[1], *lens = op_in(c, 4);
    const char *direction = op_string(c, "direction", "forward");
    *k = (cell_t){.kind = *c->node->op->name, .batch_first = op_int(c, "layout", 0)};
    k->gates = k->kind == 'R' ? 1 : k->kind == 'G' ? 3 : 4;
    k->directions = !strcmp(direction, "bidirectional") ? 2 : 1;
    k->reverse = !strcmp(direction, "reverse");
    if (x->rank != 3 || w->rank != 3 || x->dtype != DTYPE_F32 || w->dtype != DTYPE_F32)
        return op_bad(c, "the input or the weights are no float32 tensors of 3 dimensions");
    k->hidden = w->dims[1] / k->gates;
    k->input = x->dims[2];
    k->steps = x->dims[k->batch_first ? 1 : 0];
    k->batch = x->dims[k->batch_first ? 0 : 1];
    int64_t d = k->directions, gh = k->gates * k->hidden;
    const int64_t state[2][3] = {{d, k->batch, k->hidden}, {k->batch, d, k->hidden}};
    bool fits = has_shape(w, 3, (int64_t[]){d, gh, k->input}) &&
                has_shape(c->in[2], 3, (int64_t[]){d, gh, k->hidden}) &&
                has_shape(op_in(c, 3), 2, (int64_t[]){d, 2 * gh}) &&
                has_shape(op_in(c, 5), 3, state[k->batch_first]) &&
                has_shape(op_in(c, 6), 3, state[k->batch_first]) &&
                has_shape(op_in(c, 7), 2, (int64_t[]){d, 3 * k->hidden}) &&
                (!lens || tensor_count(lens) == (size_t)k->batch);
    if (!fits)
        return op_bad(c, "the weights, the biases or the states do not fit the input");
    return check_activations(c, k);
}

static status_t infer(op_ctx_t *c)
{
    cell_t k = {0};
    status_t status = read_cell(c, &k);
    if (status != STATUS_OK)
        return status;
    const int64_t y[2][4] = {{k.steps, k.directions, k.batch, k.hidden},
                             {k.batch, k.steps, k.directions, k.hidden}};
    const int64_t h[2][3] = {{k.directions, k.batch, k.hidden}, {k.batch, k.directions, k.hidden}};
    status = op_set(c, 0, DTYPE_F32, 4, y[k.batch_first]);
    if (status == STATUS_OK)
        status = op_set(c, 1, DTYPE_F32, 3, h[k.batch_first]);
    return status == STATUS_OK ? op_set(c, 2, DTYPE_F32, 3, h[k.batch_first]) : status;
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Weights of one direction; pre = room for the gates' sums. */
typedef struct {
    const float *w, *r, *wb, *rb, *p;
    float *from_x, *from_h;
    bool linear_before_reset;
} weights_t;

static void multiply(const float *m, const float *bias, const float *v, float *out, int64_t rows,
                     int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        float sum = bias ? bias[i] : 0;
        for (int64_t j = 0; j < columns; j++)
            sum += m[i * columns + j] * v[j];
        out[i] = sum;
    }
}

static float peephole(const weights_t *w, int64_t gate, int64_t i, int64_t hidden, float cell)
{
    return w->p ? w->p[gate * hidden + i] * cell : 0;
}

/* Gates i o f c. */
static void lstm_step(const cell_t *k, const weights_t *w, const float *x, float *h, float *cell)
{
    int64_t n = k->hidden;
    multiply(w->w, w->wb, x, w->from_x, 4 * n, k->input);
    multiply(w->r, w->rb, h, w->from_h, 4 * n, n);
    for (int64_t i = 0; i < n; i++) {
        const float *a = w->from_x + i, *b = w->from_h + i;
        float in = sigmoid(a[0] + b[0] + peephole(w, 0, i, n, cell[i]));
        float forget = sigmoid(a[2 * n] + b[2 * n] + peephole(w, 2, i, n, cell[i]));
        cell[i] = forget * cell[i] + in * tanhf(a[3 * n] + b[3 * n]);
        h[i] = sigmoid(a[n] + b[n] + peephole(w, 1, i, n, cell[i])) * tanhf(cell[i]);
    }
}

/* Gates z r h. */
static void gru_step(const cell_t *k, const weights_t *w, const float *x, float *h, float *reset)
{
    int64_t n = k->hidden;
    multiply(w->w, w->wb, x, w->from_x, 3 * n, k->input);
    multiply(w->r, w->rb, h, w->from_h, 3 * n, n);
    for (int64_t i = 0; i < n; i++) {
        float r = sigmoid(w->from_x[n + i] + w->from_h[n + i]);
        reset[i] = r * h[i];
        w->from_h[2 * n + i] *= r;
    }
    if (!w->linear_before_reset)
        multiply(w->r + 2 * n * n, w->rb ? w->rb + 2 * n : NULL, reset, w->from_h + 2 * n, n, n);
    for (int64_t i = 0; i < n; i++) {
        float z = sigmoid(w->from_x[i] + w->from_h[i]);
        h[i] = (1 - z) * tanhf(w->from_x[2 * n + i] + w->from_h[2 * n + i]) + z * h[i];
    }
}

static void rnn_step(const cell_t *k, const weights_t *w, const float *x, float *h)
{
    multiply(w->w, w->wb, x, w->from_x, k->hidden, k->input);
    multiply(w->r, w->rb, h, w->from_h, k->hidden, k->hidden);
    for (int64_t i = 0; i < k->hidden; i++)
        h[i] = tanhf(w->from_x[i] + w->from_h[i]);
}

static const float *part(const tensor_t *t, int64_t offset)
{
    return t ? (const float *)t->data + offset : NULL;
}

static int64_t state_at(const cell_t *k, int64_t d, int64_t b)
{
    return (k->batch_first ? b * k->directions + d : d * k->batch + b) * k->hidden;
}

/* One sequence in one direction. state holds h, then the cell (or the GRU's room). */
static void run_sequence(op_ctx_t *c, const cell_t *k, const weights_t *w, int64_t d, int64_t b, float *state)
{
    int64_t n = k->hidden, len = op_in(c, 4) ? tensor_get_i64(c->in[4], (size_t)b) : k->steps;
    float *h = state, *cell = state + n, *y = op_out(c, 0) ? c->out[0]->data : NULL;
    const float *h0 = part(op_in(c, 5), state_at(k, d, b)), *c0 = part(op_in(c, 6), state_at(k, d, b));
    len = len < 0 ? 0 : len > k->steps ? k->steps : len;
    memset(state, 0, (size_t)(2 * n) * sizeof *state);
    if (h0)
        memcpy(h, h0, (size_t)n * sizeof *h);
    if (c0 && k->kind == 'L')
        memcpy(cell, c0, (size_t)n * sizeof *cell);
    for (int64_t s = 0; s < k->steps; s++) {
        int64_t t = (k->reverse || d == 1) && s < len ? len - 1 - s : s;
        int64_t at =
            k->batch_first ? (b * k->steps + t) * k->directions + d : (t * k->directions + d) * k->batch + b;
        const float *x = part(c->in[0], (k->batch_first ? b * k->steps + t : t * k->batch + b) * k->input);
        if (s >= len) {
            if (y)
                memset(y + at * n, 0, (size_t)n * sizeof *y);
            continue;
        }
        if (k->kind == 'L')
            lstm_step(k, w, x, h, cell);
        else if (k->kind == 'G')
            gru_step(k, w, x, h, cell);
        else
            rnn_step(k, w, x, h);
        if (y)
            memcpy(y + at * n, h, (size_t)n * sizeof *y);
    }
    if (op_out(c, 1))
        memcpy((float *)c->out[1]->data + state_at(k, d, b), h, (size_t)n * sizeof *h);
    if (op_out(c, 2))
        memcpy((float *)c->out[2]->data + state_at(k, d, b), cell, (size_t)n * sizeof *cell);
}

static status_t eval(op_ctx_t *c)
{
    cell_t k = {0};
    status_t status = read_cell(c, &k);
    if (status != STATUS_OK)
        return status;
    int64_t gh = k.gates * k.hidden;
    float *room = calloc((size_t)(2 * gh + 2 * k.hidden) + 1, sizeof *room);
    if (!room)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory for the states");
    for (int64_t d = 0; d < k.directions; d++) {
        const float *bias = part(op_in(c, 3), d * 2 * gh);
        weights_t w = {.w = part(c->in[1], d * gh * k.input),
                       .r = part(c->in[2], d * gh * k.hidden),
                       .wb = bias,
                       .rb = bias ? bias + gh : NULL,
                       .p = k.kind == 'L' ? part(op_in(c, 7), d * 3 * k.hidden) : NULL,
                       .from_x = room,
                       .from_h = room + gh,
                       .linear_before_reset = op_int(c, "linear_before_reset", 0)};
        for (int64_t b = 0; b < k.batch; b++)
            run_sequence(c, &k, &w, d, b, room + 2 * gh);
    }
    free(room);
    return STATUS_OK;
}

const op_t ops_rnn[] = {
    {"GRU", 3, 6, 0, 2, OP_HEAVY, infer, eval, NULL, NULL, 7, .rows.kind = ROWS_MIXED},
    {"LSTM", 3, 8, 0, 3, OP_HEAVY, infer, eval, NULL, NULL, 7, .rows.kind = ROWS_MIXED},
    {"RNN", 3, 6, 0, 2, OP_HEAVY, infer, eval, NULL, NULL, 7, .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
