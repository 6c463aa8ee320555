/*
 * Which connections of an owner stay when there are more than it has places for, or when nothing was done by them for long. Who is to go is
 * told so and served all the same, so that a request which was on its way is not lost; what it does then gives it back its place.
 *
 *              room was needed, or idle                   grace over, or too many such
 *   STAYING ───────────────────────────────▶ LEAVING ──────────────────────────────────▶ closed
 *      ▲                                        │
 *      └────────────────── work ────────────────┘
 *
 * Work is what only those can do who were granted a task. First go those that never worked, then those that have not for the longest, and
 * of a host that has more than its part of the places only its own. Pure: no clock, no socket, no log.
 */
#ifndef TRANSFER_PLACES_H
#define TRANSFER_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

/* Of one connection, which embeds it. */
typedef struct place {
    TAILQ_ENTRY(place) link;
    const struct sockaddr_storage *host; /* the other end's; its port does not matter */
    uint64_t since_ns;                   /* when it came, last worked, or was told to leave */
    bool worked, leaving;
} place_t;

TAILQ_HEAD(place_list, place);

typedef struct {
    struct place_list staying; /* by since_ns */
    struct place_list leaving; /* likewise */
    uint32_t staying_count, leaving_count;
    uint32_t most;
} places_t;

/* most: that stay, at least 1. As many are LEAVING at most as PLACES_LEAVING_MOST, but for one, until places_overdue has named it. */
enum { PLACES_LEAVING_MOST = 64 };
void places_init(places_t *places, uint32_t most);

/* Gives a connection a place, or back its place. Returns the one that is to be told to leave for it; NULL: none. */
place_t *places_take(places_t *places, place_t *place, uint64_t now_ns);
place_t *places_worked(places_t *places, place_t *place, uint64_t now_ns);

/* It is closed. */
void places_give_up(places_t *places, place_t *place);

/* One that stayed and has done nothing for idle_ns, which is now to be told to leave; NULL: none. */
place_t *places_idle(places_t *places, uint64_t now_ns, uint64_t idle_ns);

/* One that leaves, but is in the middle of something: it has its time from now. */
void places_put_off(places_t *places, place_t *place, uint64_t now_ns);

/* One that was told grace_ns ago or longer, or the oldest of too many; it stays listed. NULL: none. */
place_t *places_overdue(const places_t *places, uint64_t now_ns, uint64_t grace_ns);

#endif
