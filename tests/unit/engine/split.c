/* The names of one engine, or of two. */
#include "engine/auto/split.h"

#include <criterion/criterion.h>

static const char *const names[] = {"onnxruntime", "openvino", "onednn"};
enum { COUNT = 3 };

static void expect_same(const char *text, split_t wanted)
{
    char name[ENGINE_RUNNING_BYTES];
    split_t split;
    cr_assert(split_parse(text, names, COUNT, &split), "%s", text);
    cr_expect_eq(split.small, wanted.small);
    cr_expect_eq(split.large, wanted.large);
    cr_expect_eq(split.rows, wanted.rows);
    split_name(&split, names, name);
    cr_expect_str_eq(name, text);
}

Test(split, a_name_says_which)
{
    expect_same("onnxruntime", (split_t){0, 0, 0});
    expect_same("openvino:2+onednn", (split_t){1, 2, 2});
    expect_same("onnxruntime:512+openvino", (split_t){0, 1, 512});
}

Test(split, what_names_nothing_is_refused)
{
    const char *const wrong[] = {"",
                                 "onedn",
                                 "onednnx",
                                 "+",
                                 "openvino+onednn",
                                 "openvino:+onednn",
                                 "openvino:0+onednn",
                                 "openvino:-1+onednn",
                                 "openvino: 2+onednn",
                                 "openvino:2x+onednn",
                                 "openvino:2+",
                                 ":2+onednn",
                                 "openvino:2+cuda",
                                 "onednn:2+onednn",
                                 "openvino:99999999999+onednn",
                                 "openvino:2",
                                 "openvino+2:onednn",
                                 "openvino:2+onednn+onnxruntime"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        split_t split;
        cr_expect_not(split_parse(wrong[i], names, COUNT, &split), "%s", wrong[i]);
    }
}

Test(split, small_batches_are_those_up_to_its_rows)
{
    const split_t two = {1, 2, 4}, one = {2, 2, 0};
    cr_expect_eq(split_at(&two, 1), 1);
    cr_expect_eq(split_at(&two, 4), 1);
    cr_expect_eq(split_at(&two, 5), 2);
    cr_expect_eq(split_at(&one, 1), 2);
}
