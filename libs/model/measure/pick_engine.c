#include "model/measure/pick_engine.h"

#include <math.h>

/* Less than that is what two measurements of one engine differ by. */
static const double FASTER = 0.98;

/* How long a takes for one of b: the sum of the logarithms over the sizes that both were run at, and how many these are. */
static double log_ratio(const model_engine_t *a, const model_engine_t *b, uint32_t from, uint32_t to,
                        uint32_t *count)
{
    double sum = 0;

    *count = 0;
    for (uint32_t s = from; s < to; s++) {
        if (a->latency_ns[s] <= 0 || b->latency_ns[s] <= 0)
            continue;
        sum += log((double)a->latency_ns[s] / (double)b->latency_ns[s]);
        ++*count;
    }
    return sum;
}

/* The geometric mean. */
static double ratio(const model_engine_t *a, const model_engine_t *b)
{
    uint32_t count;
    double sum = log_ratio(a, b, 0, MODEL_ENGINE_SIZES, &count);

    return count ? exp(sum / count) : 1;
}

static bool is_better(const model_engine_t *a, const model_engine_t *best)
{
    return a->unfit != best->unfit ? best->unfit : ratio(a, best) < FASTER;
}

bool pick_are_near(const model_engine_t *a, const model_engine_t *b)
{
    double r = ratio(a, b);

    return a->status == STATUS_OK && b->status == STATUS_OK && a->unfit == b->unfit && r > 0.5 && r < 2;
}

static bool runs(const model_engine_t *engine)
{
    return engine->name[0] && engine->status == STATUS_OK;
}

uint32_t pick_fastest(const picked_from_t *from, uint32_t first)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t n = 0; n <= from->count; n++) {
        uint32_t i = n == 0 ? first : n - 1;
        if (!runs(&from->engines[i]))
            continue;
        if (best == UINT32_MAX || is_better(&from->engines[i], &from->engines[best]))
            best = i;
    }
    return best;
}

/* ---- Two ---- */

/* What `other` would save over `best` at these sizes, as log_ratio; 0: too little, or nothing is known. The largest size is
 * often one that there was no time for: the others then speak for it. */
static double saves(const picked_from_t *from, uint32_t other, uint32_t best, uint32_t low, uint32_t high)
{
    uint32_t count;
    double sum = log_ratio(&from->engines[other], &from->engines[best], low, high, &count);

    return count > 0 && sum < count * log(FASTER) ? -sum : 0;
}

/* The largest batch that is a small one lies in the geometric middle of the two sizes. */
static uint32_t between(uint32_t low, uint32_t high)
{
    return (uint32_t)sqrt((double)low * (double)high);
}

bool pick_two(const picked_from_t *from, uint32_t best, pick_two_t *two)
{
    double most = 0;

    for (uint32_t i = 0; i < from->count; i++) {
        if (i == best || !runs(&from->engines[i]) || from->engines[i].unfit)
            continue;
        for (uint32_t s = 1; s < from->size_count; s++) {
            uint32_t rows = between(from->sizes[s - 1], from->sizes[s]);
            double small = saves(from, i, best, 0, s), large = saves(from, i, best, s, from->size_count);
            if (fmax(small, large) <= most)
                continue;
            most = fmax(small, large);
            *two = small > large ? (pick_two_t){i, rows, best} : (pick_two_t){best, rows, i};
        }
    }
    return most > 0;
}
