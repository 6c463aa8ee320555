/*
 * DVABatch's three policies (papers/dvabatch.txt 7.2) as Schedule() tables.
 *
 * Where this is more than the paper says: a batch that would run at once does not wait for the window while
 * nothing runs (config.eager), and policy I chooses the border between short and long queries by what it
 * brings in mean latency, from the profiled costs.
 */
#include "staged.h"

#include <string.h>

/* Of the device: less than a twentieth free is no room. */
#define ROOM 0.95

static staged_cost_t add(staged_cost_t a, staged_cost_t b)
{
    return (staged_cost_t){.ns = a.ns + b.ns, .busy_ns = a.busy_ns + b.busy_ns};
}

/* What the stages from `stage` on cost. */
static staged_cost_t remaining(const staged_config_t *config, uint32_t stage, uint32_t rows, uint32_t length)
{
    staged_cost_t cost = {0};
    for (; stage < config->stages; stage++)
        cost = add(cost, config->cost(config->cost_ctx, stage, rows, length));
    return cost;
}

/* Whether the waiting queries should wait on; then *wake_ns says until when. */
static bool window_open(const staged_view_t *view, int64_t *wake_ns)
{
    const staged_config_t *config = view->config;
    int64_t closes_ns = view->waiting[0]->arrival_ns + config->window_ns;
    if (view->waiting_count >= config->rows_max || closes_ns <= view->now_ns ||
        (config->eager && view->active_rows == 0))
        return false;
    *wake_ns = closes_ns;
    return true;
}

uint32_t staged_enter_together(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    if (window_open(view, wake_ns))
        return 0;
    memset(group, 0, view->waiting_count);
    return 1;
}

static double occupancy(const staged_config_t *config, uint32_t stage, uint32_t rows, uint32_t length)
{
    staged_cost_t cost = config->cost(config->cost_ctx, stage, rows, length);
    return cost.ns > 0 ? (double)cost.busy_ns / (double)cost.ns : 1;
}

/* Where older batches leave room a batch begins beside them; where they fill the device both would only be
 * slower, and the older goes first. Still it begins if that is better for the mean: the sum S > 1 of what
 * is used makes each S times slower, which costs S - 1 of every moment to all rows and saves the whole of
 * it to those that begin. */
static bool start_where_worth(const staged_view_t *view)
{
    double older = 0, own = occupancy(view->config, view->stage, view->rows, view->length);
    uint32_t rows = view->rows;
    for (uint32_t i = 0; i < view->beside_count; i++) {
        const staged_beside_t *beside = &view->beside[i];
        older += occupancy(view->config, beside->stage, beside->rows, beside->length);
        rows += beside->rows;
    }
    return older < ROOM || (older + own - 1) * rows < view->rows;
}

static void sort_lengths(const staged_view_t *view, uint32_t count, uint32_t *lengths)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && lengths[at - 1] > view->waiting[i]->length; at--)
            lengths[at] = lengths[at - 1];
        lengths[at] = view->waiting[i]->length;
    }
}

/* Mean-latency weight of two batches that start together: each alone where the device has room for both, else slowed by
 * the sum of what they use. */
static double weigh(staged_cost_t a, uint32_t rows_a, staged_cost_t b, uint32_t rows_b)
{
    double wide_a = (double)a.busy_ns / (double)(a.ns ? a.ns : 1);
    double wide_b = (double)b.busy_ns / (double)(b.ns ? b.ns : 1);
    double slow = wide_a + wide_b > 1 ? wide_a + wide_b : 1;
    bool a_first = a.ns <= b.ns;
    double first = (double)(a_first ? a.ns : b.ns) * slow;
    double last = first + (double)(a_first ? b.ns - a.ns : a.ns - b.ns);
    return a_first ? first * rows_a + last * rows_b : first * rows_b + last * rows_a;
}

/* Length up to which queries go into the first of two batches; 0: one batch for all is best. */
static uint32_t best_border(const staged_view_t *view, uint32_t count, const uint32_t *lengths)
{
    const staged_config_t *config = view->config;
    staged_cost_t whole = remaining(config, 0, count, lengths[count - 1]);
    double best = (double)whole.ns * count;
    uint32_t border = 0;
    for (uint32_t cut = 1; cut < count; cut++) {
        if (lengths[cut] == lengths[cut - 1])
            continue;
        staged_cost_t shorter = remaining(config, 0, cut, lengths[cut - 1]);
        staged_cost_t longer = remaining(config, 0, count - cut, lengths[count - 1]);
        double weight = weigh(shorter, cut, longer, count - cut);
        if (weight < best) {
            best = weight;
            border = lengths[cut - 1];
        }
    }
    return border;
}

/* Policy I: short and long queries in batches of their own, side by side; never more than bs_max rows in the stages. */
static uint32_t enter_by_length(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    uint32_t lengths[EXEC_ROWS_MAX];
    uint32_t room = view->config->rows_max - view->active_rows;
    uint32_t count = view->waiting_count < room ? view->waiting_count : room;
    if (view->active_rows >= view->config->rows_max || window_open(view, wake_ns))
        return 0;
    sort_lengths(view, count, lengths);
    uint32_t border = count > 1 ? best_border(view, count, lengths) : 0;
    for (uint32_t i = 0; i < count; i++) {
        bool longer = border && view->waiting[i]->length > border;
        group[i] = !longer ? 0 : view->free_pairs > 1 ? 1 : STAGED_LATER;
    }
    /* With one pair the oldest query's side goes first, or long queries would wait for ever. */
    if (border && view->free_pairs == 1 && view->waiting[0]->length > border)
        for (uint32_t i = 0; i < count; i++)
            group[i] = group[i] == 0 ? STAGED_LATER : 0;
    return border && view->free_pairs > 1 ? 2 : 1;
}

/* Policy II: the smallest halving whose parts cost no more in all than the whole batch, in the stages that remain. */
static uint32_t split_to_preferred(const staged_view_t *view)
{
    const staged_config_t *config = view->config;
    uint32_t best = 0, rows = view->rows;
    double whole =
        (double)remaining(config, view->stage + 1, rows, view->length).ns * (1 + config->split_slack);
    for (uint32_t halves = 2; halves <= rows; halves *= 2) {
        uint32_t part = (rows + halves - 1) / halves;
        uint32_t full = rows / part, rest = rows % part;
        double parts = (double)remaining(config, view->stage + 1, part, view->length).ns * full;
        if (rest)
            parts += (double)remaining(config, view->stage + 1, rest, view->length).ns;
        if (parts <= whole)
            best = part;
    }
    return best;
}

/* Policy III: all that waits joins while the batch is young. */
static uint32_t stretch_young(const staged_view_t *view)
{
    return view->age_ns < view->config->comp_wait_ns ? view->waiting_count : 0;
}

const staged_schedule_t staged_schedule_input = {.name = "input", .enter = enter_by_length};
const staged_schedule_t staged_schedule_operator = {
    .name = "operator", .enter = staged_enter_together, .split = split_to_preferred};
const staged_schedule_t staged_schedule_load = {
    .name = "load", .enter = staged_enter_together, .stretch = stretch_young, .start = start_where_worth};
const staged_schedule_t staged_schedule_combined = {.name = "combined",
                                                    .enter = staged_enter_together,
                                                    .stretch = stretch_young,
                                                    .split = split_to_preferred,
                                                    .start = start_where_worth};

const staged_schedule_t *staged_schedule_find(const char *name)
{
    static const staged_schedule_t *const all[] = {&staged_schedule_input, &staged_schedule_operator,
                                                   &staged_schedule_load, &staged_schedule_combined};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
