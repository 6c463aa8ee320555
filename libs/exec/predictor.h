/*
 * Abacus's duration model of operator groups (papers/abacus.txt 5): a multilayer perceptron with three hidden
 * layers of 32.
 *
 * Features of Figure 8: a bitmap of the models in the group, then per model (in the order of the services)
 * first and last operator, rows and length; all scaled to 0..1, zero for a model that is not there. Where it
 * is known how long each operator takes alone, the first one counts by the part of the model's time before
 * it, and the last one by the logarithm of the part between both, as rows and length by theirs: the logarithm
 * of a duration is nearly linear in these. The output is the logarithm of the duration, so that an error counts by
 * its percentage. Pure; the weights are trained elsewhere.
 */
#ifndef EXEC_PREDICTOR_H
#define EXEC_PREDICTOR_H

#include "exec/overlap.h"

enum {
    PREDICTOR_WIDTH = 32,
    PREDICTOR_LAYERS = 4, /* three hidden ones and the output */
    PREDICTOR_INPUTS_MAX = 5 * OVERLAP_MODELS_MAX,
    PREDICTOR_ROW_MAX = PREDICTOR_INPUTS_MAX,
    PREDICTOR_OPS_MAX = 1024, /* whose times are known; those of a longer model count alike */
};

typedef struct {
    uint32_t models;
    uint32_t ops[OVERLAP_MODELS_MAX];
    float rows_max, length_max[OVERLAP_MODELS_MAX];
    bool timed;                                              /* `passed` is known, of all models */
    float passed[OVERLAP_MODELS_MAX][PREDICTOR_OPS_MAX + 1]; /* part of its time before each operator, 0..1 */
    uint32_t width[PREDICTOR_LAYERS + 1];                    /* inputs, 32, 32, 32, 1 */
    float weight[PREDICTOR_LAYERS][PREDICTOR_WIDTH][PREDICTOR_ROW_MAX];
    float bias[PREDICTOR_LAYERS][PREDICTOR_WIDTH];
} predictor_t;

/* Sets the shape, without times; the weights stay as they are. length_max: of every model. */
void predictor_init(predictor_t *predictor, uint32_t models, const uint32_t *ops, uint32_t rows_max,
                    uint32_t length_max);
/* The longest rows of this model: words and pixels are no lengths of one scale. */
void predictor_set_length(predictor_t *predictor, uint32_t model, uint32_t length_max);
/* How long each operator of the model takes alone: for all models or none, before any feature is asked for. */
void predictor_set_times(predictor_t *predictor, uint32_t model, const int64_t *op_ns);
void predictor_features(const predictor_t *predictor, const overlap_group_t *group, float *features);
/* values[0] are the features; fills the activations of each layer behind. Returns the logarithm of the nanoseconds. */
float predictor_forward(const predictor_t *predictor, float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX]);
/* An overlap_predict_fn with the predictor as ctx. */
void predictor_predict(void *predictor, const overlap_group_t *groups, uint32_t count, int64_t *ns);

#endif
