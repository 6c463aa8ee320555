/*
 * The batch table and the batch queues: new, stretch and split (papers/dvabatch.txt 5.2, Figure 8).
 */
#include "exec/staged_core.h"

#include <string.h>

static void staged_queue_push(staged_queue_t *queue, staged_item_t item)
{
    queue->items[queue->tail++ % STAGED_QUEUE_SLOTS] = item;
}

staged_item_t staged_queue_pop(staged_queue_t *queue)
{
    return queue->items[queue->head++ % STAGED_QUEUE_SLOTS];
}

static uint32_t table_take(staged_t *staged)
{
    uint32_t slot = 0;
    while (staged->table[slot].id)
        slot++;
    staged->used++;
    staged_batch_t *batch = &staged->table[slot];
    batch->id = ++staged->next_batch;
    batch->catching_up = false;
    memset(batch->issued, 0, sizeof(batch->issued));
    memset(batch->done, 0, sizeof(batch->done));
    return slot;
}

static void view_batch(staged_view_t *view, const staged_batch_t *batch, uint32_t stage)
{
    view->batch = batch->id;
    view->rows = batch->rows;
    view->length = batch->length;
    view->stage = stage;
    view->age_ns = view->now_ns - batch->created_ns;
}

/* A batch that will be split takes no more rows (5.2.2). */
static bool will_split(const staged_t *staged, const staged_batch_t *batch, int64_t now_ns)
{
    const staged_schedule_t *schedule = staged->config.schedule;
    staged_view_t view = {.config = &staged->config, .now_ns = now_ns};
    for (uint32_t stage = 0; schedule->split && stage + 1 < staged->config.stages; stage++) {
        view_batch(&view, batch, stage);
        uint32_t part = schedule->split(&view);
        if (part > 0 && part < batch->rows)
            return true;
    }
    return false;
}

static void issue(staged_t *staged, uint32_t slot, uint32_t stage, uint32_t num)
{
    staged_batch_t *batch = &staged->table[slot];
    staged_item_t item = {.slot = slot, .start = batch->issued[stage], .num = num};
    batch->issued[stage] += num;
    staged_queue_push(&staged->queues[stage], item);
}

static uint32_t longest(const exec_query_t *queries, uint32_t count)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < count; i++)
        length = queries[i].length > length ? queries[i].length : length;
    return length;
}

/* Where batches overtake each other, one that no batch is on, if there is one. */
static uint32_t pair_for_new(const staged_t *staged)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t pair = 0; pair < staged->config.new_pairs; pair++) {
        if (!staged_pair_free(staged, pair))
            continue;
        if (!staged->config.schedule->rank || staged_pair_empty(staged, pair))
            return pair;
        first = pair < first ? pair : first;
    }
    return first;
}

static void new_batch(staged_t *staged, uint32_t count, uint8_t *group, uint8_t mark, int64_t now_ns)
{
    uint32_t pair = pair_for_new(staged);
    uint32_t slot = table_take(staged);
    staged_batch_t *batch = &staged->table[slot];
    batch->rows = queries_take(&staged->waiting, count, group, mark, batch->queries);
    batch->length = longest(batch->queries, batch->rows);
    batch->shape = batch->queries[0].shape;
    batch->created_ns = now_ns;
    batch->base = 0;
    batch->pair = pair;
    batch->stream = 0;
    batch->sealed = will_split(staged, batch, now_ns);
    staged->borders[0][pair].pending = batch->rows;
    staged->active_rows += batch->rows;
    staged->latest = batch->id;
    staged->latest_slot = slot;
    staged->counts.batches++;
    issue(staged, slot, 0, batch->rows);
}

/* The first stage that has not done all rows: where the batch is. */
static uint32_t stage_of(const staged_t *staged, const staged_batch_t *batch)
{
    uint32_t stage = 0;
    while (stage + 1 < staged->config.stages && batch->issued[stage + 1] > 0)
        stage++;
    return stage;
}

