#include "engine/compile/fit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Every pattern at a size, as "16,16 16,17 …". */
static const char *patterns(fit_purpose_t purpose, uint32_t axis_count, int64_t size)
{
    static char text[4096];
    size_t len = 0;
    fit_t fit;

    fit_first(&fit, purpose, axis_count);
    do {
        for (uint32_t a = 0; a < axis_count; a++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d",
                                    a     ? ","
                                    : len ? " "
                                          : "",
                                    (int)fit_size(&fit, a, size));
    } while (fit_next(&fit) && len < sizeof(text) - 64);
    return text;
}

Test(fit, one_size_for_all_comes_first_and_is_all_there_is_of_one_axis)
{
    cr_expect_str_eq(patterns(FIT_TO_MEASURE, 1, 16), "16");
    cr_expect_str_eq(patterns(FIT_TO_DESCRIBE, 1, 16), "16");
}

Test(fit, every_axis_follows_the_size_of_a_description)
{
    cr_expect_str_eq(patterns(FIT_TO_DESCRIBE, 2, 16), "16,16 32,16 16,32 17,16 16,17");
}

Test(fit, one_word_behind_those_that_were_is_measured_first)
{
    cr_expect_str_eq(patterns(FIT_TO_MEASURE, 2, 16),
                     "16,16 17,16 16,17 1,17 17,1 32,16 16,32 1,16 16,1 1,32 32,1");
    /* sequence, total and past, of which the second is the sum of the others: the first that fits is 1, 17, 16. */
    cr_expect_eq(strstr(patterns(FIT_TO_MEASURE, 3, 16), "1,17,16"), patterns(FIT_TO_MEASURE, 3, 16) + 36);
}

Test(fit, begins_again_after_the_last)
{
    fit_t fit;

    fit_first(&fit, FIT_TO_DESCRIBE, 2);
    for (int i = 0; i < 4; i++)
        cr_assert(fit_next(&fit));
    cr_assert_not(fit_next(&fit));
    cr_expect_eq(fit_size(&fit, 1, 16), 16);
    fit_first(&fit, FIT_TO_MEASURE, FIT_AXES_MAX + 1);
    cr_expect_not(fit_next(&fit), "of so many axes only one pattern is tried");
}

Test(fit, dimensions_of_one_name_are_one_axis)
{
    const engine_tensor_t inputs[] = {
        {.rank = 3, .dims = {-1, -1, 8}, .symbols = {"batch", "past"}},
        {.rank = 2, .dims = {-1, -1}, .symbols = {"batch", NULL}},
        {.rank = 3, .dims = {-1, -1, -1}, .symbols = {"batch", "past", NULL}},
    };
    fit_axes_t axes;

    fit_axes(&axes, inputs, 3, 1);
    cr_expect_eq(axes.count, 3);
    cr_expect(axes.of[0][0] == 0 && axes.of[0][1] == 1 && axes.of[0][2] == 0);
    cr_expect(axes.of[1][1] == 2 && axes.of[2][1] == 1 && axes.of[2][2] == 3);
    fit_axes(&axes, inputs, 3, 0);
    cr_expect(axes.of[0][0] == 1 && axes.of[2][0] == 1, "what leads is an axis where it is no batch");
}
