/*
 * What both sides tell each other through the TCP connection when a link is made: the pool greets with its version of UCX, the owner
 * answers with where to reach it and with the keys to its memory.
 */
#ifndef TRANSFER_UCX_HELLO_H
#define TRANSFER_UCX_HELLO_H

#include "transfer/carrier.h"

enum { UCX_MAGIC = 0x58435546 /* "FUCX" */ };

/* A piece of a blob, or what is to become one. */
typedef struct {
    const void *bytes;
    size_t len;
} ucx_piece_t;

typedef struct {
    uint64_t base, len_bytes;
    ucx_piece_t key;
} ucx_open_memory_t;

typedef struct {
    ucx_piece_t address; /* of the owner's worker */
    ucx_open_memory_t arena, directory, window;
    uint64_t token; /* of the window, in messages (ask.h) */
} ucx_answer_t;

void ucx_hello_write(carrier_blob_t *hello);
/* INVALID_ARGUMENT: it is no greeting. UNSUPPORTED: another version of UCX. */
status_t ucx_hello_check(const carrier_blob_t *hello, err_t *err);

/* TOO_LARGE: it does not fit. */
status_t ucx_answer_write(carrier_blob_t *blob, const ucx_answer_t *answer, err_t *err);
/* Its pieces point into the blob. False: it makes no sense. */
bool ucx_answer_read(const carrier_blob_t *blob, ucx_answer_t *answer);

#endif