/* All batches of the table, or the first that there is room for. */
static uint32_t staged_in_stages(const staged_t *staged, int64_t now_ns,
                                 staged_beside_t beside[STAGED_BESIDE_MAX])
{
    uint32_t count = 0;
    for (uint32_t slot = 0; count < staged->used && count < STAGED_BESIDE_MAX; slot++) {
        const staged_batch_t *batch = &staged->table[slot];
        if (batch->id)
            beside[count++] = (staged_beside_t){.stage = stage_of(staged, batch),
                                                .rows = batch->rows,
                                                .length = batch->length,
                                                .waited_ns = now_ns - batch->queries[0].arrival_ns,
                                                .older = true};
    }
    return count;
}

/* With several executors per stage batches overtake each other. One that waits for rows to catch up must
 * then have nobody behind it who could need its buffers before them. */
static bool alone_up_to(const staged_t *staged, const staged_batch_t *batch, uint32_t stage)
{
    for (uint32_t slot = 0; slot < STAGED_BATCHES_MAX; slot++) {
        const staged_batch_t *other = &staged->table[slot];
        if (other->id && other != batch && other->done[stage] < other->rows)
            return false;
    }
    return true;
}

/* Whether the latest batch can be stretched at all, whatever the policy says. */
static bool stretchable(const staged_t *staged, uint32_t stage)
{
    const staged_batch_t *batch = &staged->table[staged->latest_slot];
    return staged->latest && batch->id == staged->latest && !batch->sealed && !batch->catching_up &&
           stage + 1 < staged->config.stages && batch->rows < staged->config.rows_max &&
           (staged->config.width == 1 || alone_up_to(staged, batch, stage));
}

/* The pair on which new rows catch up: the spare one, or one that no batch is on. */
static uint32_t catchup_pair(const staged_t *staged, uint32_t own)
{
    for (uint32_t pair = staged->config.pairs; pair-- > 0;)
        if (pair != own && staged_pair_free(staged, pair))
            return pair;
    return UINT32_MAX;
}

/* Of the waiting queries, the oldest first: which join the batch. */
typedef struct {
    uint8_t stays[EXEC_ROWS_MAX]; /* 0: it joins */
    uint32_t looked_at, joining;
} joiners_t;

/* Up to `count` of the batch's shape, as many as there is room for. The first that is too long ends it, or it would be
 * overtaken for ever. */
static joiners_t fitting(const staged_t *staged, const staged_batch_t *batch, uint32_t count)
{
    uint32_t most = staged->config.rows_max - batch->rows, waiting = queries_len(&staged->waiting);
    joiners_t found = {.looked_at = 0};
    most = count < most ? count : most;
    while (found.joining < most && found.looked_at < waiting && found.looked_at < EXEC_ROWS_MAX) {
        const exec_query_t *query = queries_at(&staged->waiting, found.looked_at);
        bool alike = query->shape == batch->shape;
        if (alike && query->length > batch->length)
            break;
        found.stays[found.looked_at++] = !alike;
        found.joining += alike;
    }
    return found;
}

static void stretch(staged_t *staged, const joiners_t *joiners, uint32_t stage, uint32_t pair, int64_t now_ns)
{
    uint32_t count = joiners->joining;
    staged_batch_t *batch = &staged->table[staged->latest_slot];
    batch->catching_up = true;
    batch->catchup_start = batch->rows;
    batch->catchup_stage = stage;
    batch->catchup_pair = pair;
    queries_take(&staged->waiting, joiners->looked_at, joiners->stays, 0, batch->queries + batch->rows);
    batch->rows += count;
    batch->sealed = will_split(staged, batch, now_ns);
    staged->borders[0][pair].pending = count;
    staged->active_rows += count;
    staged->counts.stretches++;
    staged->counts.stretched_rows += count;
    issue(staged, staged->latest_slot, 0, count);
}

/* The oldest, at most so many; shape NULL: of any shape. */
static void view_waiting(const staged_t *staged, const uint32_t *shape, uint32_t most, staged_view_t *view)
{
    uint32_t count = queries_len(&staged->waiting);
    view->waiting_count = 0;
    for (uint32_t i = 0; i < count && i < EXEC_ROWS_MAX && view->waiting_count < most; i++) {
        const exec_query_t *query = queries_at(&staged->waiting, i);
        if (!shape || query->shape == *shape)
            view->waiting[view->waiting_count++] = query;
    }
    view->active_rows = staged->active_rows;
    view->free_pairs = view->empty_pairs = 0;
    for (uint32_t pair = 0; pair < staged->config.new_pairs; pair++) {
        bool free = staged_pair_free(staged, pair);
        view->free_pairs += free;
        view->empty_pairs += free && staged->config.schedule->rank && staged_pair_empty(staged, pair);
    }
}

