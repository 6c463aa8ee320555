/*
 * Fetches through the socket: whose turn it is (pace.h), and fetches that are asked for in parts.
 *
 * A fetch that fits into one part is sent itself. A larger one stays in peer->paced until all its parts have come; a part is a
 * request of its own kind, on the wire and in peer->sent like any other, that has a `whole` and no callback. It becomes a GHOST
 * without `whole` when that is given up. Every request that is on the wire holds `credit_bytes` until it is free again.
 *
 * A gateway that sends nothing for a while, though asked, would hold credit that others wait for: it is written off, and that
 * gateway is asked for nothing more until it has answered something.
 */
#ifndef TRANSFER_ASK_H
#define TRANSFER_ASK_H

#include "transfer/pool.h"

/* False: no memory. */
bool asks_init(transfer_pool_t *pool);
void asks_dispose(transfer_pool_t *pool);
/* Closes its timer. */
void asks_close(transfer_pool_t *pool, uv_close_cb closed);

/* Takes over a fetch that is on no list, of a READY peer. ask_next sends it when it is its turn. */
void ask(transfer_peer_t *peer, request_t *request);
/* Sends what there is credit for. Calls nobody back. */
void ask_next(transfer_pool_t *pool);

/* The answer of a request has come: its credit is free. */
void ask_received(request_t *request);
/* A part has come, which is free after this; true: it was the last, and `*whole`, still in peer->paced, is complete. */
bool ask_part_done(request_t *part, request_t **whole);
/* A paced request is about to be given up: its parts come to nothing. */
void ask_cut(request_t *request);

#endif
