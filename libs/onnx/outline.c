#include "onnx/outline.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = 1 << 16, LENGTH_BYTES = 5 };

/* In place of contents. */
typedef struct {
    uint32_t begin, len; /* in the whole, which has at most 2 GiB (model.c) */
} place_t;

/* ---- Writing ---- */

static bool grow(outline_t *o, size_t more)
{
    size_t room = o->room_bytes ? o->room_bytes : ROOM_BYTES;
    if (more <= o->room_bytes - o->len_bytes)
        return true;
    while (room - o->len_bytes < more)
        room *= 2;
    uint8_t *larger = o->failed ? NULL : realloc(o->bytes, room);
    if (!larger) {
        o->failed = true;
        return false;
    }
    o->bytes = larger;
    o->room_bytes = room;
    return true;
}

static void append(outline_t *o, const void *bytes, size_t len)
{
    if (o->failed || !len || !grow(o, len))
        return;
    memcpy(o->bytes + o->len_bytes, bytes, len);
    o->len_bytes += len;
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
        append(o, begin, (size_t)(end - begin));
}

size_t outline_begin(outline_t *o)
{
    static const uint8_t later[LENGTH_BYTES];
    if (!o)
        return 0;
    append(o, later, sizeof later);
    return o->len_bytes;
}

void outline_end(outline_t *o, size_t begun)
{
    if (o && !o->failed)
        put_length(o->bytes + begun - LENGTH_BYTES, o->len_bytes - begun);
}

void outline_leave_out(outline_t *o, const uint8_t *begin, const uint8_t *end)
{
    uint8_t len[LENGTH_BYTES];
    if (!o)
        return;
    const place_t place = {.begin = (uint32_t)(begin - o->from), .len = (uint32_t)(end - begin)};
    put_length(len, sizeof place);
    append(o, len, sizeof len);
    append(o, &place, sizeof place);
}

void outline_dispose(outline_t *o)
{
    free(o->bytes);
    o->bytes = NULL;
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
