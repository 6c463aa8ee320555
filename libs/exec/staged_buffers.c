/*
 * Buffer pairs and when an executor may use them (papers/dvabatch.txt 6.1, 6.2, Figures 9-11).
 *
 * Two things are added to the paper's rules. A border counts the rows that were written there and not read
 * yet: the parts of a split batch are read one after the other, and the border is not given back before the
 * last. And the last executor gives its own input back at once, because nobody behind it could.
 */
#include "exec/staged_core.h"

static bool last_for(const staged_t *staged, const staged_executor_t *executor, uint32_t stage)
{
    return stage + 1 == staged->config.stages || executor->in_pair != executor->out_pair;
}

static uint32_t in_pair_of(const staged_batch_t *batch, uint32_t stage, const staged_item_t *item)
{
    bool late = batch->catching_up && item->start >= batch->catchup_start && stage <= batch->catchup_stage;
    return late ? batch->catchup_pair : batch->pair;
}

static uint32_t out_pair_of(const staged_batch_t *batch, uint32_t stage, const staged_item_t *item)
{
    return staged_item_joins(batch, stage, item) ? batch->pair : in_pair_of(batch, stage, item);
}

/* Rows of this batch that wait behind the stage for the rest of it: others may be written beside them. */
static uint32_t waiting_behind(const staged_t *staged, const staged_batch_t *batch, uint32_t stage)
{
    return stage + 1 < staged->config.stages ? batch->done[stage] - batch->issued[stage + 1] : 0;
}

bool staged_pair_legitimate(const staged_t *staged, uint32_t stage, const staged_item_t *item)
{
    const staged_batch_t *batch = &staged->table[item->slot];
    const staged_border_t *in = &staged->borders[stage][in_pair_of(batch, stage, item)];
    const staged_border_t *out = &staged->borders[stage + 1][out_pair_of(batch, stage, item)];
    /* Rows that catch up join after the first rows: else they would keep the border from being given to these. */
    if (staged_item_joins(batch, stage, item) && batch->done[stage] < batch->catchup_start)
        return false;
    if (!in->valid || in->readers || in->writers || out->readers || out->writers)
        return false;
    return out->pending == 0 || out->pending == waiting_behind(staged, batch, stage);
}

bool staged_pair_free(const staged_t *staged, uint32_t pair)
{
    const staged_border_t *in = &staged->borders[0][pair];
    return in->valid && !in->readers && !in->writers && in->pending == 0;
}

bool staged_pair_empty(const staged_t *staged, uint32_t pair)
{
    for (uint32_t slot = 0, left = staged->used; left > 0; slot++) {
        const staged_batch_t *batch = &staged->table[slot];
        if (!batch->id)
            continue;
        if (batch->pair == pair || (batch->catching_up && batch->catchup_pair == pair))
            return false;
        left--;
    }
    return true;
}

/* A launch on a pair that is not legitimate would be a hazard: never done by this code, and remembered if it were. */
void staged_pair_begin(staged_t *staged, uint32_t stage, staged_executor_t *executor)
{
    const staged_batch_t *batch = &staged->table[executor->item.slot];
    if (!staged_pair_legitimate(staged, stage, &executor->item))
        staged->fault = "an executor began on a pair that is not legitimate";
    executor->in_pair = in_pair_of(batch, stage, &executor->item);
    executor->out_pair = out_pair_of(batch, stage, &executor->item);
    staged->borders[stage][executor->in_pair].readers++;
    staged->borders[stage + 1][executor->out_pair].writers++;
}

void staged_pair_end(staged_t *staged, uint32_t stage, const staged_executor_t *executor)
{
    staged_border_t *in = &staged->borders[stage][executor->in_pair];
    staged_border_t *out = &staged->borders[stage + 1][executor->out_pair];
    in->readers--;
    out->writers--;
    in->pending -= executor->item.num;
    if (stage + 1 < staged->config.stages)
        out->pending += executor->item.num;
    in->valid = last_for(staged, executor, stage);
    staged->owed[stage][executor->in_pair] = true;
}

bool staged_stage_legitimate(const staged_t *staged, uint32_t stage)
{
    for (uint32_t pair = 0; pair < staged->config.new_pairs; pair++) {
        const staged_border_t *in = &staged->borders[stage][pair];
        const staged_border_t *out = &staged->borders[stage + 1][pair];
        if (in->valid && !in->readers && !in->writers && !out->readers && !out->writers)
            return true;
    }
    return false;
}

void staged_pair_tell(staged_t *staged, uint32_t stage)
{
    for (uint32_t pair = 0; pair < staged->config.pairs; pair++) {
        /* The spare pair of rows that catch up is not one that executors run on with each other. */
        bool spare = pair >= staged->config.new_pairs;
        if (!staged->owed[stage][pair] || (!spare && !staged_stage_legitimate(staged, stage)) ||
            staged->borders[stage][pair].pending)
            continue;
        staged->owed[stage][pair] = false;
        if (stage > 0)
            staged->borders[stage - 1][pair].valid = true;
    }
}
