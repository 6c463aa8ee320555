#include "graph/passes/cuts.h"

#include "base/hash.h"
#include "graph/ops/op.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const graph_t *small, *large;
    int32_t *read;  /* the last node that reads it; node_count for outputs; -1 = nobody */
    int64_t *rows;  /* per value: elements of dimension 0 for each row of the batch; 0 = not batch-major */
    int32_t *alive; /* values alive at the cut that is looked at */
    uint32_t alive_count;
} finder_t;

uint64_t cuts_signature(const graph_t *g)
{
    uint64_t hash = HASH_BEGIN;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const node_t *node = &g->nodes[n];
        hash = hash_word(hash, (uint64_t)(uintptr_t)node->op);
        for (uint32_t i = 0; i < node->in_count; i++)
            hash = hash_word(hash, (uint64_t)node->in[i]);
        for (uint32_t i = 0; i < node->out_count; i++)
            hash = hash_word(hash, (uint64_t)node->out[i]);
        for (uint32_t i = 0; i < node->epilogue_count; i++)
            hash = hash_word(hash_word(hash, (uint64_t)node->epilogue[i].kind),
                             (uint64_t)node->epilogue[i].value);
    }
    return hash;
}

static void note_read(finder_t *f, int32_t value, uint32_t node)
{
    if (value >= 0 && !f->small->values[value].t.data)
        f->read[value] = (int32_t)node;
}

static void find_lives(finder_t *f)
{
    const graph_t *g = f->small;
    for (uint32_t v = 0; v < g->value_count; v++)
        f->read[v] = -1;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const node_t *node = &g->nodes[n];
        for (uint32_t i = 0; i < node->in_count; i++)
            note_read(f, node->in[i], n);
        for (uint32_t i = 0; i < node->epilogue_count; i++)
            if (node->epilogue[i].kind == EPILOGUE_ADD)
                note_read(f, node->epilogue[i].value, n);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        note_read(f, g->outputs[i].value, g->node_count);
}

/* ---- batch-major ---- */

/* Elements of dimension 0 for each row, when that dimension alone grows with the batch; else 0. */
static int64_t rows_by_shape(const finder_t *f, int32_t value)
{
    const tensor_t *a = &f->small->values[value].t, *b = &f->large->values[value].t;
    int64_t small = f->small->values[f->small->inputs[0].value].t.dims[0];
    int64_t large = f->large->values[f->large->inputs[0].value].t.dims[0];
    if (!a->rank || a->rank != b->rank || a->dims[0] % small || a->dims[0] / small * large != b->dims[0])
        return 0;
    for (uint32_t d = 1; d < a->rank; d++)
        if (a->dims[d] != b->dims[d])
            return 0;
    return a->dims[0] / small;
}

static bool operand_agrees(const finder_t *f, int32_t value, int64_t rows)
{
    return value < 0 || f->small->values[value].t.data || f->rows[value] == rows;
}

/* Several elements for each row: only where it can be followed from the batch how they came about. */
static bool is_in_order(const finder_t *f, const node_t *node, uint32_t out, int64_t rows)
{
    int32_t first = node->in_count ? node->in[0] : -1;
    if (first < 0)
        return false;
    if (node->op->rows.kind == ROWS_AS_BYTES)
        return f->rows[first] > 0;
    bool agrees = op_keeps_rows(node, out, f->small->values[first].t.rank);
    for (uint32_t i = 0; agrees && i < node->in_count; i++)
        agrees = operand_agrees(f, node->in[i], rows);
    for (uint32_t i = 0; agrees && i < node->epilogue_count; i++)
        agrees = node->epilogue[i].kind != EPILOGUE_ADD || operand_agrees(f, node->epilogue[i].value, rows);
    return agrees;
}

static void find_rows(finder_t *f)
{
    const graph_t *g = f->small;
    for (uint32_t i = 0; i < g->input_count; i++)
        f->rows[g->inputs[i].value] = f->small == f->large ? 1 : rows_by_shape(f, g->inputs[i].value);
    for (uint32_t n = 0; n < g->node_count; n++) {
        const node_t *node = &g->nodes[n];
        for (uint32_t i = 0; i < node->out_count; i++) {
            if (node->out[i] < 0)
                continue;
            int64_t rows = f->small == f->large ? 1 : rows_by_shape(f, node->out[i]);
            f->rows[node->out[i]] = rows <= 1 || is_in_order(f, node, i, rows) ? rows : 0;
        }
    }
}

/* ---- cuts ---- */

