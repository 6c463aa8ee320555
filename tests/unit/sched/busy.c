/* Which part of the GPUs' time is taken, by what was granted. */
#include "sched/busy.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000000)
#define START_NS (INT64_C(1700000000) * 1000000000) /* a slot begins there */
enum { TICK_MS = 100 };

static double take_ms(busy_t *busy, int64_t at_ms)
{
    return busy_take(busy, START_NS + at_ms * MS) / 1e6;
}

static void takes(busy_t *busy, int64_t at_ms, double expected_ms)
{
    double taken_ms = take_ms(busy, at_ms);
    cr_assert_float_eq(taken_ms, expected_ms, 1e-6, "%g at %d ms", taken_ms, (int)at_ms);
}

static void add_ms(busy_t *busy, int64_t from_ms, int64_t length_ms)
{
    busy_add(busy, START_NS + from_ms * MS, length_ms * MS, (double)(length_ms * MS));
}

Test(busy, batches_of_seconds_are_work_as_long_as_they_run)
{
    busy_t busy;
    busy_init(&busy, START_NS);
    for (int64_t at_ms = 0; at_ms < 60000; at_ms += TICK_MS) {
        if (at_ms % 3000 == 0) { /* two at once, and then nothing for three seconds */
            add_ms(&busy, at_ms, 3000);
            add_ms(&busy, at_ms, 3000);
        }
        takes(&busy, at_ms + TICK_MS, 2 * TICK_MS);
    }
    takes(&busy, 70000, 0);
}

Test(busy, short_ones_count_where_they_are)
{
    busy_t busy;
    busy_init(&busy, START_NS);
    for (int64_t at_ms = 0; at_ms < 50000; at_ms += TICK_MS) {
        add_ms(&busy, at_ms, 5);
        add_ms(&busy, at_ms, 25);
        takes(&busy, at_ms + TICK_MS, 30);
    }
}

/* Looks may be shorter than a slot of time. */
Test(busy, what_has_no_length_is_all_taken_at_the_next_look)
{
    busy_t busy;
    busy_init(&busy, START_NS);
    for (int64_t at_ms = 0; at_ms < 200; at_ms += 20) {
        busy_add(&busy, START_NS + at_ms * MS, 0, 30.0 * MS);
        takes(&busy, at_ms + 20, 30);
    }
}

Test(busy, nothing_is_lost)
{
    static const int64_t lengths_ms[] = {0, 1, 49, 50, 51, 333, 24000, 26000, 3600000};
    for (unsigned i = 0; i < sizeof lengths_ms / sizeof *lengths_ms; i++) {
        for (int64_t tick_ms = 20; tick_ms <= 40000; tick_ms *= 10) {
            busy_t busy;
            double sum_ms = 0;
            busy_init(&busy, START_NS);
            busy_add(&busy, START_NS + 7 * MS, lengths_ms[i] * MS, 1000 * MS);
            for (int64_t at_ms = 0; at_ms < 80000; at_ms += tick_ms)
                sum_ms += take_ms(&busy, at_ms);
            cr_assert_float_eq(sum_ms, 1000, 1e-6, "length %d ms, every %d ms: %g", (int)lengths_ms[i],
                               (int)tick_ms, sum_ms);
        }
    }
}

Test(busy, a_stopped_batch_gives_back)
{
    busy_t busy;
    busy_init(&busy, START_NS);
    add_ms(&busy, 0, 400);
    busy_add(&busy, START_NS, 0, -300.0 * MS);
    takes(&busy, 1000, 100);
}

/* A host that was suspended: what has not been taken has run meanwhile. */
Test(busy, a_jump_of_the_clock_is_survived)
{
    busy_t busy;
    busy_init(&busy, START_NS);
    add_ms(&busy, 0, 10000);
    takes(&busy, 3600000, 10000);
    add_ms(&busy, 3600000, 100);
    takes(&busy, 3600100, 100);
    takes(&busy, 0, 0); /* back */
}
