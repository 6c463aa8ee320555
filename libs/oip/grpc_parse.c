#include "oip/grpc_codec.h"
#include "oip/grpc_contents.h"

typedef struct {
    oip_request_t *request;
    const oip_allocator_t *allocator;
    uint32_t raw_count;
    struct iovec raw[OIP_MAX_TENSORS];
    bool typed; /* some input has contents */
    err_t *err;
} grpc_parse_t;

static status_t broken(grpc_parse_t *parse, const char *what)
{
    return err_set(parse->err, STATUS_INVALID_ARGUMENT, "%s: the bytes are no protobuf", what);
}

static status_t keep_text(grpc_parse_t *parse, const wire_field_t *field, const char *what, const char **kept)
{
    size_t len = (size_t)field->value;
    if (field->type != WIRE_LEN)
        return broken(parse, what);
    if (len >= OIP_NAME_BYTES || (len > 0 && memchr(field->data, '\0', len)))
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "%s has a NUL or over %d bytes", what,
                       OIP_NAME_BYTES - 1);
    *kept = oip_request_keep(parse->request, (const char *)field->data, len);
    if (!*kept)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "%s: over %d bytes of names in one request", what,
                       OIP_TEXT_BYTES);
    return STATUS_OK;
}

/* ---- parameters ---- */

typedef struct {
    char name[OIP_NAME_BYTES], text[OIP_NAME_BYTES];
    bool set;
    oip_value_t value;
} parameter_t;

/* Over-long texts are cut: no parameter that means something to us is that long. */
static void copy_text(char out[OIP_NAME_BYTES], const wire_field_t *field)
{
    size_t len = field->value < OIP_NAME_BYTES ? (size_t)field->value : OIP_NAME_BYTES - 1;
    if (len > 0)
        memcpy(out, field->data, len);
    out[len] = '\0';
}

static bool read_value(wire_reader_t wire, parameter_t *parameter)
{
    wire_field_t field;
    oip_value_t *value = &parameter->value;
    while (wire_more(&wire)) {
        if (!wire_field(&wire, &field))
            return false;
        if (field.number == 1 && field.type == WIRE_VARINT) {
            *value = (oip_value_t){.kind = OIP_PARAM_BOOL, .b = field.value != 0};
        } else if (field.number == 2 && field.type == WIRE_VARINT) {
            *value = (oip_value_t){.kind = OIP_PARAM_INT64, .i64 = (int64_t)field.value};
        } else if (field.number == 3 && field.type == WIRE_LEN) {
            copy_text(parameter->text, &field);
            *value = (oip_value_t){.kind = OIP_PARAM_STRING, .str = parameter->text};
        } else if (field.number == 4 && field.type == WIRE_FIXED64) {
            value->kind = OIP_PARAM_DOUBLE;
            memcpy(&value->f64, &field.value, sizeof value->f64);
        } else if (field.number == 5 && field.type == WIRE_VARINT) {
            *value = (oip_value_t){.kind = OIP_PARAM_UINT64, .u64 = field.value};
        } else {
            continue;
        }
        parameter->set = true;
    }
    return true;
}

/* One entry of map<string, InferParameter>. */
static bool read_parameter(const wire_field_t *entry, parameter_t *parameter)
{
    wire_field_t field;
    wire_reader_t wire = wire_nested(entry);
    parameter->name[0] = '\0';
    parameter->set = false;
    if (entry->type != WIRE_LEN)
        return false;
    while (wire_more(&wire)) {
        if (!wire_field(&wire, &field))
            return false;
        if (field.number == 1 && field.type == WIRE_LEN)
            copy_text(parameter->name, &field);
        else if (field.number == 2 && field.type == WIRE_LEN && !read_value(wire_nested(&field), parameter))
            return false;
    }
    return true;
}

static status_t on_request_parameter(grpc_parse_t *parse, const wire_field_t *entry)
{
    parameter_t parameter;
    if (!read_parameter(entry, &parameter))
        return broken(parse, "parameters");
    return parameter.set
               ? oip_request_set_parameter(parse->request, parameter.name, &parameter.value, parse->err)
               : STATUS_OK;
}

static status_t on_input_parameter(grpc_parse_t *parse, const wire_field_t *entry, oip_input_t *input)
{
    parameter_t parameter;
    if (!read_parameter(entry, &parameter))
        return broken(parse, "input parameters");
    return parameter.set ? oip_memory_set_parameter(parse->request, &input->memory, parameter.name,
                                                    &parameter.value, parse->err)
                         : STATUS_OK;
}

