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

ProtobufCMessage *rpc_unpack(const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes, pb_arena_t *arena)
{
    return protobuf_c_message_unpack(type, &arena->allocator, rpc_bytes_len(bytes), rpc_bytes_flat(bytes));
}
