#include "rpc/pb.h"
#include "rpc/internal.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

rpc_bytes_t *rpc_pack(const ProtobufCMessage *message)
{
    uint8_t *data;
    rpc_bytes_t *bytes = rpc_bytes_reserve(protobuf_c_message_get_packed_size(message), &data);
    protobuf_c_message_pack(message, data);
    return bytes;
}

ProtobufCMessage *rpc_unpack(const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes, pb_arena_t *arena)
{
    return protobuf_c_message_unpack(type, &arena->allocator, rpc_bytes_len(bytes), rpc_bytes_flat(bytes));
}
