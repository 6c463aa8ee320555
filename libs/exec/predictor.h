/*
 * Abacus's duration model of operator groups (papers/abacus.txt 5): a multilayer perceptron with three hidden layers of 32.
 *
 * Features of Figure 8: a bitmap of the models in the group, then per model (in the order of the services) first and last
 * operator, rows and length; all scaled to 0..1, zero for a model that is not there. The output is the logarithm of the
 * duration, so that an error counts by its percentage. Pure; the weights are trained elsewhere.
 */
#ifndef EXEC_PREDICTOR_H
#define EXEC_PREDICTOR_H

#include "exec/overlap.h"

enum {
    PREDICTOR_WIDTH = 32,
    PREDICTOR_LAYERS = 4, /* three hidden ones and the output */
    PREDICTOR_INPUTS_MAX = 5 * OVERLAP_MODELS_MAX,
    PREDICTOR_ROW_MAX = PREDICTOR_INPUTS_MAX,
};

typedef struct {
    uint32_t models;
    uint32_t ops[OVERLAP_MODELS_MAX];
    float rows_max, length_max;
    uint32_t width[PREDICTOR_LAYERS + 1]; /* inputs, 32, 32, 32, 1 */
    float weight[PREDICTOR_LAYERS][PREDICTOR_WIDTH][PREDICTOR_ROW_MAX];
    float bias[PREDICTOR_LAYERS][PREDICTOR_WIDTH];
} predictor_t;

/* Sets the shape; the weights stay as they are. */
void predictor_init(predictor_t *predictor, uint32_t models, const uint32_t *ops, uint32_t rows_max,
                    uint32_t length_max);
void predictor_features(const predictor_t *predictor, const overlap_group_t *group, float *features);
/* values[0] are the features; fills the activations of each layer behind. Returns the logarithm of the nanoseconds. */
float predictor_forward(const predictor_t *predictor, float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX]);
/* An overlap_predict_fn with the predictor as ctx. */
void predictor_predict(void *predictor, const overlap_group_t *groups, uint32_t count, int64_t *ns);

#endif
