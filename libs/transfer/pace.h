/*
 * Receiver-driven pacing: how much a pool has asked for by TCP and not yet received, all its peers together, and whose turn it is to
 * ask. Whoever receives knows of all that is under way to it, and the senders know nothing of each other; many of them that answer
 * at once overflow the last switch's buffer, and TCP then waits out its time-outs (incast; Symphony, appendix B: the 99.99th
 * percentile of TCP is 12 times the median). The idea is that of pHost's tokens, NDP's pulls and Homa's grants, on items of a fetch
 * instead of packets.
 *
 *   window   bytes that may be out at once. Grows by PACE_STEP_BYTES with each window received while somebody waited, shrinks by a
 *            quarter, at most once in a window, when a connection saw packets out of order (one was lost, in this buffer most likely),
 *            between PACE_LEAST_BYTES and PACE_MOST_BYTES. For PACE_WARY windows after that it grows by a quarter of a step in every
 *            PACE_CALM of them only, so that it stays about where nothing is lost. When nothing is out the next may always go, of
 *            whatever size.
 *   part     a fetch is asked for in parts of an eighth of the window, so that others come in between.
 *   turn     fetches wait in classes by size; the smaller class goes first, in a class the first come. A class that was passed over
 *            PACE_PATIENCE times has a turn. The smallest may also use an eighth beyond the window.
 *
 * No clock, no I/O, no allocation; the turns are the caller's.
 */
#ifndef TRANSFER_PACE_H
#define TRANSFER_PACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
    PACE_CLASSES = 4, /* up to 16 KiB, 256 KiB, 4 MiB, and more */
    PACE_PATIENCE = 16,
    PACE_PART_LEAST_BYTES = 16 << 10, /* less is overhead: a record, a header and two system calls each */
    PACE_STEP_BYTES = 16 << 10,
    PACE_WARY = 1024, /* windows; 1.3 s at 1 Gbit/s */
    PACE_CALM = 16,
    PACE_LEAST_BYTES = 96 << 10, /* fills 1 Gbit/s over 700 us and just fits into a buffer of 64 packets */
    PACE_START_BYTES = 128 << 10,
    PACE_MOST_BYTES = 1 << 20, /* fills 40 Gbit/s over 200 us; loopback is no faster with more */
};

/* One who asks. `left_bytes` are still to be asked for. */
typedef struct pace_turn {
    TAILQ_ENTRY(pace_turn) link;
    uint64_t left_bytes;
    uint8_t rank; /* its class */
    bool queued;
} pace_turn_t;

TAILQ_HEAD(pace_turns, pace_turn);

typedef struct {
    uint64_t window_bytes, out_bytes;
    uint64_t received_bytes; /* of the present window's worth */
    uint32_t wary;           /* windows to be received until it grows fast again */
    bool adapts;
    bool cut;    /* it shrank during this window */
    bool limits; /* somebody waited for credit since it last could grow */
    struct pace_turns turns[PACE_CLASSES];
    uint32_t passed[PACE_CLASSES]; /* times that a smaller one went before */
} pace_t;

/* credit_bytes: the window, which then stays; 0 = adapts; UINT64_MAX = none, and no parts. */
void pace_init(pace_t *pace, uint64_t credit_bytes);

/* Queues a turn for so many bytes (0 is possible). */
void pace_enter(pace_t *pace, pace_turn_t *turn, uint64_t bytes);
/* Takes it out, if it is in. */
void pace_leave(pace_t *pace, pace_turn_t *turn);

/* Whose turn it is, and for how many bytes; nothing changes. NULL: nobody's now. */
pace_turn_t *pace_next(pace_t *pace, uint64_t *bytes);
/* They are asked for. A turn with none left is out of the queue. */
void pace_take(pace_t *pace, pace_turn_t *turn, uint64_t bytes);

/* Bytes asked for have come, or will never come. */
void pace_give(pace_t *pace, uint64_t bytes, bool received);
/* A connection has lost packets. */
void pace_lost(pace_t *pace);

bool pace_waiting(const pace_t *pace);

#endif