static bool try_stretch(staged_t *staged, staged_view_t *view)
{
    const staged_batch_t *batch = &staged->table[staged->latest_slot];
    uint32_t stage = staged->latest && batch->id == staged->latest ? stage_of(staged, batch) : 0;
    if (!staged->config.schedule->stretch || !stretchable(staged, stage))
        return false;
    uint32_t pair = catchup_pair(staged, batch->pair);
    if (pair == UINT32_MAX)
        return false;
    view_waiting(staged, &batch->shape, staged->config.rows_max, view);
    view_batch(view, batch, stage);
    joiners_t joiners = fitting(staged, batch, staged->config.schedule->stretch(view));
    if (joiners.joining)
        stretch(staged, &joiners, stage, pair, view->now_ns);
    return joiners.joining > 0;
}

/* Whether the first stage would begin at once; else the batch is left to grow. */
static bool first_stage_idle(const staged_t *staged)
{
    const staged_batch_t *latest = &staged->table[staged->latest_slot];
    if (staged->config.width > 1 && latest->id == staged->latest && latest->id && latest->catching_up)
        return false; /* a new one might overtake the rows that catch up */
    for (uint32_t slot = 0; slot < staged->config.width; slot++) {
        staged_state_t state = staged->executors[0][slot].state;
        if (state == STAGED_ACTIVE || state == STAGED_INACTIVE)
            return staged_queue_len(&staged->queues[0]) == 0;
    }
    return false;
}

/* Rows of the group that are of another shape than its oldest, or too many, wait for another batch. */
static void keep_what_fits(const staged_view_t *view, uint8_t *group, uint8_t mark)
{
    const exec_query_t *oldest = NULL;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < view->waiting_count; i++) {
        if (group[i] != mark)
            continue;
        oldest = oldest ? oldest : view->waiting[i];
        if (view->waiting[i]->shape != oldest->shape || rows == view->config->rows_max)
            group[i] = STAGED_LATER;
        else
            rows++;
    }
}

/* Else they wait, and more may join them. */
static bool may_enter(const staged_t *staged, staged_view_t *view)
{
    staged_beside_t beside[STAGED_BESIDE_MAX];
    uint32_t most = staged->config.rows_max;
    if (!staged->config.schedule->start || staged->config.schedule->rank)
        return true;
    view->stage = 0;
    view->rows = view->waiting_count < most ? view->waiting_count : most;
    view->length = 0;
    for (uint32_t i = 0; i < view->rows; i++)
        view->length = view->waiting[i]->length > view->length ? view->waiting[i]->length : view->length;
    view->beside = beside;
    view->beside_count = staged_running(staged, NULL, view->now_ns, beside);
    bool may = view->beside_count == 0 || staged->config.schedule->start(view);
    view->beside = NULL;
    view->beside_count = 0;
    return may;
}

static void enter_groups(staged_t *staged, staged_view_t *view, int64_t *wake_ns)
{
    uint8_t group[EXEC_ROWS_MAX];
    staged_beside_t beside[STAGED_BESIDE_MAX];
    memset(group, STAGED_LATER, sizeof(group));
    view->beside = beside;
    view->beside_count = staged_in_stages(staged, view->now_ns, beside);
    uint32_t batches = staged->config.schedule->enter(view, group, wake_ns);
    uint32_t count = view->waiting_count;
    for (uint8_t mark = 0; mark < batches; mark++)
        keep_what_fits(view, group, mark);
    for (uint8_t mark = 0; mark < batches; mark++) {
        uint32_t left = 0, rows = 0;
        for (uint32_t i = 0; i < count; i++)
            rows += group[i] == mark;
        if (rows == 0 || staged->used == STAGED_BATCHES_MAX || !view->free_pairs--)
            break;
        new_batch(staged, count, group, mark, view->now_ns);
        for (uint32_t i = 0; i < count; i++)
            if (group[i] != mark)
                group[left++] = group[i];
        count = left;
    }
}

