#include "sched/estimate.h"

/* What has less than this part of the least time is not worth a try: no scheduler believes to be so wrong. */
enum { TRY_SHARE = 4 };

void estimate_tell(estimate_t *estimate, int64_t now_ns, int64_t least_ns, const double *refuse)
{
    estimate->until_ns = now_ns + ESTIMATE_VALID_NS;
    estimate->least_ns = least_ns;
    estimate->closing = false;
    estimate->row_ns = 0;
    for (uint32_t level = 0; level < SHED_LEVELS; level++) {
        bool is_part = refuse && refuse[level] > 0 && refuse[level] <= 1;
        estimate->refuse[level] = is_part ? refuse[level] : 0;
        estimate->closing |= is_part;
    }
}

void estimate_tell_backlog(estimate_t *estimate, int64_t now_ns, const estimate_backlog_t *backlog)
{
    const int64_t most_ns = ESTIMATE_BACKLOG_MOST_NS;
    if (backlog->ends_in_ns < 0 || backlog->ends_in_ns > most_ns || backlog->behind_ns < 0 ||
        backlog->behind_ns > most_ns || backlog->row_ns <= 0 || backlog->row_ns > most_ns)
        return;
    estimate->ends_ns = now_ns + backlog->ends_in_ns;
    estimate->behind_ns = now_ns + backlog->behind_ns;
    estimate->row_ns = backlog->row_ns;
    estimate->level = backlog->level;
}

void estimate_lapse(estimate_t *estimate)
{
    estimate->until_ns = 0;
}

void estimate_forget(estimate_t *estimate)
{
    *estimate = (estimate_t){.tried_ns = estimate->tried_ns};
}

static bool is_tried(estimate_t *estimate, int64_t now_ns, int64_t budget_ns)
{
    if (now_ns < estimate->tried_ns || budget_ns < estimate->least_ns / TRY_SHARE)
        return false;
    estimate->tried_ns = now_ns + ESTIMATE_TRY_NS;
    return true;
}

/* With so many tasks more. */
static int64_t ends_with_ns(const estimate_t *estimate, int64_t now_ns, uint32_t tasks)
{
    return (estimate->ends_ns > now_ns ? estimate->ends_ns : now_ns) + estimate->row_ns * (int64_t)tasks;
}

static bool is_too_late(const estimate_t *estimate, int64_t now_ns, uint32_t level, int64_t budget_ns,
                        uint32_t tasks)
{
    return estimate->row_ns > 0 && level <= estimate->level && now_ns + budget_ns >= estimate->behind_ns &&
           ends_with_ns(estimate, now_ns, tasks) > now_ns + budget_ns;
}

void estimate_sent(estimate_t *estimate, int64_t now_ns, int64_t held_ns, uint32_t tasks)
{
    int64_t deadline_ns = now_ns + held_ns;
    if (estimate->row_ns == 0 || deadline_ns < estimate->behind_ns)
        return; /* what goes before others may be given up for them, or they for it */
    int64_t ends_ns = ends_with_ns(estimate, now_ns, tasks);
    if (ends_ns > deadline_ns)
        return; /* it is given up */
    estimate->ends_ns = ends_ns;
    estimate->behind_ns = deadline_ns;
}

estimate_verdict_t estimate_judge(estimate_t *estimate, int64_t now_ns, uint32_t priority, int64_t budget_ns,
                                  uint32_t tasks)
{
    uint32_t level = shed_level(priority);
    if (now_ns >= estimate->until_ns)
        return ESTIMATE_SILENT;
    if (budget_ns < estimate->least_ns) {
        if (is_tried(estimate, now_ns, budget_ns))
            return ESTIMATE_SILENT;
        estimate->infeasible += tasks;
        return ESTIMATE_INFEASIBLE;
    }
    if (is_too_late(estimate, now_ns, level, budget_ns, tasks)) {
        estimate->backlog[level] += tasks;
        return ESTIMATE_BACKLOG;
    }
    if (!estimate->closing)
        return ESTIMATE_SILENT;
    if (!shed_refuses(&estimate->debt[level], estimate->refuse[level]))
        return ESTIMATE_ADMITS;
    estimate->refused[level] += tasks;
    return ESTIMATE_OVERLOAD;
}

bool estimate_take_refused(estimate_t *estimate, uint32_t level, estimate_refused_t *refused)
{
    *refused = (estimate_refused_t){.overload = estimate->refused[level],
                                    .backlog = estimate->backlog[level],
                                    .infeasible = level == 0 ? estimate->infeasible : 0};
    estimate->refused[level] = estimate->backlog[level] = 0;
    if (level == 0)
        estimate->infeasible = 0;
    return refused->overload > 0 || refused->backlog > 0 || refused->infeasible > 0;
}
