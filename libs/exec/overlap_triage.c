/*
 * Which queries are served when not all can be: by Moore and Hodgson's rule as few as possible are late.
 *
 * The rule is for one machine that does one thing after the other: go through the queries by their deadlines;
 * whenever one would be late, the longest of those so far is set behind. Here several run at once, so each
 * counts for what it takes alone over what groups have gained of late. A query that is set behind is not
 * dropped: it runs when nobody else does, and may be taken up again, until its deadline is out of reach.
 */
#include "exec/overlap_core.h"

/* Of the queries with the nearest deadlines; those behind them have time to be looked at later. */
enum { TRIAGE_MAX = 64 };

static int64_t deadline_of(const overlap_t *overlap, uint32_t at)
{
    return overlap->active[at].query.deadline_ns;
}

/* The indices of those that have operators left, by deadline. */
static uint32_t by_deadline(const overlap_t *overlap, uint32_t order[TRIAGE_MAX])
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < overlap->active_count; at++) {
        if (overlap_ops_left(overlap, at) == 0 || overlap->active[at].stop)
            continue;
        uint32_t to = count;
        for (; to > 0 && deadline_of(overlap, order[to - 1]) > deadline_of(overlap, at); to--)
            if (to < TRIAGE_MAX)
                order[to] = order[to - 1];
        if (to < TRIAGE_MAX)
            order[to] = at;
        count += count < TRIAGE_MAX;
    }
    return count;
}

/* What setting it behind brings the others, for each answer that is given up. */
static double burden(overlap_t *overlap, uint32_t at)
{
    uint32_t answers = overlap->config.by_rows ? overlap->active[at].query.rows : 1;
    return (double)overlap_solo_ns(overlap, at) / answers;
}

void overlap_triage(overlap_t *overlap, int64_t start_ns)
{
    uint32_t order[TRIAGE_MAX], count = by_deadline(overlap, order);
    double at_ns = (double)start_ns;
    for (uint32_t i = 0; i < overlap->active_count; i++)
        overlap->active[i].behind = false;
    for (uint32_t i = 0; i < count; i++) {
        at_ns += (double)overlap_solo_ns(overlap, order[i]) / overlap->gain;
        if (at_ns <= (double)deadline_of(overlap, order[i]))
            continue;
        uint32_t worst = order[i];
        for (uint32_t k = 0; k < i; k++)
            if (!overlap->active[order[k]].behind && burden(overlap, order[k]) > burden(overlap, worst))
                worst = order[k];
        overlap->active[worst].behind = true;
        at_ns -= (double)overlap_solo_ns(overlap, worst) / overlap->gain;
    }
}
