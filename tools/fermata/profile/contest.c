#include "fermata/profile/contest.h"

#include <stdlib.h>

status_t contest_draw(const contest_t *contest, uint32_t slice, operators_work_t *work, err_t *err)
{
    status_t status = operators_draw(contest->o, contest->rate_rps, contest->seconds / contest->slices,
                                     contest->seed + slice, work, err);
    work->closed = contest->closed;
    return status;
}

static status_t make_room(contest_t *contest, uint32_t more, err_t *err)
{
    size_t count = (size_t)contest->queries + more;
    for (uint32_t i = 0; i < contest->count; i++) {
        int64_t *grown = realloc(contest->latency_ns[i], count * sizeof(*grown));
        if (!grown)
            return err_set(err, STATUS_NO_MEMORY, "no memory for %zu latencies", count);
        contest->latency_ns[i] = grown;
    }
    return STATUS_OK;
}

static status_t play_slice(contest_t *contest, const operators_work_t *work, uint32_t slice, err_t *err)
{
    status_t status = make_room(contest, work->count, err);
    for (uint32_t i = 0; status == STATUS_OK && i < contest->count; i++) {
        uint32_t at = (i + slice) % contest->count;
        int64_t took_ns = 0;
        status = operators_play(contest->o, contest->tries[at], work,
                                contest->latency_ns[at] + contest->queries, &took_ns, err);
        contest->took_ns[at] += took_ns;
    }
    contest->queries += work->count;
    return status;
}

status_t contest_play(contest_t *contest, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t slice = 0; status == STATUS_OK && slice < contest->slices; slice++) {
        operators_work_t work;
        if (contest_draw(contest, slice, &work, err) != STATUS_OK)
            return err->code;
        status = play_slice(contest, &work, slice, err);
        free(work.list);
    }
    return status;
}

void contest_sum_up(contest_t *contest)
{
    for (uint32_t i = 0; i < contest->count; i++) {
        contest->tries[i]->rate_rps = contest->rate_rps;
        trial_sum_up(contest->latency_ns[i], contest->queries, contest->took_ns[i],
                     &contest->tries[i]->result);
    }
}

double contest_change(const contest_t *contest, uint32_t try, uint32_t base, double *error)
{
    return trial_change(contest->latency_ns[try], contest->latency_ns[base], contest->queries, error);
}

void contest_dispose(contest_t *contest)
{
    for (uint32_t i = 0; i < contest->count; i++)
        free(contest->latency_ns[i]);
}
