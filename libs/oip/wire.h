/*
 * The protobuf wire format, read in place and written into a buffer; only what ModelInfer needs.
 */
#ifndef OIP_WIRE_H
#define OIP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *at, *end;
} wire_reader_t;

typedef enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LEN = 2, WIRE_FIXED32 = 5 } wire_type_t;

typedef struct {
    uint32_t number;
    wire_type_t type;
    uint64_t value;      /* VARINT, FIXED64, FIXED32; the length of LEN */
    const uint8_t *data; /* LEN */
} wire_field_t;

static inline wire_reader_t wire_reader(const void *data, size_t len_bytes)
{
    const uint8_t *at = data;
    return (wire_reader_t){.at = at, .end = at ? at + len_bytes : NULL};
}

static inline wire_reader_t wire_nested(const wire_field_t *field)
{
    return wire_reader(field->data, (size_t)field->value);
}

static inline bool wire_more(const wire_reader_t *reader)
{
    return reader->at < reader->end;
}

/* Each is false when the bytes are no protobuf. Groups, which proto3 does not have, are refused. */
bool wire_varint(wire_reader_t *reader, uint64_t *value);
bool wire_fixed32(wire_reader_t *reader, uint32_t *value);
bool wire_fixed64(wire_reader_t *reader, uint64_t *value);
bool wire_field(wire_reader_t *reader, wire_field_t *field);

/* Messages with a known bound, built on the stack. Overruns set `failed`. */
typedef struct {
    uint8_t *data;
    size_t cap_bytes, len_bytes;
    bool failed;
} wire_writer_t;

void wire_put_varint(wire_writer_t *writer, uint64_t value);
void wire_put_len(wire_writer_t *writer, uint32_t number, const void *data, size_t len_bytes);
/* Tag and length of a LEN field whose content follows by other means. */
void wire_put_len_head(wire_writer_t *writer, uint32_t number, size_t len_bytes);
void wire_put_uint(wire_writer_t *writer, uint32_t number, uint64_t value);

#endif
