/*
 * Whose turn it is: what waits for a few places, in the order in which each client brought it, clients in turns. The client goes first
 * that has been charged least, so each has the same part of what is done, whatever he brings; who has not waited starts where
 * the others are, and keeps what he was charged beyond that until they have caught up. (Start-time fair queueing, Goyal 1996.)
 *
 *   A brings  3 3 3 3                charged, in turns:  A3  B1 B1 B1  A3  B1 B1 B1  A3 …
 *   B brings  1 1 1 1 1 1 1 1 1
 *
 * Two lanes, since some of the places may be for short items only; a client's account is one.
 *
 * One owner, no locks. Nothing is allocated after turns_create.
 */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef enum { TURNS_SHORT, TURNS_LONG, TURNS_LANES } turns_lane_t;

typedef struct turns turns_t;

/* Embedded in what waits; zeroed, it waits nowhere. */
typedef struct turns_item {
    TAILQ_ENTRY(turns_item) link; /* of turns.c, as are the next three */
    struct turns_client *of;
    turns_lane_t lane;
} turns_item_t;

/* capacity: of items that wait. */
status_t turns_create(uint32_t capacity, turns_t **turns, err_t *err);
void turns_destroy(turns_t *turns); /* NULL is fine; what waits is forgotten */

/* It waits behind what the client has in the lane, or (first) before it. False when `capacity` wait. */
bool turns_push(turns_t *turns, uint64_t client, turns_lane_t lane, turns_item_t *turn, bool first);
/* Whose turn it is, of the lane, or of both when lanes are TURNS_LANES; NULL: nothing waits there. */
turns_item_t *turns_pop(turns_t *turns, turns_lane_t lane);
void turns_remove(turns_t *turns, turns_item_t *turn); /* no effect when it waits nowhere */

/* What was done for a client, in any unit; of what it brought before or after. */
void turns_charge(turns_t *turns, uint64_t client, uint64_t cost);

static inline bool turns_waits(const turns_item_t *turn)
{
    return turn->of;
}

uint32_t turns_waiting(const turns_t *turns);
uint32_t turns_waiting_of(const turns_t *turns, uint64_t client);

bool turns_validate(const turns_t *turns, err_t *err);

#endif
