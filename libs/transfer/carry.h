/*
 * What of a peer's requests goes past its socket (carrier.h): attaching after HELLO, requests handed to the link, and what becomes of
 * them when it ends.
 *
 * A peer without a link, or whose link has broken, goes on through its socket; what the link had not finished is asked for again
 * there. A broken link is tried again when limits.link_again_ns have passed.
 */
#ifndef TRANSFER_CARRY_H
#define TRANSFER_CARRY_H

#include "transfer/pool.h"

/* The clients that the choice allows; one that this host has not is logged and left out. */
void clients_open(transfer_pool_t *pool, transfer_choice_t choice, bool spin);
/* All peers are closed. */
void clients_close(transfer_pool_t *pool);
/* The bits for HELLO. */
uint64_t clients_bits(const transfer_pool_t *pool);
/* Of all of them together. */
carrier_buffers_t clients_buffers(const transfer_pool_t *pool);

/* The owner's HELLO has come with these bits: attaches, if both have a carrier. */
void link_greeted(transfer_peer_t *peer, uint64_t carriers);
/* ATTACHED has come. False: it makes no sense. */
bool link_attached(transfer_peer_t *peer, const wire_header_t *header, const uint8_t *extra);
/* The connection is gone: what was carried is back in peer->waiting. */
void link_end(transfer_peer_t *peer);
/* Its jobs have not moved, or it is not ready, for as long as a stall takes. */
bool link_stuck(const transfer_peer_t *peer, uint64_t now_ns);
/* Goes on without it. Calls back. */
void link_give_up(transfer_peer_t *peer);

/* Hands the request over, which is on no list. False: it goes through the socket. */
bool carry(transfer_peer_t *peer, request_t *request);
/* Gives a carried request up, which then is on no list. False: its memory is in use. */
bool carry_cancel(request_t *request);
/* Instead: it ends with this status as soon as its memory is free. */
void carry_leave(request_t *request, status_t status);
/* The results of a push are acknowledged, or given up: their room is free. */
void carry_landed(request_t *request);

#endif
