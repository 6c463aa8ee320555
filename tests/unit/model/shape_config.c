#include "model/parts/shape_config.h"

#include "config/ydoc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static shape_config_t config;
static err_t err;

static status_t read_config(const char *text)
{
    ydoc_t *doc;

    err = (err_t){0};
    cr_assert_eq(ydoc_parse("m.yaml", text, strlen(text), &doc, &err), STATUS_OK, "%s", err.text);
    status_t status = shape_config_read(ydoc_root(doc), &config, &err);
    ydoc_destroy(doc);
    return status;
}

/* `before`, then count times `each` with its number, then `after`. */
static const char *repeated(const char *before, const char *each, int count, const char *after)
{
    static char text[4096];
    int len = snprintf(text, sizeof(text), "%s", before);

    for (int i = 1; i <= count; i++) {
        len += snprintf(text + len, sizeof(text) - (size_t)len, "%s", i > 1 ? ", " : "");
        for (const char *c = each; *c; c++)
            len += *c == '#' ? snprintf(text + len, sizeof(text) - (size_t)len, "%d", i)
                             : snprintf(text + len, sizeof(text) - (size_t)len, "%c", *c);
    }
    len += snprintf(text + len, sizeof(text) - (size_t)len, "%s", after);
    cr_assert_lt(len, (int)sizeof(text));
    return text;
}

static const char *named(int len_bytes)
{
    static char text[1024];

    snprintf(text, sizeof(text), "dims: {%0*d: {max: 4}}", len_bytes, 7);
    return text;
}

