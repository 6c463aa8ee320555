#include "transfer/region.h"

#include <criterion/criterion.h>

static void count(void *ctx)
{
    ++*(int *)ctx;
}

Test(region, finds_what_was_published_and_nothing_else)
{
    region_table_t table;
    transfer_handle_t handle, wrong;
    const uint8_t data[100] = {0}, *found;
    uint32_t index;

    cr_assert_eq(region_table_init(&table, 4), STATUS_OK);
    cr_assert_eq(region_publish(&table, data, 100, NULL, NULL, &handle), STATUS_OK);
    cr_assert_eq(region_pin(&table, handle, 10, 90, &index, &found), STATUS_OK);
    cr_assert_eq(found, data + 10);
    region_unpin(&table, index);

    for (int bit = 0; bit < 128; bit++) {
        wrong = handle;
        *(bit < 64 ? &wrong.hi : &wrong.lo) ^= UINT64_C(1) << (bit % 64);
        cr_assert_eq(region_pin(&table, wrong, 0, 1, &index, &found), STATUS_NOT_FOUND, "bit %d", bit);
        cr_assert_not(region_unpublish(&table, wrong));
    }
    region_table_dispose(&table);
}

Test(region, keeps_to_the_bounds)
{
    region_table_t table;
    transfer_handle_t handle;
    const uint8_t data[100] = {0}, *found;
    uint32_t index;
    struct {
        uint64_t offset, len;
        status_t want;
    } cases[] = {
        {0, 100, STATUS_OK},
        {100, 0, STATUS_OK},
        {0, 101, STATUS_INVALID_ARGUMENT},
        {1, 100, STATUS_INVALID_ARGUMENT},
        {101, 0, STATUS_INVALID_ARGUMENT},
        {UINT64_MAX, 1, STATUS_INVALID_ARGUMENT},
        {1, UINT64_MAX, STATUS_INVALID_ARGUMENT},
        {UINT64_MAX, UINT64_MAX, STATUS_INVALID_ARGUMENT},
    };

    cr_assert_eq(region_table_init(&table, 1), STATUS_OK);
    cr_assert_eq(region_publish(&table, data, 100, NULL, NULL, &handle), STATUS_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        status_t got = region_pin(&table, handle, cases[i].offset, cases[i].len, &index, &found);
        cr_assert_eq(got, cases[i].want, "case %zu", i);
        if (got == STATUS_OK)
            region_unpin(&table, index);
    }
    region_table_dispose(&table);
}

Test(region, release_waits_for_the_last_pin)
{
    region_table_t table;
    transfer_handle_t handle;
    const uint8_t data[8] = {0}, *found;
    uint32_t a, b;
    int released = 0;

    cr_assert_eq(region_table_init(&table, 1), STATUS_OK);
    cr_assert_eq(region_publish(&table, data, 8, count, &released, &handle), STATUS_OK);
    cr_assert_eq(region_pin(&table, handle, 0, 8, &a, &found), STATUS_OK);
    cr_assert_eq(region_pin(&table, handle, 0, 8, &b, &found), STATUS_OK);
    cr_assert(region_unpublish(&table, handle));
    cr_assert_not(region_unpublish(&table, handle));
    cr_assert_eq(region_pin(&table, handle, 0, 8, &b, &found), STATUS_NOT_FOUND);
    region_unpin(&table, a);
    cr_assert_eq(released, 0);
    region_unpin(&table, b);
    cr_assert_eq(released, 1);
    region_table_dispose(&table);
    cr_assert_eq(released, 1);
}

Test(region, a_slot_used_again_does_not_answer_to_its_old_handle)
{
    region_table_t table;
    transfer_handle_t first, second;
    const uint8_t data[8] = {0}, *found;
    uint32_t index;

    cr_assert_eq(region_table_init(&table, 1), STATUS_OK);
    cr_assert_eq(region_publish(&table, data, 8, NULL, NULL, &first), STATUS_OK);
    cr_assert_eq(region_publish(&table, data, 8, NULL, NULL, &second), STATUS_NO_MEMORY);
    cr_assert(region_unpublish(&table, first));
    cr_assert_eq(region_publish(&table, data, 8, NULL, NULL, &second), STATUS_OK);
    cr_assert_eq((uint32_t)first.hi, (uint32_t)second.hi);
    cr_assert_neq(first.lo, second.lo);
    cr_assert_eq(region_pin(&table, first, 0, 1, &index, &found), STATUS_NOT_FOUND);
    cr_assert_eq(region_pin(&table, second, 0, 1, &index, &found), STATUS_OK);
    region_unpin(&table, index);
    region_table_dispose(&table);
}
