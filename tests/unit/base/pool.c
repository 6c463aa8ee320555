#include "base/pool.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(pool, lends_every_object_once)
{
    pool_t pool;
    void *objects[3];
    cr_assert_eq(pool_init(&pool, 20, 3, NULL), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        objects[i] = pool_get(&pool);
        cr_assert_not_null(objects[i]);
        cr_expect_eq((uintptr_t)objects[i] % 16, 0);
        cr_expect_eq(pool_at(&pool, pool_index(&pool, objects[i])), objects[i]);
        cr_expect(pool_is_lent(&pool, pool_index(&pool, objects[i])));
    }
    cr_expect_neq(objects[0], objects[1]);
    cr_expect_neq(objects[1], objects[2]);
    cr_expect_null(pool_get(&pool));
    pool_put(&pool, objects[1]);
    cr_expect_not(pool_is_lent(&pool, pool_index(&pool, objects[1])));
    cr_expect_eq(pool_get(&pool), objects[1], "the last one back is the first one out");
    cr_expect_eq(pool.lent, 3);
    cr_expect(pool_validate(&pool, NULL));
    pool_dispose(&pool);
    cr_expect_null(pool_get(&pool));
}

Test(pool, refuses_sizes_that_make_no_sense)
{
    pool_t pool;
    err_t err = {0};
    cr_expect_eq(pool_init(&pool, 0, 1, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(pool_init(&pool, 1, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(pool_init(&pool, SIZE_MAX, 2, &err), STATUS_INVALID_ARGUMENT);
}

Test(pool, validate_sees_a_broken_free_list)
{
    pool_t pool;
    err_t err = {0};
    pool_init(&pool, 8, 4, NULL);
    pool.next_free[2] = 0; /* a circle */
    cr_expect_not(pool_validate(&pool, &err));
    pool_dispose(&pool);
}
