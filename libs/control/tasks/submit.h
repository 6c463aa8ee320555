/*
 * Tasks come in and are cancelled. Hot.
 *
 * The table of tasks is bounded. Where one more would find no room, what is due is decided first, once for
 * each message: tasks that can make their deadline no more leave, the oldest deadlines first, and are
 * answered as that. Only then new ones are refused.
 */
#ifndef CONTROL_TASKS_SUBMIT_H
#define CONTROL_TASKS_SUBMIT_H

#include "control/tasks/task.h"

void submit_tasks(tasks_t *tasks, gateway_t *gateway, const Control__TaskBatch *batch);
void submit_cancels(tasks_t *tasks, gateway_t *gateway, const Control__CancelBatch *cancels);
void submit_gateway_gone(tasks_t *tasks, gateway_t *gateway);

#endif
