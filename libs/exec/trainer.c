#include "exec/trainer.h"

#include <math.h>
#include <string.h>

/* Adam, with its usual constants. */
#define BETA1 0.9f
#define BETA2 0.999f
#define RATE 2e-3f
enum { BATCH = 32 };

/* Bounds of what the baselines learn: the papers' use nothing finer. */
#define RIDGE 1e-6
#define SVR_WIDTH 0.02 /* of the mean, or of the logarithm */
#define SVR_DECAY 1e-4

/* ---- groups ---- */

uint32_t trainer_pick(const uint32_t *values, const double *weights, uint32_t count, prng_t *prng)
{
    double sum = 0;
    if (!weights)
        return count ? values[prng_below(prng, count)] : 1;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    double at = prng_uniform(prng) * sum;
    for (uint32_t i = 0; i < count; i++)
        if ((at -= weights[i]) < 0)
            return values[i];
    return count ? values[count - 1] : 1;
}

/* Without putting them back, until all have come: those that are left stand first. */
static uint32_t draw_rows(trainer_services_t *services, uint32_t model, prng_t *prng)
{
    uint32_t *rows = services->model[model].rows, *left = &services->model[model].rows_left;
    if (services->model[model].row_count == 0)
        return 1;
    if (*left == 0)
        *left = services->model[model].row_count;
    uint32_t at = (uint32_t)prng_below(prng, *left), value = rows[at];
    rows[at] = rows[--*left];
    rows[*left] = value;
    return value;
}

/* `count` of the bits that are set in `of`. */
static uint32_t draw_of(uint32_t of, uint32_t count, prng_t *prng)
{
    uint32_t drawn = 0, left = count;
    for (uint32_t bit = 0; of >> bit; bit++) {
        uint32_t open = (uint32_t)__builtin_popcount(of >> bit);
        if (of >> bit & 1 && prng_below(prng, open) < left) {
            drawn |= 1U << bit;
            left--;
        }
    }
    return drawn;
}

static void cut_short(exec_part_t *part, prng_t *prng)
{
    part->to = part->from + 1 + (uint32_t)prng_below(prng, part->to - part->from);
}

overlap_group_t trainer_draw_group(trainer_services_t *services, prng_t *prng)
{
    overlap_group_t group = {.count = 0};
    uint32_t most = services->models < 4 ? services->models : 4;
    uint32_t count = 1 + (uint32_t)prng_below(prng, most), ends = 1 + (uint32_t)prng_below(prng, count);
    uint32_t members = draw_of((1U << services->models) - 1, count, prng);
    uint32_t ending = draw_of(members, ends, prng);
    uint32_t whole = draw_of(ending, (uint32_t)prng_below(prng, ends + 1), prng);
    bool limit = services->limited && prng_below(prng, 3) == 0;
    uint32_t limited = limit ? draw_of(ending, 1, prng) : 0;
    for (uint32_t model = 0; model < services->models; model++) {
        uint32_t bit = 1U << model, ops = services->model[model].ops;
        if (!(members & bit))
            continue;
        exec_part_t *part = &group.parts[group.count++];
        bool goes_on = ending & bit && !(whole & bit);
        *part = (exec_part_t){.model = model,
                              .stream = model,
                              .from = goes_on ? (uint32_t)prng_below(prng, ops) : 0,
                              .to = ops,
                              .rows = draw_rows(services, model, prng),
                              .length =
                                  trainer_pick(services->model[model].lengths, services->model[model].weights,
                                               services->model[model].length_count, prng)};
        if (!(ending & bit) || limited & bit)
            cut_short(part, prng);
    }
    return group;
}

trainer_sample_t trainer_sample(const predictor_t *predictor, const overlap_group_t *group, int64_t ns)
{
    trainer_sample_t sample = {.log_ns = logf((float)(ns > 0 ? ns : 1))};
    predictor_features(predictor, group, sample.features);
    for (uint32_t i = 0; i < group->count; i++)
        sample.members |= 1U << group->parts[i].model;
    return sample;
}

/* ---- the perceptron ---- */

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

void trainer_fit(trainer_t *trainer, predictor_t *predictor, const trainer_sample_t *samples, uint32_t count,
                 uint32_t epochs, prng_t *prng)
{
    memset(trainer, 0, sizeof(*trainer));
    trainer->predictor = predictor;
    random_weights(predictor, prng, samples[0].log_ns);
    float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX];
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        float rate = RATE * 0.5f * (1 + cosf((float)M_PI * (float)epoch / (float)epochs));
        for (uint32_t i = 0; i + BATCH <= count; i += BATCH) {
            for (uint32_t j = 0; j < BATCH; j++) {
                const trainer_sample_t *sample = &samples[prng_below(prng, count)];
                memcpy(values[0], sample->features, sizeof(sample->features));
                backward(trainer, values, predictor_forward(trainer->predictor, values) - sample->log_ns);
            }
            apply(trainer, rate);
        }
    }
}

