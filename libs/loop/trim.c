#include "loop/trim.h"

#include "base/proc_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { KEPT_PART = 16, KEPT_LEAST_BYTES = 2 << 20, KEPT_MOST_BYTES = 64 << 20 };
/* Of the end of each heap. */
enum { ENDS_BYTES = 32 << 20, ENDS_LEAST_BYTES = 256 << 10 };

struct trim {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool ending;
    trim_rule_t rule;
};

uint64_t trim_kept_bytes(uint64_t least_bytes)
{
    uint64_t part = least_bytes / KEPT_PART;
    if (part < KEPT_LEAST_BYTES)
        return KEPT_LEAST_BYTES;
    return part < KEPT_MOST_BYTES ? part : KEPT_MOST_BYTES;
}

/* So much should come of it. */
static uint64_t worth_bytes(const trim_rule_t *rule)
{
    return trim_kept_bytes(rule->least_bytes) / 2;
}

/* Where most is in use, as with large models, giving back is not worth that often. */
static void judge(trim_rule_t *rule, uint64_t resident_bytes)
{
    bool worth = resident_bytes + worth_bytes(rule) <= rule->before_bytes;
    uint32_t twice = rule->pause > 0 ? 2 * rule->pause : 1;
    rule->before_bytes = 0;
    rule->pause = worth ? 0 : twice < TRIM_PAUSE_MOST ? twice : TRIM_PAUSE_MOST;
    rule->waits = rule->pause;
}

static bool is_larger(const trim_rule_t *rule, uint64_t resident_bytes)
{
    return rule->least_bytes > 0 && resident_bytes > rule->least_bytes + trim_kept_bytes(rule->least_bytes);
}

bool trim_is_due(trim_rule_t *rule, uint64_t resident_bytes, uint64_t free_bytes)
{
    if (rule->before_bytes > 0)
        judge(rule, resident_bytes);
    if (rule->least_bytes == 0 || resident_bytes < rule->least_bytes)
        rule->least_bytes = resident_bytes;
    if (!is_larger(rule, resident_bytes)) {
        rule->pause = rule->waits = 0;
        return false;
    }
    bool freed = free_bytes >= rule->free_bytes + worth_bytes(rule);
    if (rule->waits > 0 && !freed) {
        rule->waits--;
        if (free_bytes < rule->free_bytes)
            rule->free_bytes = free_bytes;
        return false;
    }
    rule->before_bytes = resident_bytes;
    rule->free_bytes = free_bytes;
    return true;
}

void trim_keep(void)
{
    mallopt(M_TRIM_THRESHOLD, ENDS_BYTES);
}

static void look(trim_rule_t *rule)
{
    uint64_t resident_bytes = proc_resident_bytes();
    if (resident_bytes == 0)
        return;
    /* Telling what is free goes through the heaps, too: only where it matters. */
    uint64_t free_bytes = is_larger(rule, resident_bytes) ? mallinfo2().fordblks : 0;
    bool gave = rule->before_bytes > 0, due = trim_is_due(rule, resident_bytes, free_bytes);
    if (due != gave)
        mallopt(M_TRIM_THRESHOLD, due ? ENDS_LEAST_BYTES : ENDS_BYTES);
    if (due)
        (void)malloc_trim(0);
}

static void *run(void *arg)
{
    trim_t *trim = arg;
    struct timespec next;
    pthread_mutex_lock(&trim->lock);
    look(&trim->rule); /* so much it has before it does anything */
    while (!trim->ending) {
        (void)clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec += TRIM_LOOK_S;
        if (pthread_cond_timedwait(&trim->ends, &trim->lock, &next) != 0 && !trim->ending)
            look(&trim->rule);
    }
    pthread_mutex_unlock(&trim->lock);
    return NULL;
}

status_t trim_create(trim_t **out, err_t *err)
{
    pthread_condattr_t monotonic;
    trim_t *trim = calloc(1, sizeof(*trim));
    if (!trim)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&trim->lock, NULL);
    pthread_cond_init(&trim->ends, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&trim->thread, NULL, run, trim) != 0) {
        pthread_cond_destroy(&trim->ends);
        pthread_mutex_destroy(&trim->lock);
        free(trim);
        return err_set(err, STATUS_NO_MEMORY, "cannot start a thread");
    }
    *out = trim;
    return STATUS_OK;
}

void trim_destroy(trim_t *trim)
{
    if (!trim)
        return;
    pthread_mutex_lock(&trim->lock);
    trim->ending = true;
    pthread_cond_signal(&trim->ends);
    pthread_mutex_unlock(&trim->lock);
    pthread_join(trim->thread, NULL);
    pthread_cond_destroy(&trim->ends);
    pthread_mutex_destroy(&trim->lock);
    free(trim);
}
