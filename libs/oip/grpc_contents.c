#include "oip/grpc_contents.h"

/* The field of InferTensorContents that carries a datatype, and how its elements are encoded. */
typedef enum {
    ELEMENT_BOOL,
    ELEMENT_INT,
    ELEMENT_UINT,
    ELEMENT_FIXED32,
    ELEMENT_FIXED64,
    ELEMENT_BYTES
} element_t;

typedef struct {
    uint32_t number;
    const char *name;
    element_t element;
} contents_field_t;

static const contents_field_t fields[OIP_DATATYPE_COUNT] = {
    [OIP_BOOL] = {1, "bool_contents", ELEMENT_BOOL},     [OIP_INT8] = {2, "int_contents", ELEMENT_INT},
    [OIP_INT16] = {2, "int_contents", ELEMENT_INT},      [OIP_INT32] = {2, "int_contents", ELEMENT_INT},
    [OIP_INT64] = {3, "int64_contents", ELEMENT_INT},    [OIP_UINT8] = {4, "uint_contents", ELEMENT_UINT},
    [OIP_UINT16] = {4, "uint_contents", ELEMENT_UINT},   [OIP_UINT32] = {4, "uint_contents", ELEMENT_UINT},
    [OIP_UINT64] = {5, "uint64_contents", ELEMENT_UINT}, [OIP_FP32] = {6, "fp32_contents", ELEMENT_FIXED32},
    [OIP_FP64] = {7, "fp64_contents", ELEMENT_FIXED64},  [OIP_BYTES] = {8, "bytes_contents", ELEMENT_BYTES},
};

typedef struct {
    oip_input_t *input;
    const contents_field_t *field;
    uint8_t *out; /* NULL while counting */
    size_t len_bytes;
    uint64_t count;
    err_t *err;
} contents_reader_t;

static status_t broken(contents_reader_t *reader)
{
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "%s of input '%s' are no protobuf",
                   reader->field->name, reader->input->name);
}

static status_t out_of_range(contents_reader_t *reader)
{
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "input '%s': element %llu is out of range for %s",
                   reader->input->name, (unsigned long long)reader->count,
                   oip_datatype_name(reader->input->datatype));
}

/* Little-endian hosts only, as all that Fermata runs on: the low bytes of the value are the element. */
static void put_element(contents_reader_t *reader, uint64_t value)
{
    size_t bytes = oip_datatype_bytes(reader->input->datatype);
    if (reader->out)
        memcpy(reader->out + reader->len_bytes, &value, bytes);
    reader->len_bytes += bytes;
    reader->count++;
}

static void put_bytes(contents_reader_t *reader, const wire_field_t *field)
{
    uint32_t prefix = (uint32_t)field->value;
    if (reader->out) {
        memcpy(reader->out + reader->len_bytes, &prefix, sizeof prefix);
        if (prefix > 0)
            memcpy(reader->out + reader->len_bytes + sizeof prefix, field->data, prefix);
    }
    reader->len_bytes += sizeof prefix + prefix;
    reader->count++;
}

static bool in_range(const contents_reader_t *reader, uint64_t value)
{
    unsigned bits = (unsigned)oip_datatype_bytes(reader->input->datatype) * 8;
    if (bits == 64)
        return true;
    if (reader->field->element == ELEMENT_UINT)
        return value >> bits == 0;
    int64_t half = INT64_C(1) << (bits - 1), number = (int64_t)value;
    return number >= -half && number < half;
}

static status_t put_varint(contents_reader_t *reader, uint64_t value)
{
    if (reader->field->element == ELEMENT_BOOL)
        value = value != 0;
    else if (!in_range(reader, value))
        return out_of_range(reader);
    put_element(reader, value);
    return STATUS_OK;
}

