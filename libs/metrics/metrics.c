/*
 * A family per metric name, a growing list of series per family, one index of all series. Series are made
 * under the registry's lock and not freed before all who got them have released them, so updates need no lock: they are relaxed
 * atomics on the series' own words.
 */
#include "metrics/metrics.h"

#include "base/log.h"
#include "metrics/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const metric_family_info_t metric_families[METRIC_COUNT] = {
#define METRICS_ROW(id, name, kind, unit, labels, help) \
    [METRIC_##id] = {name, KIND_##kind, UNIT_##unit, labels, help},
    METRICS_NAMES(METRICS_ROW)
#undef METRICS_ROW
};

/* Upper bounds, in recorded units. Latencies: 1-2.5-5 from 50 µs, where the path's floor is, to 10 s.
 * Sizes: powers of two. */
const int64_t metric_latency_bounds[METRIC_LATENCY_BUCKETS] = {
    50000,    100000,   250000,    500000,    1000000,   2500000,    5000000,    10000000,
    25000000, 50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000, 10000000000,
};
const int64_t metric_size_bounds[METRIC_SIZE_BUCKETS] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

int metric_label_count(const metric_family_info_t *info)
{
    int n = *info->labels != '\0';
    for (const char *c = info->labels; *c != '\0'; c++)
        n += *c == ',';
    return n;
}

/* The metric, then each value behind its length, so that no two lists of values make one key. */
enum { KEY_BYTES = 1 + METRICS_LABELS_MAX * METRICS_LABEL_BYTES + 1 };
_Static_assert(METRIC_COUNT < UINT8_MAX && METRICS_LABEL_BYTES < UINT8_MAX, "each is one byte of a key");

static void write_key(char key[KEY_BYTES], metric_id_t id, const char *const *values, int n)
{
    char *at = key;
    *at++ = (char)(id + 1);
    for (int i = 0; i < n; i++) {
        size_t len = strnlen(values[i], METRICS_LABEL_BYTES - 1);
        *at++ = (char)(len + 1);
        memcpy(at, values[i], len);
        at += len;
    }
    *at = '\0';
}

static metric_t *new_series(metric_id_t id, const char *key, const char *const *values, int n)
{
    metric_t *series = calloc(1, sizeof *series);
    if (!series)
        return NULL;
    series->id = id;
    series->key = strdup(key);
    bool made = series->key;
    for (int i = 0; made && i < n; i++) {
        series->values[i] = strndup(values[i], METRICS_LABEL_BYTES - 1);
        made = series->values[i];
    }
    if (made)
        return series;
    metric_destroy(series);
    return NULL;
}

void metric_destroy(metric_t *series)
{
    for (int i = 0; i < METRICS_LABELS_MAX; i++)
        free(series->values[i]);
    free(series->key);
    free(series);
}

enum { SERIES_AT_FIRST = 256 };

static bool resize_index(metrics_t *reg, uint32_t capacity)
{
    strmap_t other;
    if (strmap_init(&other, capacity, NULL) != STATUS_OK)
        return false;
    for (int id = 0; id < METRIC_COUNT; id++)
        for (size_t i = 0; i < reg->families[id].len; i++)
            strmap_put(&other, reg->families[id].series[i]->key, reg->families[id].series[i]);
    strmap_dispose(&reg->index);
    reg->index = other;
    return true;
}

static bool grow_index(metrics_t *reg)
{
    return reg->index.len < reg->index.capacity || resize_index(reg, reg->index.capacity * 2);
}

/* The list doubles: its lengths with a single bit are those at which it is full. */
static bool grow_family(metric_family_t *family)
{
    if ((family->len & (family->len - 1)) != 0)
        return true;
    size_t room = family->len > 0 ? family->len * 2 : 1;
    metric_t **grown = realloc(family->series, room * sizeof(metric_t *));
    if (!grown)
        return false;
    family->series = grown;
    return true;
}

static bool add_series(metrics_t *reg, metric_t *series)
{
    metric_family_t *family = &reg->families[series->id];
    if (!grow_index(reg) || !grow_family(family))
        return false;
    series->place = (uint32_t)family->len;
    family->series[family->len++] = series;
    return strmap_put(&reg->index, series->key, series);
}

/* Under the lock. NULL: over the limit or no memory. */
static metric_t *find_or_make(metrics_t *reg, metric_id_t id, const char *const *values, int n)
{
    char key[KEY_BYTES];
    write_key(key, id, values, n);
    metric_t *series = strmap_get(&reg->index, key);
    if (series || reg->families[id].len >= METRICS_SERIES_MAX)
        return series;
    series = new_series(id, key, values, n);
    if (series && !add_series(reg, series)) {
        metric_destroy(series);
        series = NULL;
    }
    return series;
}

static metric_t *other_series(metrics_t *reg, metric_id_t id)
{
    if (!reg->families[id].overflowed)
        log_warn("metric_has_too_many_series", LOG_STR("metric", metric_families[id].name),
                 LOG_I64("limit", METRICS_SERIES_MAX));
    reg->families[id].overflowed = true;
    return &reg->families[id].other;
}

