/*
 * Planning while it serves (Symphony, Appendix A). Every epoch, or when somebody asks, the models are spread
 * anew over the sub-clusters of each class of devices, so that each sub-cluster gets a part of the load that
 * fits its devices:
 *
 *   measured load of each model ─▶ search, then CBC in a process of its own ─▶ moves, at most plan_moves_max of them
 *   a move: load where the plan says ─▶ traffic goes there ─▶ unload where it was
 *
 * Load is device time a second: the requests that came, each with what one took on average. A plan that gains
 * little is not carried out. A model that no device has room for is named and left where it is, and so is
 * whatever cannot be loaded at its new place.
 */
#ifndef CONTROL_PLAN_PLANNER_H
#define CONTROL_PLAN_PLANNER_H

#include "control/plan/problem.h"

typedef struct planner planner_t;

status_t planner_create(turn_t *turn, models_t *models, planner_t **planner, err_t *err);
/* Nothing is planned any more, and what is being solved is to end soon; whoever asked is told when it has. */
void planner_stop(planner_t *planner);
/* After the workers have gone, and with nothing being solved. NULL is fine. */
void planner_destroy(planner_t *planner);

/* Makes a plan; apply: and begins to carry it out. done is called once with a report that lives during the call.
 * UNAVAILABLE: one is being made, or models are being moved; NO_MEMORY. */
typedef void (*plan_done_fn)(void *ctx, const plan_report_t *report);
status_t planner_ask(planner_t *planner, bool apply, plan_done_fn done, void *ctx);
/* What the world was given to solve has been; cancelled: it was not. */
void planner_solved(planner_t *planner, bool cancelled);

/* Plans when it is time to, and has models loaded elsewhere that the place of the last plan has lost. */
void planner_tick(planner_t *planner);

const plan_report_t *planner_last(const planner_t *planner); /* NULL: none was made yet */
uint32_t planner_moving(const planner_t *planner);           /* moves under way */

#endif
