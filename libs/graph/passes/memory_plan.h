/*
 * Where the buffers of a list of steps lie in one block of memory: those that are never alive together may
 * share a place.
 *
 * Greedy by size: the largest first, each at the lowest place where it overlaps none that is alive with it. This
 * comes within a few percent of the lower bound on networks. Pure.
 */
#ifndef GRAPH_PASSES_MEMORY_PLAN_H
#define GRAPH_PASSES_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t len_bytes;     /* memory_plan rounds it up */
    uint32_t first, last; /* steps between which it is alive, both included */
    size_t offset;        /* memory_plan sets it */
} memory_piece_t;

/* Places all pieces at multiples of align_bytes and returns how much memory that takes. Where there is no memory for
 * the planning itself, or the pieces are so many that it would take long, each gets a place of its own. */
size_t memory_plan(memory_piece_t *pieces, uint32_t count, size_t align_bytes);

#endif
