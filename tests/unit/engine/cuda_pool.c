#include "base/prng.h"
#include "engine/cuda/run/pool.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static int slabs;
static bool refuse;

static void *get(void *arg, size_t len)
{
    (void)arg;
    slabs += !refuse;
    return refuse ? NULL : aligned_alloc(POOL_ALIGN_BYTES, len);
}

static void put(void *arg, void *memory)
{
    (void)arg;
    slabs--;
    free(memory);
}

static pool_t make(uint64_t limit)
{
    pool_t pool;
    slabs = 0;
    refuse = false;
    pool_init(&pool, limit, get, put, NULL);
    return pool;
}

Test(cuda_pool, small_blocks_share_a_slab_and_merge_again)
{
    pool_t pool = make((uint64_t)1 << 30);
    void *a, *b, *c;
    cr_assert_eq(pool_alloc(&pool, 1000, &a, NULL), STATUS_OK);
    cr_assert_eq(pool_alloc(&pool, 5000, &b, NULL), STATUS_OK);
    cr_assert_eq(pool_alloc(&pool, 9000, &c, NULL), STATUS_OK);
    cr_assert_eq(slabs, 1);
    cr_assert_eq((uintptr_t)b % POOL_ALIGN_BYTES, 0);
    pool_free(&pool, b);
    cr_assert(pool_validate(&pool));
    pool_free(&pool, a);
    cr_assert(pool_validate(&pool));
    pool_free(&pool, c);
    cr_assert_eq(slabs, 0, "an empty slab goes back");
    cr_assert_eq(pool.used_bytes, 0);
    pool_dispose(&pool);
}

Test(cuda_pool, the_limit_holds_and_says_the_sizes)
{
    pool_t pool = make(100 << 20);
    void *a, *b;
    err_t err;
    cr_assert_eq(pool_alloc(&pool, 90 << 20, &a, NULL), STATUS_OK);
    cr_assert_eq(pool_alloc(&pool, 20 << 20, &b, &err), STATUS_NO_MEMORY);
    cr_assert(strstr(err.text, "limit 100 MiB"), "%s", err.text);
    cr_assert_eq(pool_alloc(&pool, 9 << 20, &b, NULL), STATUS_OK,
                 "a small slab where a usual one does not fit");
    cr_assert_eq(pool_alloc(&pool, SIZE_MAX, &b, &err), STATUS_NO_MEMORY);
    pool_dispose(&pool);
}

Test(cuda_pool, a_full_device_is_an_error_and_no_more)
{
    pool_t pool = make((uint64_t)1 << 40);
    void *a;
    refuse = true;
    cr_assert_eq(pool_alloc(&pool, 1000, &a, NULL), STATUS_NO_MEMORY);
    refuse = false;
    cr_assert_eq(pool_alloc(&pool, 1000, &a, NULL), STATUS_OK);
    pool_free(&pool, NULL);
    pool_dispose(&pool);
}

Test(cuda_pool, blocks_never_overlap)
{
    enum { BLOCKS = 200, ROUNDS = 5000 };
    pool_t pool = make((uint64_t)1 << 30);
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    prng_t prng;
    prng_init(&prng, 7);
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = prng_below(&prng, BLOCKS);
        if (blocks[n]) {
            cr_assert(blocks[n][0] == (n & 255) && blocks[n][sizes[n] - 1] == (n & 255));
            pool_free(&pool, blocks[n]);
            blocks[n] = NULL;
            continue;
        }
        sizes[n] = 1 + prng_below(&prng, 100000);
        cr_assert_eq(pool_alloc(&pool, sizes[n], (void **)&blocks[n], NULL), STATUS_OK);
        memset(blocks[n], (int)(n & 255), sizes[n]);
    }
    cr_assert(pool_validate(&pool));
    pool_dispose(&pool);
}
