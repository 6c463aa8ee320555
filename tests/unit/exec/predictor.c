/*
 * The duration model's features, arithmetic and training; how well it learns from devices is in docs/modes/measurements.md.
 */
#include "exec/trainer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static predictor_t predictor;
static const uint32_t ops[] = {10, 20};

static overlap_group_t both(void)
{
    return (overlap_group_t){.count = 2,
                             .parts = {{.model = 0, .from = 5, .to = 10, .rows = 8},
                                       {.model = 1, .to = 5, .rows = 32, .length = 64}}};
}

Test(predictor, features_are_those_of_figure_8)
{
    static const float expected[] = {1, 1, 0.5f, 1, 0.25f, 0, 0, 0.25f, 1, 1};
    static const float alone[] = {0, 1, 0, 0, 0, 0, 0, 0.25f, 1, 1};
    float features[PREDICTOR_INPUTS_MAX];
    overlap_group_t group = both();
    predictor_init(&predictor, 2, ops, 32, 64);
    predictor_features(&predictor, &group, features);
    cr_assert_arr_eq(features, expected, sizeof(expected));
    group.parts[0] = group.parts[1];
    group.count = 1;
    predictor_features(&predictor, &group, features);
    cr_assert_arr_eq(features, alone, sizeof(alone));
}

/* One path through the layers, and one that a negative sum closes. */
Test(predictor, a_layer_passes_on_what_is_positive)
{
    int64_t ns[2];
    overlap_group_t groups[2] = {both(), both()};
    groups[1].parts[0].from = 0;
    memset(&predictor, 0, sizeof(predictor));
    predictor_init(&predictor, 2, ops, 32, 64);
    predictor.weight[0][3][2] = 2; /* the first operator of model 0 */
    predictor.weight[1][4][3] = 1;
    predictor.weight[2][5][4] = 1;
    predictor.weight[3][0][5] = 1;
    predictor.weight[0][6][0] = -1;
    predictor.weight[1][7][6] = 100;
    predictor.bias[3][0] = logf(1e6f);
    predictor_predict(&predictor, groups, 2, ns);
    cr_assert_float_eq((double)ns[0], 1e6 * exp(1), 100);
    cr_assert_float_eq((double)ns[1], 1e6, 100);
    for (int i = 0; i < 2; i++) {
        predictor.bias[3][0] = i ? NAN : 80; /* e^80 is beyond any time */
        predictor_predict(&predictor, groups, 2, ns);
        cr_assert_geq(ns[0], INT64_C(3600000000000), "long, and a number");
        cr_assert_lt(ns[0], INT64_MAX / 1000);
    }
}

/* Figure 9: what ends, what begins, what does both. */
Test(predictor, groups_are_those_that_a_controller_makes)
{
    enum { GROUPS = 6000 };
    prng_t prng;
    trainer_services_t services = {.models = 5};
    uint32_t rows[5][33] = {{0}}, ending[5] = {0}, whole = 0, inside = 0;
    for (uint32_t i = 0; i < 5; i++) {
        services.model[i].ops = 10;
        services.model[i].row_count = 3;
        memcpy(services.model[i].rows, (uint32_t[]){4, 8, 32}, 3 * sizeof(uint32_t));
    }
    prng_init(&prng, 3);
    for (uint32_t i = 0; i < 2 * GROUPS; i++) {
        services.limited = i >= GROUPS;
        overlap_group_t group = trainer_draw_group(&services, &prng);
        uint32_t ends = 0;
        cr_assert(group.count >= 1 && group.count <= 4, "%u", group.count);
        for (uint32_t p = 0; p < group.count; p++) {
            const exec_part_t *part = &group.parts[p];
            cr_assert(part->from < part->to && part->to <= 10, "%u to %u", part->from, part->to);
            cr_assert(p == 0 || group.parts[p - 1].model < part->model, "by model");
            rows[part->model][part->rows]++;
            ends += part->to == 10;
            whole += part->to == 10 && part->from == 0;
            inside += part->to < 10 && part->from > 0;
            cr_assert(services.limited || part->to == 10 || part->from == 0, "%u to %u", part->from,
                      part->to);
        }
        cr_assert(services.limited || ends > 0, "group %u: nothing ends", i);
        ending[ends] += !services.limited;
    }
    for (uint32_t n = 1; n <= 4; n++)
        cr_assert_gt(ending[n], GROUPS / 20, "%u of %u groups end %u", ending[n], GROUPS, n);
    cr_assert_gt(whole, GROUPS / 2);
    cr_assert_gt(inside, GROUPS / 10, "%u: left in the middle by a controller that limits groups", inside);
    for (uint32_t m = 0; m < 5; m++)
        cr_assert(rows[m][4] - rows[m][32] + 1 <= 2 && rows[m][8] - rows[m][32] + 1 <= 2, "%u %u %u",
                  rows[m][4], rows[m][8], rows[m][32]);
}

