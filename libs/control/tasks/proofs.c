#include "control/tasks/proofs.h"

status_t proofs_init(tasks_t *tasks, err_t *err)
{
    status_t status = pool_init(&tasks->proofs, sizeof(proof_t), PROOFS_MAX, err);
    return status == STATUS_OK ? heap_init(&tasks->proofs_by_time, PROOFS_MAX, err) : status;
}

void proofs_dispose(tasks_t *tasks)
{
    heap_dispose(&tasks->proofs_by_time);
    pool_dispose(&tasks->proofs);
}

bool proof_note(tasks_t *tasks, task_t *task, uint64_t worker, int64_t until_ns)
{
    proof_t *proof = pool_get(&tasks->proofs);
    if (!proof)
        return false;
    *proof = (proof_t){.task = task, .worker = worker};
    uint32_t index = pool_index(&tasks->proofs, proof);
    (void)heap_insert(&tasks->proofs_by_time, &proof->node, until_ns, index); /* as large as the pool */
    task->proof = index + 1;
    return true;
}

proof_t *proof_of(const tasks_t *tasks, const task_t *task)
{
    return pool_at(&tasks->proofs, task->proof - 1);
}

proof_t *proofs_due(const tasks_t *tasks, int64_t now_ns)
{
    bool due = heap_min_key(&tasks->proofs_by_time) <= now_ns;
    return due ? CONTAINER_OF(heap_min(&tasks->proofs_by_time), proof_t, node) : NULL;
}

void proof_forget(tasks_t *tasks, task_t *task)
{
    proof_t *proof = proof_of(tasks, task);
    heap_remove(&tasks->proofs_by_time, &proof->node);
    pool_put(&tasks->proofs, proof);
    task->proof = 0;
}
