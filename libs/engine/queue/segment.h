/*
 * What engines agree on about ranges of operators.
 */
#ifndef ENGINE_QUEUE_SEGMENT_H
#define ENGINE_QUEUE_SEGMENT_H

#include "engine/engine.h"

/* All operators, nothing that needs to know where they are; on any stream. */
static inline bool segment_is_whole(const engine_job_t *job)
{
    return !job->range.from && !job->range.to && !job->row && !job->exit_count && !job->op_ns;
}

/* One past its last operator; 0 for a whole job of a model whose cuts are not known. */
static inline uint32_t segment_end(const engine_job_t *job, const engine_cuts_t *cuts)
{
    return job->range.to ? job->range.to : cuts ? cuts->ops : 0;
}

/* It writes the outputs. */
static inline bool segment_is_last(const engine_job_t *job, const engine_cuts_t *cuts)
{
    return !job->range.to || (cuts && job->range.to == cuts->ops);
}

/* Index into cuts->cuts of the cut before operator op; UINT32_MAX: none. */
uint32_t segment_find_cut(const engine_cuts_t *cuts, uint32_t op);

/* 0, the number of operators, or a cut. */
bool segment_is_cut(const engine_cuts_t *cuts, uint32_t op);

/* The job may be stopped before operator op. */
bool segment_is_exit(const engine_job_t *job, uint32_t op);

/* CANCELLED, for a job that was stopped at `reached`. */
status_t segment_stopped(engine_job_t *job, uint32_t reached, err_t *err);

#endif
