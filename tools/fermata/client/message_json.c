#include "fermata/client/message_json.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef ProtobufCFieldDescriptor field_t;

static json_t *enum_json(const field_t *field, int value)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(field->descriptor, value);
    return named ? json_string(named->name) : json_integer(value);
}

static json_t *real_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* at: where one value of the field's type lies. */
static json_t *value_json(const field_t *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return json_integer(*(const int32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return json_integer(*(const int64_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_integer(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case PROTOBUF_C_TYPE_FLOAT:
        return real_json((double)*(const float *)at);
    case PROTOBUF_C_TYPE_DOUBLE:
        return real_json(*(const double *)at);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_json(field, *(const int *)at);
    case PROTOBUF_C_TYPE_STRING:
        return json_string(*(const char *const *)at);
    case PROTOBUF_C_TYPE_BYTES:
        return json_integer((json_int_t)((const ProtobufCBinaryData *)at)->len);
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_json(*(const ProtobufCMessage *const *)at);
    }
    return NULL;
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static json_t *list_json(const field_t *field, const char *message)
{
    json_t *list = json_array();
    size_t count = *(const size_t *)(const void *)(message + field->quantifier_offset);
    const char *values = *(const char *const *)(const void *)(message + field->offset);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, value_json(field, values + i * size_of(field->type)));
    return list;
}

static bool is_there(const field_t *field, const char *message)
{
    const char *at = message + field->offset;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(message + field->quantifier_offset) == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING)
        return *(const void *const *)(const void *)at;
    return field->label != PROTOBUF_C_LABEL_OPTIONAL ||
           *(const protobuf_c_boolean *)(message + field->quantifier_offset);
}

json_t *message_json(const ProtobufCMessage *message)
{
    json_t *object = json_object();
    const char *start = (const char *)message;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const field_t *field = &message->descriptor->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            json_object_set_new(object, field->name, list_json(field, start));
        else if (is_there(field, start))
            json_object_set_new(object, field->name, value_json(field, start + field->offset));
    }
    return object;
}