/* A device on which two models slow each other: the longer one hides a part of the shorter one. */
static int64_t duration_ns(const overlap_group_t *group)
{
    double ns[2] = {0};
    for (uint32_t i = 0; i < group->count; i++)
        ns[i] = 1e5 * (group->parts[i].to - group->parts[i].from) * (2 + group->parts[i].rows);
    return (int64_t)(ns[0] > ns[1] ? ns[0] + ns[1] / 3 : ns[1] + ns[0] / 3);
}

Test(predictor, learns_what_lines_cannot)
{
    enum { SAMPLES = 2000, TRAINED = 1600 };
    static trainer_sample_t samples[SAMPLES];
    static trainer_t trainer;
    trainer_line_t line;
    prng_t prng;
    trainer_services_t services = {.models = 2};
    for (uint32_t i = 0; i < 2; i++) {
        services.model[i].ops = ops[i];
        services.model[i].row_count = 3;
        memcpy(services.model[i].rows, (uint32_t[]){4, 8, 32}, 3 * sizeof(uint32_t));
    }
    prng_init(&prng, 5);
    memset(&predictor, 0, sizeof(predictor));
    predictor_init(&predictor, 2, ops, 32, 1);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        overlap_group_t group = trainer_draw_group(&services, &prng);
        samples[i] = trainer_sample(&predictor, &group, duration_ns(&group));
        cr_assert_eq(samples[i].members == 3, group.count == 2);
    }
    trainer_fit(&trainer, &predictor, samples, TRAINED, 60, &prng);
    double mlp = trainer_error(&predictor, samples + TRAINED, SAMPLES - TRAINED);
    trainer_fit_linear(&line, samples, TRAINED, predictor.width[0]);
    double linear = trainer_line_error(&line, samples + TRAINED, SAMPLES - TRAINED);
    trainer_fit_svr(&line, samples, TRAINED, predictor.width[0], 20, &prng);
    double svr = trainer_line_error(&line, samples + TRAINED, SAMPLES - TRAINED);
    cr_assert_lt(mlp, 0.08, "%.3f", mlp);
    cr_assert_lt(3 * mlp, linear, "%.3f of %.3f", mlp, linear);
    cr_assert_lt(3 * mlp, svr, "%.3f of %.3f", mlp, svr);
}

/* As operators of real models are: a few take most of the time. */
static int64_t uneven_ns(uint32_t op)
{
    return op % 5 == 2 ? 2000000 : 20000;
}

static double error_with(bool times, double *linear, double *svr)
{
    enum { SAMPLES = 1200, TRAINED = 1000, OPS = 40 };
    static trainer_sample_t samples[SAMPLES];
    static trainer_t trainer;
    const uint32_t many[] = {OPS, OPS};
    int64_t op_ns[OPS];
    prng_t prng;
    trainer_services_t services = {.models = 2, .model = {{.ops = OPS}, {.ops = OPS}}};
    prng_init(&prng, 7);
    memset(&predictor, 0, sizeof(predictor));
    predictor_init(&predictor, 2, many, 32, 1);
    for (uint32_t op = 0; op < OPS; op++)
        op_ns[op] = uneven_ns(op);
    for (uint32_t m = 0; times && m < 2; m++)
        predictor_set_times(&predictor, m, op_ns);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        overlap_group_t group = trainer_draw_group(&services, &prng);
        int64_t ns = 0;
        for (uint32_t part = 0; part < group.count; part++)
            for (uint32_t op = group.parts[part].from; op < group.parts[part].to; op++)
                ns += uneven_ns(op);
        samples[i] = trainer_sample(&predictor, &group, ns);
    }
    trainer_line_t line;
    trainer_fit(&trainer, &predictor, samples, TRAINED, 120, &prng);
    trainer_fit_linear(&line, samples, TRAINED, predictor.width[0]);
    *linear = trainer_line_error(&line, samples + TRAINED, SAMPLES - TRAINED);
    trainer_fit_svr(&line, samples, TRAINED, predictor.width[0], 20, &prng);
    *svr = trainer_line_error(&line, samples + TRAINED, SAMPLES - TRAINED);
    return trainer_error(&predictor, samples + TRAINED, SAMPLES - TRAINED);
}

/* With features that are logarithms: lines that are fitted to nanoseconds are four times off here. */
Test(predictor, lines_are_given_what_suits_them)
{
    double linear, svr;
    error_with(true, &linear, &svr);
    cr_assert_lt(linear, 0.7, "%.3f", linear);
    cr_assert_lt(svr, 0.7, "%.3f", svr);
}

Test(predictor, places_by_time_make_uneven_operators_learnable)
{
    double linear, svr, alike = error_with(false, &linear, &svr), timed = error_with(true, &linear, &svr);
    cr_assert_lt(2 * timed, alike, "%.3f with times, %.3f without", timed, alike);
}

