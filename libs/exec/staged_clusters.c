/*
 * DVABatch's policy I (papers/dvabatch.txt 7.2): short and long queries in batches of their own.
 *
 * Where this is more than the paper says: how many batches there are, and of which queries, follows from the profiled
 * costs. Where a batch takes the time of its longest row alone, and leaves room, there are few, side by side; where it
 * takes as long as its rows one after the other there is little to be gained from batches, they are small, and the one
 * that holds up the others least goes first: the shortest, and past a longer one at the border of its stages, as
 * SRPT does with one machine. A row that has waited many times what it takes is passed by nobody.
 */
#include "exec/staged_core.h"

#include <math.h>

enum {
    LOOKED_AT_MAX =
        64,         /* of the waiting queries, and rows of a batch: all these are weighed at every decision */
    LATE_TIMES = 8, /* what it takes alone: nobody passes a row that has waited longer */
};

/* The waiting queries by length, and where they are cut. */
typedef struct {
    const staged_view_t *view;
    uint32_t count;
    uint8_t order[LOOKED_AT_MAX]; /* index into view->waiting */
    uint8_t begin[LOOKED_AT_MAX]; /* [i]: first of the batch whose last is i, in the best cut of 0..i */
    uint32_t overdue;             /* index into view->waiting of the oldest that is late; UINT32_MAX: none */
} clusters_t;

typedef struct {
    uint32_t begin, rows, length;
} cluster_t;

static const exec_query_t *query_at(const clusters_t *clusters, uint32_t i)
{
    return clusters->view->waiting[clusters->order[i]];
}

static bool is_longer(const exec_query_t *a, const exec_query_t *b)
{
    return a->length > b->length || (a->length == b->length && a->shape > b->shape);
}

/* The oldest first among those of one length. */
static void sort(clusters_t *clusters)
{
    const staged_view_t *view = clusters->view;
    for (uint32_t i = 0; i < clusters->count; i++) {
        uint32_t at = i;
        for (; at > 0 && is_longer(query_at(clusters, at - 1), view->waiting[i]); at--)
            clusters->order[at] = clusters->order[at - 1];
        clusters->order[at] = (uint8_t)i;
    }
}

static bool is_late(const exec_query_t *query, int64_t alone_ns, int64_t now_ns)
{
    return now_ns - query->arrival_ns > LATE_TIMES * alone_ns;
}

/* What a batch of the queries begin .. end adds to the sum of the times at which all leave: they and those behind them
 * wait for what it keeps of the device, and they for the rest of its own time. */
static double added(const clusters_t *clusters, uint32_t begin, uint32_t end, staged_cost_t cost)
{
    return (double)cost.busy_ns * (clusters->count - begin) +
           (double)(cost.ns - cost.busy_ns) * (end + 1 - begin);
}

/* The cut after which the sum of the times at which the queries leave is least, batches going by length. */
static void cut(clusters_t *clusters)
{
    const staged_config_t *config = clusters->view->config;
    double least[LOOKED_AT_MAX + 1] = {0}; /* of the queries in front */
    staged_cost_t cost[LOOKED_AT_MAX + 1]; /* by rows, of this length; the first `known` are set */
    for (uint32_t i = 0, known = 0, length = 0; i < clusters->count; i++) {
        const exec_query_t *last = query_at(clusters, i);
        known = last->length == length ? known : 0;
        length = last->length;
        least[i + 1] = INFINITY;
        for (uint32_t rows = 1; rows <= i + 1 && rows <= config->rows_max; rows++) {
            uint32_t begin = i + 1 - rows;
            if (query_at(clusters, begin)->shape != last->shape)
                break;
            if (rows > known)
                cost[known = rows] = staged_remaining(config, 0, rows, length);
            double sum = least[begin] + added(clusters, begin, i, cost[rows]);
            if (sum < least[i + 1]) {
                least[i + 1] = sum;
                clusters->begin[i] = (uint8_t)begin;
            }
        }
        if (clusters->order[i] < clusters->overdue && is_late(last, cost[1].ns, clusters->view->now_ns))
            clusters->overdue = clusters->order[i];
    }
}

