#include "base/arena.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum { MIB = 1 << 20 };

static arena_t *new_arena(size_t bytes)
{
    arena_t *arena;
    cr_assert_eq(arena_create(&arena, bytes, NULL), STATUS_OK);
    return arena;
}

static void expect_valid(arena_t *arena)
{
    err_t err = {0};
    cr_assert(arena_validate(arena, &err), "%s", err.text);
}

Test(arena, regions_are_aligned_apart_and_inside)
{
    arena_t *arena = new_arena(MIB);
    char *a = arena_alloc(arena, 1), *b = arena_alloc(arena, 100), *c = arena_alloc(arena, 0);
    cr_assert(a != NULL && b != NULL && c != NULL);
    cr_expect_eq((uintptr_t)a % ARENA_ALIGN_BYTES, 0);
    cr_expect_eq((uintptr_t)b % ARENA_ALIGN_BYTES, 0);
    cr_expect(arena_contains(arena, a) && arena_contains(arena, b + 99));
    cr_expect_not(arena_contains(arena, (char *)arena_base(arena) + arena_total_bytes(arena)));
    memset(a, 1, 64);
    memset(b, 2, 128);
    expect_valid(arena);
    arena_free(arena, b);
    arena_free(arena, a);
    arena_free(arena, c);
    arena_free(arena, NULL);
    expect_valid(arena);
    arena_destroy(arena);
}

Test(arena, says_no_when_full_and_yes_again_after_a_free)
{
    arena_t *arena = new_arena(MIB);
    arena_stats_t stats;
    void *regions[64];
    int n = 0;
    while (n < 64 && (regions[n] = arena_alloc(arena, 100000)) != NULL)
        n++;
    cr_expect_eq(n, 10);
    arena_free(arena, regions[3]);
    regions[3] = arena_alloc(arena, 100000);
    cr_expect_not_null(regions[3], "the same size fits where it was");
    for (int i = 0; i < n; i++)
        arena_free(arena, regions[i]);
    arena_stats(arena, &stats);
    cr_expect_eq(stats.used_bytes, 0);
    cr_expect_eq(stats.regions, 0);
    cr_expect_eq(stats.refusals, 1);
    cr_expect_eq(stats.allocs, 11);
    cr_expect_gt(stats.peak_bytes, 1000000);
    void *all = arena_alloc(arena, stats.largest_bytes);
    cr_expect_not_null(all, "free neighbours are one block again: %zu", stats.largest_bytes);
    cr_expect_gt(stats.largest_bytes, MIB - MIB / 16);
    arena_free(arena, all);
    arena_destroy(arena);
}

Test(arena, absurd_sizes)
{
    arena_t *arena;
    err_t err = {0};
    cr_expect_eq(arena_create(&arena, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(arena_create(&arena, SIZE_MAX, &err), STATUS_INVALID_ARGUMENT);
    arena = new_arena(1);
    cr_expect_null(arena_alloc(arena, SIZE_MAX));
    cr_expect_null(arena_alloc(arena, 4096));
    void *p = arena_alloc(arena, 3000);
    cr_expect_not_null(p);
    arena_free(arena, p);
    arena_destroy(arena);
}

Test(arena, lies_in_memory_of_the_callers_and_leaves_it)
{
    static _Alignas(65536) unsigned char memory[65536];
    arena_t *arena;
    err_t err = {0};
    cr_expect_eq(arena_create_on(&arena, memory, sizeof memory - 64, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(arena_create_on(&arena, memory + 64, sizeof memory / 2, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(arena_create_on(&arena, memory, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(arena_create_on(&arena, memory, sizeof memory, &err), STATUS_OK);
    unsigned char *p = arena_alloc(arena, 60000);
    cr_assert(p > memory && p + 60000 <= memory + sizeof memory);
    cr_expect_eq(arena_base(arena), memory);
    cr_expect(arena_validate(arena, &err), "%s", err.text);
    memset(p, 5, 60000);
    arena_free(arena, p);
    arena_destroy(arena);
    memory[0] = memory[sizeof memory - 1] = 1; /* still mapped */
}

typedef struct {
    unsigned char *p;
    size_t len;
    unsigned char fill;
} held_t;

static void check_and_free(arena_t *arena, held_t *held)
{
    for (size_t i = 0; i < held->len; i++)
        cr_assert_eq(held->p[i], held->fill, "a region was written by somebody else");
    arena_free(arena, held->p);
    held->p = NULL;
}

static void random_step(arena_t *arena, held_t *held, prng_t *prng)
{
    if (held->p != NULL) {
        check_and_free(arena, held);
        return;
    }
    held->len = (size_t)prng_exponential(prng, 8000);
    held->fill = (unsigned char)prng_below(prng, 256);
    held->p = arena_alloc(arena, held->len);
    if (held->p != NULL)
        memset(held->p, held->fill, held->len);
    else
        held->len = 0;
}

Test(arena, keeps_its_invariants_under_random_use)
{
    enum { HELD = 200 };
    static held_t held[HELD];
    arena_t *arena = new_arena(MIB);
    prng_t prng;
    prng_init(&prng, 21);
    for (int step = 0; step < 20000; step++) {
        random_step(arena, &held[prng_below(&prng, HELD)], &prng);
        if (step % 16 == 0)
            expect_valid(arena);
    }
    arena_stats_t stats;
    arena_stats(arena, &stats);
    cr_expect_gt(stats.refusals, 0, "it was never full: the test is too kind");
    cr_expect_geq((double)stats.peak_bytes, 0.85 * MIB, "fragmentation wastes too much: peak %zu",
                  stats.peak_bytes);
    for (int i = 0; i < HELD; i++)
        if (held[i].p != NULL)
            check_and_free(arena, &held[i]);
    arena_stats(arena, &stats);
    cr_expect_eq(stats.used_bytes, 0);
    expect_valid(arena);
    arena_destroy(arena);
}

Test(arena, a_second_free_is_refused_and_an_overrun_is_seen)
{
    arena_t *arena = new_arena(MIB);
    err_t err = {0};
    char *a = arena_alloc(arena, 64), *b = arena_alloc(arena, 64);
    arena_free(arena, a);
    arena_free(arena, a);
    expect_valid(arena);
    memset(b, 0, 128); /* over the end: the next header */
    cr_expect_not(arena_validate(arena, &err));
    arena_destroy(arena);
}

static void *worker(void *arg)
{
    arena_t *arena = arg;
    held_t held[20] = {0};
    prng_t prng;
    prng_init(&prng, (uint64_t)(uintptr_t)&prng);
    for (int step = 0; step < 5000; step++)
        random_step(arena, &held[prng_below(&prng, 20)], &prng);
    for (int i = 0; i < 20; i++)
        if (held[i].p != NULL)
            check_and_free(arena, &held[i]);
    return NULL;
}

Test(arena, threads_share_it)
{
    arena_t *arena = new_arena(MIB);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, worker, arena);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    expect_valid(arena);
    arena_stats_t stats;
    arena_stats(arena, &stats);
    cr_expect_eq(stats.used_bytes, 0);
    arena_destroy(arena);
}
