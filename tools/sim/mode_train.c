#include "mode_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adam, with its usual constants. */
#define BETA1 0.9f
#define BETA2 0.999f
#define RATE 2e-3f
enum { BATCH = 32 };

typedef struct {
    float features[PREDICTOR_INPUTS_MAX];
    float log_ns;
} sample_t;

typedef struct {
    float weight[PREDICTOR_LAYERS][PREDICTOR_WIDTH][PREDICTOR_ROW_MAX];
    float bias[PREDICTOR_LAYERS][PREDICTOR_WIDTH];
} gradient_t;

typedef struct {
    predictor_t *predictor;
    gradient_t sum, mean, square;
    uint32_t steps;
} trainer_t;

int64_t mode_measure_group(const mode_scenario_t *scenario, accel_t *device, const overlap_group_t *group)
{
    uint64_t tag;
    int64_t start = -1, at = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const exec_part_t *part = &group->parts[i];
        accel_op_t ops[MODE_OPS_MAX + 1] = {{.ns = (int64_t)(scenario->launch_us * 1e3)}};
        uint32_t count = 1;
        for (uint32_t op = part->from; op < part->to; op++)
            ops[count++] = mode_op(&scenario->models[part->model].ops[op], part->rows, part->length);
        accel_launch(device, part->stream, i, ops, count, NULL);
    }
    while ((at = accel_next_ns(device)) != ACCEL_NEVER) {
        accel_advance(device, at);
        while (accel_take_ended(device, &tag))
            start = at;
    }
    return start;
}

/* Figure 9: some queries end in the group, some begin in it; where the others begin or end is drawn. */
static overlap_group_t draw_group(const mode_scenario_t *scenario, prng_t *prng)
{
    overlap_group_t group = {.count = 0};
    uint32_t count = 1 + (uint32_t)prng_below(prng, scenario->model_count < 4 ? scenario->model_count : 4);
    for (uint32_t model = 0; model < scenario->model_count; model++) {
        uint32_t open = scenario->model_count - model;
        if (prng_below(prng, open) >= count - group.count)
            continue;
        const mode_model_t *of = &scenario->models[model];
        uint32_t to = of->op_count, from = 0;
        switch (prng_below(prng, 3)) {
        case 0: /* goes on, and ends */
            from = (uint32_t)prng_below(prng, to);
            break;
        case 1: /* begins */
            to = 1 + (uint32_t)prng_below(prng, to);
            break;
        default: /* all of it */
            break;
        }
        group.parts[group.count++] = (exec_part_t){.model = model,
                                                   .stream = model,
                                                   .from = from,
                                                   .to = to,
                                                   .rows = mode_draw_rows(of, prng),
                                                   .length = mode_draw_length(of, prng)};
    }
    return group;
}

static void backward(trainer_t *trainer, float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX], float slope)
{
    const predictor_t *predictor = trainer->predictor;
    float error[PREDICTOR_ROW_MAX] = {slope};
    for (uint32_t layer = PREDICTOR_LAYERS; layer-- > 0;) {
        float before[PREDICTOR_ROW_MAX] = {0};
        for (uint32_t to = 0; to < predictor->width[layer + 1]; to++) {
            if (layer + 1 < PREDICTOR_LAYERS && values[layer + 1][to] <= 0)
                continue;
            trainer->sum.bias[layer][to] += error[to];
            for (uint32_t from = 0; from < predictor->width[layer]; from++) {
                trainer->sum.weight[layer][to][from] += error[to] * values[layer][from];
                before[from] += error[to] * predictor->weight[layer][to][from];
            }
        }
        memcpy(error, before, sizeof(error));
    }
}

static void adam(float *value, float *sum, float *mean, float *square, float rate, float scale1, float scale2)
{
    float gradient = *sum / BATCH;
    *mean = BETA1 * *mean + (1 - BETA1) * gradient;
    *square = BETA2 * *square + (1 - BETA2) * gradient * gradient;
    *value -= rate * (*mean / scale1) / (sqrtf(*square / scale2) + 1e-8f);
    *sum = 0;
}

static void apply(trainer_t *trainer, float rate)
{
    predictor_t *predictor = trainer->predictor;
    trainer->steps++;
    float scale1 = 1 - powf(BETA1, (float)trainer->steps), scale2 = 1 - powf(BETA2, (float)trainer->steps);
    for (uint32_t layer = 0; layer < PREDICTOR_LAYERS; layer++)
        for (uint32_t to = 0; to < predictor->width[layer + 1]; to++) {
            adam(&predictor->bias[layer][to], &trainer->sum.bias[layer][to], &trainer->mean.bias[layer][to],
                 &trainer->square.bias[layer][to], rate, scale1, scale2);
            for (uint32_t from = 0; from < predictor->width[layer]; from++)
                adam(&predictor->weight[layer][to][from], &trainer->sum.weight[layer][to][from],
                     &trainer->mean.weight[layer][to][from], &trainer->square.weight[layer][to][from], rate,
                     scale1, scale2);
        }
}

