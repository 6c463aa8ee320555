#include "transfer/window.h"

#include <criterion/criterion.h>

static window_t window;

Test(window, gives_pieces_in_order_and_never_across_the_end)
{
    uint64_t at;

    uint32_t a = window_take(&window, CARRIER_WINDOW_BYTES - 100, &at);
    cr_assert_eq(at, 0);
    cr_assert_neq(a, WINDOW_SPAN_NONE);
    cr_assert_eq(window_take(&window, 101, &at), WINDOW_SPAN_NONE);
    uint32_t b = window_take(&window, 60, &at);
    cr_assert_eq(at, CARRIER_WINDOW_BYTES - 100);
    window_give(&window, a);
    uint32_t c = window_take(&window, 50, &at);
    cr_assert_eq(at, 0, "40 are left at the end: it begins anew");
    cr_assert_neq(c, WINDOW_SPAN_NONE);
    window_give(&window, b);
    window_give(&window, c);
    cr_assert_neq(window_take(&window, CARRIER_WINDOW_BYTES, &at), WINDOW_SPAN_NONE);
    cr_assert_eq(at, 0, "nothing was out");
}

Test(window, what_comes_back_early_waits_for_those_before_it)
{
    uint64_t at;
    uint32_t half = CARRIER_WINDOW_BYTES / 2;

    uint32_t a = window_take(&window, half, &at), b = window_take(&window, half, &at);
    window_give(&window, b);
    cr_assert_eq(window_take(&window, 1, &at), WINDOW_SPAN_NONE);
    window_give(&window, a);
    cr_assert_neq(window_take(&window, half + 1, &at), WINDOW_SPAN_NONE);
}

Test(window, has_an_end_of_spans_too)
{
    uint64_t at;

    for (uint32_t i = 0; i < WINDOW_SPANS; i++)
        cr_assert_neq(window_take(&window, 1, &at), WINDOW_SPAN_NONE);
    cr_assert_eq(window_take(&window, 1, &at), WINDOW_SPAN_NONE);
    cr_assert_eq(window_take(&window, CARRIER_WINDOW_BYTES + 1, &at), WINDOW_SPAN_NONE);
}
