/* Whose the time of a device is, jobs beginning and ending as the test says. */
#include "worker/state/device_time.h"

#include <criterion/criterion.h>

Test(device_time, a_stream_runs_one_job_at_a_time)
{
    device_time_t time = {0};
    device_time_job_t a, b;

    cr_expect_eq(device_time_begin(&time, &a, 0, 100), 0, "nothing ran before");
    cr_expect_eq(device_time_begin(&time, &b, 0, 130), 30);
    cr_expect_eq(device_time_end(&time, &a, 150), 20);
    cr_expect_eq(device_time_end(&time, &b, 220), 70);
    cr_expect_eq(a.charged_ns, 50);
    cr_expect_eq(b.charged_ns, 70, "it waited before");
    cr_expect_eq(device_time_begin(&time, &a, 0, 300), 0, "the device was idle");
    cr_expect_eq(device_time_end(&time, &a, 301), 1);
}

Test(device_time, streams_share_it_evenly_and_it_is_counted_once)
{
    device_time_t time = {0};
    device_time_job_t a, b, c;
    int64_t busy_ns = 0;

    busy_ns += device_time_begin(&time, &a, 0, 0);
    busy_ns += device_time_begin(&time, &c, 5, 0);
    busy_ns += device_time_begin(&time, &b, 0, 4);
    busy_ns += device_time_end(&time, &a, 10);
    busy_ns += device_time_end(&time, &b, 21);
    busy_ns += device_time_end(&time, &c, 30);
    cr_expect_eq(busy_ns, 30);
    cr_expect_eq(a.charged_ns, 5);
    cr_expect_eq(b.charged_ns, 6, "with what does not divide");
    cr_expect_eq(c.charged_ns, 5 + 5 + 9);
    cr_expect_eq(a.charged_ns + b.charged_ns + c.charged_ns, busy_ns);
}

Test(device_time, what_is_heard_of_late_is_charged_to_those_known_then)
{
    device_time_t time = {0};
    device_time_job_t a, b;

    device_time_begin(&time, &a, 0, 0);
    cr_expect_eq(device_time_begin(&time, &b, 1, 50), 50);
    cr_expect_eq(device_time_end(&time, &a, 40), 0, "it was over when the other came");
    cr_expect_eq(device_time_end(&time, &b, 70), 20);
    cr_expect_eq(a.charged_ns, 50);
    cr_expect_eq(b.charged_ns, 20);
}

Test(device_time, a_job_that_is_taken_back_costs_nothing)
{
    device_time_t time = {0};
    device_time_job_t a, b, c;

    device_time_begin(&time, &a, 0, 0);
    device_time_begin(&time, &b, 0, 0);
    device_time_begin(&time, &c, 0, 0);
    device_time_end(&time, &b, 10);
    device_time_end(&time, &a, 20);
    device_time_end(&time, &c, 50);
    cr_expect_eq(a.charged_ns, 20);
    cr_expect_eq(b.charged_ns, 0);
    cr_expect_eq(c.charged_ns, 30);
}
