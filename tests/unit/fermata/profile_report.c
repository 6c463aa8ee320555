#include "fermata/profile/report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAP = 8 };

static uint32_t sizes[CAP], count;

static status_t parse(const char *text, err_t *err)
{
    count = 99;
    return profile_batches_parse(text, sizes, CAP, &count, err);
}

Test(batches, are_sizes_and_ranges_in_any_order)
{
    uint32_t want[] = {1, 2, 4, 5, 6, 16};

    cr_assert_eq(parse("16,1,4-6,2,5", NULL), STATUS_OK);
    cr_assert_eq(count, 6);
    cr_assert_arr_eq(sizes, want, sizeof(want));
    cr_assert_eq(parse("1024", NULL), STATUS_OK);
    cr_assert_eq(parse("7-7", NULL), STATUS_OK);
    cr_assert_eq(count, 1);
}

Test(batches, that_are_none_are_named)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "1025",
                                      "-1",
                                      "1,",
                                      ",1",
                                      "1,,2",
                                      "4-2",
                                      "1-",
                                      "x",
                                      "1 2",
                                      " 1",
                                      "1.5",
                                      "+3",
                                      "0x4",
                                      "1-0",
                                      "2-x",
                                      "1,2;",
                                      "99999999999999999999",
                                      "1-1025"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        err_t err;
        cr_expect_eq(parse(bad[i], &err), STATUS_INVALID_ARGUMENT, "'%s'", bad[i]);
        cr_expect_not_null(strstr(err.text, "1,2,4-8"), "%s", err.text);
        cr_expect_eq(count, 99, "nothing is set");
    }
}

Test(batches, that_are_too_many_are_refused)
{
    err_t err;

    cr_assert_eq(parse("1-8", &err), STATUS_OK);
    cr_assert_eq(parse("1-9", &err), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(err.text, "more than 8"), "%s", err.text);
    cr_assert_eq(parse("1-1024", &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse("1,1,1,1,1,1,1,1,1", &err), STATUS_INVALID_ARGUMENT);
}

/* ---- the report ---- */

static profiler_sample_t samples[] = {
    {.batch = 1, .runs = 10, .min_ns = 2900000, .median_ns = 3000000, .p95_ns = 3150000, .p99_ns = 3300000},
    {.batch = 2,
     .runs = 10,
     .min_ns = 4900000,
     .median_ns = 5000000,
     .p95_ns = 900000000,
     .p99_ns = 900000000},
};
static profile_t profile;
static profiler_check_t check = {.runs = 50,
                                 .off_p50 = 0.01,
                                 .off_p90 = 0.04,
                                 .jitter_p50 = 0.015,
                                 .jitter_p90 = 0.035,
                                 .fit_p50 = 0.005,
                                 .fit_p90 = 0.025,
                                 .worst_batch = 3,
                                 .worst = -0.045,
                                 .late = 0.02};
static profile_report_t report = {.model = "a<b>",
                                  .shape = "",
                                  .engine = "onednn",
                                  .device = "cpu & co",
                                  .hash = "h",
                                  .samples = samples,
                                  .count = 2,
                                  .profile = &profile};

static void fit(void)
{
    cr_assert_eq(profiler_fit(samples, 2, 4, &profile, NULL), STATUS_OK);
}

static char *read_all(FILE *file)
{
    static char text[16384];

    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

TestSuite(report, .init = fit);

Test(report, the_line_and_how_far_it_is_off)
{
    profiler_sample_t other = {.batch = 3, .median_ns = 14000000};

    cr_expect_eq(profile_report_fit_ns(&profile, 3), 7000000);
    cr_expect_float_eq(profile_report_off(&profile, &samples[0]), 0, 1e-9);
    cr_expect_float_eq(profile_report_off(&profile, &other), -0.5, 1e-9);
}

Test(report, as_a_table)
{
    FILE *file = tmpfile();

    report.check = &check;
    profile_report_table(&report, file);
    const char *text = read_all(file);
    cr_expect_not_null(strstr(text, "a<b> on cpu & co\n"), "%s", text);
    cr_expect_not_null(strstr(text, "alpha 2.0000 ms a row, beta 1.0000 ms a batch"), "%s", text);
    cr_expect_not_null(strstr(text, "\n    1    10  2.9000     3.0000"), "%s", text);
    cr_expect_not_null(strstr(text, "planned with: 1.050 x the median"), "%s", text);
    cr_expect_not_null(strstr(text, "#--"), "%s", text);
    cr_expect_not_null(strstr(text, "------>\n"), "the hiccup is cut off: %s", text);
    cr_expect_not_null(strstr(text, "1.0 % (p50), 4.0 % (p90)"), "%s", text);
    cr_expect_not_null(strstr(text, "own size by 1.5 % (p50), 3.5 % (p90)"), "%s", text);
    cr_expect_not_null(strstr(text, "0.5 % (p50), 2.5 % (p90), most at batch 3: -4.5 %"), "%s", text);
    cr_expect_null(strstr(text, "written"), "%s", text);
}

Test(report, as_json)
{
    report.written = "p.txt";
    json_t *document = profile_report_json(&report);
    json_t *size = json_array_get(json_object_get(document, "sizes"), 1);

    cr_expect_eq(json_integer_value(json_object_get(document, "max_batch")), 4);
    cr_expect_float_eq(json_real_value(json_object_get(document, "alpha_ms")), 2, 1e-9);
    cr_expect_eq(json_integer_value(json_object_get(size, "batch")), 2);
    cr_expect_float_eq(json_real_value(json_object_get(size, "p99_ms")), 900, 1e-9);
    cr_expect_str_eq(json_string_value(json_object_get(document, "profile")), "p.txt");
    cr_expect_null(json_object_get(document, "check"));
    json_decref(document);
}

Test(report, as_a_picture)
{
    char path[] = "/tmp/fermata-plot-XXXXXX";
    err_t err;
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(profile_report_svg(&report, path, &err), STATUS_OK);
    const char *text = read_all(fopen(path, "r"));
    unlink(path);
    cr_expect_eq(strncmp(text, "<svg ", 5), 0);
    cr_expect_not_null(strstr(text, "a&#60;b&#62; on cpu &#38; co"), "%s", text);
    cr_expect_not_null(strstr(text, "</svg>"));
    cr_expect_null(strstr(text, "y2=\"-"), "nothing lies above the frame: %s", text);
    cr_assert_eq(profile_report_svg(&report, "/nowhere/x.svg", &err), STATUS_IO);
    cr_expect_not_null(strstr(err.text, "/nowhere/x.svg"), "%s", err.text);
}
