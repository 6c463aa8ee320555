/*
 * Tasks come in and are cancelled. Hot.
 *
 * The table of tasks is bounded. Where one more would find no room, what is due is decided first, once for
 * each message: tasks that can make their deadline no more leave, the oldest deadlines first, and are
 * answered as that. Only then new ones are refused.
 */
#ifndef SCHEDULER_SUBMIT_H
#define SCHEDULER_SUBMIT_H

#include "base/status.h"
#include "control.pb-c.h"

typedef struct scheduler scheduler_t;
typedef struct gateway gateway_t;
typedef struct task task_t;

void submit_tasks(gateway_t *gateway, const Control__TaskBatch *tasks);
void submit_cancels(gateway_t *gateway, const Control__CancelBatch *cancels);
void submit_gateway_gone(gateway_t *gateway);
/* To the sub-cluster that serves its model now. */
status_t task_enqueue(scheduler_t *s, task_t *task);

#endif
