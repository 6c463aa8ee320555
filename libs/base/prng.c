#include "base/prng.h"

#include <math.h>

/* splitmix64: spreads a seed of few bits over the whole state. */
static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void prng_init(prng_t *prng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        prng->s[i] = splitmix(&seed);
}

void prng_init_stream(prng_t *prng, uint64_t seed, uint64_t stream)
{
    uint64_t mixed = splitmix(&stream);
    prng_init(prng, splitmix(&seed) ^ mixed);
}

static uint64_t rotate_left(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

uint64_t prng_u64(prng_t *prng)
{
    uint64_t *s = prng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* The high half of a 128-bit product; the few low values that would favour some results are drawn again
 * (Lemire). */
uint64_t prng_below(prng_t *prng, uint64_t bound)
{
    uint64_t reject_below = -bound % bound;
    for (;;) {
        __extension__ unsigned __int128 product = (unsigned __int128)prng_u64(prng) * bound;
        if ((uint64_t)product >= reject_below)
            return (uint64_t)(product >> 64);
    }
}

int64_t prng_range(prng_t *prng, int64_t lo, int64_t hi)
{
    uint64_t width = (uint64_t)hi - (uint64_t)lo + 1; /* 0 stands for all 2^64 */
    uint64_t offset = width == 0 ? prng_u64(prng) : prng_below(prng, width);
    return (int64_t)((uint64_t)lo + offset);
}

double prng_uniform(prng_t *prng)
{
    return (double)(prng_u64(prng) >> 11) * 0x1p-53;
}

/* (0, 1]: safe for log. */
static double uniform_positive(prng_t *prng)
{
    return 1.0 - prng_uniform(prng);
}

double prng_exponential(prng_t *prng, double mean)
{
    return -mean * log(uniform_positive(prng));
}

/* Box-Muller, the cosine half only: no hidden second value in the state. */
double prng_normal(prng_t *prng, double mean, double deviation)
{
    double radius = sqrt(-2.0 * log(uniform_positive(prng)));
    double angle = 2.0 * 3.14159265358979323846 * prng_uniform(prng);
    return mean + deviation * radius * cos(angle);
}

/* Marsaglia and Tsang for shape >= 1; below that, boosted from shape + 1. */
double prng_gamma(prng_t *prng, double shape, double scale)
{
    if (shape < 1.0) {
        double u = uniform_positive(prng);
        return prng_gamma(prng, shape + 1.0, scale) * pow(u, 1.0 / shape);
    }
    double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = prng_normal(prng, 0.0, 1.0), v = 1.0 + c * x;
        if (v <= 0.0)
            continue;
        v = v * v * v;
        if (log(uniform_positive(prng)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v * scale;
    }
}