double trainer_error(const predictor_t *predictor, const trainer_sample_t *samples, uint32_t count)
{
    float values[PREDICTOR_LAYERS + 1][PREDICTOR_ROW_MAX];
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(values[0], samples[i].features, sizeof(samples[i].features));
        sum += fabs(exp((double)(predictor_forward(predictor, values) - samples[i].log_ns)) - 1);
    }
    return sum / count;
}

/* ---- baselines ---- */

static double target_of(const trainer_line_t *line, const trainer_sample_t *sample)
{
    return line->logs ? (double)sample->log_ns : exp((double)sample->log_ns);
}

/* By the normal equations with a little ridge. */
static void fit_squares(trainer_line_t *line, const trainer_sample_t *samples, uint32_t count)
{
    double a[PREDICTOR_INPUTS_MAX + 1][PREDICTOR_INPUTS_MAX + 2];
    uint32_t width = line->width, n = width + 1;
    memset(a, 0, sizeof(a));
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t i = 0; i < n; i++) {
            double xi = i < width ? (double)samples[s].features[i] : 1;
            for (uint32_t j = 0; j < n; j++)
                a[i][j] += xi * (j < width ? (double)samples[s].features[j] : 1);
            a[i][n] += xi * target_of(line, &samples[s]);
        }
    for (uint32_t i = 0; i < n; i++)
        a[i][i] += RIDGE;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t row = 0; row < n; row++) {
            double factor = row == i ? 0 : a[row][i] / a[i][i];
            for (uint32_t j = i; factor != 0 && j <= n; j++)
                a[row][j] -= factor * a[i][j];
        }
    for (uint32_t i = 0; i < n; i++)
        line->weight[i] = a[i][n] / a[i][i];
}

static double line_value(const trainer_line_t *line, const trainer_sample_t *sample)
{
    double sum = line->weight[line->width];
    for (uint32_t i = 0; i < line->width; i++)
        sum += line->weight[i] * (double)sample->features[i];
    return sum;
}

/* From least squares on by subgradients with a falling rate: in units of the mean, or as far as a
 * logarithm is from it. */
static void fit_supported(trainer_line_t *line, const trainer_sample_t *samples, uint32_t count,
                          uint32_t epochs, prng_t *prng)
{
    uint32_t width = line->width;
    double mean = 0;
    for (uint32_t i = 0; i < count; i++)
        mean += target_of(line, &samples[i]) / count;
    double unit = line->logs ? 1 : mean, middle = line->logs ? mean : 0;
    fit_squares(line, samples, count);
    line->weight[width] -= middle;
    for (uint32_t i = 0; i <= width; i++)
        line->weight[i] /= unit;
    uint64_t steps = (uint64_t)epochs * count;
    for (uint64_t step = 0; step < steps; step++) {
        const trainer_sample_t *sample = &samples[prng_below(prng, count)];
        double off = line_value(line, sample) - (target_of(line, sample) - middle) / unit;
        double rate = 0.05 / (1 + 20 * (double)step / (double)steps);
        double slope = off > SVR_WIDTH ? 1 : off < -SVR_WIDTH ? -1 : 0;
        for (uint32_t i = 0; i < width; i++)
            line->weight[i] -= rate * (slope * (double)sample->features[i] + SVR_DECAY * line->weight[i]);
        line->weight[width] -= rate * slope;
    }
    for (uint32_t i = 0; i <= width; i++)
        line->weight[i] *= unit;
    line->weight[width] += middle;
}

static void keep_nearer(trainer_line_t *line, const trainer_line_t *other, const trainer_sample_t *samples,
                        uint32_t count)
{
    if (trainer_line_error(other, samples, count) < trainer_line_error(line, samples, count))
        *line = *other;
}

void trainer_fit_linear(trainer_line_t *line, const trainer_sample_t *samples, uint32_t count, uint32_t width)
{
    trainer_line_t logs = {.width = width, .logs = true};
    *line = (trainer_line_t){.width = width};
    fit_squares(line, samples, count);
    fit_squares(&logs, samples, count);
    keep_nearer(line, &logs, samples, count);
}

void trainer_fit_svr(trainer_line_t *line, const trainer_sample_t *samples, uint32_t count, uint32_t width,
                     uint32_t epochs, prng_t *prng)
{
    trainer_line_t logs = {.width = width, .logs = true};
    *line = (trainer_line_t){.width = width};
    fit_supported(line, samples, count, epochs, prng);
    fit_supported(&logs, samples, count, epochs, prng);
    keep_nearer(line, &logs, samples, count);
}

double trainer_line_error(const trainer_line_t *line, const trainer_sample_t *samples, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        double real = exp((double)samples[i].log_ns);
        double value = line_value(line, &samples[i]);
        sum += fabs((line->logs ? exp(value) : value) - real) / real;
    }
    return sum / count;
}
