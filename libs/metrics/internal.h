/* What the registry and the exposition share. */
#ifndef METRICS_INTERNAL_H
#define METRICS_INTERNAL_H

#include "base/map.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef enum { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM } metric_kind_t;
typedef enum { UNIT_NONE, UNIT_NS_AS_S, UNIT_NS_AS_US } metric_unit_t;

typedef struct {
    const char *name;
    metric_kind_t kind;
    metric_unit_t unit;
    const char *labels;
    const char *help;
} metric_family_info_t;
extern const metric_family_info_t metric_families[METRIC_COUNT];

enum { METRIC_LATENCY_BUCKETS = 16, METRIC_SIZE_BUCKETS = 9, METRIC_BUCKETS = METRIC_LATENCY_BUCKETS + 1 };
enum { METRIC_COLLECTORS_MAX = 16 };
extern const int64_t metric_latency_bounds[METRIC_LATENCY_BUCKETS];
extern const int64_t metric_size_bounds[METRIC_SIZE_BUCKETS];

/* Upper bounds of a histogram's buckets; one more bucket is above the last. */
const int64_t *metric_bounds(metric_id_t id, int *len);
int metric_label_count(const metric_family_info_t *info);

struct metric {
    metric_id_t id;
    atomic_bool hidden;
    uint32_t refs,
        place; /* under the registry's lock: times that it was given out; where it is in its family */
    char *key; /* in the registry's index: metric and values */
    char *values[METRICS_LABELS_MAX];
    union {
        _Atomic uint64_t count;      /* counters */
        _Atomic uint64_t gauge_bits; /* gauges: a double */
        _Atomic uint64_t sum;        /* histograms, in recorded units */
    };
    _Atomic uint64_t buckets[METRIC_BUCKETS]; /* histograms; not cumulative */
};
void metric_destroy(metric_t *series);

typedef struct {
    metric_t **series;
    size_t len;
    bool overflowed; /* other is in use */
    metric_t other;
} metric_family_t;

typedef struct {
    void (*fn)(void *arg);
    void *arg;
} metric_collector_t;

struct metrics {
    pthread_mutex_t lock;
    metric_family_t families[METRIC_COUNT];
    strmap_t index; /* of all series; doubled when it is full, halved when three quarters are empty */
    metric_collector_t collectors[METRIC_COLLECTORS_MAX];
    int collectors_len;
};

#endif
