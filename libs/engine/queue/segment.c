#include "engine/queue/segment.h"

uint32_t segment_find_cut(const engine_cuts_t *cuts, uint32_t op)
{
    uint32_t low = 0, high = cuts->cut_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cuts->cuts[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < cuts->cut_count && cuts->cuts[low].op == op ? low : UINT32_MAX;
}

bool segment_is_cut(const engine_cuts_t *cuts, uint32_t op)
{
    return op == 0 || op == cuts->ops || segment_find_cut(cuts, op) != UINT32_MAX;
}

bool segment_is_exit(const engine_job_t *job, uint32_t op)
{
    for (uint32_t i = 0; i < job->exit_count; i++)
        if (job->exits[i] == op)
            return true;
    return false;
}

status_t segment_stopped(engine_job_t *job, uint32_t reached, err_t *err)
{
    job->reached = reached;
    return err_set(err, STATUS_CANCELLED, "stopped before operator %u", reached);
}
