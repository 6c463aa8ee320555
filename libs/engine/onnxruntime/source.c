#include "engine/onnxruntime/parts.h"
#include "onnx.pb-c.h"

void source_close(source_t *source)
{
    onnx_extract_destroy(source->extract);
    if (source->file)
        onnx_model_destroy(source->file);
    *source = (source_t){.file = NULL};
}

status_t source_open(const engine_model_t *model, source_t *source, err_t *err)
{
    *source = (source_t){.file = NULL};
    status_t status = describe_read(&model->load, &source->file, err);
    if (status != STATUS_OK)
        source->file = NULL;
    else
        status = onnx_extract_create(source->file, &source->extract, err);
    if (status != STATUS_OK)
        source_close(source);
    return status;
}

bool source_has_halves(const source_t *source)
{
    const Onnx__GraphProto *g = onnx_model_proto(source->file)->graph;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->data_type == DTYPE_F16 || g->initializer[i]->data_type == DTYPE_BF16)
            return true;
    for (size_t i = 0; i < g->n_input; i++) {
        const Onnx__TypeProto *type = g->input[i]->type;
        if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
            (type->tensor_type->elem_type == DTYPE_F16 || type->tensor_type->elem_type == DTYPE_BF16))
            return true;
    }
    return false;
}