static status_t on_output_parameter(grpc_parse_t *parse, const wire_field_t *entry,
                                    oip_requested_t *requested)
{
    parameter_t parameter;
    if (!read_parameter(entry, &parameter))
        return broken(parse, "output parameters");
    if (!parameter.set)
        return STATUS_OK;
    status_t status = oip_memory_set_parameter(parse->request, &requested->memory, parameter.name,
                                               &parameter.value, parse->err);
    return status == STATUS_OK
               ? oip_requested_set_parameter(requested, parameter.name, &parameter.value, parse->err)
               : status;
}

/* ---- inputs and outputs ---- */

static status_t add_dim(grpc_parse_t *parse, oip_input_t *input, uint64_t value)
{
    oip_shape_t *shape = &input->shape;
    const char *name = input->name ? input->name : ""; /* clients write it first */
    if ((int64_t)value < 0)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has the dimension %lld", name,
                       (long long)value);
    if (shape->rank == OIP_MAX_RANK)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has more than %d dimensions", name,
                       OIP_MAX_RANK);
    shape->dims[shape->rank++] = (int64_t)value;
    return STATUS_OK;
}

static status_t read_shape(grpc_parse_t *parse, oip_input_t *input, const wire_field_t *field)
{
    if (field->type == WIRE_VARINT)
        return add_dim(parse, input, field->value);
    if (field->type != WIRE_LEN)
        return broken(parse, "shape");
    wire_reader_t wire = wire_nested(field);
    while (wire_more(&wire)) {
        uint64_t value;
        if (!wire_varint(&wire, &value))
            return broken(parse, "shape");
        status_t status = add_dim(parse, input, value);
        if (status)
            return status;
    }
    return STATUS_OK;
}

static status_t read_input_field(grpc_parse_t *parse, oip_input_t *input, const wire_field_t *field,
                                 wire_field_t *contents)
{
    switch (field->number) {
    case 1:
        return keep_text(parse, field, "input name", &input->name);
    case 2:
        if (field->type != WIRE_LEN)
            return broken(parse, "datatype");
        input->datatype = oip_datatype_parse((const char *)field->data, (size_t)field->value);
        return STATUS_OK;
    case 3:
        return read_shape(parse, input, field);
    case 4:
        return on_input_parameter(parse, field, input);
    case 5:
        if (field->type != WIRE_LEN || contents->number)
            return broken(parse, "contents");
        *contents = *field;
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

static status_t finish_in_memory(grpc_parse_t *parse, oip_input_t *input, const wire_field_t *contents)
{
    if (contents->value > 0)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT,
                       "input '%s' has both contents and a region of shared memory", input->name);
    input->len_bytes = input->memory.len_bytes;
    return STATUS_OK;
}

static status_t finish_input(grpc_parse_t *parse, oip_input_t *input, const wire_field_t *contents)
{
    if (!input->name)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "an input has no name");
    if (input->datatype == OIP_INVALID)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has no valid datatype", input->name);
    if (oip_memory_finish(&input->memory, "input", input->name, parse->err) != STATUS_OK)
        return STATUS_INVALID_ARGUMENT;
    if (input->memory.region)
        return finish_in_memory(parse, input, contents);
    if (contents->value == 0) /* absent or an empty message: the data are raw */
        return STATUS_OK;
    parse->typed = true;
    return grpc_contents_read(input, wire_nested(contents), parse->allocator, parse->err);
}

static status_t on_input(grpc_parse_t *parse, const wire_field_t *message)
{
    oip_request_t *request = parse->request;
    wire_field_t field, contents = {0};
    if (message->type != WIRE_LEN)
        return broken(parse, "inputs");
    if (request->input_count == OIP_MAX_TENSORS)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "more than %d inputs", OIP_MAX_TENSORS);
    oip_input_t *input = &request->inputs[request->input_count++];
    *input = (oip_input_t){0};
    wire_reader_t wire = wire_nested(message);
    while (wire_more(&wire)) {
        if (!wire_field(&wire, &field))
            return broken(parse, "inputs");
        status_t status = read_input_field(parse, input, &field, &contents);
        if (status)
            return status;
    }
    return finish_input(parse, input, &contents);
}

