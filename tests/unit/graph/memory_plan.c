#include "graph/passes/memory_plan.h"

#include "base/prng.h"

#include <criterion/criterion.h>

enum { ALIGN = 64 };

static bool share_a_step(const memory_piece_t *a, const memory_piece_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool share_a_byte(const memory_piece_t *a, const memory_piece_t *b)
{
    return a->offset < b->offset + b->len_bytes && b->offset < a->offset + a->len_bytes;
}

/* The most that is alive at a step: no plan needs less. */
static size_t lower_bound(const memory_piece_t *pieces, uint32_t count, uint32_t steps)
{
    size_t most = 0;
    for (uint32_t s = 0; s < steps; s++) {
        size_t alive = 0;
        for (uint32_t i = 0; i < count; i++)
            alive += pieces[i].first <= s && s <= pieces[i].last ? pieces[i].len_bytes : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

Test(memory_plan, a_chain_takes_turns_in_two_places)
{
    memory_piece_t chain[] = {{.len_bytes = 1000, .first = 0, .last = 1},
                              {.len_bytes = 1000, .first = 1, .last = 2},
                              {.len_bytes = 1000, .first = 2, .last = 3},
                              {.len_bytes = 1000, .first = 3, .last = 4}};
    size_t bytes = memory_plan(chain, 4, ALIGN);
    cr_assert_eq(bytes, 2 * chain[0].len_bytes);
    cr_assert_eq(chain[0].len_bytes, 1024, "rounded up");
    cr_assert_eq(chain[2].offset, chain[0].offset);
    cr_assert_eq(chain[3].offset, chain[1].offset);
    cr_assert_neq(chain[1].offset, chain[0].offset);
}

Test(memory_plan, a_small_piece_fills_the_gap_that_a_large_one_leaves)
{
    memory_piece_t pieces[] = {{.len_bytes = 4000, .first = 0, .last = 1},
                               {.len_bytes = 2000, .first = 0, .last = 9},
                               {.len_bytes = 3000, .first = 2, .last = 9}};
    size_t bytes = memory_plan(pieces, 3, ALIGN);
    cr_assert_eq(bytes, pieces[0].len_bytes + pieces[1].len_bytes);
    cr_assert_eq(pieces[2].offset, pieces[0].offset, "where the largest was");
}

Test(memory_plan, nothing_takes_nothing)
{
    cr_assert_eq(memory_plan(NULL, 0, ALIGN), 0);
}

Test(memory_plan, pieces_that_are_alive_together_never_overlap)
{
    enum { PIECES = 200, STEPS = 100, GAMES = 50 };
    static memory_piece_t pieces[PIECES];
    double worst = 0;
    for (uint64_t seed = 1; seed <= GAMES; seed++) {
        prng_t prng;
        prng_init(&prng, seed);
        for (uint32_t i = 0; i < PIECES; i++) {
            uint32_t first = (uint32_t)prng_below(&prng, STEPS);
            pieces[i] = (memory_piece_t){.len_bytes = 1 + prng_below(&prng, 5000),
                                         .first = first,
                                         .last = first + (uint32_t)prng_below(&prng, 8)};
        }
        size_t bytes = memory_plan(pieces, PIECES, ALIGN);
        for (uint32_t i = 0; i < PIECES; i++) {
            cr_assert_eq(pieces[i].offset % ALIGN, 0);
            cr_assert_leq(pieces[i].offset + pieces[i].len_bytes, bytes);
            for (uint32_t k = 0; k < i; k++)
                cr_assert(!share_a_step(&pieces[i], &pieces[k]) || !share_a_byte(&pieces[i], &pieces[k]),
                          "seed %lu: %u and %u", (unsigned long)seed, i, k);
        }
        double over = (double)bytes / (double)lower_bound(pieces, PIECES, STEPS + 8);
        worst = over > worst ? over : worst;
    }
    cr_assert_lt(worst, 1.5, "%.2f times what no plan can do without", worst);
}

Test(memory_plan, more_pieces_than_can_be_planned_get_places_of_their_own)
{
    enum { PIECES = 20001 };
    static memory_piece_t pieces[PIECES];
    for (uint32_t i = 0; i < PIECES; i++)
        pieces[i] = (memory_piece_t){.len_bytes = 1, .first = i, .last = i};
    cr_assert_eq(memory_plan(pieces, PIECES, ALIGN), (size_t)PIECES * ALIGN);
    cr_assert_eq(pieces[PIECES - 1].offset, (size_t)(PIECES - 1) * ALIGN);
}
