#include "rpc/pb.h"
#include "rpc/internal.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <stdlib.h>

rpc_bytes_t *rpc_pack(const ProtobufCMessage *message)
{
    uint8_t *data;
    rpc_bytes_t *bytes = rpc_bytes_reserve(protobuf_c_message_get_packed_size(message), &data);
    protobuf_c_message_pack(message, data);
    return bytes;
}

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t len = 0;
    while (value >= 0x80) {
        out[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[len++] = (uint8_t)value;
    return len;
}

rpc_bytes_t *rpc_pack_with_parts(const ProtobufCMessage *message, uint32_t field, const rpc_part_t *parts,
                                 size_t count)
{
    enum { WIRE_LENGTH_DELIMITED = 2 };
    rpc_bytes_t *bytes = rpc_pack(message);
    grpc_slice_buffer *slices = &rpc_bytes_raw(bytes)->data.raw.slice_buffer;
    for (size_t i = 0; i < count; i++) {
        uint8_t header[20];
        size_t len = put_varint(header, (uint64_t)field << 3 | WIRE_LENGTH_DELIMITED);
        len += put_varint(header + len, parts[i].len_bytes);
        grpc_slice_buffer_add(slices, grpc_slice_from_copied_buffer((const char *)header, len));
        grpc_slice_buffer_add(slices, rpc_slice_of_part(&parts[i]));
    }
    return bytes;
}

/* ---- The arena ---- */

enum { ARENA_ALIGN = 16 };

struct rpc_arena_block {
    rpc_arena_block_t *older;
    size_t size_bytes;
    size_t used_bytes;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

static void *arena_alloc(void *arena, size_t size_bytes)
{
    return rpc_arena_alloc(arena, size_bytes);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

void rpc_arena_init(rpc_arena_t *arena, size_t limit_bytes)
{
    *arena = (rpc_arena_t){
        .allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = arena},
        .limit_bytes = limit_bytes != 0 ? limit_bytes : 16 * (size_t)RPC_ARENA_BLOCK_BYTES,
    };
}

static rpc_arena_block_t *arena_grow(rpc_arena_t *arena, size_t size_bytes)
{
    if (size_bytes < RPC_ARENA_BLOCK_BYTES)
        size_bytes = RPC_ARENA_BLOCK_BYTES;
    if (arena->total_bytes > arena->limit_bytes || size_bytes > arena->limit_bytes - arena->total_bytes)
        return NULL;
    rpc_arena_block_t *block = malloc(sizeof *block + size_bytes);
    if (block == NULL)
        return NULL;
    *block = (rpc_arena_block_t){.older = arena->head, .size_bytes = size_bytes};
    arena->head = block;
    arena->total_bytes += size_bytes;
    return block;
}

void *rpc_arena_alloc(rpc_arena_t *arena, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    size_bytes = (size_bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    rpc_arena_block_t *block = arena->head;
    if (block == NULL || size_bytes > block->size_bytes - block->used_bytes)
        block = arena_grow(arena, size_bytes);
    if (block == NULL)
        return NULL;
    void *out = block->data + block->used_bytes;
    block->used_bytes += size_bytes;
    return out;
}

static void arena_pop(rpc_arena_t *arena)
{
    rpc_arena_block_t *block = arena->head;
    arena->head = block->older;
    arena->total_bytes -= block->size_bytes;
    free(block);
}

void rpc_arena_reset(rpc_arena_t *arena)
{
    while (arena->head != NULL && arena->head->older != NULL)
        arena_pop(arena);
    if (arena->head != NULL)
        arena->head->used_bytes = 0;
}

void rpc_arena_dispose(rpc_arena_t *arena)
{
    while (arena->head != NULL)
        arena_pop(arena);
}

ProtobufCMessage *rpc_unpack(const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes, rpc_arena_t *arena)
{
    return protobuf_c_message_unpack(type, &arena->allocator, rpc_bytes_len(bytes), rpc_bytes_flat(bytes));
}
