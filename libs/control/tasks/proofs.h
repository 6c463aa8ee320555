/* The table of rows that are asked for (prove.h): whose word is doubted, and by when each should be there. Pool slots. Hot. */
#ifndef CONTROL_TASKS_PROOFS_H
#define CONTROL_TASKS_PROOFS_H

#include "control/tasks/task.h"

enum { PROOFS_MAX = 1024 };

typedef struct {
    heap_node_t node; /* by when it should be there */
    task_t *task;
    uint64_t worker; /* instance id */
} proof_t;

status_t proofs_init(tasks_t *tasks, err_t *err);
void proofs_dispose(tasks_t *tasks);
/* False: no room. Else the task is in the table until proof_forget or task_give. */
bool proof_note(tasks_t *tasks, task_t *task, uint64_t worker, int64_t until_ns);
proof_t *proof_of(const tasks_t *tasks, const task_t *task); /* task->proof is not 0 */
proof_t *proofs_due(const tasks_t *tasks, int64_t now_ns);   /* NULL: none is */
void proof_forget(tasks_t *tasks, task_t *task);

#endif
