#include "base/histogram.h"

#include <string.h>

enum { SUB = 1 << HISTOGRAM_SUB_BITS };

void histogram_init(histogram_t *h)
{
    memset(h, 0, sizeof *h);
}

/*
 * Values below 2 * SUB are their own bucket. Above, a value with highest bit e keeps its top SUB_BITS + 1
 * bits: the shift e - SUB_BITS picks the group, the bits pick the bucket in it.
 */
static uint32_t bucket_of(int64_t value_ns)
{
    uint64_t v = (uint64_t)value_ns;
    if (v < 2 * SUB)
        return (uint32_t)v;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(v) - HISTOGRAM_SUB_BITS;
    return shift * SUB + (uint32_t)(v >> shift);
}

static int64_t bucket_low(uint32_t i)
{
    if (i < 2 * SUB)
        return i;
    uint32_t shift = i / SUB - 1;
    return (int64_t)(i % SUB + SUB) << shift;
}

static int64_t bucket_middle(uint32_t i)
{
    return bucket_low(i) + (i < 2 * SUB ? 0 : (INT64_C(1) << (i / SUB - 1)) / 2);
}

static int64_t clamp(int64_t value_ns)
{
    if (value_ns < 0)
        return 0;
    return value_ns > HISTOGRAM_MAX_NS ? HISTOGRAM_MAX_NS : value_ns;
}

void histogram_record(histogram_t *h, int64_t value_ns)
{
    int64_t v = clamp(value_ns);
    h->buckets[bucket_of(v)]++;
    h->sum_ns += v;
    if (h->count == 0 || v < h->min_ns)
        h->min_ns = v;
    if (h->count == 0 || v > h->max_ns)
        h->max_ns = v;
    h->count++;
}

void histogram_merge(histogram_t *into, const histogram_t *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min_ns < into->min_ns)
        into->min_ns = from->min_ns;
    if (into->count == 0 || from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

static uint64_t rank_of(uint64_t count, double q)
{
    if (!(q > 0.0))
        return 1;
    if (q >= 1.0)
        return count;
    double exact = q * (double)count;
    uint64_t rank = (uint64_t)exact;
    rank += (double)rank < exact;
    return rank < 1 ? 1 : rank;
}

int64_t histogram_quantile_ns(const histogram_t *h, double q)
{
    if (h->count == 0)
        return 0;
    uint64_t rank = rank_of(h->count, q), seen = 0;
    if (rank == h->count)
        return h->max_ns;
    uint32_t i = 0;
    while ((seen += h->buckets[i]) < rank)
        i++;
    int64_t v = bucket_middle(i);
    if (v < h->min_ns)
        return h->min_ns;
    return v > h->max_ns ? h->max_ns : v;
}

double histogram_mean_ns(const histogram_t *h)
{
    return h->count == 0 ? 0.0 : (double)h->sum_ns / (double)h->count;
}
