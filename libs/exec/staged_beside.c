/* What runs beside a batch, as schedules see it. */
#include "exec/staged_core.h"

bool staged_is_older(const staged_batch_t *a, const staged_batch_t *b)
{
    return a->created_ns < b->created_ns || (a->created_ns == b->created_ns && a->id < b->id);
}

staged_beside_t staged_beside_of(const staged_t *staged, const staged_item_t *item, uint32_t stage,
                                 int64_t now_ns)
{
    const staged_batch_t *batch = &staged->table[item->slot];
    return (staged_beside_t){.stage = stage,
                             .rows = item->num,
                             .length = batch->length,
                             .waited_ns = now_ns - batch->queries[0].arrival_ns};
}

uint32_t staged_running(const staged_t *staged, const staged_batch_t *batch, int64_t now_ns,
                        staged_beside_t beside[STAGED_BESIDE_MAX])
{
    uint32_t count = 0;
    for (uint32_t stage = 0; stage < staged->config.stages; stage++)
        for (uint32_t slot = 0; slot < staged->config.width; slot++) {
            const staged_executor_t *executor = &staged->executors[stage][slot];
            const staged_batch_t *other = &staged->table[executor->item.slot];
            if (executor->state != STAGED_WORKING || other == batch)
                continue;
            beside[count] = staged_beside_of(staged, &executor->item, stage, now_ns);
            beside[count++].older = !batch || staged_is_older(other, batch);
        }
    return count;
}
