/*
 * ONNX -> template graph. Half-precision storage is widened here: constants of float16 and bfloat16 become float32, and
 * every operator computes in float32; graph inputs and outputs keep the declared type through a Cast at the border.
 */
#include "base/map.h"
#include "graph/ir/graph.h"
#include "graph/ops/op.h"
#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum { OPSET_OLDEST = 1, OPSET_NEWEST = 24 };

typedef struct {
    const onnx_model_t *model;
    const Onnx__GraphProto *proto;
    size_t large_bytes; /* of an initialiser whose contents nobody wants */
    graph_t *graph;
    strmap_t names; /* name -> value + 1 */
    err_t *err;
} import_t;

static const char *text(const char *maybe)
{
    return maybe ? maybe : "";
}

static status_t no_memory(import_t *im)
{
    return err_set(im->err, STATUS_NO_MEMORY, "no memory for the graph");
}

static int32_t find(const import_t *im, const char *name)
{
    return (int32_t)(intptr_t)strmap_get(&im->names, name) - 1;
}

static status_t define(import_t *im, const char *name, int32_t *value)
{
    if (!*name)
        return err_set(im->err, STATUS_INVALID_ARGUMENT, "a tensor of the graph has no name");
    if (find(im, name) >= 0)
        return err_set(im->err, STATUS_INVALID_ARGUMENT, "the tensor '%.100s' is defined twice", name);
    char *copy = graph_strdup(im->graph, name);
    *value = copy ? graph_add_value(im->graph, copy) : -1;
    if (*value < 0 || !strmap_put(&im->names, copy, (void *)(intptr_t)(*value + 1)))
        return no_memory(im);
    return STATUS_OK;
}

static bool is_half(dtype_t dtype)
{
    return dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

static tensor_t widened(const onnx_tensor_info_t *info)
{
    tensor_t t = {.dtype = is_half(info->dtype) ? DTYPE_F32 : info->dtype, .rank = info->rank};
    memcpy(t.dims, info->dims, sizeof info->dims);
    return t;
}

/* Reads a tensor, widened, into a new blob. */
static status_t read_contents(import_t *im, const Onnx__TensorProto *proto, const onnx_tensor_info_t *info,
                              blob_t **out)
{
    bool half = is_half(info->dtype);
    blob_t *raw = blob_create(info->len_bytes), *wide = half ? blob_create(info->count * 4) : NULL;
    status_t status = !raw || (half && !wide) ? no_memory(im) : STATUS_OK;
    if (status == STATUS_OK)
        status = onnx_tensor_read(im->model, proto, info, blob_data(raw), im->err);
    if (status == STATUS_OK && half) {
        const uint16_t *from = blob_data(raw);
        float *to = blob_data(wide);
        for (size_t i = 0; i < info->count; i++)
            to[i] = info->dtype == DTYPE_F16 ? half_to_float(from[i]) : bf16_to_float(from[i]);
    }
    if (status != STATUS_OK) {
        blob_unref(raw);
        blob_unref(wide);
        return status;
    }
    if (half)
        blob_unref(raw);
    *out = half ? wide : raw;
    return STATUS_OK;
}

static status_t read_tensor(import_t *im, const Onnx__TensorProto *proto, tensor_t *t, blob_t **out)
{
    onnx_tensor_info_t info;
    status_t status = onnx_tensor_info(im->model, proto, &info, im->err);
    if (status != STATUS_OK)
        return status;
    *t = widened(&info);
    return read_contents(im, proto, &info, out);
}

static status_t add_initialiser(import_t *im, const Onnx__TensorProto *proto)
{
    onnx_tensor_info_t info;
    blob_t *blob;
    int32_t value;
    status_t status = define(im, text(proto->name), &value);
    if (status == STATUS_OK)
        status = onnx_tensor_info(im->model, proto, &info, im->err);
    if (status != STATUS_OK)
        return status;
    const tensor_t t = widened(&info);
    if (info.len_bytes >= im->large_bytes) {
        graph_set_hollow(im->graph, value, &t);
        return STATUS_OK;
    }
    status = read_contents(im, proto, &info, &blob);
    if (status == STATUS_OK)
        graph_set_constant(im->graph, value, &t, blob);
    return status;
}

static status_t add_initialisers(import_t *im)
{
    for (size_t i = 0; i < im->proto->n_initializer; i++) {
        status_t status = add_initialiser(im, im->proto->initializer[i]);
        if (status != STATUS_OK)
            return status;
    }
    if (im->proto->n_sparse_initializer)
        return err_set(im->err, STATUS_UNSUPPORTED, "sparse initialisers are not supported");
    return STATUS_OK;
}

static status_t set_io_dims(import_t *im, graph_io_t *io, const Onnx__TensorShapeProto *shape)
{
    if (shape->n_dim > TENSOR_MAX_RANK)
        return err_set(im->err, STATUS_UNSUPPORTED,
                       "tensor '%.80s' has %zu dimensions; at most %d are supported", io->name, shape->n_dim,
                       TENSOR_MAX_RANK);
    io->rank = (uint32_t)shape->n_dim;
    for (uint32_t i = 0; i < io->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        bool fixed = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (fixed && dim->dim_value < -1)
            return err_set(im->err, STATUS_INVALID_ARGUMENT, "tensor '%.80s': dimension %u is negative",
                           io->name, i);
        /* Some exporters write 0 or -1 for a batch dimension that is open. */
        io->dims[i] = fixed && (dim->dim_value > 0 || (i > 0 && dim->dim_value == 0)) ? dim->dim_value : -1;
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && *text(dim->dim_param))
            io->symbols[i] = graph_strdup(im->graph, dim->dim_param);
    }
    return STATUS_OK;
}

