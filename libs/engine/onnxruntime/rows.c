#include "engine/onnxruntime/rows.h"

#include "engine/compile/describe.h"
#include "onnx.pb-c.h"

#include <stdio.h>
#include <string.h>

enum {
    DEPTH_MAX = 24, /* of the way back from a condition; what is further away is taken for data */
    GRAPHS_MAX = 8, /* in one another, as ONNX_MAX_DEPTH bounds them */
};

static const Onnx__NodeProto *maker_of(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t n = 0; n < graph->n_node; n++)
        for (size_t o = 0; o < graph->node[n]->n_output; o++)
            if (strcmp(graph->node[n]->output[o], name) == 0)
                return graph->node[n];
    return NULL;
}

static bool is_input(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && strcmp(graph->initializer[i]->name, name) == 0)
            return false;
    for (size_t i = 0; i < graph->n_input; i++)
        if (strcmp(graph->input[i]->name, name) == 0)
            return true;
    return false;
}

/* A value that is computed from what inputs hold, and not from their shapes alone. */
static bool is_data(const Onnx__GraphProto *graph, const char *name, uint32_t depth)
{
    const Onnx__NodeProto *maker = maker_of(graph, name);
    if (!*name)
        return false;
    if (!maker)
        return is_input(graph, name);
    if (strcmp(maker->op_type, "Shape") == 0 || strcmp(maker->op_type, "Size") == 0)
        return false;
    if (depth == 0)
        return true;
    for (size_t i = 0; i < maker->n_input; i++)
        if (is_data(graph, maker->input[i], depth - 1))
            return true;
    return false;
}

/* If: the condition. Loop: how often, and whether it goes on at all. */
static bool decides(const Onnx__GraphProto *graph, const Onnx__NodeProto *node)
{
    bool loop = strcmp(node->op_type, "Loop") == 0;
    if (!loop && strcmp(node->op_type, "If") != 0)
        return false;
    for (size_t i = 0; i < node->n_input && i < (loop ? 2 : 1); i++)
        if (is_data(graph, node->input[i], DEPTH_MAX))
            return true;
    return false;
}

static void check_graph(const Onnx__GraphProto *graph, uint32_t depth, char alone[ENGINE_REASON_BYTES])
{
    for (size_t n = 0; n < graph->n_node && !alone[0]; n++) {
        const Onnx__NodeProto *node = graph->node[n];
        const char *name = node->name ? node->name : "";
        if (strncmp(node->op_type, "DynamicQuantize", strlen("DynamicQuantize")) == 0)
            snprintf(alone, ENGINE_REASON_BYTES, "%.40s '%.80s' gives all rows of a batch one scale",
                     node->op_type, name);
        else if (decides(graph, node))
            snprintf(alone, ENGINE_REASON_BYTES, "%.40s '%.80s' decides for all rows of a batch at once",
                     node->op_type, name);
        for (size_t a = 0; a < node->n_attribute && depth > 0; a++)
            if (node->attribute[a]->g)
                check_graph(node->attribute[a]->g, depth - 1, alone);
    }
}

void rows_check(const engine_load_t *what, char alone[ENGINE_REASON_BYTES])
{
    onnx_model_t *model;
    if (describe_read(what, &model, NULL) != STATUS_OK)
        return;
    check_graph(onnx_model_proto(model)->graph, GRAPHS_MAX, alone);
    onnx_model_destroy(model);
}
