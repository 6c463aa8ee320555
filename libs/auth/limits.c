#include "auth/limits.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_MAX = 1000000000, COUNT_MAX = 1000000000, WEIGHT_MAX = 1000 };

/* ---- text ---- */

static bool read_number(const char *text, double least, double most, double *value)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end != '\0' || !(number >= least && number <= most))
        return false;
    *value = number;
    return true;
}

static status_t set_limit(auth_limits_t *limits, const char *word, err_t *err)
{
    double value;

    if (strncmp(word, "rate=", 5) == 0 && read_number(word + 5, 1e-3, RATE_MAX, &value))
        limits->rate_per_s = value;
    else if (strncmp(word, "burst=", 6) == 0 && read_number(word + 6, 1, COUNT_MAX, &value))
        limits->burst = (uint32_t)value;
    else if (strncmp(word, "concurrent=", 11) == 0 && read_number(word + 11, 1, COUNT_MAX, &value))
        limits->concurrent = (uint32_t)value;
    else if (strncmp(word, "weight=", 7) == 0 && read_number(word + 7, 1, WEIGHT_MAX, &value))
        limits->weight = (uint32_t)value;
    else
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "'%.64s' is no limit: rate=N (a second, from .001), burst=N, concurrent=N (from 1), "
                       "weight=N (1 to %d)",
                       word, WEIGHT_MAX);
    return STATUS_OK;
}

static status_t set_limits(auth_limits_t *limits, const char *text, err_t *err)
{
    char word[64];

    for (const char *at = text; *at;) {
        size_t len = strcspn(at, ",");
        if (len >= sizeof word)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a limit has over %zu bytes", sizeof word - 1);
        memcpy(word, at, len);
        word[len] = '\0';
        at += len + (at[len] == ',');
        status_t status = set_limit(limits, word, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

status_t auth_limits_parse(auth_limits_t *limits, const char *text, err_t *err)
{
    *limits = (auth_limits_t){0};
    if (strcmp(text, "-") == 0)
        return STATUS_OK;
    status_t status = set_limits(limits, text, err);
    if (status != STATUS_OK)
        return status;
    if (limits->burst && limits->rate_per_s == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a burst without a rate limits nothing");
    if (limits->rate_per_s > 0 && !limits->burst) /* as many as a second brings */
        limits->burst = limits->rate_per_s < 1 ? 1 : (uint32_t)ceil(limits->rate_per_s);
    return STATUS_OK;
}

static void write_count(const char *name, uint32_t count, const char **comma, strbuf_t *to)
{
    if (count == 0)
        return;
    strbuf_printf(to, "%s%s=%" PRIu32, *comma, name, count);
    *comma = ",";
}

void auth_limits_write(const auth_limits_t *limits, strbuf_t *to)
{
    const char *comma = "";

    if (limits->rate_per_s > 0) {
        strbuf_printf(to, "rate=%.10g", limits->rate_per_s);
        comma = ",";
        write_count("burst", limits->burst, &comma, to);
    }
    write_count("concurrent", limits->concurrent, &comma, to);
    write_count("weight", limits->weight, &comma, to);
    if (!*comma)
        strbuf_puts(to, "-");
}

/* ---- use ---- */

/* Takes one from the bucket; how long to wait where it is empty, else 0. */
static int64_t take(auth_usage_t *usage, const auth_limits_t *limits, int64_t now_ns)
{
    int64_t each_ns = (int64_t)fmax(1, NS_PER_S / limits->rate_per_s);
    int64_t deep_ns = (int64_t)fmin((double)each_ns * limits->burst, 1e18);
    int64_t paid_ns = atomic_load_explicit(&usage->paid_ns, memory_order_relaxed), base_ns;

    do {
        base_ns = paid_ns < now_ns ? now_ns : paid_ns;
        if (base_ns > now_ns + deep_ns) /* the limits were others then: no bucket is emptier than empty */
            base_ns = now_ns + deep_ns;
        if (base_ns + each_ns > now_ns + deep_ns)
            return base_ns + each_ns - now_ns - deep_ns;
    } while (!atomic_compare_exchange_weak_explicit(&usage->paid_ns, &paid_ns, base_ns + each_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 0;
}

static uint32_t whole_ms(int64_t wait_ns)
{
    int64_t wait_ms = (wait_ns + NS_PER_MS - 1) / NS_PER_MS;

    return wait_ms < 3600000 ? (uint32_t)wait_ms : 3600000;
}

status_t auth_usage_enter(auth_usage_t *usage, const auth_limits_t *limits, const char *whose, int64_t now_ns,
                          uint32_t *retry_after_ms, err_t *err)
{
    *retry_after_ms = 0;
    uint32_t running = atomic_fetch_add_explicit(&usage->running, 1, memory_order_relaxed);
    if (limits->concurrent > 0 && running >= limits->concurrent) {
        auth_usage_leave(usage);
        return err_set(err, STATUS_LIMITED, "%s may have %u requests under way", whose, limits->concurrent);
    }
    int64_t wait_ns = limits->rate_per_s > 0 ? take(usage, limits, now_ns) : 0;
    if (wait_ns == 0)
        return STATUS_OK;
    auth_usage_leave(usage);
    *retry_after_ms = whole_ms(wait_ns);
    return err_set(err, STATUS_LIMITED, "%s may begin %g requests a second", whose, limits->rate_per_s);
}

void auth_usage_leave(auth_usage_t *usage)
{
    atomic_fetch_sub_explicit(&usage->running, 1, memory_order_relaxed);
}
