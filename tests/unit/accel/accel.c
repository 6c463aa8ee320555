/*
 * The emulated device: how long operators take that overlap.
 */
#include "accel/accel.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Runs until nothing is left and writes "tag@ms …" */
static void play(accel_t *device, char *text, size_t size)
{
    text[0] = '\0';
    for (int64_t at; (at = accel_next_ns(device)) != ACCEL_NEVER;) {
        uint64_t tag;
        accel_advance(device, at);
        while (accel_take_ended(device, &tag)) {
            size_t len = strlen(text);
            snprintf(text + len, size - len, "%s%llu@%.2f", len ? " " : "", (unsigned long long)tag,
                     (double)at / 1e6);
        }
    }
}

static accel_t *make(void)
{
    accel_t *device = accel_create(3, 8, NULL);
    cr_assert(device != NULL);
    return device;
}

static void launch(accel_t *device, uint32_t stream, uint64_t tag, double ms, double occupancy)
{
    accel_op_t op = {.ns = (int64_t)(ms * 1e6), .occupancy = occupancy};
    cr_assert_eq(accel_launch(device, stream, tag, &op, 1, NULL), STATUS_OK);
}

Test(accel, operators_that_fit_do_not_slow_each_other)
{
    char text[256];
    accel_t *device = make();
    launch(device, 0, 1, 10, 0.5);
    launch(device, 1, 2, 4, 0.5);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "2@4.00 1@10.00");
    accel_destroy(device);
}

Test(accel, operators_that_fill_it_share_it)
{
    char text[256];
    accel_t *device = make();
    launch(device, 0, 1, 10, 1);
    launch(device, 1, 2, 4, 1);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "2@8.00 1@14.00");
    cr_assert_float_eq(accel_busy_ns(device), 14e6, 1);
    accel_destroy(device);
}

/* 0.8 and 0.6 run at 1/1.4 for 14 ms (10 ms of work), then the rest of the first alone. */
Test(accel, they_slow_down_by_the_sum)
{
    char text[256];
    accel_t *device = make();
    launch(device, 0, 1, 20, 0.8);
    launch(device, 1, 2, 10, 0.6);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "2@14.00 1@24.00");
    accel_destroy(device);
}

Test(accel, one_stream_runs_in_order)
{
    char text[256];
    accel_t *device = make();
    launch(device, 0, 1, 3, 0.1);
    launch(device, 0, 2, 0, 0.1);
    launch(device, 0, 3, 3, 0.1);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "1@3.00 2@3.00 3@6.00");
    accel_destroy(device);
}

Test(accel, stops_at_the_next_exit_point_and_nowhere_else)
{
    char text[256];
    accel_op_t ops[6];
    for (size_t i = 0; i < 6; i++)
        ops[i] = (accel_op_t){.ns = 1000000, .occupancy = 1, .exit = i % 2 == 1};
    accel_t *device = make();
    cr_assert_eq(accel_launch(device, 0, 1, ops, 6, NULL), STATUS_OK);
    accel_advance(device, 2500000);
    uint32_t ran = 0;
    cr_assert(accel_stop(device, 0, 1, &ran)); /* in its third operator: the fourth has an exit behind it */
    cr_assert_eq(ran, 4);
    cr_assert(!accel_stop(device, 0, 9, &ran), "no such launch");
    cr_assert(!accel_stop(device, 0, 1, &ran), "nothing is left to drop");
    launch(device, 0, 2, 1, 1);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "1@4.00 2@5.00");
    accel_destroy(device);
}

/* A clock that has run for months: a double of its nanoseconds would not tell one from the next. */
Test(accel, the_hour_of_the_day_does_not_matter)
{
    int64_t now = INT64_C(20000000) * 1000000000;
    uint64_t tag;
    accel_t *device = make();
    accel_advance(device, now);
    launch(device, 0, 1, 0.000003, 0.7);
    launch(device, 1, 2, 0.000005, 0.7);
    cr_assert_eq(accel_next_ns(device), now + 5); /* 3 ns x 1.4 */
    accel_advance(device, now + 5);
    cr_assert(accel_take_ended(device, &tag) && tag == 1);
    cr_assert_eq(accel_next_ns(device), now + 7); /* 4.2 ns, and 2 ns alone */
    accel_advance(device, now + 7);
    cr_assert(accel_take_ended(device, &tag) && tag == 2);
    cr_assert_eq(accel_next_ns(device), ACCEL_NEVER);
    accel_destroy(device);
}

Test(accel, says_what_it_cannot_take)
{
    err_t err;
    accel_op_t ops[9] = {0};
    accel_t *device = make();
    cr_assert_eq(accel_launch(device, 3, 1, ops, 1, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(accel_launch(device, 0, 1, ops, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(accel_launch(device, 0, 1, ops, 9, &err), STATUS_UNAVAILABLE);
    cr_assert(accel_create(0, 1, &err) == NULL);
    accel_destroy(device);
}
