#include "staged_show.h"

#include <stdio.h>

staged_state_t staged_executor(const exec_t *exec, uint32_t stage, uint32_t slot)
{
    return ((const staged_t *)exec)->executors[stage][slot].state;
}

staged_buffer_t staged_buffer(const exec_t *exec, uint32_t border, uint32_t pair)
{
    const staged_border_t *at = &((const staged_t *)exec)->borders[border][pair];
    if (at->readers)
        return STAGED_READING;
    if (at->writers)
        return STAGED_WRITING;
    return at->valid ? STAGED_AVAILABLE : STAGED_INVALID;
}

/* snprintf that goes on where the last one ended, and stops at the end. */
#define ADD(text, size, len, ...)                                                                \
    do {                                                                                         \
        int added_ = (len) < (size) ? snprintf((text) + (len), (size) - (len), __VA_ARGS__) : 0; \
        (len) += (uint32_t)(added_ > 0 ? added_ : 0);                                            \
    } while (0)

uint32_t staged_print_table(const exec_t *exec, char *text, uint32_t size)
{
    const staged_t *staged = (const staged_t *)exec;
    uint32_t len = 0;
    ADD(text, size, len, "%s", "");
    for (uint64_t id = 1; id <= staged->next_batch; id++)
        for (uint32_t slot = 0; slot < STAGED_BATCHES_MAX; slot++) {
            const staged_batch_t *batch = &staged->table[slot];
            if (batch->id != id)
                continue;
            ADD(text, size, len, "%s%u bs=%u [", len ? "; " : "", (unsigned)id, batch->rows);
            for (uint32_t stage = 0; stage < staged->config.stages; stage++)
                ADD(text, size, len, "%s%u", stage ? " " : "", batch->done[stage]);
            ADD(text, size, len, "]");
        }
    return len;
}

uint32_t staged_print_queue(const exec_t *exec, uint32_t stage, char *text, uint32_t size)
{
    staged_t *staged = (staged_t *)(uintptr_t)exec;
    staged_queue_t *queue = &staged->queues[stage];
    uint32_t len = 0;
    ADD(text, size, len, "%s", "");
    for (uint32_t i = 0; i < staged_queue_len(queue); i++) {
        const staged_item_t *item = staged_queue_at(queue, i);
        ADD(text, size, len, "%s%u:%u+%u", len ? " " : "", (unsigned)staged->table[item->slot].id,
            item->start, item->num);
    }
    return len;
}
