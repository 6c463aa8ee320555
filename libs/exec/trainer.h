/*
 * Trains Abacus's duration model (exec/predictor.h) on measured groups of operators, and the baselines it is
 * compared with (papers/abacus.txt 5.4, 5.5). Pure: the caller measures, keeps the samples and gives the
 * memory.
 */
#ifndef EXEC_TRAINER_H
#define EXEC_TRAINER_H

#include "base/prng.h"
#include "exec/predictor.h"

/* ---- which groups to measure ---- */

enum { TRAINER_CHOICES_MAX = 32 };

/* The services that are deployed together, and the queries that come to each. */
typedef struct {
    uint32_t models;
    bool limited; /* the controller's groups are of limited length (overlap_config_t.group_part) */
    struct {
        uint32_t ops;
        uint32_t rows[TRAINER_CHOICES_MAX], row_count;       /* of a query, all equally often */
        uint32_t lengths[TRAINER_CHOICES_MAX], length_count; /* 0: no lengths */
        double weights[TRAINER_CHOICES_MAX];                 /* of the lengths */
        uint32_t rows_left; /* of `rows`, at its beginning: not drawn since all of them were */
    } model[OVERLAP_MODELS_MAX];
} trainer_services_t;

/*
 * Instance-based sampling, Figure 9. One to four services of those that are there; some of their queries, one
 * at least, end in the group, and all others begin in it; some do both. Where the former began and the latter
 * are left is drawn. Each number of rows of a service comes equally often. limited: in a third of the groups
 * one that would end is left before its end, as the controller leaves its first query.
 */
overlap_group_t trainer_draw_group(trainer_services_t *services, prng_t *prng);
/* One of `count` values, by their weights; NULL: all alike likely. 1 when there are none. */
uint32_t trainer_pick(const uint32_t *values, const double *weights, uint32_t count, prng_t *prng);

typedef struct {
    float features[PREDICTOR_INPUTS_MAX];
    float log_ns;
    uint32_t members; /* bit i: model i is in the group */
} trainer_sample_t;

/* predictor: initialised, for its features. */
trainer_sample_t trainer_sample(const predictor_t *predictor, const overlap_group_t *group, int64_t ns);

/* ---- training ---- */

typedef struct {
    float weight[PREDICTOR_LAYERS][PREDICTOR_WIDTH][PREDICTOR_ROW_MAX];
    float bias[PREDICTOR_LAYERS][PREDICTOR_WIDTH];
} trainer_gradient_t;

/* Large: not on the stack. */
typedef struct {
    predictor_t *predictor;
    trainer_gradient_t sum, mean, square;
    uint32_t steps;
} trainer_t;

/* Sets the weights of an initialised predictor, by Adam over `epochs` times as many samples. count >= 32. */
void trainer_fit(trainer_t *trainer, predictor_t *predictor, const trainer_sample_t *samples, uint32_t count,
                 uint32_t epochs, prng_t *prng);

/* Mean of |predicted - measured| / measured. */
double trainer_error(const predictor_t *predictor, const trainer_sample_t *samples, uint32_t count);

/* ---- baselines: weights of the features, and a constant at the end ---- */

/* Each is fitted twice, for the duration as in the paper and for its logarithm, as the perceptron is; the
 * one that is nearer to the groups that it learned from stays. Features that are logarithms
 * (predictor_set_times) say little of nanoseconds by a line, and much of theirs. */
typedef struct {
    uint32_t width;
    bool logs; /* for the logarithm of the nanoseconds */
    double weight[PREDICTOR_INPUTS_MAX + 1];
} trainer_line_t;

/* Least squares. */
void trainer_fit_linear(trainer_line_t *line, const trainer_sample_t *samples, uint32_t count,
                        uint32_t width);
/* Support-vector regression with a linear kernel: errors below 2 %, of the mean or in the logarithm, count
 * nothing, others by their size. */
void trainer_fit_svr(trainer_line_t *line, const trainer_sample_t *samples, uint32_t count, uint32_t width,
                     uint32_t epochs, prng_t *prng);
double trainer_line_error(const trainer_line_t *line, const trainer_sample_t *samples, uint32_t count);

#endif
