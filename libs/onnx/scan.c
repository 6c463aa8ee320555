#include "onnx/scan.h"

#include <stdbool.h>

typedef struct {
    uint32_t max_depth, messages_left;
    err_t *err;
} scan_t;

typedef struct {
    const uint8_t *at, *end;
} cursor_t;

static bool read_varint(cursor_t *c, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool skip(cursor_t *c, uint64_t len)
{
    if (len > (uint64_t)(c->end - c->at))
        return false;
    c->at += len;
    return true;
}

static status_t scan(scan_t *s, const ProtobufCMessageDescriptor *type, cursor_t c, uint32_t depth);

static status_t broken(scan_t *s)
{
    return err_set(s->err, STATUS_INVALID_ARGUMENT, "the file is truncated or is no ONNX model");
}

static status_t scan_bytes(scan_t *s, const ProtobufCMessageDescriptor *type, uint64_t tag, cursor_t *c,
                           uint32_t depth)
{
    uint64_t len;
    if (!read_varint(c, &len))
        return broken(s);
    const uint8_t *begin = c->at;
    if (!skip(c, len))
        return broken(s);
    cursor_t inner = {begin, c->at};
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, (unsigned)tag);
    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return STATUS_OK;
    return scan(s, field->descriptor, inner, depth + 1);
}

static status_t scan_field(scan_t *s, const ProtobufCMessageDescriptor *type, cursor_t *c, uint32_t depth)
{
    uint64_t key, ignored;
    if (!read_varint(c, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return broken(s);
    switch (key & 7) {
    case 0:
        return read_varint(c, &ignored) ? STATUS_OK : broken(s);
    case 1:
        return skip(c, 8) ? STATUS_OK : broken(s);
    case 2:
        return scan_bytes(s, type, key >> 3, c, depth);
    case 5:
        return skip(c, 4) ? STATUS_OK : broken(s);
    default:
        return broken(s);
    }
}

static status_t scan(scan_t *s, const ProtobufCMessageDescriptor *type, cursor_t c, uint32_t depth)
{
    if (depth > s->max_depth)
        return err_set(s->err, STATUS_INVALID_ARGUMENT, "the model nests deeper than %u messages",
                       s->max_depth);
    if (!s->messages_left--)
        return err_set(s->err, STATUS_TOO_LARGE, "the model has too many nodes, attributes or dimensions");
    while (c.at < c.end) {
        status_t status = scan_field(s, type, &c, depth);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

status_t scan_message(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len_bytes,
                      uint32_t max_depth, uint32_t max_messages, err_t *err)
{
    scan_t s = {.max_depth = max_depth, .messages_left = max_messages, .err = err};
    return scan(&s, type, (cursor_t){bytes, bytes + len_bytes}, 1);
}
