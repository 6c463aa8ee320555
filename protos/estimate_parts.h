/*
 * How an Estimate lies in its arrays, for the scheduler that writes it and the gateways that read it.
 *
 *   model    7  9  12          parts = 1: the first sixteen of refuse, of priorities 0 to 15; 0: none
 *   least_ns a  b  c
 *   parts    0  1  1   ──▶   refuse   p0 … p15
 *   row_ns   d  e  0          0: nothing is told of what waits; so it is of all where this is empty, and backlog_ns, behind_ns and
 *                             backlog_priority with it
 */
#ifndef PROTOS_ESTIMATE_PARTS_H
#define PROTOS_ESTIMATE_PARTS_H

#include "control.pb-c.h"

#include <stdbool.h>

enum { ESTIMATE_LEVELS = 16 };

/* The four that tell what waits are there together, or none of them is. */
static inline bool estimate_backlog_is_whole(const Control__Estimate *estimate)
{
    size_t n = estimate->n_row_ns;
    return (n == estimate->n_model || n == 0) && estimate->n_backlog_ns == n && estimate->n_behind_ns == n &&
           estimate->n_backlog_priority == n;
}

/* False: it makes no sense, and is to be left alone. */
static inline bool estimate_is_whole(const Control__Estimate *estimate)
{
    size_t n = estimate->n_model;
    if (estimate->n_least_ns != n || estimate->n_parts != n || estimate->n_refuse % ESTIMATE_LEVELS != 0)
        return false;
    if (!estimate_backlog_is_whole(estimate))
        return false;
    for (size_t i = 0; i < n; i++)
        if (estimate->parts[i] > estimate->n_refuse / ESTIMATE_LEVELS ||
            (i > 0 && estimate->model[i] <= estimate->model[i - 1]))
            return false;
    return true;
}

/* Of a whole one: where that model stands in it; n_model: it does not. */
static inline size_t estimate_find(const Control__Estimate *estimate, uint32_t model)
{
    size_t from = 0, to = estimate->n_model;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (estimate->model[middle] < model)
            from = middle + 1;
        else
            to = middle;
    }
    return from < estimate->n_model && estimate->model[from] == model ? from : estimate->n_model;
}

/* Of a whole one: ESTIMATE_LEVELS parts for the model that stands there; NULL: nothing of it is refused. */
static inline const double *estimate_refuse(const Control__Estimate *estimate, size_t place)
{
    uint32_t parts = estimate->parts[place];
    return parts > 0 ? estimate->refuse + (size_t)(parts - 1) * ESTIMATE_LEVELS : NULL;
}

/* Of a whole one: whether it tells what waits of the model that stands there. */
static inline bool estimate_has_backlog(const Control__Estimate *estimate, size_t place)
{
    return estimate->n_row_ns > 0 && estimate->row_ns[place] > 0;
}

#endif
