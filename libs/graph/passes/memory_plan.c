#include "graph/passes/memory_plan.h"

#include <stdbool.h>
#include <stdlib.h>

enum { PIECES_MAX = 20000 }; /* beyond it the square is too slow, and nothing is reused */

/* `placed` is kept sorted by offset. */
typedef struct {
    memory_piece_t **order, **placed;
    uint32_t count;
} placer_t;

static int by_size(const void *a, const void *b)
{
    const memory_piece_t *x = *(memory_piece_t *const *)a, *y = *(memory_piece_t *const *)b;
    if (x->len_bytes != y->len_bytes)
        return x->len_bytes < y->len_bytes ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool alive_together(const memory_piece_t *a, const memory_piece_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static size_t end_of(const memory_piece_t *piece)
{
    return piece->offset + piece->len_bytes;
}

static void place_one(placer_t *p, memory_piece_t *piece)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const memory_piece_t *other = p->placed[i];
        if (!alive_together(piece, other) || end_of(other) <= at)
            continue;
        if (other->offset >= at + piece->len_bytes)
            break;
        at = end_of(other);
    }
    piece->offset = at;
    uint32_t slot = p->count++;
    for (; slot > 0 && p->placed[slot - 1]->offset > at; slot--)
        p->placed[slot] = p->placed[slot - 1];
    p->placed[slot] = piece;
}

static size_t place_all(placer_t *p, memory_piece_t *pieces, uint32_t count)
{
    size_t end = 0;
    for (uint32_t i = 0; i < count; i++)
        p->order[i] = &pieces[i];
    qsort(p->order, count, sizeof *p->order, by_size);
    for (uint32_t i = 0; i < count; i++) {
        place_one(p, p->order[i]);
        end = end_of(p->order[i]) > end ? end_of(p->order[i]) : end;
    }
    return end;
}

static size_t put_behind_each_other(memory_piece_t *pieces, uint32_t count)
{
    size_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        pieces[i].offset = end;
        end += pieces[i].len_bytes;
    }
    return end;
}

size_t memory_plan(memory_piece_t *pieces, uint32_t count, size_t align_bytes)
{
    placer_t p = {0};
    for (uint32_t i = 0; i < count; i++)
        pieces[i].len_bytes = (pieces[i].len_bytes + align_bytes) / align_bytes * align_bytes;
    if (count <= PIECES_MAX) {
        p.order = calloc(count + 1, sizeof *p.order);
        p.placed = calloc(count + 1, sizeof *p.placed);
    }
    size_t end = p.order && p.placed ? place_all(&p, pieces, count) : put_behind_each_other(pieces, count);
    free(p.order);
    free(p.placed);
    return end;
}
