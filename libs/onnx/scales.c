/* Scales of quantised operators that are constants of the file: what is divided by 0, or is no number, is no quantisation. */
#include "onnx/model.h"

#include "onnx.pb-c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALES_MAX = 3, GRAPHS_MAX = 8 };

/* Which inputs are scales. */
static const struct {
    const char *op;
    uint32_t count, inputs[SCALES_MAX];
} quantised[] = {
    {"QuantizeLinear", 1, {1}},
    {"DequantizeLinear", 1, {1}},
    {"QLinearConv", 3, {1, 4, 6}},
    {"QLinearMatMul", 3, {1, 4, 6}},
};

static const Onnx__TensorProto *constant(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && strcmp(graph->initializer[i]->name, name) == 0)
            return graph->initializer[i];
    return NULL;
}

static status_t check_values(const Onnx__NodeProto *node, const char *name, const float *values, size_t count,
                             err_t *err)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]) || values[i] <= 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "node '%.80s' (%.40s): scale '%.80s' has %g at %zu",
                           node->name ? node->name : "", node->op_type, name, (double)values[i], i);
    return STATUS_OK;
}

/* Those of other types, and tensors that are wrong in themselves, are for who reads the graph. */
static status_t check_scale(const onnx_model_t *model, const Onnx__GraphProto *graph,
                            const Onnx__NodeProto *node, uint32_t input, err_t *err)
{
    onnx_tensor_info_t info;
    const char *name = input < node->n_input ? node->input[input] : "";
    const Onnx__TensorProto *tensor = *name ? constant(graph, name) : NULL;
    if (!tensor || onnx_tensor_info(model, tensor, &info, NULL) != STATUS_OK || info.dtype != DTYPE_F32)
        return STATUS_OK;
    float *values = malloc(info.len_bytes + 1);
    if (!values)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scales of a model");
    status_t status = STATUS_OK;
    if (onnx_tensor_read(model, tensor, &info, values, NULL) == STATUS_OK)
        status = check_values(node, name, values, info.count, err);
    free(values);
    return status;
}

static status_t check_node(const onnx_model_t *model, const Onnx__GraphProto *graph,
                           const Onnx__NodeProto *node, err_t *err)
{
    status_t status = STATUS_OK;
    for (size_t q = 0; q < sizeof quantised / sizeof quantised[0]; q++)
        for (uint32_t i = 0; strcmp(node->op_type, quantised[q].op) == 0 && i < quantised[q].count; i++)
            if (status == STATUS_OK)
                status = check_scale(model, graph, node, quantised[q].inputs[i], err);
    return status;
}

static status_t check_graph(const onnx_model_t *model, const Onnx__GraphProto *graph, uint32_t depth,
                            err_t *err)
{
    status_t status = STATUS_OK;
    for (size_t n = 0; status == STATUS_OK && n < graph->n_node; n++) {
        const Onnx__NodeProto *node = graph->node[n];
        if (node->op_type)
            status = check_node(model, graph, node, err);
        for (size_t a = 0; status == STATUS_OK && depth > 0 && a < node->n_attribute; a++)
            if (node->attribute[a]->g)
                status = check_graph(model, node->attribute[a]->g, depth - 1, err);
    }
    return status;
}

status_t onnx_model_check_scales(const onnx_model_t *model, err_t *err)
{
    return check_graph(model, onnx_model_proto(model)->graph, GRAPHS_MAX, err);
}
