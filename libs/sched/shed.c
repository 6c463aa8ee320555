#include "sched/shed.h"

#include <string.h>

/* Bad requests that are nothing to speak of: what a good policy loses at its peak. */
#define BAD_LIMIT 0.01
/* When there were few, so much of the refusals is kept for the next window: it is tried whether less will do. */
#define KEEP 0.8
#define PART_MOST 0.95
#define PART_LEAST 0.005 /* below, it is over */

void shed_init(shed_t *shed, int64_t window_ns)
{
    *shed = (shed_t){.window_ns = window_ns};
}

bool shed_admits(shed_t *shed, uint32_t priority)
{
    uint32_t level = shed_level(priority);
    bool admitted = !shed_refuses(&shed->debt[level], shed->refuse[level]);
    shed->seen[level]++;
    shed->admitted += admitted;
    return admitted;
}

void shed_note_judged(shed_t *shed, uint32_t priority, uint32_t admitted, uint32_t refused)
{
    shed->seen[shed_level(priority)] += (uint64_t)admitted + refused;
    shed->admitted += admitted;
}

bool shed_is_closing(const shed_t *shed)
{
    for (uint32_t level = 0; level < SHED_LEVELS; level++)
        if (shed->refuse[level] > 0)
            return true;
    return false;
}

static uint64_t all_seen(const shed_t *shed)
{
    uint64_t all = 0;
    for (uint32_t level = 0; level < SHED_LEVELS; level++)
        all += shed->seen[level];
    return all;
}

/* What was refused and what was bad of the rest: so much is too much. What was meant to be refused does not count, since of
 * the highest priority nothing is. */
static void choose_part(shed_t *shed, bool busy)
{
    double admitted = (double)shed->admitted, all = (double)all_seen(shed);
    double bad = admitted > 0 ? (double)shed->bad / admitted : 0;
    if (bad > BAD_LIMIT && busy)
        shed->part = 1 - (1 - (bad < 1 ? bad : 1)) * admitted / all;
    else
        shed->part *= KEEP;
    if (shed->part > PART_MOST)
        shed->part = PART_MOST;
    if (shed->part < PART_LEAST)
        shed->part = 0;
}

static void spread_part(shed_t *shed)
{
    uint32_t highest = SHED_LEVELS;
    for (uint32_t level = 0; level < SHED_LEVELS; level++)
        highest = shed->seen[level] > 0 ? level : highest;
    double left = shed->part * (double)all_seen(shed);
    for (uint32_t level = 0; level < SHED_LEVELS; level++) {
        double here = (double)shed->seen[level];
        double taken = level >= highest ? 0 : left < here ? left : here;
        shed->refuse[level] = here > 0 ? taken / here : 0;
        left -= taken;
    }
}

void shed_tick(shed_t *shed, int64_t now_ns, uint32_t devices, uint64_t busy_ns)
{
    int64_t passed_ns = now_ns - shed->begun_ns;
    if (passed_ns < shed->window_ns)
        return;
    double had_ns = (double)passed_ns * devices;
    choose_part(shed, (double)(busy_ns - shed->busy_seen_ns) >= SHED_BUSY_LEAST * had_ns);
    shed->busy_seen_ns = busy_ns;
    spread_part(shed);
    memset(shed->seen, 0, sizeof shed->seen);
    shed->admitted = shed->bad = 0;
    shed->begun_ns = now_ns;
}
