/*
 * What gateways are told ahead of what admission would answer (sched/estimate.h), so that they answer it themselves, and what they report of that.
 *
 *   deadlines_tick, shed_tick ──▶ foretell_tick ──▶ foretell_message ──▶ every gateway     with each upkeep, while there is something to tell;
 *                                                                                        one more, with nothing in it, when that ends
 *   gateway ──▶ foretell_refused                                                         counted as if the tasks had come
 *
 * Told is only what matters now: of models that were asked for within FORETELL_LATELY_NS, the parts refused where their home refuses any,
 * the least time where requests with less have come, and what waits where that is much. What waits is a reason to refuse those
 * of the lowest priority only that its home has seen within FORETELL_LATELY_NS: of others it may be what is given up.
 */
#ifndef CONTROL_TASKS_FORETELL_H
#define CONTROL_TASKS_FORETELL_H

#include "control/tasks/task.h"

#define FORETELL_LATELY_NS INT64_C(1000000000)

/* What a gateway may report in one message, of tasks: more than any can have got between two. */
enum { FORETELL_REFUSED_MOST = 1 << 20 };

/* To be called often, after deadlines and sheds were looked at. */
void foretell_tick(tasks_t *tasks);

/* What is due, in the arena, for all gateways; NULL: nothing is, or there is no memory. Then nothing more is due before the next tick. */
Control__Estimate *foretell_message(tasks_t *tasks, pb_arena_t *arena);

void foretell_refused(tasks_t *tasks, gateway_t *gateway, const Control__Refused *refused);

#endif
