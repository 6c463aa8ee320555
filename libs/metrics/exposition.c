/* Prometheus text format 0.0.4. */
#include "metrics/internal.h"

#include "base/acceptor.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc_memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_escaped(strbuf_t *out, const char *text, bool quotes)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || (quotes && *text == '"'))
            strbuf_append(out, (const char[]){'\\', *text}, 2);
        else if (*text == '\n')
            strbuf_puts(out, "\\n");
        else
            strbuf_putc(out, *text);
    }
}

/* {a="x",b="y",extra} or nothing. */
static void put_labels(strbuf_t *out, const metric_t *series, const char *extra)
{
    const char *name = metric_families[series->id].labels;
    if (*name == '\0' && !extra)
        return;
    strbuf_putc(out, '{');
    for (int i = 0; *name != '\0'; i++) {
        size_t len = strcspn(name, ",");
        if (i > 0)
            strbuf_putc(out, ',');
        strbuf_append(out, name, len);
        strbuf_puts(out, "=\"");
        put_escaped(out, series->values[i], true);
        strbuf_putc(out, '"');
        name += len + (name[len] == ',');
    }
    if (extra)
        strbuf_printf(out, "%s%s", metric_label_count(&metric_families[series->id]) > 0 ? "," : "", extra);
    strbuf_putc(out, '}');
}

/* Seconds with all their nanoseconds, without the noise of a division: 1.5, 0.00025. */
static void put_seconds(strbuf_t *out, uint64_t ns)
{
    char text[48];
    int n = snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, ns % NS_PER_S);
    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    strbuf_append(out, text, (size_t)n);
}

static void put_scaled(strbuf_t *out, metric_unit_t unit, uint64_t value)
{
    if (unit == UNIT_NS_AS_S)
        put_seconds(out, value);
    else
        strbuf_printf(out, "%" PRIu64, unit == UNIT_NS_AS_US ? value / NS_PER_US : value);
}

static double scaled(metric_unit_t unit, double value)
{
    return unit == UNIT_NS_AS_S ? value / 1e9 : unit == UNIT_NS_AS_US ? value / 1e3 : value;
}

static void put_double(strbuf_t *out, double value)
{
    if (isnan(value))
        strbuf_puts(out, "NaN");
    else if (isinf(value))
        strbuf_puts(out, value > 0 ? "+Inf" : "-Inf");
    else
        strbuf_printf(out, "%.15g", value);
}

static void put_histogram(strbuf_t *out, const metric_t *series)
{
    const metric_family_info_t *info = &metric_families[series->id];
    int len;
    const int64_t *bounds = metric_bounds(series->id, &len);
    uint64_t count = 0;
    for (int i = 0; i <= len; i++) {
        char le[48] = "le=\"+Inf\"";
        if (i < len)
            snprintf(le, sizeof le, "le=\"%g\"",
                     info->unit == UNIT_NS_AS_S ? (double)bounds[i] / 1e9 : (double)bounds[i]);
        count += atomic_load_explicit(&series->buckets[i], memory_order_relaxed);
        strbuf_printf(out, "%s_bucket", info->name);
        put_labels(out, series, le);
        strbuf_printf(out, " %" PRIu64 "\n", count);
    }
    strbuf_printf(out, "%s_sum", info->name);
    put_labels(out, series, NULL);
    strbuf_putc(out, ' ');
    put_scaled(out, info->unit, atomic_load_explicit(&series->sum, memory_order_relaxed));
    strbuf_printf(out, "\n%s_count", info->name);
    put_labels(out, series, NULL);
    strbuf_printf(out, " %" PRIu64 "\n", count);
}

static void put_series(strbuf_t *out, const metric_t *series)
{
    const metric_family_info_t *info = &metric_families[series->id];
    if (info->kind == KIND_HISTOGRAM) {
        put_histogram(out, series);
        return;
    }
    strbuf_puts(out, info->name);
    put_labels(out, series, NULL);
    strbuf_putc(out, ' ');
    if (info->kind == KIND_GAUGE)
        put_double(out, scaled(info->unit, metrics_gauge_value(series)));
    else
        put_scaled(out, info->unit, metrics_value(series));
    strbuf_putc(out, '\n');
}

static bool is_shown(const metric_family_t *family)
{
    for (size_t i = 0; i < family->len; i++)
        if (!family->series[i]->hidden)
            return true;
    return family->overflowed;
}

static void put_family(strbuf_t *out, metric_id_t id, const metric_family_t *family)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    const metric_family_info_t *info = &metric_families[id];
    strbuf_printf(out, "# HELP %s ", info->name);
    put_escaped(out, info->help, false);
    strbuf_printf(out, "\n# TYPE %s %s\n", info->name, kinds[info->kind]);
    for (size_t i = 0; i < family->len; i++)
        if (!family->series[i]->hidden)
            put_series(out, family->series[i]);
    if (family->overflowed)
        put_series(out, &family->other);
}

/* Updates go on meanwhile; only the making of series waits. Collectors make series, so they run before the
 * lock is taken. */
void metrics_write(metrics_t *reg, strbuf_t *out)
{
    metric_collector_t collectors[METRIC_COLLECTORS_MAX];
    pthread_mutex_lock(&reg->lock);
    int len = reg->collectors_len;
    memcpy(collectors, reg->collectors, sizeof collectors);
    pthread_mutex_unlock(&reg->lock);
    for (int i = 0; i < len; i++)
        collectors[i].fn(collectors[i].arg);
    metrics_set(metrics_series(reg, METRIC_RESIDENT_BYTES), (double)proc_resident_bytes());
    atomic_store_explicit(&metrics_series(reg, METRIC_LOG_LINES_LEFT_OUT)->count, log_lines_left_out(),
                          memory_order_relaxed);
    atomic_store_explicit(&metrics_series(reg, METRIC_CONNECTIONS_TURNED_AWAY)->count,
                          acceptors_turned_away(), memory_order_relaxed);
    pthread_mutex_lock(&reg->lock);
    for (int id = 0; id < METRIC_COUNT; id++)
        if (is_shown(&reg->families[id]))
            put_family(out, (metric_id_t)id, &reg->families[id]);
    pthread_mutex_unlock(&reg->lock);
}
