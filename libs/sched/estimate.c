#include "sched/estimate.h"

/* What has less than this part of the least time is not worth a try: no scheduler believes to be so wrong. */
enum { TRY_SHARE = 4 };

void estimate_tell(estimate_t *estimate, int64_t now_ns, int64_t least_ns, const double *refuse)
{
    estimate->until_ns = now_ns + ESTIMATE_VALID_NS;
    estimate->least_ns = least_ns;
    estimate->closing = false;
    for (uint32_t level = 0; level < SHED_LEVELS; level++) {
        bool is_part = refuse && refuse[level] > 0 && refuse[level] <= 1;
        estimate->refuse[level] = is_part ? refuse[level] : 0;
        estimate->closing |= is_part;
    }
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
    if (!estimate->closing)
        return ESTIMATE_SILENT;
    if (!shed_refuses(&estimate->debt[level], estimate->refuse[level]))
        return ESTIMATE_ADMITS;
    estimate->refused[level] += tasks;
    return ESTIMATE_OVERLOAD;
}

bool estimate_take_refused(estimate_t *estimate, uint32_t level, uint32_t *overload, uint32_t *infeasible)
{
    *overload = estimate->refused[level];
    *infeasible = level == 0 ? estimate->infeasible : 0;
    estimate->refused[level] = 0;
    if (level == 0)
        estimate->infeasible = 0;
    return *overload > 0 || *infeasible > 0;
}
