#include "maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct maker {
    Onnx__ModelProto *model;
};

/* Everything is malloc'ed as protobuf-c does, so that free_unpacked takes the whole message down. */
#define APPEND(owner, list, item)                                                                \
    do {                                                                                         \
        (owner)->list = realloc((owner)->list, ((owner)->n_##list + 1) * sizeof *(owner)->list); \
        (owner)->list[(owner)->n_##list++] = (item);                                             \
    } while (0)

void maker_import(maker_t *m, const char *domain, int64_t version)
{
    Onnx__OperatorSetIdProto *set = calloc(1, sizeof *set);
    onnx__operator_set_id_proto__init(set);
    set->domain = strdup(domain);
    set->has_version = 1;
    set->version = version;
    APPEND(m->model, opset_import, set);
}

maker_t *maker_create(int64_t opset)
{
    maker_t *m = calloc(1, sizeof *m);
    m->model = calloc(1, sizeof *m->model);
    onnx__model_proto__init(m->model);
    m->model->has_ir_version = 1;
    m->model->ir_version = 8; /* of opsets 15 to 18; OpenVINO reads no file without */
    m->model->graph = calloc(1, sizeof *m->model->graph);
    onnx__graph_proto__init(m->model->graph);
    maker_import(m, "", opset);
    return m;
}

Onnx__ModelProto *maker_proto(maker_t *m)
{
    return m->model;
}

static Onnx__TensorShapeProto *make_shape(int rank, const int64_t *dims)
{
    Onnx__TensorShapeProto *shape = calloc(1, sizeof *shape);
    onnx__tensor_shape_proto__init(shape);
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = calloc(1, sizeof *dim);
        onnx__tensor_shape_proto__dimension__init(dim);
        if (dims[i] < 0) {
            char symbol[32] = "n";
            if (dims[i] < -1)
                snprintf(symbol, sizeof symbol, "n%lld", (long long)-dims[i]);
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = strdup(symbol);
        } else {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = dims[i];
        }
        APPEND(shape, dim, dim);
    }
    return shape;
}

static Onnx__ValueInfoProto *make_info(const char *name, dtype_t dtype, int rank, const int64_t *dims)
{
    Onnx__ValueInfoProto *info = calloc(1, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = strdup(name);
    if (rank < 0)
        return info;
    info->type = calloc(1, sizeof *info->type);
    onnx__type_proto__init(info->type);
    Onnx__TypeProto__Tensor *tensor = calloc(1, sizeof *tensor);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = (int32_t)dtype;
    tensor->shape = make_shape(rank, dims);
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    info->type->tensor_type = tensor;
    return info;
}

void maker_input(maker_t *m, const char *name, dtype_t dtype, int rank, const int64_t *dims)
{
    APPEND(m->model->graph, input, make_info(name, dtype, rank, dims));
}

void maker_output(maker_t *m, const char *name, dtype_t dtype, int rank, const int64_t *dims)
{
    APPEND(m->model->graph, output, make_info(name, dtype, rank, dims));
}

static Onnx__TensorProto *add_tensor(maker_t *m, const char *name, dtype_t dtype, int rank,
                                     const int64_t *dims, const void *values)
{
    Onnx__TensorProto *t = calloc(1, sizeof *t);
    size_t len = dtype_size(dtype);
    onnx__tensor_proto__init(t);
    t->name = strdup(name);
    t->has_data_type = 1;
    t->data_type = (int32_t)dtype;
    for (int i = 0; i < rank; i++) {
        APPEND(t, dims, dims[i]);
        len *= (size_t)dims[i];
    }
    t->has_raw_data = 1;
    t->raw_data.len = len;
    t->raw_data.data = malloc(len + 1);
    memcpy(t->raw_data.data, values, len);
    APPEND(m->model->graph, initializer, t);
    return t;
}

Onnx__TensorProto *maker_floats(maker_t *m, const char *name, int rank, const int64_t *dims,
                                const float *values)
{
    return add_tensor(m, name, DTYPE_F32, rank, dims, values);
}

Onnx__TensorProto *maker_ints(maker_t *m, const char *name, int count, const int64_t *values)
{
    return add_tensor(m, name, DTYPE_I64, 1, (int64_t[]){count}, values);
}

static void append_names(size_t *count, char ***list, const char *names)
{
    char *copy = strdup(names), *rest = copy;
    for (char *name; (name = strsep(&rest, " "));) {
        *list = realloc(*list, (*count + 1) * sizeof **list);
        (*list)[(*count)++] = strdup(strcmp(name, "-") ? name : "");
    }
    free(copy);
}

Onnx__NodeProto *maker_node(maker_t *m, const char *op, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = calloc(1, sizeof *node);
    onnx__node_proto__init(node);
    node->op_type = strdup(op);
    if (*inputs)
        append_names(&node->n_input, &node->input, inputs);
    append_names(&node->n_output, &node->output, outputs);
    APPEND(m->model->graph, node, node);
    return node;
}

static Onnx__AttributeProto *add_attr(Onnx__NodeProto *node, const char *name,
                                      Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *attr = calloc(1, sizeof *attr);
    onnx__attribute_proto__init(attr);
    attr->name = strdup(name);
    attr->has_type = 1;
    attr->type = type;
    APPEND(node, attribute, attr);
    return attr;
}

void maker_attr_int(Onnx__NodeProto *node, const char *name, int64_t value)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attr->has_i = 1;
    attr->i = value;
}

void maker_attr_float(Onnx__NodeProto *node, const char *name, float value)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    attr->has_f = 1;
    attr->f = value;
}

void maker_attr_ints(Onnx__NodeProto *node, const char *name, int count, const int64_t *values)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    for (int i = 0; i < count; i++)
        APPEND(attr, ints, values[i]);
}

void maker_attr_string(Onnx__NodeProto *node, const char *name, const char *value)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attr->has_s = 1;
    attr->s.len = strlen(value);
    attr->s.data = (uint8_t *)strdup(value);
}

void maker_attr_strings(Onnx__NodeProto *node, const char *name, const char *values)
{
    Onnx__AttributeProto *attr = add_attr(node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    size_t count = 0;
    char **list = NULL;
    append_names(&count, &list, values);
    for (size_t i = 0; i < count; i++) {
        ProtobufCBinaryData value = {strlen(list[i]), (uint8_t *)list[i]};
        APPEND(attr, strings, value);
    }
    free(list);
}

uint8_t *maker_pack(maker_t *m, size_t *len)
{
    *len = onnx__model_proto__get_packed_size(m->model);
    uint8_t *bytes = malloc(*len + 1);
    onnx__model_proto__pack(m->model, bytes);
    onnx__model_proto__free_unpacked(m->model, NULL);
    free(m);
    return bytes;
}

status_t maker_parse(maker_t *m, onnx_model_t **model, err_t *err)
{
    size_t len;
    uint8_t *bytes = maker_pack(m, &len);
    status_t status = onnx_model_parse(bytes, len, NULL, model, err);
    free(bytes);
    return status;
}
