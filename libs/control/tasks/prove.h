/*
 * Rows that a worker reports done before it has shown that what it reports is true (standing.h): it is new with the model, on
 * trial, or results of it were missed of late. Their gateways are asked whether the results are there, and say so as soon as they
 * are. What is not there in time is tried elsewhere while its client can still be answered:
 *
 *   done --> is asked for --told--> free, and the worker has shown one more row
 *                |
 *                +--not told in time--> tried again (tries.h); if another worker then shows it, that counts against this one
 *
 * A gateway does not say from whom a result came. One that comes while another worker may have sent it, too, shows nothing of either; the
 * report of the other, if that is believed, still counts against this one.
 *
 * Nothing is asked where no other worker serves the model, or none could do it in time, or where more than PROOFS_MAX rows are asked for: then
 * the report counts as true, and a result that never came is missed when it was due (handed.h). Hot.
 */
#ifndef CONTROL_TASKS_PROVE_H
#define CONTROL_TASKS_PROVE_H

#include "control/tasks/proofs.h"

/* One of a worker that placement_wants_proof of. False: it cannot be asked for. Else it is in no batch, and in the table. */
bool proof_ask(tasks_t *tasks, task_t *task, const model_t *model, const worker_t *worker);
/* The gateway has the results of these. Ids that nothing is known of have ended meanwhile. */
void proofs_came(tasks_t *tasks, gateway_t *gateway, const uint64_t *ids, size_t count);
/* Tries again what should be there by now. When to call it next: SCHED_NEVER: not. */
int64_t proofs_expire(tasks_t *tasks);

#endif
