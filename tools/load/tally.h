/*
 * What became of the requests of one model: counts by outcome, latencies, batch sizes.
 *
 * Latency counts from the intended send time (open loop) or the send (closed loop), so that a stalled server
 * is charged for the requests that it kept from being sent in time. Plain data, one owner.
 */
#ifndef LOAD_TALLY_H
#define LOAD_TALLY_H

#include "base/histogram.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The server's word, or what happened instead of one. */
typedef enum {
    OUTCOME_OK,
    OUTCOME_LATE, /* answered, but after the deadline */
    OUTCOME_INVALID_ARGUMENT,
    OUTCOME_NOT_FOUND,
    OUTCOME_TOO_LARGE,
    OUTCOME_UNAVAILABLE,
    OUTCOME_DEADLINE_EXCEEDED,
    OUTCOME_CANCELLED,
    OUTCOME_UNSUPPORTED,
    OUTCOME_INTERNAL,
    OUTCOME_CONNECTION, /* refused or broken before an answer */
    OUTCOME_NO_ANSWER,  /* none within the client's own limit */
    OUTCOME_NOT_SENT,   /* too many were waiting in the load generator */
    OUTCOME_COUNT,
} outcome_t;

const char *outcome_name(outcome_t outcome); /* "unavailable" */
outcome_t outcome_of_http(int http_status);
outcome_t outcome_of_grpc(int grpc_code);

/* The largest batch told apart; Fermata's default maximum is 32, the largest in the papers 64. */
enum { TALLY_BATCH_MAX = 256 };

typedef struct {
    bool known;
    uint32_t batch_size;
    uint64_t queue_us, compute_us;
} timing_t;

typedef struct {
    uint64_t offered;
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t batch_sizes[TALLY_BATCH_MAX + 1]; /* of answered requests; the last counts larger ones too */
    histogram_t latency;                       /* of answered requests, late ones included */
    histogram_t queue, compute;                /* as the server says */
} tally_t;

void tally_init(tally_t *tally);
/* deadline_ns 0 = none. An OK after the deadline becomes LATE. */
void tally_record(tally_t *tally, outcome_t outcome, int64_t latency_ns, int64_t deadline_ns,
                  const timing_t *timing);
void tally_merge(tally_t *into, const tally_t *from);

uint64_t tally_served(const tally_t *tally);   /* answered with a result, in time or late */
uint64_t tally_bad(const tally_t *tally);      /* offered and not answered in time with a result */
double tally_mean_batch(const tally_t *tally); /* over batches, not over requests; 0 = none known */

#endif
