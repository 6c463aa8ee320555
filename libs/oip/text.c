#include "oip/text.h"

#include "oip/tensor.h"

#include <endian.h>
#include <string.h>

status_t oip_text_check(const char *input, const uint8_t *elements, size_t len_bytes, uint32_t room_bytes,
                        err_t *err)
{
    const uint8_t *element;
    uint32_t size;
    size_t offset = 0;
    for (size_t i = 0; oip_bytes_next(elements, len_bytes, &offset, &element, &size); i++) {
        if (size > room_bytes)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "input '%s': element %zu has %u bytes, the model takes %u at most (string_bytes)",
                           input, i, size, room_bytes);
        if (size > 0 && element[size - 1] == 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s': element %zu ends in a zero byte", input,
                           i);
    }
    return STATUS_OK;
}

void oip_text_lay(const uint8_t **elements, size_t count, uint8_t *rooms, uint32_t room_bytes)
{
    for (size_t i = 0; i < count; i++, rooms += room_bytes) {
        uint32_t size;
        memcpy(&size, *elements, sizeof size);
        size = le32toh(size);
        memcpy(rooms, *elements + sizeof size, size);
        memset(rooms + size, 0, room_bytes - size);
        *elements += sizeof size + size;
    }
}

static uint32_t text_len(const uint8_t *room, uint32_t room_bytes)
{
    while (room_bytes > 0 && room[room_bytes - 1] == 0)
        room_bytes--;
    return room_bytes;
}

size_t oip_text_frame(const uint8_t *rooms, size_t count, uint32_t room_bytes, uint8_t *elements)
{
    uint8_t *to = elements;
    for (size_t i = 0; i < count; i++, rooms += room_bytes) {
        uint32_t size = text_len(rooms, room_bytes), framed = htole32(size);
        memcpy(to, &framed, sizeof framed);
        memcpy(to + sizeof framed, rooms, size);
        to += sizeof framed + size;
    }
    return (size_t)(to - elements);
}