/* Shortest first into `list`, but first of all the one with the row that is late. Returns how many. */
static uint32_t collect(const clusters_t *clusters, cluster_t list[LOOKED_AT_MAX])
{
    uint32_t count = 0, first = 0;
    for (uint32_t end = clusters->count; end > 0; end = clusters->begin[end - 1])
        list[LOOKED_AT_MAX - ++count] = (cluster_t){.begin = clusters->begin[end - 1],
                                                    .rows = end - clusters->begin[end - 1],
                                                    .length = query_at(clusters, end - 1)->length};
    for (uint32_t i = 0; i < count; i++) {
        list[i] = list[LOOKED_AT_MAX - count + i];
        for (uint32_t row = 0; row < list[i].rows; row++)
            if (clusters->order[list[i].begin + row] == clusters->overdue)
                first = i;
    }
    cluster_t late = list[first];
    for (; first > 0; first--)
        list[first] = list[first - 1];
    list[0] = late;
    return count;
}

/* A row that is late first, the longest waiting of these; else by how long each row of the batch still keeps the device
 * from others. */
static double rank_by_work(const staged_config_t *config, const staged_beside_t *batch)
{
    int64_t alone_ns = staged_remaining(config, 0, 1, batch->length).ns;
    if (batch->waited_ns > LATE_TIMES * alone_ns)
        return -(double)batch->waited_ns;
    return (double)staged_remaining(config, batch->stage, batch->rows, batch->length).busy_ns / batch->rows;
}

/* What a batch of the stages keeps of the device from now on. */
static double kept_by(const staged_config_t *config, const staged_beside_t *batch)
{
    return staged_occupancy(staged_remaining(config, batch->stage, batch->rows, batch->length));
}

/* Of the device, by the batches in the stages whose rank is no more than that. */
static double kept_before(const staged_view_t *view, double rank)
{
    double kept = 0;
    for (uint32_t i = 0; i < view->beside_count; i++)
        if (rank_by_work(view->config, &view->beside[i]) <= rank)
            kept += kept_by(view->config, &view->beside[i]);
    return kept;
}

static staged_beside_t as_batch(const clusters_t *clusters, const cluster_t *cluster)
{
    int64_t arrival_ns = INT64_MAX;
    for (uint32_t row = 0; row < cluster->rows; row++) {
        int64_t came_ns = query_at(clusters, cluster->begin + row)->arrival_ns;
        arrival_ns = came_ns < arrival_ns ? came_ns : arrival_ns;
    }
    return (staged_beside_t){
        .rows = cluster->rows, .length = cluster->length, .waited_ns = clusters->view->now_ns - arrival_ns};
}

static uint32_t enter_by_length(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    clusters_t clusters = {.view = view, .overdue = UINT32_MAX};
    cluster_t list[LOOKED_AT_MAX];
    double all = kept_before(view, INFINITY), entered_keep = 0;
    clusters.count = view->waiting_count < LOOKED_AT_MAX ? view->waiting_count : LOOKED_AT_MAX;
    if (staged_window_open(view, wake_ns) || (all >= STAGED_ROOM && view->empty_pairs == 0))
        return 0;
    sort(&clusters);
    cut(&clusters);
    uint32_t count = collect(&clusters, list), entered = 0;
    for (; entered < count; entered++) {
        staged_beside_t batch = as_batch(&clusters, &list[entered]);
        /* Into the room that those leave which go before it; past the others only on a pair of its own. */
        double before = entered_keep + kept_before(view, rank_by_work(view->config, &batch));
        bool passes = entered_keep + all >= STAGED_ROOM;
        if (before >= STAGED_ROOM || entered == (passes ? view->empty_pairs : view->free_pairs))
            break;
        entered_keep += kept_by(view->config, &batch);
        for (uint32_t row = 0; row < list[entered].rows; row++)
            group[clusters.order[list[entered].begin + row]] = (uint8_t)entered;
    }
    return entered;
}

/* Beside what runs while that leaves room. */
static bool start_in_room(const staged_view_t *view)
{
    double busy = 0;
    for (uint32_t i = 0; i < view->beside_count; i++) {
        const staged_beside_t *beside = &view->beside[i];
        busy += staged_occupancy(
            view->config->cost(view->config->cost_ctx, beside->stage, beside->rows, beside->length));
    }
    return busy < STAGED_ROOM;
}

const staged_schedule_t staged_schedule_input = {
    .name = "input", .enter = enter_by_length, .start = start_in_room, .rank = rank_by_work};
