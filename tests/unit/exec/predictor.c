/*
 * The duration model's features and arithmetic; how well it learns is measured by fermata-sim (docs/modes.md).
 */
#include "exec/predictor.h"

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
}
