#include "summary/summary.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdio.h>

static const summary_model_t plain = {.name = "digits",
                                      .version = "1",
                                      .state = "ready",
                                      .reason = "",
                                      .ready = true,
                                      .engine = "",
                                      .mode = "whole",
                                      .mode_reason = "",
                                      .max_batch = 32,
                                      .one_ms = 3.4,
                                      .most_ms = 91,
                                      .measured = 4,
                                      .measured_up_to = 8};

static void expect_line(const summary_model_t *model, const char *line)
{
    cr_redirect_stdout();
    summary_print_model(model);
    fflush(stdout);
    cr_expect_stdout_eq_str(line);
}

Test(summary, of_a_model_that_runs_whole)
{
    expect_line(&plain,
                "  digits, version 1: ready; 1 row takes 3.4 ms, 32 take 91 (4 sizes measured, up to 8)\n");
}

Test(summary, of_one_in_stages_measured_beside_other_work)
{
    summary_model_t model = plain;

    model.mode = "staged";
    model.engine = "onednn";
    model.stages = 4;
    model.doubt = 9;
    expect_line(&model, "  digits, version 1: ready on onednn, staged in 4 stages; 1 row takes 3.4 ms, 32 "
                        "take 91 (4 sizes measured, "
                        "up to 8, beside other work)\n");
}

Test(summary, of_one_that_failed)
{
    const summary_model_t model = {.name = "x",
                                   .version = "2",
                                   .state = "failed",
                                   .reason = "no ONNX model",
                                   .engine = "",
                                   .mode = "",
                                   .mode_reason = ""};

    expect_line(&model, "  x, version 2: failed: no ONNX model\n");
}

Test(summary, an_object_has_numbers_only_where_json_has)
{
    summary_model_t model = plain;

    model.doubt = INFINITY;
    json_t *object = summary_model_json(&model);
    cr_assert_not_null(object);
    cr_expect_str_eq(json_string_value(json_object_get(object, "state")), "ready");
    cr_expect_float_eq(json_number_value(json_object_get(object, "doubt")), 0, 0);
    cr_expect_float_eq(json_number_value(json_object_get(object, "latency_ms")), 3.4, 0);
    json_decref(object);
}