Test(shape_config, reads_all_that_it_may_say)
{
    cr_assert_eq(read_config("dims:\n"
                             "  sequence: {pad_to: [32, 128, 512]}\n"
                             "  width: {max: 640}\n"
                             "  height: {}\n"
                             "pad_value: {ids: 3, score: -0.5}\n"
                             "profile_shapes: [{sequence: 32, width: 64}, {sequence: 512}]\n"),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(config.dim_count, 3);
    cr_expect_str_eq(config.dims[0].name, "sequence");
    cr_expect_eq(config.dims[0].pad_to_count, 3);
    cr_expect_arr_eq(config.dims[0].pad_to, ((uint32_t[]){32, 128, 512}), 3 * sizeof(uint32_t));
    cr_expect_eq(config.dims[0].size_max, 512, "the last that it is padded to");
    cr_expect_eq(config.dims[1].size_max, 640);
    cr_expect_eq(config.dims[1].pad_to_count, 0);
    cr_expect_eq(config.dims[2].size_max, AXIS_SIZE_MAX);
    cr_assert_eq(config.pad_value_count, 2);
    cr_expect_str_eq(config.pad_values[1].input, "score");
    cr_expect_float_eq(config.pad_values[1].value, -0.5, 1e-12);
    cr_assert_eq(config.reference_count, 2);
    cr_expect_eq(config.references[0].count, 2);
    cr_expect_str_eq(config.references[0].sizes[1].axis, "width");
    cr_expect_eq(config.references[0].sizes[1].size, 64);
    cr_expect_eq(config.references[1].sizes[0].size, 512);
}

Test(shape_config, is_empty_where_nothing_is_said)
{
    memset(&config, 0xff, sizeof(config));
    cr_assert_eq(read_config("slo_ms: 5\n"), STATUS_OK, "%s", err.text);
    cr_expect_eq(config.dim_count, 0);
    cr_expect_eq(config.pad_value_count, 0);
    cr_expect_eq(config.reference_count, 0);
}

Test(shape_config, takes_as_much_as_there_is_room_for)
{
    cr_expect_eq(read_config(repeated("dims: {", "d#: {}", AXES_MAX, "}")), STATUS_OK, "%s", err.text);
    cr_expect_eq(config.dim_count, AXES_MAX);
    cr_expect_eq(read_config(repeated("dims: {s: {pad_to: [", "#", PAD_SIZES_MAX, "]}}")), STATUS_OK, "%s",
                 err.text);
    cr_expect_eq(config.dims[0].size_max, PAD_SIZES_MAX);
    cr_expect_eq(read_config(repeated("pad_value: {", "i#: #", PAD_VALUES_MAX, "}")), STATUS_OK, "%s",
                 err.text);
    cr_expect_float_eq(config.pad_values[PAD_VALUES_MAX - 1].value, PAD_VALUES_MAX, 1e-12);
    cr_expect_eq(read_config(repeated("profile_shapes: [", "{s: #}", REFERENCES_MAX, "]")), STATUS_OK, "%s",
                 err.text);
    cr_expect_eq(config.references[REFERENCES_MAX - 1].sizes[0].size, REFERENCES_MAX);
    cr_expect_eq(read_config("dims: {s: {max: 1048576}}"), STATUS_OK, "%s", err.text);
    cr_expect_eq(read_config(named(AXIS_NAME_BYTES - 1)), STATUS_OK, "%s", err.text);
    cr_expect_eq(strlen(config.dims[0].name), AXIS_NAME_BYTES - 1);
}

static void expect_refusal(const char *text, const char *words)
{
    cr_expect_eq(read_config(text), STATUS_INVALID_ARGUMENT, "accepted: %s", text);
    cr_expect_str_eq(err.text, words, "%s: %s", text, err.text);
}

Test(shape_config, refuses_more_than_there_is_room_for)
{
    expect_refusal(repeated("dims: {", "d#: {}", AXES_MAX + 1, "}"),
                   "m.yaml:1:1: dims: 17 entries, 1 to 16 are possible");
    expect_refusal(repeated("dims: {s: {pad_to: [", "#", PAD_SIZES_MAX + 1, "]}}"),
                   "m.yaml:1:12: pad_to: 33 entries, 1 to 32 are possible");
    expect_refusal(repeated("pad_value: {", "i#: 0", PAD_VALUES_MAX + 1, "}"),
                   "m.yaml:1:1: pad_value: 65 entries, 1 to 64 are possible");
    expect_refusal(repeated("profile_shapes: [", "{s: #}", REFERENCES_MAX + 1, "]"),
                   "m.yaml:1:1: profile_shapes: 9 entries, 1 to 8 are possible");
    expect_refusal(repeated("profile_shapes: [{", "s#: 1", AXES_MAX + 1, "}]"),
                   "m.yaml:1:18: 17 entries, 1 to 16 are possible");
    expect_refusal("pad_value: {'': 1}", "m.yaml:1:13: : a name of 1 to 127 bytes is expected");
    for (int len_bytes = AXIS_NAME_BYTES; len_bytes <= 900; len_bytes += 386) {
        cr_expect_eq(read_config(named(len_bytes)), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(err.text, ": a name of 1 to 127 bytes is expected"), "%s", err.text);
    }
}

Test(shape_config, refuses_what_makes_no_sense_and_says_where)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"dims: 5", "m.yaml:1:1: dims: expected a map, found a single value"},
        {"dims:", "m.yaml:1:1: dims: expected a map, found nothing"},
        {"dims: [s]", "m.yaml:1:1: dims: expected a map, found a list"},
        {"dims: {}", "m.yaml:1:1: dims: 0 entries, 1 to 16 are possible"},
        {"dims: {s: 5}", "m.yaml:1:8: s: expected a map, found a single value"},
        {"dims: {s: {most: 5}}", "m.yaml:1:12: unknown key \"most\" (allowed: max, pad_to)"},
        {"dims: {s: {max: 0}}", "m.yaml:1:12: max: 0 is not between 1 and 1048576"},
        {"dims: {s: {max: 1048577}}", "m.yaml:1:12: max: 1048577 is not between 1 and 1048576"},
        {"dims: {s: {max: 4294967297}}", "m.yaml:1:12: max: 4294967297 is not between 1 and 1048576"},
        {"dims: {s: {max: 9.5}}", "m.yaml:1:12: max: \"9.5\" is not a whole number"},
        {"dims: {s: {max: 9, pad_to: [9]}}",
         "m.yaml:1:12: max: with pad_to its last size is the largest; max has no place beside it"},
        {"dims: {s: {pad_to: 8}}", "m.yaml:1:12: pad_to: expected a list, found a single value"},
        {"dims: {s: {pad_to: []}}", "m.yaml:1:12: pad_to: 0 entries, 1 to 32 are possible"},
        {"dims: {s: {pad_to: [0, 8]}}", "m.yaml:1:21: 0 is not between 1 and 1048576"},
        {"dims: {s: {pad_to: [8, 8]}}", "m.yaml:1:24: the sizes of pad_to must rise"},
        {"dims: {s: {pad_to: [4, 16, 8]}}", "m.yaml:1:28: the sizes of pad_to must rise"},
        {"dims: {s: {pad_to: [[8]]}}", "m.yaml:1:21: expected a single value, found a list"},
        {"pad_value: 3", "m.yaml:1:1: pad_value: expected a map, found a single value"},
        {"pad_value: {}", "m.yaml:1:1: pad_value: 0 entries, 1 to 64 are possible"},
        {"pad_value: {ids: three}", "m.yaml:1:13: ids: \"three\" is not a number"},
        {"pad_value: {ids: 1e301}", "m.yaml:1:13: ids: 1e+301 is not between -1e+300 and 1e+300"},
        {"pad_value: {ids: nan}", "m.yaml:1:13: ids: \"nan\" is not a number"},
        {"profile_shapes: {s: 8}", "m.yaml:1:1: profile_shapes: expected a list, found a map"},
        {"profile_shapes: []", "m.yaml:1:1: profile_shapes: 0 entries, 1 to 8 are possible"},
        {"profile_shapes: [8]", "m.yaml:1:18: expected a map, found a single value"},
        {"profile_shapes: [{}]", "m.yaml:1:18: 0 entries, 1 to 16 are possible"},
        {"profile_shapes: [{s: 0}]", "m.yaml:1:19: s: 0 is not between 1 and 1048576"},
        {"profile_shapes: [{s: [8]}]", "m.yaml:1:19: s: expected a single value, found a list"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_refusal(cases[i].text, cases[i].words);
}