static status_t read_io(import_t *im, const Onnx__ValueInfoProto *info, graph_io_t *io)
{
    const Onnx__TypeProto *type = info->type;
    io->name = graph_strdup(im->graph, text(info->name));
    if (!io->name)
        return no_memory(im);
    if (!type || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
        return STATUS_OK;
    if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type)
        return err_set(im->err, STATUS_UNSUPPORTED, "'%.80s' is not a dense tensor", io->name);
    io->dtype = type->tensor_type->has_elem_type ? (dtype_t)type->tensor_type->elem_type : DTYPE_NONE;
    io->declared = type->tensor_type->shape && dtype_size(io->dtype);
    return type->tensor_type->shape ? set_io_dims(im, io, type->tensor_type->shape) : STATUS_OK;
}

/* A float32 value fed by a Cast when the border type is a half type. */
static status_t add_cast(import_t *im, int32_t from, dtype_t to, int32_t result)
{
    graph_t *g = im->graph;
    attr_t *attr = graph_alloc(g, sizeof *attr);
    node_t *node = attr ? graph_add_node(g, op_find("", "Cast"), 1, 1) : NULL;
    if (!node)
        return no_memory(im);
    *attr = (attr_t){.kind = ATTR_INT, .name = "to", .i = to};
    node->name = g->values[result].name;
    node->in[0] = from;
    node->out[0] = result;
    node->attrs = attr;
    node->attr_count = 1;
    return STATUS_OK;
}

static status_t add_input(import_t *im, const Onnx__ValueInfoProto *info, graph_io_t *io)
{
    int32_t value;
    status_t status = read_io(im, info, io);
    if (status == STATUS_OK && !dtype_size(io->dtype))
        status = err_set(im->err, STATUS_UNSUPPORTED, "input '%.80s' has an unsupported element type (%s)",
                         io->name, dtype_name(io->dtype));
    if (status == STATUS_OK)
        status = define(im, io->name, &value);
    if (status != STATUS_OK)
        return status;
    io->value = value;
    im->graph->values[value].t.dtype = io->dtype;
    if (!is_half(io->dtype))
        return STATUS_OK;
    io->value = graph_add_value(im->graph, io->name);
    return io->value < 0 ? no_memory(im) : add_cast(im, io->value, DTYPE_F32, value);
}

static status_t add_inputs(import_t *im)
{
    graph_t *g = im->graph;
    g->inputs = graph_alloc(g, (im->proto->n_input + 1) * sizeof *g->inputs);
    if (!g->inputs)
        return no_memory(im);
    for (size_t i = 0; i < im->proto->n_input; i++) {
        const char *name = text(im->proto->input[i]->name);
        int32_t known = find(im, name);
        if (known >= 0 && value_is_constant(&g->values[known]))
            continue; /* before IR version 4 initialisers are listed as inputs too */
        status_t status = add_input(im, im->proto->input[i], &g->inputs[g->input_count]);
        if (status != STATUS_OK)
            return status;
        g->input_count++;
    }
    return STATUS_OK;
}