Test(predictor, a_place_is_the_part_of_the_time_before_it)
{
    overlap_group_t group = {.parts = {{.model = 1, .from = 1, .to = 3, .rows = 1, .length = 1}}, .count = 1};
    float features[PREDICTOR_INPUTS_MAX];
    memset(&predictor, 0, sizeof(predictor));
    predictor_init(&predictor, 2, (const uint32_t[]){3, 4}, 1, 1);
    predictor_set_times(&predictor, 1, (const int64_t[]){10, 60, 20, 10});
    predictor_features(&predictor, &group, features);
    cr_assert_float_eq(features[2 + 4], 0.1, 1e-6);
    cr_assert_float_eq(features[2 + 5], 1 + log10(0.8) / 4, 1e-5, "a ten-thousandth is 0");
    predictor_set_times(&predictor, 1, (const int64_t[4]){0});
    predictor_features(&predictor, &group, features);
    cr_assert_float_eq(features[2 + 4], 0.1, 1e-6, "times that say nothing change nothing");
}

Test(predictor, a_length_counts_by_the_longest_rows_of_its_own_model)
{
    overlap_group_t group = {.parts = {{.model = 0, .to = 3, .rows = 1, .length = 150528},
                                       {.model = 1, .to = 4, .rows = 1, .length = 32}},
                             .count = 2};
    float features[PREDICTOR_INPUTS_MAX];
    memset(&predictor, 0, sizeof(predictor));
    predictor_init(&predictor, 2, (const uint32_t[]){3, 4}, 1, 1);
    predictor_set_length(&predictor, 0, 4 * 150528);
    predictor_set_length(&predictor, 1, 64);
    predictor_features(&predictor, &group, features);
    cr_assert_float_eq(features[2 + 3], 0.25, 1e-6);
    cr_assert_float_eq(features[2 + 4 + 3], 0.5, 1e-6);
    predictor_set_times(&predictor, 0, (const int64_t[]){1, 1, 1});
    predictor_set_times(&predictor, 1, (const int64_t[]){1, 1, 1, 1});
    predictor_features(&predictor, &group, features);
    cr_assert_float_eq(features[2 + 3], 1 + log10(0.25) / 3, 1e-5, "a thousandth is 0");
    cr_assert_float_eq(features[2 + 4 + 3], 1 + log10(0.5) / 3, 1e-5);
    group.parts[1].length = 64;
    predictor_features(&predictor, &group, features);
    cr_assert_float_eq(features[2 + 4 + 3], 1, 1e-6, "the longest, and rows that are all alike");
}

/* As attention takes: a part that grows with the length, and one with its square. */
static int64_t sequence_ns(const exec_part_t *part)
{
    double length = (double)part->length;
    return (int64_t)((part->to - part->from) * part->rows * (1e3 + 200 * length + 2 * length * length));
}

Test(predictor, learns_what_lengths_cost)
{
    enum { SAMPLES = 2000, TRAINED = 1600, OPS = 10 };
    static trainer_sample_t samples[SAMPLES];
    static trainer_t trainer;
    const int64_t op_ns[OPS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    prng_t prng;
    trainer_services_t services = {.models = 2};
    prng_init(&prng, 11);
    memset(&predictor, 0, sizeof(predictor));
    predictor_init(&predictor, 2, (const uint32_t[]){OPS, OPS}, 8, 1);
    for (uint32_t i = 0; i < 2; i++) {
        services.model[i].ops = OPS;
        services.model[i].row_count = 2;
        memcpy(services.model[i].rows, (uint32_t[]){1, 8}, 2 * sizeof(uint32_t));
        predictor_set_times(&predictor, i, op_ns);
    }
    services.model[1].length_count = 4;
    memcpy(services.model[1].lengths, (uint32_t[]){16, 64, 128, 512}, 4 * sizeof(uint32_t));
    memcpy(services.model[1].weights, (double[]){4, 3, 2, 1}, 4 * sizeof(double));
    predictor_set_length(&predictor, 1, 512);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        overlap_group_t group = trainer_draw_group(&services, &prng);
        int64_t ns = 0;
        for (uint32_t part = 0; part < group.count; part++)
            ns += sequence_ns(&group.parts[part]);
        samples[i] = trainer_sample(&predictor, &group, ns);
    }
    trainer_fit(&trainer, &predictor, samples, TRAINED, 150, &prng);
    double error = trainer_error(&predictor, samples + TRAINED, SAMPLES - TRAINED);
    cr_assert_lt(error, 0.08, "%.3f", error);
    overlap_group_t between = {.parts = {{.model = 1, .to = OPS, .rows = 8, .length = 256}}, .count = 1};
    int64_t ns;
    predictor_predict(&predictor, &between, 1, &ns);
    cr_assert_float_eq((double)ns / (double)sequence_ns(&between.parts[0]), 1, 0.35,
                       "a length that was never measured, between two that were");
}
