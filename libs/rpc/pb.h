/*
 * protobuf-c into and out of rpc_bytes_t, without a malloc per field.
 */
#ifndef RPC_PB_H
#define RPC_PB_H

#include "base/status.h"
#include "rpc/bytes.h"

#include <protobuf-c/protobuf-c.h>

/* Packs straight into a slice. */
rpc_bytes_t *rpc_pack(const ProtobufCMessage *message);

/* Packs message, then appends one length-delimited field `field` per part, whose memory is sent from where it
 * lies (for instance raw_output_contents = 6 of a ModelInferResponse that has none in the struct itself). */
rpc_bytes_t *rpc_pack_with_parts(const ProtobufCMessage *message, uint32_t field, const rpc_part_t *parts,
                                 size_t count);

/*
 * Bump allocator for unpacking: everything unpacked dies at once with rpc_arena_reset, single frees do
 * nothing.
 *
 *   first block (kept) <- overflow block <- overflow block in use        reset frees the overflow blocks
 *
 * Use from one thread at a time. limit_bytes bounds the sum over blocks, because a few bytes on the wire can
 * unpack to a hundred times as much; past it unpacking fails cleanly.
 */
typedef struct rpc_arena_block rpc_arena_block_t;

typedef struct {
    ProtobufCAllocator allocator;
    rpc_arena_block_t *head; /* block in use; the oldest is the kept one */
    size_t total_bytes;      /* over all blocks */
    size_t limit_bytes;
} rpc_arena_t;

/* Allocates nothing yet. limit_bytes 0 = 16 times RPC_ARENA_BLOCK_BYTES. */
enum { RPC_ARENA_BLOCK_BYTES = 64 * 1024 };
void rpc_arena_init(rpc_arena_t *arena, size_t limit_bytes);
void rpc_arena_reset(rpc_arena_t *arena);
void rpc_arena_dispose(rpc_arena_t *arena);
void *rpc_arena_alloc(rpc_arena_t *arena, size_t size_bytes); /* 16-byte aligned; NULL over the limit */

/* NULL when the bytes are no such message or the arena's limit is reached. The message lives until the arena
 * is reset; it does not point into bytes. */
ProtobufCMessage *rpc_unpack(const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes, rpc_arena_t *arena);

#endif