static const char *const *copy_strings(import_t *im, const ProtobufCBinaryData *from, size_t count)
{
    const char **to = graph_alloc(im->graph, (count + 1) * sizeof *to);
    for (size_t i = 0; to && i < count; i++) {
        char *s = graph_alloc(im->graph, from[i].len + 1);
        if (!s)
            return NULL;
        if (from[i].len)
            memcpy(s, from[i].data, from[i].len);
        to[i] = s;
    }
    return to;
}

static void *copy_array(import_t *im, const void *from, size_t len)
{
    void *to = graph_alloc(im->graph, len + 1);
    return to && len ? memcpy(to, from, len) : to;
}

static status_t read_attr_tensor(import_t *im, const Onnx__TensorProto *proto, attr_t *attr)
{
    blob_t *blob;
    if (!proto)
        return STATUS_OK;
    status_t status = read_tensor(im, proto, &attr->tensor, &blob);
    if (status != STATUS_OK)
        return status;
    /* The graph owns the contents through a value that nothing reads. */
    int32_t keeper = graph_add_constant(im->graph, attr->name, &attr->tensor, blob);
    if (keeper < 0)
        return no_memory(im);
    im->graph->values[keeper].keep = true;
    attr->tensor.data = im->graph->values[keeper].t.data;
    attr->kind = ATTR_TENSOR;
    return STATUS_OK;
}

/* Files before IR version 3 say the type only by the field that is set. */
static Onnx__AttributeProto__AttributeType attr_type(const Onnx__AttributeProto *proto)
{
    if (proto->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
        return proto->type;
    if (proto->has_f)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (proto->has_i)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    if (proto->has_s)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    if (proto->t)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    if (proto->n_ints)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    return proto->n_floats ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS
                           : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
}

static bool read_attr_list(import_t *im, const Onnx__AttributeProto *proto, attr_t *attr)
{
    switch (attr_type(proto)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        attr->kind = ATTR_INTS;
        attr->count = (uint32_t)proto->n_ints;
        attr->ints = copy_array(im, proto->ints, proto->n_ints * sizeof *proto->ints);
        return attr->ints;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        attr->kind = ATTR_FLOATS;
        attr->count = (uint32_t)proto->n_floats;
        attr->floats = copy_array(im, proto->floats, proto->n_floats * sizeof *proto->floats);
        return attr->floats;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        attr->kind = ATTR_STRINGS;
        attr->count = (uint32_t)proto->n_strings;
        attr->strings = copy_strings(im, proto->strings, proto->n_strings);
        return attr->strings;
    default:
        attr->kind = ATTR_OTHER;
        return true;
    }
}

static status_t read_attr(import_t *im, const Onnx__AttributeProto *proto, attr_t *attr)
{
    attr->kind = ATTR_OTHER;
    attr->name = graph_strdup(im->graph, text(proto->name));
    if (!attr->name)
        return no_memory(im);
    switch (attr_type(proto)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        attr->kind = ATTR_INT;
        attr->i = proto->i;
        return STATUS_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        attr->kind = ATTR_FLOAT;
        attr->f = proto->f;
        return STATUS_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        attr->kind = ATTR_STRING;
        attr->s = copy_array(im, proto->s.data, proto->s.len); /* zeroed one byte further */
        return attr->s ? STATUS_OK : no_memory(im);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        return read_attr_tensor(im, proto->t, attr);
    default:
        return read_attr_list(im, proto, attr) ? STATUS_OK : no_memory(im);
    }
}

static status_t read_attrs(import_t *im, const Onnx__NodeProto *proto, const attr_t **attrs)
{
    attr_t *list = graph_alloc(im->graph, (proto->n_attribute + 1) * sizeof *list);
    if (!list)
        return no_memory(im);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        status_t status = read_attr(im, proto->attribute[i], &list[i]);
        if (status != STATUS_OK)
            return status;
        /* Widening: what was asked to be half is float inside. */
        bool type = !strcmp(list[i].name, "to") || !strcmp(list[i].name, "dtype");
        if (type && list[i].kind == ATTR_INT && is_half((dtype_t)list[i].i))
            list[i].i = DTYPE_F32;
    }
    *attrs = list;
    return STATUS_OK;
}