static void enter(finder_t *f, int32_t value, uint32_t cut)
{
    if (value >= 0 && f->read[value] >= (int32_t)cut)
        f->alive[f->alive_count++] = value;
}

static void leave(finder_t *f, uint32_t cut)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->alive_count; i++)
        if (f->read[f->alive[i]] >= (int32_t)cut)
            f->alive[kept++] = f->alive[i];
    f->alive_count = kept;
}

static bool is_allowed(const finder_t *f)
{
    for (uint32_t i = 0; i < f->alive_count; i++)
        if (!f->rows[f->alive[i]])
            return false;
    return f->alive_count <= CUTS_MAX_ALIVE;
}

static int by_value(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

/* One walk counts (cuts->cuts is NULL), the next one fills. */
static uint32_t walk(finder_t *f, graph_cuts_t *cuts)
{
    const graph_t *g = f->small;
    uint32_t value_count = 0;
    f->alive_count = cuts->cut_count = 0;
    for (uint32_t i = 0; i < g->input_count; i++)
        enter(f, g->inputs[i].value, 1);
    for (uint32_t n = 0; n + 1 < g->node_count; n++) {
        for (uint32_t i = 0; i < g->nodes[n].out_count; i++)
            enter(f, g->nodes[n].out[i], n + 1);
        leave(f, n + 1);
        if (!is_allowed(f))
            continue;
        if (cuts->cuts) {
            int32_t *values = cuts->values + value_count;
            memcpy(values, f->alive, f->alive_count * sizeof *values);
            qsort(values, f->alive_count, sizeof *values, by_value);
            cuts->cuts[cuts->cut_count] =
                (graph_cut_t){.op = n + 1, .values = values, .value_count = f->alive_count};
        }
        cuts->cut_count++;
        value_count += f->alive_count;
    }
    return value_count;
}

static bool finder_init(finder_t *f, const graph_t *small, const graph_t *large)
{
    size_t count = small->value_count + 1;
    *f = (finder_t){.small = small,
                    .large = large,
                    .read = calloc(count, sizeof(int32_t)),
                    .rows = calloc(count, sizeof(int64_t)),
                    .alive = calloc(count + small->input_count, sizeof(int32_t))};
    return f->read && f->rows && f->alive;
}

static void finder_dispose(finder_t *f)
{
    free(f->read);
    free(f->rows);
    free(f->alive);
}

static status_t check(const graph_t *small, const graph_t *large, err_t *err)
{
    if (small->node_count < 2)
        return err_set(err, STATUS_UNSUPPORTED, "the model is a single operator: there is nothing to cut");
    if (small->node_count > CUTS_MAX_OPS)
        return err_set(err, STATUS_UNSUPPORTED, "the model has %u operators; more than %d are not cut",
                       small->node_count, CUTS_MAX_OPS);
    if (!small->input_count)
        return err_set(err, STATUS_UNSUPPORTED, "the model has no inputs");
    if (cuts_signature(small) != cuts_signature(large))
        return err_set(err, STATUS_UNSUPPORTED, "the operators of the model change with the batch size");
    return STATUS_OK;
}

static status_t fill(finder_t *f, graph_cuts_t *cuts, err_t *err)
{
    find_lives(f);
    find_rows(f);
    uint32_t value_count = walk(f, cuts);
    if (!cuts->cut_count)
        return err_set(
            err, STATUS_UNSUPPORTED,
            "at every operator of the model something is alive whose rows do not lie one after the other");
    cuts->cuts = calloc(cuts->cut_count, sizeof *cuts->cuts);
    cuts->values = calloc(value_count + 1, sizeof *cuts->values);
    if (!cuts->cuts || !cuts->values)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    walk(f, cuts);
    return STATUS_OK;
}

status_t cuts_find(const graph_t *small, const graph_t *large, graph_cuts_t *out, err_t *err)
{
    finder_t f;
    graph_cuts_t cuts = {.ops = small->node_count, .signature = cuts_signature(small)};
    status_t status = check(small, large, err);
    if (status != STATUS_OK)
        return status;
    status = finder_init(&f, small, large)
                 ? fill(&f, &cuts, err)
                 : err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    finder_dispose(&f);
    if (status == STATUS_OK)
        *out = cuts;
    else
        cuts_dispose(&cuts);
    return status;
}

void cuts_dispose(graph_cuts_t *cuts)
{
    free(cuts->cuts);
    free(cuts->values);
    *cuts = (graph_cuts_t){0};
}
