#include "onnx/scan.h"

#include <stdbool.h>

typedef struct {
    uint32_t max_depth, messages_left;
    outline_t *outline;
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

static status_t scan_inner(scan_t *s, const ProtobufCMessageDescriptor *type, cursor_t inner, uint32_t depth)
{
    size_t begun = outline_begin(s->outline);
    status_t status = scan(s, type, inner, depth);
    outline_end(s->outline, begun);
    return status;
}

/* Behind a key, which is in the outline. */
static status_t scan_bytes(scan_t *s, const ProtobufCMessageDescriptor *type, uint64_t tag, cursor_t *c,
                           uint32_t depth)
{
    const uint8_t *length = c->at;
    uint64_t len;
    if (!read_varint(c, &len))
        return broken(s);
    const uint8_t *begin = c->at;
    if (!skip(c, len))
        return broken(s);
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, (unsigned)tag);
    if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
        return scan_inner(s, field->descriptor, (cursor_t){begin, c->at}, depth + 1);
    if (field && len && s->outline && field == s->outline->field)
        outline_leave_out(s->outline, begin, c->at);
    else
        outline_copy(s->outline, length, c->at);
    return STATUS_OK;
}

static bool skip_number(cursor_t *c, uint64_t kind)
{
    uint64_t ignored;
    switch (kind) {
    case 0:
        return read_varint(c, &ignored);
    case 1:
        return skip(c, 8);
    default:
        return kind == 5 && skip(c, 4);
    }
}

static status_t scan_field(scan_t *s, const ProtobufCMessageDescriptor *type, cursor_t *c, uint32_t depth)
{
    const uint8_t *begin = c->at;
    uint64_t key;
    if (!read_varint(c, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return broken(s);
    bool is_bytes = (key & 7) == 2;
    if (!is_bytes && !skip_number(c, key & 7))
        return broken(s);
    outline_copy(s->outline, begin, c->at);
    return is_bytes ? scan_bytes(s, type, key >> 3, c, depth) : STATUS_OK;
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
                      uint32_t max_depth, uint32_t max_messages, outline_t *outline, err_t *err)
{
    scan_t s = {.max_depth = max_depth, .messages_left = max_messages, .outline = outline, .err = err};
    status_t status = scan(&s, type, (cursor_t){bytes, bytes + len_bytes}, 1);
    return status == STATUS_OK && outline && outline->text.failed
               ? err_set(err, STATUS_NO_MEMORY, "no memory for the model")
               : status;
}
