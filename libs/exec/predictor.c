#include "exec/predictor.h"

#include <math.h>
#include <string.h>

void predictor_init(predictor_t *predictor, uint32_t models, const uint32_t *ops, uint32_t rows_max,
                    uint32_t length_max)
{
    predictor->models = models;
    memcpy(predictor->ops, ops, models * sizeof(ops[0]));
    predictor->rows_max = (float)rows_max;
    predictor->length_max = (float)(length_max ? length_max : 1);
    predictor->width[0] = 5 * models;
    for (uint32_t i = 1; i < PREDICTOR_LAYERS; i++)
        predictor->width[i] = PREDICTOR_WIDTH;
    predictor->width[PREDICTOR_LAYERS] = 1;
}

void predictor_features(const predictor_t *predictor, const overlap_group_t *group, float *features)
{
    memset(features, 0, predictor->width[0] * sizeof(features[0]));
    for (uint32_t i = 0; i < group->count; i++) {
        const exec_part_t *part = &group->parts[i];
        float *at = features + predictor->models + 4 * part->model;
        float ops = (float)predictor->ops[part->model];
        features[part->model] = 1;
        at[0] = (float)part->from / ops;
        at[1] = (float)part->to / ops;
        at[2] = (float)part->rows / predictor->rows_max;
        at[3] = (float)part->length / predictor->length_max;
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
        ns[i] = (int64_t)expf(predictor_forward(predictor, values));
    }
}
