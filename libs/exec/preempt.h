/*
 * `preempt`: whole batches that can be stopped at exit points (papers/shepherd.txt 6).
 *
 * As exec/whole.h without `gather`; exec_preempt(batch) stops the batch at its next exit point (EXEC_STOP,
 * then EXEC_REQUEUE with its queries once the device says exec_stopped), or gives it back at once if it has
 * not begun. A batch that was past its last exit point completes as usual.
 */
#ifndef EXEC_PREEMPT_H
#define EXEC_PREEMPT_H

#include "exec/exec.h"
#include "exec/stages.h"

exec_t *exec_create_preempt(uint32_t rows_max, err_t *err);

typedef struct {
    uint32_t exit_points; /* inside the model */
    double delay;         /* longest way to the next exit point, of the whole batch */
    double overhead;      /* what the exit points cost, of the whole batch */
} preempt_plan_t;

/* Where to put exit points, from the profiled times of a model's operators: among its cuts, such that the
 * parts between them are of about equal time (exec/stages.h). The fewest with overhead and delay below
 * `limit` (0.05 in the paper); else of those whose overhead stays below it the ones with the least delay.
 * exit_ns: what one exit point costs a batch that is not stopped. */
preempt_plan_t preempt_plan(const stages_model_t *model, const int64_t *op_ns, int64_t exit_ns, double limit,
                            uint32_t at[STAGED_STAGES_MAX]);

#endif
