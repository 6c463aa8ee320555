/*
 * One message as gRPC carries it: an immutable list of reference-counted slices of memory.
 *
 * Ownership: who has a rpc_bytes_t * frees it with rpc_bytes_free, or gives it away to a function that says
 * that it takes it. Any thread, one at a time.
 */
#ifndef RPC_BYTES_H
#define RPC_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rpc_bytes rpc_bytes_t;

/* A piece of a message to be built. release == NULL: data is copied at once. Otherwise the memory is sent
 * from where it lies and release(arg) is called once, on any thread, when it is needed no more. */
typedef struct {
    const void *data;
    size_t len_bytes;
    void (*release)(void *arg);
    void *arg;
} rpc_part_t;

rpc_bytes_t *rpc_bytes_copy(const void *data, size_t len_bytes);

/* A message of one slice that the caller fills through *data before giving it away. */
rpc_bytes_t *rpc_bytes_reserve(size_t len_bytes, uint8_t **data);

rpc_bytes_t *rpc_bytes_from_parts(const rpc_part_t *parts, size_t count);

size_t rpc_bytes_len(const rpc_bytes_t *bytes);

/* All of it contiguous: no copy when it is one slice, else joined once. Valid until rpc_bytes_free. */
const uint8_t *rpc_bytes_flat(rpc_bytes_t *bytes);

/* It is one slice: rpc_bytes_flat copies nothing. */
bool rpc_bytes_is_flat(const rpc_bytes_t *bytes);

/* All of it, to memory of rpc_bytes_len. */
void rpc_bytes_read(const rpc_bytes_t *bytes, uint8_t *to);

void rpc_bytes_free(rpc_bytes_t *bytes); /* NULL is allowed */

#endif
