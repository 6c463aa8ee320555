/*
 * Strings as clients send them and as workers take them.
 *
 *   clients: BYTES           | length | bytes | length | bytes | …       each with its length in 4 bytes in front
 *   workers: rooms           | bytes 0 0 0 … | bytes 0 0 … | …           all of one size (oip_tensor_spec_t.text_bytes), filled up
 *                                                                        with zeros
 *
 * So a string for a worker does not end in a zero byte, and is as long as its room at most.
 */
#ifndef OIP_TEXT_H
#define OIP_TEXT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* INVALID_ARGUMENT names the input and the first element that has no such room. The framing has been checked. */
status_t oip_text_check(const char *input, const uint8_t *elements, size_t len_bytes, uint32_t room_bytes,
                        err_t *err);

/* Lays `count` elements from *elements on into rooms, and moves *elements behind them. Both have been checked. */
void oip_text_lay(const uint8_t **elements, size_t count, uint8_t *rooms, uint32_t room_bytes);

/* The most that `count` of them take as BYTES, and writing them; returns how much it was. */
static inline size_t oip_text_bytes_max(size_t count, uint32_t room_bytes)
{
    return count * (sizeof(uint32_t) + room_bytes);
}
size_t oip_text_frame(const uint8_t *rooms, size_t count, uint32_t room_bytes, uint8_t *elements);

#endif