static void random_weights(predictor_t *predictor, prng_t *prng, float bias)
{
    for (uint32_t layer = 0; layer < PREDICTOR_LAYERS; layer++)
        for (uint32_t to = 0; to < predictor->width[layer + 1]; to++)
            for (uint32_t from = 0; from < predictor->width[layer]; from++)
                predictor->weight[layer][to][from] =
                    (float)prng_normal(prng, 0, sqrt(2.0 / (double)predictor->width[layer]));
    predictor->bias[PREDICTOR_LAYERS - 1][0] = bias;
}

static void train(trainer_t *trainer, const sample_t *samples, uint32_t count, uint32_t epochs, prng_t *prng)
{
    float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX];
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        float rate = RATE * 0.5f * (1 + cosf((float)M_PI * (float)epoch / (float)epochs));
        for (uint32_t i = 0; i + BATCH <= count; i += BATCH) {
            for (uint32_t j = 0; j < BATCH; j++) {
                const sample_t *sample = &samples[prng_below(prng, count)];
                memcpy(values[0], sample->features, sizeof(sample->features));
                backward(trainer, values, predictor_forward(trainer->predictor, values) - sample->log_ns);
            }
            apply(trainer, rate);
        }
    }
}

static double error_of(const predictor_t *predictor, const sample_t *samples, uint32_t count)
{
    float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX];
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(values[0], samples[i].features, sizeof(samples[i].features));
        sum += fabs(exp((double)(predictor_forward(predictor, values) - samples[i].log_ns)) - 1);
    }
    return sum / count;
}

/* Least squares of the duration on the features, by the normal equations with a little ridge. */
static double linear_error(const sample_t *samples, uint32_t train_count, uint32_t count, uint32_t width)
{
    static double a[PREDICTOR_INPUTS_MAX + 1][PREDICTOR_INPUTS_MAX + 2];
    uint32_t n = width + 1;
    double sum = 0, x[PREDICTOR_INPUTS_MAX + 1];
    memset(a, 0, sizeof(a));
    for (uint32_t s = 0; s < train_count; s++)
        for (uint32_t i = 0; i < n; i++) {
            double xi = i < width ? (double)samples[s].features[i] : 1;
            for (uint32_t j = 0; j < n; j++)
                a[i][j] += xi * (j < width ? (double)samples[s].features[j] : 1);
            a[i][n] += xi * exp((double)samples[s].log_ns);
        }
    for (uint32_t i = 0; i < n; i++)
        a[i][i] += 1e-6;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t row = 0; row < n; row++) {
            double factor = row == i ? 0 : a[row][i] / a[i][i];
            for (uint32_t j = i; factor != 0 && j <= n; j++)
                a[row][j] -= factor * a[i][j];
        }
    for (uint32_t i = 0; i < n; i++)
        x[i] = a[i][n] / a[i][i];
    for (uint32_t s = train_count; s < count; s++) {
        double predicted = x[width], real = exp((double)samples[s].log_ns);
        for (uint32_t i = 0; i < width; i++)
            predicted += x[i] * (double)samples[s].features[i];
        sum += fabs(predicted - real) / real;
    }
    return sum / (count - train_count);
}

static status_t draw_samples(const mode_scenario_t *scenario, const predictor_t *predictor, sample_t *samples,
                             uint32_t count, prng_t *prng, err_t *err)
{
    for (uint32_t i = 0; i < count; i++) {
        accel_t *device = accel_create(scenario->model_count, MODE_OPS_MAX + 1, err);
        if (!device)
            return STATUS_NO_MEMORY;
        overlap_group_t group = draw_group(scenario, prng);
        predictor_features(predictor, &group, samples[i].features);
        samples[i].log_ns = logf((float)mode_measure_group(scenario, device, &group));
        accel_destroy(device);
    }
    return STATUS_OK;
}

status_t mode_train(const mode_scenario_t *scenario, uint32_t samples, uint32_t epochs, uint64_t seed,
                    predictor_t *predictor, mode_errors_t *errors, err_t *err)
{
    static trainer_t trainer;
    uint32_t ops[OVERLAP_MODELS_MAX], trained = samples / 5 * 4;
    prng_t prng;
    prng_init_stream(&prng, seed, 77);
    for (uint32_t i = 0; i < scenario->model_count; i++)
        ops[i] = scenario->models[i].op_count;
    memset(predictor, 0, sizeof(*predictor));
    memset(&trainer, 0, sizeof(trainer));
    predictor_init(predictor, scenario->model_count, ops, 32, 64);
    sample_t *list = calloc(samples, sizeof(*list));
    status_t status = list ? draw_samples(scenario, predictor, list, samples, &prng, err)
                           : err_set(err, STATUS_NO_MEMORY, "no memory for %u samples", samples);
    if (status == STATUS_OK) {
        trainer.predictor = predictor;
        random_weights(predictor, &prng, list[0].log_ns);
        train(&trainer, list, trained, epochs, &prng);
        errors->mlp = error_of(predictor, list + trained, samples - trained);
        errors->linear = linear_error(list, trained, samples, predictor->width[0]);
    }
    free(list);
    return status;
}
