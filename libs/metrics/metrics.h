/*
 * Counters, gauges and histograms with labels, and their Prometheus text.
 *
 * Set-up (any thread, takes a lock, may allocate): metrics_series finds or makes the series of a metric for
 * given label values. Keep the pointer: it stays valid until it is released as often as it was given out, or the registry is destroyed. Update (any thread,
 * one or two relaxed atomics, no lock): metrics_add, metrics_set, metrics_observe. The metrics themselves are
 * listed in metrics/names.h alone.
 *
 *   metric_t *granted = metrics_series(reg, METRIC_SCHED_TASKS, "resnet50", "granted");
 *   metrics_add(granted, n);
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "base/status.h"
#include "base/strbuf.h"
#include "metrics/names.h"

#include <stdint.h>

typedef enum {
#define METRICS_ENUM(id, name, kind, unit, labels, help) METRIC_##id,
    METRICS_NAMES(METRICS_ENUM)
#undef METRICS_ENUM
        METRIC_COUNT
} metric_id_t;

enum {
    METRICS_SERIES_MAX = 4096, /* per metric: label values come from outside, memory must not */
    METRICS_LABELS_MAX = 4,
    METRICS_LABEL_BYTES = 128, /* longer values are cut */
    METRICS_TEXT_MAX_BYTES = 64 << 20,
};
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef struct metrics metrics_t;
typedef struct metric metric_t;

metrics_t *metrics_create(const char *service,
                          err_t *err); /* sets fermata_build_info and the start time; NULL: no memory */
void metrics_destroy(metrics_t *reg);

/*
 * The label values follow, as many as the metric has labels. Never NULL: past METRICS_SERIES_MAX, or without
 * memory, all further values share one series labelled "other", so that callers need no branch.
 */
metric_t *metrics_series_n(metrics_t *reg, metric_id_t id, const char *const *values, int values_len);
#define metrics_series(reg, id, ...)                                     \
    metrics_series_n(                                                    \
        reg, id, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, \
        (int)(sizeof((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}) / sizeof(char *)) - 1)

/* Takes a series out of the exposition when what it describes is gone (an unloaded model); the pointer stays
 * valid. */
void metrics_hide(metric_t *series);

/* Who got it updates it no more. What nobody has any more is forgotten, with what it counted: of models that are gone for good nothing stays. What comes
 * back may be updated in its place, and counts for nothing. */
metric_t *metrics_release(metrics_t *reg, metric_t *series);

void metrics_add(metric_t *series, uint64_t n);         /* counters: in the recorded unit */
void metrics_set(metric_t *series, double value);       /* gauges */
void metrics_gauge_add(metric_t *series, double delta); /* gauges */
void metrics_observe(metric_t *series, int64_t value);  /* histograms: ns, or a size */

uint64_t metrics_value(const metric_t *series); /* of a counter, or a histogram's count: any thread */
double metrics_gauge_value(const metric_t *series);

/* fn is called before each exposition, on the exposing thread, to set gauges. At most 16. */
status_t metrics_on_collect(metrics_t *reg, void (*fn)(void *arg), void *arg);

/* Appends the text of everything; any thread. */
void metrics_write(metrics_t *reg, strbuf_t *out);

#endif
