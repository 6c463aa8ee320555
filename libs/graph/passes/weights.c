#include "graph/passes/weights.h"

#include "graph/ops/op.h"

#include <stdlib.h>

static bool takes_weights(const node_t *node)
{
    return op_is(node, OP_CONV) || op_is(node, OP_CONV_TRANSPOSE) || op_is(node, OP_GEMM) ||
           op_is(node, OP_LINEAR) || op_is(node, OP_MATMUL);
}

/* What an instance cannot know before it runs. */
static void note_results(const node_t *node, bool *varies)
{
    bool any = node->op->flags & OP_RANDOM;
    for (uint32_t i = 0; i < node->in_count; i++)
        any |= node->in[i] >= 0 && varies[node->in[i]];
    for (uint32_t i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0)
            varies[node->out[i]] = any && !(node->op->flags & OP_SHAPE_ONLY);
}

static void note_readings(const node_t *node, const bool *varies, bool *weights)
{
    bool runs = takes_weights(node) && node->in[0] >= 0 && varies[node->in[0]];
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !(runs && i == 1))
            weights[node->in[i]] = false;
}

status_t graph_find_weights(const graph_t *g, bool *weights, err_t *err)
{
    bool *varies = calloc(g->value_count + 1, sizeof *varies);
    if (!varies)
        return err_set(err, STATUS_NO_MEMORY, "no memory to look through the graph");
    for (uint32_t v = 0; v < g->value_count; v++)
        weights[v] = g->values[v].blob && !g->values[v].keep;
    for (uint32_t i = 0; i < g->input_count; i++)
        varies[g->inputs[i].value] = !g->values[g->inputs[i].value].blob;
    for (uint32_t n = 0; n < g->node_count; n++) {
        note_results(&g->nodes[n], varies);
        note_readings(&g->nodes[n], varies, weights);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        weights[g->outputs[i].value] = false;
    free(varies);
    return STATUS_OK;
}
