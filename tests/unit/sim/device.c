/*
 * The emulated device: how long operators take that overlap.
 */
#include "sim/device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Runs until nothing is left and writes "tag@ms …" */
static void play(device_t *device, char *text, size_t size)
{
    text[0] = '\0';
    for (int64_t at; (at = device_next_ns(device)) != DEVICE_NEVER;) {
        uint64_t tag;
        device_advance(device, at);
        while (device_take_ended(device, &tag)) {
            size_t len = strlen(text);
            snprintf(text + len, size - len, "%s%llu@%.2f", len ? " " : "", (unsigned long long)tag,
                     (double)at / 1e6);
        }
    }
}

static device_t *make(void)
{
    device_t *device = device_create(3, 8, NULL);
    cr_assert(device != NULL);
    return device;
}

static void launch(device_t *device, uint32_t stream, uint64_t tag, double ms, double occupancy)
{
    device_op_t op = {.ns = (int64_t)(ms * 1e6), .occupancy = occupancy};
    cr_assert_eq(device_launch(device, stream, tag, &op, 1, NULL), STATUS_OK);
}

Test(device, operators_that_fit_do_not_slow_each_other)
{
    char text[256];
    device_t *device = make();
    launch(device, 0, 1, 10, 0.5);
    launch(device, 1, 2, 4, 0.5);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "2@4.00 1@10.00");
    device_destroy(device);
}

Test(device, operators_that_fill_it_share_it)
{
    char text[256];
    device_t *device = make();
    launch(device, 0, 1, 10, 1);
    launch(device, 1, 2, 4, 1);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "2@8.00 1@14.00");
    cr_assert_float_eq(device_busy_ns(device), 14e6, 1);
    device_destroy(device);
}

/* 0.8 and 0.6 run at 1/1.4 for 14 ms (10 ms of work), then the rest of the first alone. */
Test(device, they_slow_down_by_the_sum)
{
    char text[256];
    device_t *device = make();
    launch(device, 0, 1, 20, 0.8);
    launch(device, 1, 2, 10, 0.6);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "2@14.00 1@24.00");
    device_destroy(device);
}

Test(device, one_stream_runs_in_order)
{
    char text[256];
    device_t *device = make();
    launch(device, 0, 1, 3, 0.1);
    launch(device, 0, 2, 0, 0.1);
    launch(device, 0, 3, 3, 0.1);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "1@3.00 2@3.00 3@6.00");
    device_destroy(device);
}

Test(device, stops_at_the_next_exit_point_and_nowhere_else)
{
    char text[256];
    device_op_t ops[6];
    for (size_t i = 0; i < 6; i++)
        ops[i] = (device_op_t){.ns = 1000000, .occupancy = 1};
    device_t *device = make();
    cr_assert_eq(device_launch(device, 0, 1, ops, 6, NULL), STATUS_OK);
    device_advance(device, 2500000);
    cr_assert(device_stop(device, 0, 1, 2)); /* in its third operator: the fourth ends the pair */
    cr_assert(!device_stop(device, 0, 9, 2), "no such launch");
    cr_assert(!device_stop(device, 0, 1, 2), "nothing is left to drop");
    launch(device, 0, 2, 1, 1);
    play(device, text, sizeof(text));
    cr_assert_str_eq(text, "1@4.00 2@5.00");
    device_destroy(device);
}

Test(device, says_what_it_cannot_take)
{
    err_t err;
    device_op_t ops[9] = {0};
    device_t *device = make();
    cr_assert_eq(device_launch(device, 3, 1, ops, 1, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(device_launch(device, 0, 1, ops, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(device_launch(device, 0, 1, ops, 9, &err), STATUS_UNAVAILABLE);
    cr_assert(device_create(0, 1, &err) == NULL);
    device_destroy(device);
}
