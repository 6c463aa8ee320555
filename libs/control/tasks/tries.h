/*
 * A task whose try came to nothing is tried once more, if somebody still waits for it and another try can still make it. Hot.
 */
#ifndef CONTROL_TASKS_TRIES_H
#define CONTROL_TASKS_TRIES_H

#include "control/tasks/task.h"

/* How a try ended, and at whom: NULL where it was nobody's fault. */
typedef struct {
    status_t status;
    Control__Stage stage;
    const worker_t *at;
    /* Its worker was not taken at its word: that is soon known, and costs no more than the try. */
    bool doubted;
} failure_t;

/* The task is in no batch of a device any more: it is queued again, or told to have failed and given back. */
void task_try_again(tasks_t *tasks, task_t *task, const failure_t *failed);
/* It ran here, and not where it was tried before: that counts against the worker there. */
void task_accuse(tasks_t *tasks, model_t *model, const task_t *task, const worker_t *ran_at);

#endif
