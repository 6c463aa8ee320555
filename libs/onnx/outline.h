/*
 * A serialised message without the contents of one field, which stay where they are: in nearly every model the raw data of its tensors
 * is nearly all of the file, and unpacking copies all that it is given.
 *
 *   bytes    … [raw_data: 104,857,600 bytes] …        stay, and must outlive the message
 *   outline  … [raw_data: where it begins, its length] …  ── unpack ──▶ message ── outline_fill ──▶ pointers into bytes
 *
 * Written while a message is scanned (scan.h), in the order of its bytes.
 */
#ifndef ONNX_OUTLINE_H
#define ONNX_OUTLINE_H

#include "base/strbuf.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const ProtobufCFieldDescriptor *field; /* of bytes: what is left out */
    const uint8_t *from;                   /* the whole message */
    size_t from_bytes;
    strbuf_t text; /* the outline; failed: no memory */
} outline_t;

void outline_init(outline_t *outline, const ProtobufCFieldDescriptor *field, const uint8_t *from,
                  size_t from_bytes);

/* ---- writing; a NULL outline is nobody's ---- */

void outline_copy(outline_t *outline, const uint8_t *begin, const uint8_t *end);
/* A message in it, of which the key is written already: its length is told when it ends. */
size_t outline_begin(outline_t *outline);
void outline_end(outline_t *outline, size_t begun);
/* The field that is left out, of which the key is written already. */
void outline_leave_out(outline_t *outline, const uint8_t *begin, const uint8_t *end);

/* ---- the message unpacked from it ---- */

/* For unpacking it, and for freeing it whenever: leaves alone what lies in outline->from. Valid as long as the outline. */
ProtobufCAllocator outline_allocator(outline_t *outline);

/* Gives each message in it what was left out. */
void outline_fill(const outline_t *outline, ProtobufCMessage *message);

#endif
