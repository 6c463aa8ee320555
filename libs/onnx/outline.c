#include "onnx/outline.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 5 };

/* In place of contents. */
typedef struct {
    uint32_t begin, len; /* in the whole, which has at most 2 GiB (model.c) */
} place_t;

/* ---- Writing ---- */

void outline_init(outline_t *o, const ProtobufCFieldDescriptor *field, const uint8_t *from, size_t from_bytes)
{
    *o = (outline_t){.field = field, .from = from, .from_bytes = from_bytes};
    strbuf_init(&o->text, SIZE_MAX);
}

/* A varint that is as long as any length: what it says can be written when it is known. */
static void put_length(uint8_t to[LENGTH_BYTES], uint64_t len)
{
    for (int i = 0; i < LENGTH_BYTES; i++, len >>= 7)
        to[i] = (uint8_t)(len & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0);
}

void outline_copy(outline_t *o, const uint8_t *begin, const uint8_t *end)
{
    if (o)
        strbuf_append(&o->text, begin, (size_t)(end - begin));
}

size_t outline_begin(outline_t *o)
{
    static const uint8_t later[LENGTH_BYTES];
    if (!o)
        return 0;
    strbuf_append(&o->text, later, sizeof later);
    return o->text.len_bytes;
}

void outline_end(outline_t *o, size_t begun)
{
    if (o && !o->text.failed)
        put_length((uint8_t *)o->text.data + begun - LENGTH_BYTES, o->text.len_bytes - begun);
}

void outline_leave_out(outline_t *o, const uint8_t *begin, const uint8_t *end)
{
    uint8_t len[LENGTH_BYTES];
    if (!o)
        return;
    const place_t place = {.begin = (uint32_t)(begin - o->from), .len = (uint32_t)(end - begin)};
    put_length(len, sizeof place);
    strbuf_append(&o->text, len, sizeof len);
    strbuf_append(&o->text, &place, sizeof place);
}

/* ---- The message ---- */

static void *take(void *arg, size_t len)
{
    (void)arg;
    return malloc(len);
}

static void give(void *arg, void *bytes)
{
    const outline_t *o = arg;
    if ((uintptr_t)bytes - (uintptr_t)o->from >= o->from_bytes)
        free(bytes);
}

ProtobufCAllocator outline_allocator(outline_t *o)
{
    return (ProtobufCAllocator){.alloc = take, .free = give, .allocator_data = o};
}

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (uint8_t *)message + offset;
}

static void fill_bytes(const outline_t *o, ProtobufCBinaryData *data)
{
    place_t place;
    if (!data->data || data->len != sizeof place)
        return;
    memcpy(&place, data->data, sizeof place);
    free(data->data);
    *data = (ProtobufCBinaryData){.len = place.len, .data = (uint8_t *)(uintptr_t)(o->from + place.begin)};
}

static void fill_messages(const outline_t *o, ProtobufCMessage *message,
                          const ProtobufCFieldDescriptor *field)
{
    bool one_of = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count = *(size_t *)member(message, field->quantifier_offset);
        ProtobufCMessage **list = *(ProtobufCMessage ***)member(message, field->offset);
        for (size_t i = 0; i < count; i++)
            outline_fill(o, list[i]);
    } else if (!one_of || *(uint32_t *)member(message, field->quantifier_offset) == field->id) {
        ProtobufCMessage *one = *(ProtobufCMessage **)member(message, field->offset);
        if (one)
            outline_fill(o, one);
    }
}

/* As deep as the scan let it be. */
void outline_fill(const outline_t *o, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        if (field == o->field)
            fill_bytes(o, member(message, field->offset));
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            fill_messages(o, message, field);
    }
}
