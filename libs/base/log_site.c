/* Log lines with a rate: nobody fills a disk, or hides what else is said, by failing often. */
#include "base/log.h"

#include <pthread.h>

enum { COUNT_BITS = 24, SITES_MAX = 128 };
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static _Atomic(log_site_t *) listed; /* those that ever left a line out */
static _Atomic uint64_t left_out_in_all;

static uint64_t second_of(int64_t now_ns)
{
    return (uint64_t)(now_ns / NS_PER_S);
}

static uint64_t most_of(const log_site_t *site)
{
    return site->level >= LOG_WARN ? LOG_WARNINGS_A_SECOND : LOG_NEWS_A_SECOND;
}

static void list_site(log_site_t *site)
{
    if (atomic_exchange_explicit(&site->listed, true, memory_order_relaxed))
        return;
    site->next = atomic_load_explicit(&listed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&listed, &site->next, site, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

static void leave_out(log_site_t *site)
{
    atomic_fetch_add_explicit(&left_out_in_all, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&site->left_out, 1, memory_order_relaxed);
    list_site(site);
}

static void tell(log_site_t *site)
{
    uint64_t lines = atomic_exchange_explicit(&site->left_out, 0, memory_order_relaxed);

    if (lines > 0 && log_enabled(site->level))
        log_write(site->level, "log_lines_left_out",
                  (const log_field_t[]){
                      LOG_STR("event", site->event), LOG_U64("lines", lines), {.kind = LOG_FIELD_END}});
}

/* A full second is only read, so those who fail most contend least. */
bool log_site_take(log_site_t *site, int64_t now_ns)
{
    uint64_t second = second_of(now_ns), next;
    uint64_t window = atomic_load_explicit(&site->window, memory_order_relaxed);
    bool same;

    do {
        same = window >> COUNT_BITS == second;
        if (same && (window & COUNT_MASK) >= most_of(site)) {
            leave_out(site);
            return false;
        }
        next = same ? window + 1 : second << COUNT_BITS | 1;
    } while (!atomic_compare_exchange_weak_explicit(&site->window, &window, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (!same && atomic_load_explicit(&site->left_out, memory_order_relaxed) > 0)
        tell(site);
    return true;
}

void log_tell_left_out(int64_t now_ns)
{
    for (log_site_t *site = atomic_load_explicit(&listed, memory_order_acquire); site; site = site->next)
        if (atomic_load_explicit(&site->window, memory_order_relaxed) >> COUNT_BITS != second_of(now_ns))
            tell(site);
}

uint64_t log_lines_left_out(void)
{
    return atomic_load_explicit(&left_out_in_all, memory_order_relaxed);
}

/* ---- events that come as values ---- */

static struct {
    _Atomic(const char *) event; /* NULL: free. Set last, and for ever */
    log_site_t site;
} named[SITES_MAX];
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER; /* once for each event */

static log_site_t *find_site(const char *event, uint32_t *used)
{
    for (*used = 0; *used < SITES_MAX; ++*used) {
        const char *there = atomic_load_explicit(&named[*used].event, memory_order_acquire);
        if (there == event)
            return &named[*used].site;
        if (!there)
            break;
    }
    return NULL;
}

/* NULL: there are too many. */
static log_site_t *site_of(log_level_t level, const char *event)
{
    uint32_t used;
    log_site_t *site = find_site(event, &used);

    if (site || used == SITES_MAX)
        return site;
    pthread_mutex_lock(&naming);
    site = find_site(event, &used);
    if (!site && used < SITES_MAX) {
        site = &named[used].site;
        *site = (log_site_t){.event = event, .level = level};
        atomic_store_explicit(&named[used].event, event, memory_order_release);
    }
    pthread_mutex_unlock(&naming);
    return site;
}

void log_write_limited(log_level_t level, const char *event, const log_field_t *fields, int64_t now_ns)
{
    log_site_t *site = site_of(level, event);

    if (!site || log_site_take(site, now_ns))
        log_write(level, event, fields);
}