static status_t check_counts(import_t *im, const op_t *op, const Onnx__NodeProto *proto)
{
    size_t in = proto->n_input, out = proto->n_output;
    bool ok = in >= op->min_in && (op->max_in == 255 || in <= op->max_in) && out >= op->min_out &&
              (op->max_out == 255 || out <= op->max_out) && in <= GRAPH_MAX_NODE_IO &&
              out <= GRAPH_MAX_NODE_IO;
    if (!ok)
        return err_set(im->err, STATUS_INVALID_ARGUMENT, "%zu inputs and %zu outputs do not fit the operator",
                       in, out);
    for (size_t i = 0; i < op->min_in; i++)
        if (!*text(proto->input[i]))
            return err_set(im->err, STATUS_INVALID_ARGUMENT, "input %zu is missing", i);
    return STATUS_OK;
}

static status_t read_node(import_t *im, const Onnx__NodeProto *proto)
{
    graph_t *g = im->graph;
    const char *domain = text(proto->domain);
    bool ours = !strcmp(domain, "fermata"); /* made by rewrites alone */
    const op_t *op = ours ? NULL : op_find(domain, text(proto->op_type));
    int64_t opset = onnx_model_opset(im->model, domain);
    if (!op)
        return err_set(im->err, STATUS_UNSUPPORTED, "the operator is not supported");
    if (opset < op->since || (!op->domain && opset > OPSET_NEWEST))
        return err_set(im->err, STATUS_UNSUPPORTED, "the operator is supported for opsets %d to %d only",
                       op->since ? op->since : OPSET_OLDEST, OPSET_NEWEST);
    status_t status = check_counts(im, op, proto);
    const attr_t *attrs = NULL;
    if (status == STATUS_OK)
        status = read_attrs(im, proto, &attrs);
    if (status != STATUS_OK)
        return status;
    node_t *node = graph_add_node(g, op, (uint32_t)proto->n_input, (uint32_t)proto->n_output);
    if (!node)
        return no_memory(im);
    node->attrs = attrs;
    node->attr_count = (uint32_t)proto->n_attribute;
    node->opset = (int32_t)opset;
    const char *name = *text(proto->name) ? proto->name : proto->n_output ? text(proto->output[0]) : "";
    if (!(node->name = graph_strdup(g, name)))
        return no_memory(im);
    int32_t *outs = node->out;
    for (size_t i = 0; status == STATUS_OK && i < proto->n_output; i++) {
        outs[i] = -1;
        if (*text(proto->output[i]))
            status = define(im, proto->output[i], &outs[i]);
    }
    return status;
}

static status_t node_error(import_t *im, const Onnx__NodeProto *proto)
{
    const char *name = *text(proto->name) ? proto->name : proto->n_output ? text(proto->output[0]) : "";
    const char *domain = text(proto->domain);
    return err_prefix(im->err, "node '%.60s' (%s%s%.40s, opset %lld)", name, domain, *domain ? "." : "",
                      text(proto->op_type), (long long)onnx_model_opset(im->model, domain));
}

static status_t add_nodes(import_t *im)
{
    if (im->proto->n_node > GRAPH_MAX_NODES)
        return err_set(im->err, STATUS_TOO_LARGE, "the graph has %zu nodes; at most %d are supported",
                       im->proto->n_node, GRAPH_MAX_NODES);
    for (size_t n = 0; n < im->proto->n_node; n++)
        if (read_node(im, im->proto->node[n]) != STATUS_OK)
            return node_error(im, im->proto->node[n]);
    return STATUS_OK;
}

/* Inputs are linked last: the file should be in topological order, but need not be. first = casts of the border. */
static status_t link_inputs(import_t *im, uint32_t first)
{
    for (size_t n = 0; n < im->proto->n_node; n++) {
        const Onnx__NodeProto *proto = im->proto->node[n];
        node_t *node = &im->graph->nodes[first + n];
        for (size_t i = 0; i < proto->n_input; i++) {
            const char *name = text(proto->input[i]);
            node->in[i] = *name ? find(im, name) : -1;
            if (*name && node->in[i] < 0) {
                err_set(im->err, STATUS_INVALID_ARGUMENT, "the input '%.80s' is defined nowhere", name);
                return node_error(im, proto);
            }
        }
    }
    return STATUS_OK;
}

