#include "oip/wire.h"

bool wire_varint(wire_reader_t *reader, uint64_t *value)
{
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            return false;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *value = result;
            return true;
        }
    }
    return false;
}

bool wire_fixed32(wire_reader_t *reader, uint32_t *value)
{
    if (reader->end - reader->at < (ptrdiff_t)sizeof *value)
        return false;
    memcpy(value, reader->at, sizeof *value);
    reader->at += sizeof *value;
    return true;
}

bool wire_fixed64(wire_reader_t *reader, uint64_t *value)
{
    if (reader->end - reader->at < (ptrdiff_t)sizeof *value)
        return false;
    memcpy(value, reader->at, sizeof *value);
    reader->at += sizeof *value;
    return true;
}

bool wire_field(wire_reader_t *reader, wire_field_t *field)
{
    uint64_t tag;
    uint32_t narrow;
    if (!wire_varint(reader, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    *field = (wire_field_t){.number = (uint32_t)(tag >> 3), .type = (wire_type_t)(tag & 7)};
    switch (field->type) {
    case WIRE_VARINT:
        return wire_varint(reader, &field->value);
    case WIRE_FIXED64:
        return wire_fixed64(reader, &field->value);
    case WIRE_FIXED32:
        if (!wire_fixed32(reader, &narrow))
            return false;
        field->value = narrow;
        return true;
    case WIRE_LEN:
        if (!wire_varint(reader, &field->value) || field->value > (uint64_t)(reader->end - reader->at))
            return false;
        field->data = reader->at;
        reader->at += field->value;
        return true;
    default:
        return false;
    }
}

static void put(wire_writer_t *writer, const void *data, size_t len_bytes)
{
    if (len_bytes > writer->cap_bytes - writer->len_bytes) {
        writer->failed = true;
        return;
    }
    if (len_bytes > 0)
        memcpy(writer->data + writer->len_bytes, data, len_bytes);
    writer->len_bytes += len_bytes;
}

void wire_put_varint(wire_writer_t *writer, uint64_t value)
{
    uint8_t bytes[10];
    size_t len = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[len++] = (uint8_t)(value | 0x80);
    bytes[len++] = (uint8_t)value;
    put(writer, bytes, len);
}

void wire_put_len_head(wire_writer_t *writer, uint32_t number, size_t len_bytes)
{
    wire_put_varint(writer, (uint64_t)number << 3 | WIRE_LEN);
    wire_put_varint(writer, len_bytes);
}

void wire_put_len(wire_writer_t *writer, uint32_t number, const void *data, size_t len_bytes)
{
    wire_put_len_head(writer, number, len_bytes);
    put(writer, data, len_bytes);
}

void wire_put_uint(wire_writer_t *writer, uint32_t number, uint64_t value)
{
    wire_put_varint(writer, (uint64_t)number << 3 | WIRE_VARINT);
    wire_put_varint(writer, value);
}