static status_t read_packed(contents_reader_t *reader, wire_reader_t wire)
{
    while (wire_more(&wire)) {
        uint64_t value = 0;
        uint32_t narrow = 0;
        bool ok;
        if (reader->field->element == ELEMENT_FIXED32) {
            ok = wire_fixed32(&wire, &narrow);
            value = narrow;
        } else if (reader->field->element == ELEMENT_FIXED64) {
            ok = wire_fixed64(&wire, &value);
        } else {
            ok = wire_varint(&wire, &value);
        }
        if (!ok)
            return broken(reader);
        if (reader->field->element == ELEMENT_FIXED32 || reader->field->element == ELEMENT_FIXED64) {
            put_element(reader, value);
            continue;
        }
        status_t status = put_varint(reader, value);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* Packed floats are already the tensor's bytes. */
static bool take_packed_floats(contents_reader_t *reader, const wire_field_t *field)
{
    size_t bytes = oip_datatype_bytes(reader->input->datatype);
    bool is_float = reader->field->element == ELEMENT_FIXED32 || reader->field->element == ELEMENT_FIXED64;
    if (!is_float || field->value % bytes != 0)
        return false;
    if (reader->out && field->value > 0)
        memcpy(reader->out + reader->len_bytes, field->data, field->value);
    reader->len_bytes += field->value;
    reader->count += field->value / bytes;
    return true;
}

static status_t read_field(contents_reader_t *reader, const wire_field_t *field)
{
    element_t element = reader->field->element;
    if (element == ELEMENT_BYTES) {
        if (field->type != WIRE_LEN || field->value > UINT32_MAX)
            return broken(reader);
        put_bytes(reader, field);
        return STATUS_OK;
    }
    if (field->type == WIRE_LEN) {
        if (take_packed_floats(reader, field))
            return STATUS_OK;
        return read_packed(reader, wire_nested(field));
    }
    wire_type_t single = element == ELEMENT_FIXED32   ? WIRE_FIXED32
                         : element == ELEMENT_FIXED64 ? WIRE_FIXED64
                                                      : WIRE_VARINT;
    if (field->type != single)
        return broken(reader);
    if (single == WIRE_VARINT)
        return put_varint(reader, field->value);
    put_element(reader, field->value);
    return STATUS_OK;
}

static status_t read_contents(contents_reader_t *reader, wire_reader_t wire)
{
    wire_field_t field;
    while (wire_more(&wire)) {
        if (!wire_field(&wire, &field))
            return broken(reader);
        if (field.number > 8)
            continue;
        if (field.number != reader->field->number) {
            if (field.type == WIRE_LEN && field.value == 0 && field.number != 8)
                continue; /* an empty packed field says nothing */
            return err_set(reader->err, STATUS_INVALID_ARGUMENT, "input '%s' of %s must use %s",
                           reader->input->name, oip_datatype_name(reader->input->datatype),
                           reader->field->name);
        }
        status_t status = read_field(reader, &field);
        if (status)
            return status;
    }
    return STATUS_OK;
}

status_t grpc_contents_read(oip_input_t *input, wire_reader_t contents, const oip_allocator_t *allocator,
                            err_t *err)
{
    contents_reader_t reader = {.input = input, .field = &fields[input->datatype], .err = err};
    if (!reader.field->name)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "input '%s' is %s, which has no typed contents; send raw_input_contents", input->name,
                       oip_datatype_name(input->datatype));
    status_t status = read_contents(&reader, contents);
    if (status)
        return status;
    reader.out = allocator->alloc(allocator->self, reader.len_bytes ? reader.len_bytes : 1);
    if (!reader.out)
        return err_set(err, STATUS_UNAVAILABLE, "no memory for the %zu bytes of input '%s'", reader.len_bytes,
                       input->name);
    reader.len_bytes = 0;
    reader.count = 0;
    read_contents(&reader, contents); /* the same bytes: it was right once */
    input->data = reader.out;
    input->len_bytes = reader.len_bytes;
    return STATUS_OK;
}