int64_t staged_enter(staged_t *staged, const staged_out_t *out)
{
    int64_t wake_ns = EXEC_NEVER;
    if (queries_len(&staged->waiting) == 0)
        return wake_ns;
    staged_view_t view = {.config = &staged->config, .now_ns = out->now_ns};
    if (try_stretch(staged, &view) && queries_len(&staged->waiting) == 0)
        return wake_ns;
    view_waiting(staged, NULL, EXEC_ROWS_MAX, &view);
    if (view.free_pairs > 0 && first_stage_idle(staged) && staged->used < STAGED_BATCHES_MAX &&
        may_enter(staged, &view))
        enter_groups(staged, &view, &wake_ns);
    return wake_ns;
}

static void complete(staged_t *staged, staged_batch_t *batch, const staged_out_t *out)
{
    exec_action_t action = {.kind = EXEC_COMPLETE, .batch = batch->id};
    action.done.queries = batch->queries;
    action.done.count = batch->rows;
    action.done.start = batch->base;
    action.done.pair = batch->pair;
    out->sink(out->ctx, &action);
    staged->active_rows -= batch->rows;
    staged->used--;
    batch->id = 0;
}

/* One part of `batch`, from its row `start` on. */
static uint32_t split_off(staged_t *staged, const staged_batch_t *batch, uint32_t stage, uint32_t start,
                          uint32_t rows)
{
    uint32_t slot = table_take(staged);
    staged_batch_t *part = &staged->table[slot];
    part->created_ns = batch->created_ns;
    part->rows = rows;
    part->length = batch->length;
    part->shape = batch->shape;
    part->base = batch->base + start;
    part->pair = batch->pair;
    part->stream = batch->stream;
    part->sealed = true;
    memcpy(part->queries, batch->queries + start, rows * sizeof(part->queries[0]));
    for (uint32_t before = 0; before <= stage; before++)
        part->issued[before] = part->done[before] = rows;
    staged->counts.parts++;
    return slot;
}

static bool try_split(staged_t *staged, uint32_t slot, uint32_t stage, const staged_out_t *out)
{
    staged_batch_t *batch = &staged->table[slot];
    staged_view_t view = {.config = &staged->config, .now_ns = out->now_ns};
    view_batch(&view, batch, stage);
    uint32_t each = staged->config.schedule->split ? staged->config.schedule->split(&view) : 0;
    if (each == 0 || each >= batch->rows)
        return false;
    uint32_t parts = (batch->rows + each - 1) / each;
    if (staged->used + parts > STAGED_BATCHES_MAX)
        return false;
    staged->counts.splits++;
    for (uint32_t start = 0; start < batch->rows; start += each) {
        uint32_t rows = batch->rows - start < each ? batch->rows - start : each;
        uint32_t part = split_off(staged, batch, stage, start, rows);
        exec_action_t action = {.kind = EXEC_SPLIT, .batch = batch->id};
        action.split.part = staged->table[part].id;
        action.split.stage = stage;
        action.split.start = start;
        action.split.rows = rows;
        out->sink(out->ctx, &action);
        issue(staged, part, stage + 1, rows);
    }
    batch->id = 0;
    staged->used--;
    return true;
}

static void merge(staged_batch_t *batch, uint32_t stage, const staged_item_t *item, const staged_out_t *out)
{
    exec_action_t action = {.kind = EXEC_MERGE, .batch = batch->id};
    action.merge.stage = stage;
    action.merge.start = item->start;
    action.merge.rows = item->num;
    out->sink(out->ctx, &action);
    batch->catching_up = false;
}

void staged_leave(staged_t *staged, uint32_t stage, const staged_item_t *item, const staged_out_t *out)
{
    staged_batch_t *batch = &staged->table[item->slot];
    batch->done[stage] += item->num;
    if (staged_item_joins(batch, stage, item))
        merge(batch, stage, item, out);
    if (batch->done[stage] < batch->rows) /* rows that catch up are to come: do not push on (5.2.2) */
        return;
    if (stage + 1 == staged->config.stages)
        complete(staged, batch, out);
    else if (batch->catching_up || !try_split(staged, item->slot, stage, out))
        issue(staged, item->slot, stage + 1, batch->rows - batch->issued[stage + 1]);
}
