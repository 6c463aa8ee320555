/*
 * DVABatch's policies II and III (papers/dvabatch.txt 7.2) as Schedule() tables, and what policy I
 * (staged_clusters.c) shares with them.
 *
 * Where this is more than the paper says: a batch that would run at once does not wait for the window while
 * nothing runs (config.eager).
 */
#include "exec/staged_core.h"

#include <string.h>

static staged_cost_t add(staged_cost_t a, staged_cost_t b)
{
    return (staged_cost_t){.ns = a.ns + b.ns, .busy_ns = a.busy_ns + b.busy_ns};
}

staged_cost_t staged_remaining(const staged_config_t *config, uint32_t stage, uint32_t rows, uint32_t length)
{
    staged_cost_t cost = {0};
    for (; stage < config->stages; stage++)
        cost = add(cost, config->cost(config->cost_ctx, stage, rows, length));
    return cost;
}

bool staged_window_open(const staged_view_t *view, int64_t *wake_ns)
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
    if (staged_window_open(view, wake_ns))
        return 0;
    memset(group, 0, view->waiting_count);
    return 1;
}

double staged_occupancy(staged_cost_t cost)
{
    return cost.ns > 0 ? (double)cost.busy_ns / (double)cost.ns : 1;
}

static double occupancy(const staged_config_t *config, uint32_t stage, uint32_t rows, uint32_t length)
{
    return staged_occupancy(config->cost(config->cost_ctx, stage, rows, length));
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
        if (!beside->older)
            continue;
        older += occupancy(view->config, beside->stage, beside->rows, beside->length);
        rows += beside->rows;
    }
    return older < STAGED_ROOM || (older + own - 1) * rows < view->rows;
}

/* Policy II: the smallest halving whose parts cost no more in all than the whole batch, in the stages that remain. */
static uint32_t split_to_preferred(const staged_view_t *view)
{
    const staged_config_t *config = view->config;
    uint32_t best = 0, rows = view->rows;
    double whole =
        (double)staged_remaining(config, view->stage + 1, rows, view->length).ns * (1 + config->split_slack);
    for (uint32_t halves = 2; halves <= rows; halves *= 2) {
        uint32_t part = (rows + halves - 1) / halves;
        uint32_t full = rows / part, rest = rows % part;
        double parts = (double)staged_remaining(config, view->stage + 1, part, view->length).ns * full;
        if (rest)
            parts += (double)staged_remaining(config, view->stage + 1, rest, view->length).ns;
        if (parts <= whole)
            best = part;
    }
    return best;
}

static bool splits(const staged_config_t *config, uint32_t length)
{
    staged_view_t view = {.config = config, .length = length};
    for (view.rows = 2; view.rows <= config->rows_max; view.rows++)
        for (view.stage = 0; view.stage + 1 < config->stages; view.stage++) {
            uint32_t part = split_to_preferred(&view);
            if (part > 0 && part < view.rows)
                return true;
        }
    return false;
}

uint32_t staged_joinable(const staged_config_t *config, uint32_t length, uint32_t whole, uint32_t *until)
{
    uint32_t rows = (config->rows_max + 3) / 4;
    int64_t all_ns = staged_remaining(config, 0, rows, length).ns, passed_ns = 0;
    if (splits(config, length))
        return 0;
    for (uint32_t s = 0; s < config->stages; s++) {
        passed_ns += config->cost(config->cost_ctx, s, rows, length).ns;
        until[s] = all_ns > 0 ? (uint32_t)(whole * passed_ns / all_ns) : whole;
    }
    return config->stages;
}

/* Policy III: all that waits joins while the batch is young. */
static uint32_t stretch_young(const staged_view_t *view)
{
    return view->age_ns < view->config->comp_wait_ns ? view->waiting_count : 0;
}

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