metric_t *metrics_series_n(metrics_t *reg, metric_id_t id, const char *const *values, int values_len)
{
    const char *full[METRICS_LABELS_MAX] = {"", "", "", ""};
    int n = metric_label_count(&metric_families[id]);
    if (values_len != n)
        log_error("metric_labels_mismatch", LOG_STR("metric", metric_families[id].name),
                  LOG_I64("given", values_len), LOG_I64("wanted", n));
    for (int i = 0; i < n && i < values_len; i++)
        full[i] = values[i] ? values[i] : "";
    pthread_mutex_lock(&reg->lock);
    metric_t *series = find_or_make(reg, id, full, n);
    if (!series)
        series = other_series(reg, id);
    else
        series->hidden = false;
    series->refs++;
    pthread_mutex_unlock(&reg->lock);
    return series;
}

/* The shared series of each family exists from the start, without memory of its own. */
static void init_others(metrics_t *reg)
{
    static char other[] = "other";
    for (int id = 0; id < METRIC_COUNT; id++) {
        reg->families[id].other.id = (metric_id_t)id;
        for (int i = 0; i < METRICS_LABELS_MAX; i++)
            reg->families[id].other.values[i] = other;
    }
}

metrics_t *metrics_create(const char *service, err_t *err)
{
    metrics_t *reg = calloc(1, sizeof *reg);
    if (!reg || strmap_init(&reg->index, SERIES_AT_FIRST, NULL) != STATUS_OK) {
        free(reg);
        err_set(err, STATUS_NO_MEMORY, "no memory for the metrics");
        return NULL;
    }
    pthread_mutex_init(&reg->lock, NULL);
    init_others(reg);
    metrics_set(metrics_series(reg, METRIC_BUILD_INFO, service, FERMATA_VERSION), 1);
    metrics_set(metrics_series(reg, METRIC_START_TIME), (double)time(NULL));
    return reg;
}

void metrics_destroy(metrics_t *reg)
{
    if (!reg)
        return;
    for (int id = 0; id < METRIC_COUNT; id++) {
        for (size_t i = 0; i < reg->families[id].len; i++)
            metric_destroy(reg->families[id].series[i]);
        free(reg->families[id].series);
    }
    strmap_dispose(&reg->index);
    pthread_mutex_destroy(&reg->lock);
    free(reg);
}

static void forget(metrics_t *reg, metric_t *series)
{
    metric_family_t *family = &reg->families[series->id];
    metric_t *last = family->series[--family->len];
    family->series[series->place] = last;
    last->place = series->place;
    strmap_remove(&reg->index, series->key);
    metric_destroy(series);
    if (reg->index.capacity > SERIES_AT_FIRST && reg->index.len < reg->index.capacity / 4)
        (void)resize_index(reg, reg->index.capacity / 2); /* else it stays as large as it is */
}

metric_t *metrics_release(metrics_t *reg, metric_t *series)
{
    metric_t *other = &reg->families[series->id].other;
    pthread_mutex_lock(&reg->lock);
    if (series != other && --series->refs == 0)
        forget(reg, series);
    pthread_mutex_unlock(&reg->lock);
    return other;
}

void metrics_hide(metric_t *series)
{
    series->hidden = true;
}

void metrics_add(metric_t *series, uint64_t n)
{
    atomic_fetch_add_explicit(&series->count, n, memory_order_relaxed);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double value_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void metrics_set(metric_t *series, double value)
{
    atomic_store_explicit(&series->gauge_bits, bits_of(value), memory_order_relaxed);
}

void metrics_gauge_add(metric_t *series, double delta)
{
    uint64_t old = atomic_load_explicit(&series->gauge_bits, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&series->gauge_bits, &old, bits_of(value_of(old) + delta),
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

const int64_t *metric_bounds(metric_id_t id, int *len)
{
    bool latency = metric_families[id].unit == UNIT_NS_AS_S;
    *len = latency ? METRIC_LATENCY_BUCKETS : METRIC_SIZE_BUCKETS;
    return latency ? metric_latency_bounds : metric_size_bounds;
}

void metrics_observe(metric_t *series, int64_t value)
{
    int len, i = 0;
    const int64_t *bounds = metric_bounds(series->id, &len);
    if (value < 0)
        value = 0;
    while (i < len && value > bounds[i])
        i++;
    atomic_fetch_add_explicit(&series->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&series->sum, (uint64_t)value, memory_order_relaxed);
}

uint64_t metrics_value(const metric_t *series)
{
    if (metric_families[series->id].kind != KIND_HISTOGRAM)
        return atomic_load_explicit(&series->count, memory_order_relaxed);
    uint64_t count = 0;
    for (int i = 0; i < METRIC_BUCKETS; i++)
        count += atomic_load_explicit(&series->buckets[i], memory_order_relaxed);
    return count;
}

double metrics_gauge_value(const metric_t *series)
{
    return value_of(atomic_load_explicit(&series->gauge_bits, memory_order_relaxed));
}

status_t metrics_on_collect(metrics_t *reg, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&reg->lock);
    bool room = reg->collectors_len < METRIC_COLLECTORS_MAX;
    if (room)
        reg->collectors[reg->collectors_len++] = (metric_collector_t){fn, arg};
    pthread_mutex_unlock(&reg->lock);
    return room ? STATUS_OK : STATUS_NO_MEMORY;
}