static status_t add_outputs(import_t *im)
{
    graph_t *g = im->graph;
    g->outputs = graph_alloc(g, (im->proto->n_output + 1) * sizeof *g->outputs);
    if (!g->outputs)
        return no_memory(im);
    for (size_t i = 0; i < im->proto->n_output; i++) {
        graph_io_t *io = &g->outputs[i];
        status_t status = read_io(im, im->proto->output[i], io);
        if (status != STATUS_OK)
            return status;
        io->value = find(im, io->name);
        if (io->value < 0)
            return err_set(im->err, STATUS_INVALID_ARGUMENT, "the output '%.80s' is made by no node",
                           io->name);
        g->output_count++;
        if (!is_half(io->dtype))
            continue;
        int32_t wide = io->value;
        io->value = graph_add_value(g, io->name);
        status = io->value < 0 ? no_memory(im) : add_cast(im, wide, io->dtype, io->value);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* Optional results that nobody reads (masks, indices, running means) are not asked for. */
static status_t drop_unread_results(import_t *im)
{
    graph_t *g = im->graph;
    int32_t *producer = calloc(g->value_count + 1, sizeof *producer);
    uint32_t *readers = calloc(g->value_count + 1, sizeof *readers);
    status_t status = producer && readers ? STATUS_OK : no_memory(im);
    if (status == STATUS_OK)
        graph_uses(g, producer, readers);
    for (uint32_t n = 0; status == STATUS_OK && n < g->node_count; n++) {
        node_t *node = &g->nodes[n];
        for (uint32_t i = node->op->min_out; i < node->out_count; i++)
            if (node->out[i] >= 0 && !readers[node->out[i]])
                node->out[i] = -1;
    }
    free(producer);
    free(readers);
    return status;
}

static status_t build(import_t *im)
{
    graph_t *g = im->graph;
    status_t status = add_initialisers(im);
    if (status == STATUS_OK)
        status = add_inputs(im);
    uint32_t casts = g->node_count;
    if (status == STATUS_OK)
        status = add_nodes(im);
    if (status == STATUS_OK)
        status = link_inputs(im, casts);
    if (status == STATUS_OK)
        status = add_outputs(im);
    if (status == STATUS_OK)
        status = graph_sort(g, im->err);
    if (status == STATUS_OK)
        status = drop_unread_results(im);
    if (status != STATUS_OK)
        return status;
    graph_clean(g);
    return STATUS_OK;
}

static uint32_t count_names(const Onnx__GraphProto *proto)
{
    size_t names = proto->n_initializer + proto->n_input;
    for (size_t n = 0; n < proto->n_node; n++)
        names += proto->node[n]->n_output;
    return (uint32_t)(names + 1);
}

/* See propagate.c. 16: bytes become floats, and each of those may be moved a few times. */
static void set_fold_budget(graph_t *g)
{
    size_t constants = 0;
    for (uint32_t i = 0; i < g->value_count; i++)
        constants += value_is_constant(&g->values[i]) ? tensor_bytes(&g->values[i].t) : 0;
    g->fold_budget_bytes = ((size_t)128 << 20) + 16 * constants;
}

status_t graph_import_shapes(const onnx_model_t *model, size_t large_bytes, graph_t **out, err_t *err)
{
    err_t own;
    import_t im = {.model = model,
                   .proto = onnx_model_proto(model)->graph,
                   .large_bytes = large_bytes,
                   .err = err ? err : &own};
    im.graph = calloc(1, sizeof *im.graph);
    if (!im.graph)
        return no_memory(&im);
    im.graph->opset = onnx_model_opset(model, "");
    status_t status = strmap_init(&im.names, count_names(im.proto), im.err);
    if (status == STATUS_OK) {
        status = build(&im);
        strmap_dispose(&im.names);
    }
    set_fold_budget(im.graph);
    if (status == STATUS_OK)
        status = graph_propagate(im.graph, im.err);
    if (status != STATUS_OK) {
        graph_destroy(im.graph);
        return status;
    }
    graph_clean(im.graph);
    *out = im.graph;
    return STATUS_OK;
}

status_t graph_import(const onnx_model_t *model, graph_t **out, err_t *err)
{
    return graph_import_shapes(model, SIZE_MAX, out, err);
}
