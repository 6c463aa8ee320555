/*
 * The TCP transport's bytes on the wire, all little-endian (docs/data-plane.md draws them).
 *
 *   frame = header, then `count` fixed-size records, then `extra` bytes of text, then payloads
 *
 *   type   from    records                              payloads
 *   HELLO  both    1 x HELLO (version, limits, ids)     -       worker speaks first
 *   BYE    owner   1 x 64 bytes of text; count = code   -       the connection is refused and closed; code OK, at any time after HELLO: the
 *                                                               worker is to close it, if it awaits no answer, and is served until then
 *   FETCH  worker  count x ITEM                         -
 *   DATA   owner   count x STATE                        those of the items with status 0, in order
 *   PUSH   worker  count x RESULT, `extra` text bytes   those of the results, in order
 *   LANDED worker  as PUSH, with places in the window   - (they lie in the window of the connection)
 *   ACK    owner   none; count as in the PUSH           -
 *   ATTACH   worker  none; count = bit of a carrier, `extra` bytes for that carrier's other side
 *   CHALLENGE both  1 x CHALLENGE                        -       worker speaks first; then the proofs, then HELLO (proof.h)
 *   PROOF  both    1 x 32 bytes                         -
 *   ATTACHED owner   none; count = the bit, seq = a status, `extra` bytes likewise, or of a text why not
 *
 * Answers (DATA, ACK) come in the order of what they answer and repeat its seq and count. ATTACHED comes whenever it comes.
 */
#ifndef TRANSFER_WIRE_H
#define TRANSFER_WIRE_H

#include "transfer/transfer.h"

#include <endian.h>
#include <string.h>

enum {
    WIRE_MAGIC = 0x4D46, /* "FM" */
    WIRE_VERSION = 1,    /* of the frames; HELLO says which versions a side can speak */
    WIRE_HEADER_BYTES = 16,
    WIRE_HELLO_BYTES = 32,
    WIRE_BYE_BYTES = 64,
    WIRE_ITEM_BYTES = 32,
    WIRE_STATE_BYTES = 16,
    WIRE_RESULT_BYTES = 72,
    WIRE_NONCE_BYTES = 32,
    WIRE_CHALLENGE_BYTES = 16 + WIRE_NONCE_BYTES,
    WIRE_PROOF_BYTES = 32,
    WIRE_PROOF_HMAC_SHA256 = 1, /* bit: a way to prove that this side can */
    WIRE_EXTRA_MAX = 65536,     /* all texts of one PUSH together; more is cut by the sender */
};

typedef enum {
    WIRE_HELLO = 1,
    WIRE_BYE,
    WIRE_FETCH,
    WIRE_DATA,
    WIRE_PUSH,
    WIRE_ACK,
    WIRE_LANDED,
    WIRE_ATTACH,
    WIRE_ATTACHED,
    WIRE_CHALLENGE,
    WIRE_PROOF
} wire_type_t;

typedef struct {
    uint8_t type;
    uint32_t seq;
    uint32_t count;
    uint32_t extra_bytes;
} wire_header_t;

typedef struct {
    uint16_t min_version, max_version;
    uint32_t max_items;
    uint64_t max_item_bytes;
    /* from the worker: whom it looks for, 0 = anyone (if it has proved itself); from the owner: who it is */
    uint64_t instance_id;
    uint64_t carriers; /* bits of carrier_ops_t that this side has */
} wire_hello_t;

typedef struct {
    uint16_t min_version, max_version;
    uint32_t proofs;
    uint64_t instance_id; /* of the process that speaks */
    uint8_t nonce[WIRE_NONCE_BYTES];
} wire_challenge_t;

typedef struct {
    transfer_handle_t handle;
    uint64_t offset, len_bytes;
} wire_item_t;

typedef struct {
    uint32_t status;
    uint64_t len_bytes;
} wire_state_t;

typedef struct {
    uint64_t task_id;
    transfer_handle_t handle;
    uint64_t len_bytes;
    uint32_t status;
    uint32_t text_bytes;
    transfer_timing_t timing;
    uint32_t window_offset; /* of LANDED: where the payload lies */
} wire_result_t;

static inline uint8_t *wire_put16(uint8_t *to, uint16_t value)
{
    value = htole16(value);
    return (uint8_t *)memcpy(to, &value, sizeof(value)) + sizeof(value);
}

static inline uint8_t *wire_put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    return (uint8_t *)memcpy(to, &value, sizeof(value)) + sizeof(value);
}

static inline uint8_t *wire_put64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    return (uint8_t *)memcpy(to, &value, sizeof(value)) + sizeof(value);
}

static inline uint16_t wire_get16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof(value));
    return le16toh(value);
}

static inline uint32_t wire_get32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static inline uint64_t wire_get64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

/* Each put writes exactly its WIRE_…_BYTES and returns where the next one goes. */
uint8_t *wire_put_header(uint8_t *to, const wire_header_t *header);
uint8_t *wire_put_hello(uint8_t *to, const wire_hello_t *hello);
uint8_t *wire_put_challenge(uint8_t *to, const wire_challenge_t *challenge);
uint8_t *wire_put_item(uint8_t *to, const wire_item_t *item);
uint8_t *wire_put_state(uint8_t *to, const wire_state_t *state);
uint8_t *wire_put_result(uint8_t *to, const wire_result_t *result);

/* False: not one of our frames. */
bool wire_get_header(const uint8_t *from, wire_header_t *header);
void wire_get_hello(const uint8_t *from, wire_hello_t *hello);
void wire_get_challenge(const uint8_t *from, wire_challenge_t *challenge);
void wire_get_item(const uint8_t *from, wire_item_t *item);
void wire_get_state(const uint8_t *from, wire_state_t *state);
void wire_get_result(const uint8_t *from, wire_result_t *result);

/* False: no such status_t. */
static inline bool wire_status_valid(uint32_t status)
{
    return status <= STATUS_INTERNAL;
}

#endif
