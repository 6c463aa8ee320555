#include "transfer/wire.h"

uint8_t *wire_put_header(uint8_t *to, const wire_header_t *header)
{
    to = wire_put16(to, WIRE_MAGIC);
    *to++ = WIRE_VERSION;
    *to++ = header->type;
    to = wire_put32(to, header->seq);
    to = wire_put32(to, header->count);
    return wire_put32(to, header->extra_bytes);
}

bool wire_get_header(const uint8_t *from, wire_header_t *header)
{
    *header = (wire_header_t){
        .type = from[3],
        .seq = wire_get32(from + 4),
        .count = wire_get32(from + 8),
        .extra_bytes = wire_get32(from + 12),
    };
    return wire_get16(from) == WIRE_MAGIC && from[2] == WIRE_VERSION;
}

uint8_t *wire_put_hello(uint8_t *to, const wire_hello_t *hello)
{
    to = wire_put16(to, hello->min_version);
    to = wire_put16(to, hello->max_version);
    to = wire_put32(to, hello->max_items);
    to = wire_put64(to, hello->max_item_bytes);
    to = wire_put64(to, hello->instance_id);
    return wire_put64(to, hello->carriers);
}

void wire_get_hello(const uint8_t *from, wire_hello_t *hello)
{
    *hello = (wire_hello_t){
        .min_version = wire_get16(from),
        .max_version = wire_get16(from + 2),
        .max_items = wire_get32(from + 4),
        .max_item_bytes = wire_get64(from + 8),
        .instance_id = wire_get64(from + 16),
        .carriers = wire_get64(from + 24),
    };
}

uint8_t *wire_put_challenge(uint8_t *to, const wire_challenge_t *challenge)
{
    to = wire_put16(to, challenge->min_version);
    to = wire_put16(to, challenge->max_version);
    to = wire_put32(to, challenge->proofs);
    to = wire_put64(to, challenge->instance_id);
    return (uint8_t *)memcpy(to, challenge->nonce, WIRE_NONCE_BYTES) + WIRE_NONCE_BYTES;
}

void wire_get_challenge(const uint8_t *from, wire_challenge_t *challenge)
{
    *challenge = (wire_challenge_t){
        .min_version = wire_get16(from),
        .max_version = wire_get16(from + 2),
        .proofs = wire_get32(from + 4),
        .instance_id = wire_get64(from + 8),
    };
    memcpy(challenge->nonce, from + 16, WIRE_NONCE_BYTES);
}

uint8_t *wire_put_item(uint8_t *to, const wire_item_t *item)
{
    to = wire_put64(to, item->handle.hi);
    to = wire_put64(to, item->handle.lo);
    to = wire_put64(to, item->offset);
    return wire_put64(to, item->len_bytes);
}

void wire_get_item(const uint8_t *from, wire_item_t *item)
{
    *item = (wire_item_t){
        .handle = {.hi = wire_get64(from), .lo = wire_get64(from + 8)},
        .offset = wire_get64(from + 16),
        .len_bytes = wire_get64(from + 24),
    };
}

uint8_t *wire_put_state(uint8_t *to, const wire_state_t *state)
{
    to = wire_put32(to, state->status);
    to = wire_put32(to, 0);
    return wire_put64(to, state->len_bytes);
}

void wire_get_state(const uint8_t *from, wire_state_t *state)
{
    *state = (wire_state_t){.status = wire_get32(from), .len_bytes = wire_get64(from + 8)};
}

uint8_t *wire_put_result(uint8_t *to, const wire_result_t *result)
{
    to = wire_put64(to, result->task_id);
    to = wire_put64(to, result->handle.hi);
    to = wire_put64(to, result->handle.lo);
    to = wire_put64(to, result->len_bytes);
    to = wire_put32(to, result->status);
    to = wire_put32(to, result->text_bytes);
    to = wire_put64(to, result->timing.queue_ns);
    to = wire_put64(to, result->timing.fetch_ns);
    to = wire_put64(to, result->timing.exec_ns);
    to = wire_put32(to, result->timing.batch_size);
    return wire_put32(to, result->window_offset);
}

void wire_get_result(const uint8_t *from, wire_result_t *result)
{
    *result = (wire_result_t){
        .task_id = wire_get64(from),
        .handle = {.hi = wire_get64(from + 8), .lo = wire_get64(from + 16)},
        .len_bytes = wire_get64(from + 24),
        .status = wire_get32(from + 32),
        .text_bytes = wire_get32(from + 36),
        .timing = {.queue_ns = wire_get64(from + 40),
                   .fetch_ns = wire_get64(from + 48),
                   .exec_ns = wire_get64(from + 56),
                   .batch_size = wire_get32(from + 64)},
        .window_offset = wire_get32(from + 68),
    };
}
