/*
 * protobuf-c into and out of rpc_bytes_t, without a malloc per field.
 */
#ifndef RPC_PB_H
#define RPC_PB_H

#include "base/status.h"
#include "pb_arena.h"
#include "rpc/bytes.h"

#include <protobuf-c/protobuf-c.h>

/* Packs straight into a slice. */
rpc_bytes_t *rpc_pack(const ProtobufCMessage *message);

/* NULL when the bytes are no such message or the arena's limit is reached. The message lives until the arena
 * is reset; it does not point into bytes. */
ProtobufCMessage *rpc_unpack(const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes, pb_arena_t *arena);

#endif
