#include "exec/predictor.h"

#include <math.h>
#include <string.h>

/* Smaller parts of a model's time, of the largest batch and of the longest row count as these. */
static const float PART_LEAST = 1e-4f, ROWS_LEAST = 1e-3f, LENGTH_LEAST = 1e-3f;
/* Eleven days: what weights gone astray foretell, be it no number at all, fits into any sum of times. */
static const float PREDICTED_MOST_NS = 1e15f;

void predictor_init(predictor_t *predictor, uint32_t models, const uint32_t *ops, uint32_t rows_max,
                    uint32_t length_max)
{
    predictor->models = models;
    memcpy(predictor->ops, ops, models * sizeof(ops[0]));
    predictor->rows_max = (float)rows_max;
    predictor->width[0] = 5 * models;
    for (uint32_t i = 1; i < PREDICTOR_LAYERS; i++)
        predictor->width[i] = PREDICTOR_WIDTH;
    predictor->width[PREDICTOR_LAYERS] = 1;
    predictor->timed = false;
    for (uint32_t m = 0; m < models; m++) {
        predictor_set_length(predictor, m, length_max);
        for (uint32_t op = 0; op <= ops[m] && op <= PREDICTOR_OPS_MAX; op++)
            predictor->passed[m][op] = (float)op / (float)ops[m];
    }
}

void predictor_set_length(predictor_t *predictor, uint32_t model, uint32_t length_max)
{
    predictor->length_max[model] = (float)(length_max ? length_max : 1);
}

void predictor_set_times(predictor_t *predictor, uint32_t model, const int64_t *op_ns)
{
    uint32_t ops = predictor->ops[model];
    double all = 0, passed = 0;
    predictor->timed = true;
    for (uint32_t op = 0; op < ops; op++)
        all += (double)op_ns[op];
    for (uint32_t op = 0; all > 0 && ops <= PREDICTOR_OPS_MAX && op < ops; op++) {
        predictor->passed[model][op] = (float)(passed / all);
        passed += (double)op_ns[op];
    }
}

/* 0 at the first operator, 1 behind the last. */
static float position(const predictor_t *predictor, uint32_t model, uint32_t op)
{
    uint32_t ops = predictor->ops[model];
    return ops <= PREDICTOR_OPS_MAX ? predictor->passed[model][op] : (float)op / (float)ops;
}

/* From `least` to 1 as 0 to 1. */
static float scaled_log(float value, float least)
{
    return value > least ? 1 - logf(value) / logf(least) : 0;
}

void predictor_features(const predictor_t *predictor, const overlap_group_t *group, float *features)
{
    memset(features, 0, predictor->width[0] * sizeof(features[0]));
    for (uint32_t i = 0; i < group->count; i++) {
        const exec_part_t *part = &group->parts[i];
        float *at = features + predictor->models + 4 * part->model;
        features[part->model] = 1;
        at[0] = position(predictor, part->model, part->from);
        at[1] = position(predictor, part->model, part->to);
        at[2] = (float)part->rows / predictor->rows_max;
        at[3] = (float)part->length / predictor->length_max[part->model];
        if (predictor->timed) {
            at[1] = scaled_log(at[1] - at[0], PART_LEAST);
            at[2] = scaled_log(at[2], ROWS_LEAST);
            at[3] = scaled_log(at[3], LENGTH_LEAST);
        }
    }
}

float predictor_forward(const predictor_t *predictor, float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX])
{
    for (uint32_t layer = 0; layer < PREDICTOR_LAYERS; layer++)
        for (uint32_t to = 0; to < predictor->width[layer + 1]; to++) {
            const float *weight = predictor->weight[layer][to];
            float sum = predictor->bias[layer][to];
            for (uint32_t from = 0; from < predictor->width[layer]; from++)
                sum += weight[from] * values[layer][from];
            values[layer + 1][to] = layer + 1 < PREDICTOR_LAYERS && sum < 0 ? 0 : sum;
        }
    return values[PREDICTOR_LAYERS][0];
}

void predictor_predict(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    const predictor_t *predictor = ctx;
    float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX];
    for (uint32_t i = 0; i < count; i++) {
        predictor_features(predictor, &groups[i], values[0]);
        float predicted = expf(predictor_forward(predictor, values));
        ns[i] = predicted < PREDICTED_MOST_NS ? (int64_t)predicted : (int64_t)PREDICTED_MOST_NS;
    }
}
