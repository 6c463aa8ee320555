#include "rpc/bytes.h"
#include "rpc/internal.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <string.h>

static const grpc_slice_buffer *slices_of(const rpc_bytes_t *bytes)
{
    return &((const grpc_byte_buffer *)(const void *)bytes)->data.raw.slice_buffer;
}

static rpc_bytes_t *from_slice(grpc_slice slice)
{
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return rpc_bytes_of(buffer);
}

rpc_bytes_t *rpc_bytes_copy(const void *data, size_t len_bytes)
{
    return from_slice(grpc_slice_from_copied_buffer(data, len_bytes));
}

rpc_bytes_t *rpc_bytes_reserve(size_t len_bytes, uint8_t **data)
{
    grpc_slice slice = grpc_slice_malloc(len_bytes);
    rpc_bytes_t *bytes = from_slice(slice);
    /* A short slice is stored by value: the address to fill is that of the copy inside the buffer. */
    *data = GRPC_SLICE_START_PTR(rpc_bytes_raw(bytes)->data.raw.slice_buffer.slices[0]);
    return bytes;
}

static grpc_slice rpc_slice_of_part(const rpc_part_t *part)
{
    if (!part->release)
        return grpc_slice_from_copied_buffer(part->data, part->len_bytes);
    return grpc_slice_new_with_user_data((void *)(uintptr_t)part->data, part->len_bytes, part->release,
                                         part->arg);
}

rpc_bytes_t *rpc_bytes_from_parts(const rpc_part_t *parts, size_t count)
{
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(NULL, 0);
    for (size_t i = 0; i < count; i++)
        grpc_slice_buffer_add(&buffer->data.raw.slice_buffer, rpc_slice_of_part(&parts[i]));
    return rpc_bytes_of(buffer);
}

size_t rpc_bytes_len(const rpc_bytes_t *bytes)
{
    return slices_of(bytes)->length;
}

const uint8_t *rpc_bytes_flat(rpc_bytes_t *bytes)
{
    static const uint8_t empty;
    grpc_slice_buffer *slices = &rpc_bytes_raw(bytes)->data.raw.slice_buffer;
    if (slices->length == 0)
        return &empty;
    if (slices->count > 1) {
        grpc_byte_buffer_reader reader;
        grpc_byte_buffer_reader_init(&reader, rpc_bytes_raw(bytes));
        grpc_slice joined = grpc_byte_buffer_reader_readall(&reader);
        grpc_byte_buffer_reader_destroy(&reader);
        grpc_slice_buffer_reset_and_unref(slices);
        grpc_slice_buffer_add(slices, joined);
    }
    return GRPC_SLICE_START_PTR(slices->slices[0]);
}

bool rpc_bytes_is_flat(const rpc_bytes_t *bytes)
{
    return slices_of(bytes)->count <= 1;
}

void rpc_bytes_read(const rpc_bytes_t *bytes, uint8_t *to)
{
    const grpc_slice_buffer *slices = slices_of(bytes);
    for (size_t i = 0; i < slices->count; i++) {
        memcpy(to, GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i]));
        to += GRPC_SLICE_LENGTH(slices->slices[i]);
    }
}

void rpc_bytes_free(rpc_bytes_t *bytes)
{
    if (bytes)
        grpc_byte_buffer_destroy(rpc_bytes_raw(bytes));
}
