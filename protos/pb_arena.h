/*
 * A bump allocator for protobuf-c: everything unpacked or filled from it dies at once with pb_arena_reset, single frees do
 * nothing.
 *
 *   first block (kept) <- overflow block <- overflow block in use        reset frees the overflow blocks
 *
 * Use from one thread at a time. limit_bytes bounds the sum over blocks, because a few bytes on the wire can
 * unpack to a hundred times as much; past it unpacking fails cleanly.
 */
#ifndef PROTOS_PB_ARENA_H
#define PROTOS_PB_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

typedef struct pb_arena_block pb_arena_block_t;

typedef struct {
    ProtobufCAllocator allocator;
    pb_arena_block_t *head; /* block in use; the oldest is the kept one */
    size_t total_bytes;     /* over all blocks */
    size_t limit_bytes;
} pb_arena_t;

/* Allocates nothing yet. limit_bytes 0 = 16 times PB_ARENA_BLOCK_BYTES. */
enum { PB_ARENA_BLOCK_BYTES = 64 * 1024 };
void pb_arena_init(pb_arena_t *arena, size_t limit_bytes);
void pb_arena_reset(pb_arena_t *arena);
void pb_arena_dispose(pb_arena_t *arena);
void *pb_arena_alloc(pb_arena_t *arena, size_t size_bytes); /* 16-byte aligned; NULL over the limit */

#endif