static status_t on_output(grpc_parse_t *parse, const wire_field_t *message)
{
    oip_request_t *request = parse->request;
    wire_field_t field;
    if (message->type != WIRE_LEN)
        return broken(parse, "outputs");
    if (request->requested_count == OIP_MAX_TENSORS)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "more than %d outputs", OIP_MAX_TENSORS);
    oip_requested_t *requested = &request->requested[request->requested_count++];
    *requested = (oip_requested_t){0};
    wire_reader_t wire = wire_nested(message);
    while (wire_more(&wire)) {
        status_t status = STATUS_OK;
        if (!wire_field(&wire, &field))
            return broken(parse, "outputs");
        if (field.number == 1)
            status = keep_text(parse, &field, "output name", &requested->name);
        else if (field.number == 2)
            status = on_output_parameter(parse, &field, requested);
        if (status)
            return status;
    }
    return requested->name ? oip_memory_finish(&requested->memory, "output", requested->name, parse->err)
                           : err_set(parse->err, STATUS_INVALID_ARGUMENT, "an output has no name");
}

/* ---- the whole ---- */

static status_t on_raw(grpc_parse_t *parse, const wire_field_t *field)
{
    if (field->type != WIRE_LEN)
        return broken(parse, "raw_input_contents");
    if (parse->raw_count == OIP_MAX_TENSORS)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "more than %d raw_input_contents",
                       OIP_MAX_TENSORS);
    parse->raw[parse->raw_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)field->data, .iov_len = (size_t)field->value};
    return STATUS_OK;
}

static status_t on_field(grpc_parse_t *parse, const wire_field_t *field)
{
    switch (field->number) {
    case 1:
        return keep_text(parse, field, "model_name", &parse->request->model);
    case 2:
        return keep_text(parse, field, "model_version", &parse->request->version);
    case 3:
        return keep_text(parse, field, "id", &parse->request->id);
    case 4:
        return on_request_parameter(parse, field);
    case 5:
        return on_input(parse, field);
    case 6:
        return on_output(parse, field);
    case 7:
        return on_raw(parse, field);
    default:
        return STATUS_OK;
    }
}

/* raw_input_contents are of the inputs that lie nowhere else, in their order. */
static uint32_t raw_wanted(const oip_request_t *request)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->input_count; i++)
        count += !request->inputs[i].memory.region;
    return count;
}

static status_t assign_raw(grpc_parse_t *parse)
{
    oip_request_t *request = parse->request;
    const struct iovec *raw = parse->raw;
    if (parse->raw_count == 0)
        return STATUS_OK;
    if (parse->typed)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT,
                       "typed contents and raw_input_contents in one request: use one of them");
    if (parse->raw_count != raw_wanted(request))
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "%u raw_input_contents for %u inputs",
                       parse->raw_count, raw_wanted(request));
    for (uint32_t i = 0; i < request->input_count; i++) {
        oip_input_t *input = &request->inputs[i];
        if (input->memory.region)
            continue;
        input->data = raw->iov_base;
        input->len_bytes = raw->iov_len;
        input->borrowed = true;
        raw++;
    }
    return STATUS_OK;
}

status_t oip_grpc_parse(oip_request_t *request, const void *message, size_t message_bytes,
                        const oip_allocator_t *allocator, err_t *err)
{
    /* Not initialised as a whole: the raw table is read only up to its count. */
    grpc_parse_t parse;
    parse.request = request;
    parse.allocator = allocator;
    parse.raw_count = 0;
    parse.typed = false;
    parse.err = err;
    wire_field_t field;
    wire_reader_t wire = wire_reader(message, message_bytes);
    oip_request_init(request);
    while (wire_more(&wire)) {
        if (!wire_field(&wire, &field))
            return broken(&parse, "ModelInferRequest");
        status_t status = on_field(&parse, &field);
        if (status)
            return status;
    }
    return assign_raw(&parse);
}

status_t oip_grpc_peek_model(const void *message, size_t message_bytes, const char **model, size_t *model_len,
                             const char **version, size_t *version_len)
{
    wire_field_t field, found[2] = {{.data = (const uint8_t *)""}, {.data = (const uint8_t *)""}};
    wire_reader_t wire = wire_reader(message, message_bytes);
    while (wire_more(&wire)) {
        if (!wire_field(&wire, &field))
            return STATUS_INVALID_ARGUMENT;
        if ((field.number == 1 || field.number == 2) && field.type == WIRE_LEN)
            found[field.number - 1] = field;
    }
    *model = (const char *)found[0].data;
    *model_len = (size_t)found[0].value;
    *version = (const char *)found[1].data;
    *version_len = (size_t)found[1].value;
    return STATUS_OK;
}
