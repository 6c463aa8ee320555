/*
 * What a deadline means. Its client says until when it wants the answer; a request may be
 *
 *   infeasible   its client gave it less time than its model takes on an idle device: its client's mistake, answered as
 *                that at the door. Nobody else hears of it: not the core, the overload control, or the advice on devices.
 *   held         by the core, until the answer must be on its way, but never for longer than the model's SLO: a client that
 *                would wait longer is not made to. What it leaves is for another try (deadline_again): as long again, or
 *                until its own end where the core gives it up without having held it, as its model takes longer than its SLO.
 *   tried        although it looks infeasible, once a second where nothing has run and a device is idle: what is believed of
 *                a model was measured, and a measurement that refuses everybody would never be made anew.
 *
 * Times are of this scheduler's clock. Hot.
 */
#ifndef CONTROL_TASKS_DEADLINE_H
#define CONTROL_TASKS_DEADLINE_H

#include "control/tasks/task.h"

/* How often what looks infeasible is tried, and how long nothing must have been granted before. */
#define DEADLINE_TRY_NS INT64_C(1000000000)

/* From what batches took lately, when that is less than the profile says. To be called often. */
void deadlines_tick(tasks_t *tasks);

/* What one row takes on an idle device at the model's home, as it was reported for its shape, or seen. 0: not known. */
int64_t deadline_alone_ns(const task_t *task, const model_t *model);

/* No request of it with less time is feasible. 0: not known, or not the same for all (its dimensions vary). */
int64_t deadline_least_ns(const model_t *model);

/* budget_ns: what the client has left when its request comes here. home is the model's, and not NULL. */
bool deadline_infeasible(const subcluster_t *home, int64_t alone_ns, int64_t budget_ns);

/* Whether to try one that looks infeasible; its answer may be late. */
bool deadline_try(const model_t *model, int64_t alone_ns, int64_t budget_ns, int64_t now_ns);

/* Until when the core must have the batch ended that takes this task, which comes to it now. */
int64_t deadline_hold_ns(const task_t *task, const model_t *model, const subcluster_t *home, int64_t now_ns);

/* What of a request's time is kept back for the way of its answer, where the core is left with left_ns. */
int64_t deadline_reserve_ns(const subcluster_t *home, int64_t left_ns);

/* The core has given a task up that could not be met any more. Whether its client leaves time to give it to the core again. */
bool deadline_again(task_t *task, const model_t *model, int64_t now_ns);

#endif
