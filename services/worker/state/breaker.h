/*
 * Whether a gateway is still asked for inputs. One that lets fetches run out of time is not, until it answers a probe: what is asked of it
 * fails at once, so that its silence costs no other gateway's requests. Pure: no clock, no log.
 *
 *              SILENCES in a row, over SILENCE_NS               pause over: one fetch
 *   CLOSED ────────────────────────────────────────▶ OPEN ─────────────────────────────▶ PROBING
 *     ▲                                               ▲  no answer: the pause doubles       │
 *     │                                               └─────────────────────────────────────┤
 *     └──────────────────────────────────── any answer ─────────────────────────────────────┘
 *
 * The circuit breaker of Nygard, Release It!, with a time over which the silence must last, because fetches that were under way together
 * run out together: a host that stands still for a moment is none that hangs.
 */
#ifndef WORKER_BREAKER_H
#define WORKER_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING } breaker_state_t;

/* All zero: closed. */
typedef struct {
    breaker_state_t state;
    uint32_t silences;       /* fetches in a row that ran out of time */
    int64_t silent_since_ns; /* when the first of them was asked; meaningful when there are any */
    int64_t pause_ns, probe_at_ns;
} breaker_t;

/* True: a fetch may be asked now, and how it ends is to be told. When open and the pause is over, it is the probe. */
bool breaker_asks(breaker_t *breaker, int64_t now_ns);

/* How a fetch ended. True: the breaker has opened (silence, failure) or closed (answer) by it. */
bool breaker_answered(breaker_t *breaker);
bool breaker_silent(breaker_t *breaker, int64_t asked_ns, int64_t now_ns);
/* Neither: there is no connection, or nobody wanted it any more. */
void breaker_nothing(breaker_t *breaker, int64_t now_ns);

#endif
