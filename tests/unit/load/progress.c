#include "load/progress.h"

#include <criterion/criterion.h>

static void expect(const progress_view_t *view, unsigned columns, const char *want)
{
    char text[512];
    progress_text(view, columns, text, sizeof text);
    cr_expect_str_eq(text, want, "%u columns: '%s'", columns, text);
}

static const progress_view_t half_way = {.done = 0.5,
                                         .left_s = 4.2,
                                         .sent_per_s = 1498.7,
                                         .good_per_s = 1490,
                                         .p99_ns = 12345678,
                                         .sending = true};

Test(progress, as_much_as_fits)
{
    expect(&half_way, 10, "5 s left");
    expect(&half_way, 30, "5 s left  1,499/s sent");
    expect(&half_way, 39, "5 s left  1,499/s sent  1,490/s good");
    expect(&half_way, 51, "5 s left  1,499/s sent  1,490/s good  p99 12.3 ms");
    expect(&half_way, 65, "5 s left  1,499/s sent  1,490/s good  p99 12.3 ms  [######......]");
    expect(&half_way, 200,
           "5 s left  1,499/s sent  1,490/s good  p99 12.3 ms  [####################....................]");
    expect(&half_way, 0, "");
}

Test(progress, what_is_not_known_is_not_said)
{
    progress_view_t view = {.left_s = -1, .warming_up = true, .sending = true};
    expect(&view, 30, "starting  0/s sent");
    view.left_s = 100;
    expect(&view, 40, "100 s left, warming up  0/s sent");
    view.sending = view.warming_up = false;
    expect(&view, 40, "waiting for the last answers  0/s sent");
}
