#include "load/tally.h"

#include "base/clock.h"

const char *outcome_name(outcome_t outcome)
{
    static const char *const names[OUTCOME_COUNT] = {
        [OUTCOME_OK] = "ok",
        [OUTCOME_LATE] = "late",
        [OUTCOME_INVALID_ARGUMENT] = "invalid_argument",
        [OUTCOME_NOT_FOUND] = "not_found",
        [OUTCOME_TOO_LARGE] = "too_large",
        [OUTCOME_UNAVAILABLE] = "unavailable",
        [OUTCOME_DEADLINE_EXCEEDED] = "deadline_exceeded",
        [OUTCOME_CANCELLED] = "cancelled",
        [OUTCOME_UNSUPPORTED] = "unsupported",
        [OUTCOME_INTERNAL] = "internal",
        [OUTCOME_CONNECTION] = "connection",
        [OUTCOME_NO_ANSWER] = "no_answer",
        [OUTCOME_NOT_SENT] = "not_sent",
    };
    return names[outcome];
}

outcome_t outcome_of_http(int http_status)
{
    switch (http_status) {
    case 200:
        return OUTCOME_OK;
    case 400:
        return OUTCOME_INVALID_ARGUMENT;
    case 404:
        return OUTCOME_NOT_FOUND;
    case 413:
        return OUTCOME_TOO_LARGE;
    case 499:
        return OUTCOME_CANCELLED;
    case 501:
        return OUTCOME_UNSUPPORTED;
    case 503:
        return OUTCOME_UNAVAILABLE;
    case 504:
        return OUTCOME_DEADLINE_EXCEEDED;
    default:
        return OUTCOME_INTERNAL;
    }
}

/* The numbers of google.rpc.Code. */
outcome_t outcome_of_grpc(int grpc_code)
{
    switch (grpc_code) {
    case 0:
        return OUTCOME_OK;
    case 1:
        return OUTCOME_CANCELLED;
    case 3:
        return OUTCOME_INVALID_ARGUMENT;
    case 4:
        return OUTCOME_DEADLINE_EXCEEDED;
    case 5:
        return OUTCOME_NOT_FOUND;
    case 8:
        return OUTCOME_TOO_LARGE;
    case 12:
        return OUTCOME_UNSUPPORTED;
    case 14:
        return OUTCOME_UNAVAILABLE;
    default:
        return OUTCOME_INTERNAL;
    }
}

void tally_init(tally_t *tally)
{
    *tally = (tally_t){0};
    histogram_init(&tally->latency);
    histogram_init(&tally->queue);
    histogram_init(&tally->compute);
}

static void record_timing(tally_t *tally, const timing_t *timing)
{
    uint32_t size = timing->batch_size < TALLY_BATCH_MAX ? timing->batch_size : TALLY_BATCH_MAX;
    tally->batch_sizes[size]++;
    histogram_record(&tally->queue, (int64_t)timing->queue_us * NS_PER_US);
    histogram_record(&tally->compute, (int64_t)timing->compute_us * NS_PER_US);
}

void tally_record(tally_t *tally, outcome_t outcome, int64_t latency_ns, int64_t deadline_ns,
                  const timing_t *timing)
{
    tally->offered++;
    if (outcome == OUTCOME_OK) {
        histogram_record(&tally->latency, latency_ns);
        if (timing->known)
            record_timing(tally, timing);
        if (deadline_ns > 0 && latency_ns > deadline_ns)
            outcome = OUTCOME_LATE;
    }
    tally->outcomes[outcome]++;
}

void tally_merge(tally_t *into, const tally_t *from)
{
    into->offered += from->offered;
    for (int i = 0; i < OUTCOME_COUNT; i++)
        into->outcomes[i] += from->outcomes[i];
    for (int i = 0; i <= TALLY_BATCH_MAX; i++)
        into->batch_sizes[i] += from->batch_sizes[i];
    histogram_merge(&into->latency, &from->latency);
    histogram_merge(&into->queue, &from->queue);
    histogram_merge(&into->compute, &from->compute);
}

uint64_t tally_served(const tally_t *tally)
{
    return tally->outcomes[OUTCOME_OK] + tally->outcomes[OUTCOME_LATE];
}

uint64_t tally_bad(const tally_t *tally)
{
    return tally->offered - tally->outcomes[OUTCOME_OK];
}

/* Each request of a batch of n stands for 1/n of a batch. */
double tally_mean_batch(const tally_t *tally)
{
    double requests = 0, batches = 0;
    for (int size = 1; size <= TALLY_BATCH_MAX; size++) {
        requests += (double)tally->batch_sizes[size];
        batches += (double)tally->batch_sizes[size] / size;
    }
    return batches > 0 ? requests / batches : 0;
}
