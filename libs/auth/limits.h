/*
 * How much somebody may ask for (a key, an address, a model), and what is used of it. Any thread, without a lock: loops that serve
 * the same somebody share one usage.
 *
 * The rate is held by the time at which all that was let begin would have been paid for at that rate (GCRA, the virtual scheduling of
 * ITU-T I.371): a token bucket of `burst` in one word.
 */
#ifndef AUTH_LIMITS_H
#define AUTH_LIMITS_H

#include "base/status.h"
#include "base/strbuf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double rate_per_s;   /* inferences that may begin in a second; 0 = no limit */
    uint32_t burst;      /* … at once after a rest; at least 1 with a rate */
    uint32_t concurrent; /* inferences under way at once; 0 = no limit */
    uint32_t weight;     /* of its share where there is too little for all; 0 counts as 1 */
} auth_limits_t;

/* "rate=5,burst=9,concurrent=2,weight=3", in any order, or "-" for none; the text names what is wrong. */
status_t auth_limits_parse(auth_limits_t *limits, const char *text, err_t *err);
void auth_limits_write(const auth_limits_t *limits, strbuf_t *to);

/* Zeros at first. Its own cache line: loops write it at each request. */
typedef struct {
    _Alignas(64) _Atomic int64_t paid_ns; /* when all of it is paid for */
    _Atomic uint32_t running;
} auth_usage_t;

/*
 * Begins an inference, which ends with auth_usage_leave. STATUS_LIMITED: over the rate (*retry_after_ms until the next may begin) or
 * the concurrency (*retry_after_ms is 0: nobody knows); `whose` is for the text ("this key"). now_ns > 0.
 */
status_t auth_usage_enter(auth_usage_t *usage, const auth_limits_t *limits, const char *whose, int64_t now_ns,
                          uint32_t *retry_after_ms, err_t *err);
void auth_usage_leave(auth_usage_t *usage);

#endif
