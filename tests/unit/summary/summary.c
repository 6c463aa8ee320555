#include "summary/summary.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

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

static const summary_model_t broken = {.name = "broken-one",
                                       .version = "2",
                                       .state = "failed",
                                       .reason = "node 'x': unknown operator Foo of domain ai.example",
                                       .engine = "",
                                       .mode = "",
                                       .mode_reason = ""};

static void expect_table(const summary_model_t *models, size_t count, unsigned columns, const char *table)
{
    strbuf_t out;
    strbuf_init(&out, 1 << 16);
    summary_table(models, count, columns, false, &out);
    cr_expect_str_eq(out.data, table, "%u columns:\n%s", columns, out.data);
    strbuf_dispose(&out);
}

Test(summary, a_table_has_what_is_known)
{
    summary_model_t models[] = {plain, broken};

    models[0].engine = "onednn";
    expect_table(models, 2, SUMMARY_ALL,
                 "  model       version  state   engine  1 row   full batch   measured\n"
                 "  digits      1        ready   onednn  3.4 ms  32 in 91 ms  4 sizes up to 8\n"
                 "  broken-one  2        failed\n"
                 "    node 'x': unknown operator Foo of domain ai.example\n");
    expect_table(models + 1, 1, SUMMARY_ALL,
                 "  model       version  state\n"
                 "  broken-one  2        failed\n"
                 "    node 'x': unknown operator Foo of domain ai.example\n");
}

Test(summary, of_no_models_it_says_what_one_is)
{
    expect_table(NULL, 0, SUMMARY_ALL, "  none is loaded (a model is a folder MODEL/VERSION/model.onnx)\n");
}

Test(summary, a_model_without_a_version_has_none)
{
    summary_model_t models[] = {plain, broken};

    models[1].version = "0";
    models[1].reason = "no version folder";
    expect_table(models, 2, 30,
                 "  model       version  state\n"
                 "  digits      1        ready\n"
                 "  broken-one           failed\n"
                 "    no version folder\n");
}

/* What the screen has no room for is left out, but never why a model failed. */
Test(summary, a_table_of_a_narrow_screen)
{
    const summary_model_t models[] = {plain, broken};

    expect_table(models, 2, 40,
                 "  model       version  state   1 row\n"
                 "  digits      1        ready   3.4 ms\n"
                 "  broken-one  2        failed\n"
                 "    node 'x': unknown operator Foo of\n"
                 "    domain ai.example\n");
    expect_table(models, 1, 4, "  model\n  digits\n");
}

Test(summary, of_one_in_stages_measured_beside_other_work)
{
    summary_model_t model = plain;

    model.mode = "staged";
    model.stages = 4;
    model.doubt = 9;
    expect_table(&model, 1, SUMMARY_ALL,
                 "  model   version  state  1 row   full batch   measured\n"
                 "  digits  1        ready  3.4 ms  32 in 91 ms  4 sizes up to 8, beside other work\n"
                 "    staged in 4 stages\n");
}

Test(summary, states_have_colours_where_they_are_wanted)
{
    strbuf_t out;
    strbuf_init(&out, 1 << 16);
    summary_table(&broken, 1, SUMMARY_ALL, true, &out);
    cr_expect_not_null(strstr(out.data, "\x1b[31mfailed\x1b[0m\n"), "%s", out.data);
    strbuf_dispose(&out);
}

Test(summary, while_they_load)
{
    summary_model_t models[] = {
        plain, broken, {.name = "slow", .version = "1", .state = "loading", .reason = "", .engine = ""}};
    strbuf_t out;
    strbuf_init(&out, 1 << 16);
    summary_progress(models, 3, 12.7, false, &out);
    cr_expect_str_eq(out.data,
                     "Loading models: 1 of 3 ready after 13 s\n"
                     "  digits      ready  4 sizes up to 8 measured\n"
                     "  broken-one  failed  node 'x': unknown operator Foo of domain ai.example\n"
                     "  slow        loading  ",
                     "%s", out.data);
    strbuf_dispose(&out);
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
