/* What `fermata profile --overlap` says of its errors. */
#include "base/prng.h"
#include "fermata/profile/overlap.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 20000 };

static double off(double value, double measured)
{
    return fabs(value - measured) / measured;
}

/* A model that knows the true time of each group is off by less than two measurements of one are. */
Test(profile_overlap, least_is_what_a_perfect_model_is_off_by)
{
    profile_overlap_error_t error = {.groups = GROUPS, .again_groups = GROUPS};
    double perfect = 0;
    prng_t prng;

    prng_init(&prng, 3);
    for (int i = 0; i < GROUPS; i++) {
        double truth = 1 + 9 * prng_uniform(&prng);
        double first = truth * prng_normal(&prng, 1, 0.05), second = truth * prng_normal(&prng, 1, 0.05);
        error.again += off(second, first) / GROUPS;
        perfect += off(truth, first) / GROUPS;
    }
    cr_expect_gt(error.again, 1.3 * perfect);
    cr_expect_float_eq(profile_overlap_least(&error), perfect, 0.03 * perfect, "%g, and a perfect model %g",
                       profile_overlap_least(&error), perfect);
}

Test(profile_overlap, the_report_has_both_or_neither)
{
    profile_overlap_t found = {.all = {.groups = 16, .again_groups = 2, .again = 0.06}};
    profile_overlap_how_t how = {.count = 0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    json_t *report = profile_overlap_json(&how, &found), *all = json_object_get(report, "all");

    cr_expect_float_eq(json_number_value(json_object_get(all, "repeated")), 0.06, 1e-9);
    cr_expect_float_eq(json_number_value(json_object_get(all, "least")), 0.06 / sqrt(2), 1e-9);
    json_decref(report);
    profile_overlap_table(&how, &found, out);
    cr_assert_eq(fclose(out), 0);
    cr_expect_not_null(strstr(text, "6.0 %     4.2 %\n"), "%s", text);
    free(text);

    found.all.again_groups = 0;
    report = profile_overlap_json(&how, &found);
    all = json_object_get(report, "all");
    cr_expect(json_is_null(json_object_get(all, "repeated")));
    cr_expect(json_is_null(json_object_get(all, "least")));
    json_decref(report);
}

Test(profile_overlap, a_duration_model_that_foretells_badly_is_told_so)
{
    for (int bad = 0; bad < 2; bad++) {
        profile_overlap_t found = {.all = {.groups = 60, .mlp = bad ? 0.09 : 0.07}};
        profile_overlap_how_t how = {.count = 0};
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);

        profile_overlap_table(&how, &found, out);
        cr_assert_eq(fclose(out), 0);
        cr_expect_eq(strstr(text, "--groups, here 60;") != NULL, bad, "%s", text);
        free(text);
    }
}
