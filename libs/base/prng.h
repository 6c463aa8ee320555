/*
 * Random numbers with explicit state (xoshiro256**, seeded through splitmix64): the same seed gives the same
 * stream on every machine for the integers and uniforms, and, with the same libm, for the other
 * distributions. Not for secrets: handles come from getrandom(2).
 */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdint.h>

typedef struct {
    uint64_t s[4];
} prng_t;

void prng_init(prng_t *prng, uint64_t seed);

/* An independent generator for one part of a run (a client, a model): same (seed, stream), same numbers. */
void prng_init_stream(prng_t *prng, uint64_t seed, uint64_t stream);

uint64_t prng_u64(prng_t *prng);
uint64_t prng_below(prng_t *prng, uint64_t bound);        /* [0, bound), unbiased; bound > 0 */
int64_t prng_range(prng_t *prng, int64_t lo, int64_t hi); /* [lo, hi] */
double prng_uniform(prng_t *prng);                        /* [0, 1), 53 bits */
double prng_exponential(prng_t *prng, double mean);       /* mean > 0 */
double prng_normal(prng_t *prng, double mean, double deviation);
double prng_gamma(prng_t *prng, double shape, double scale); /* shape, scale > 0; mean = shape * scale */

#endif
