#include "load/arrivals.h"

#include "base/clock.h"

#include <math.h>

void arrivals_init(arrivals_t *arrivals, arrivals_kind_t kind, double rate_per_s, uint64_t seed,
                   uint64_t stream)
{
    *arrivals = (arrivals_t){.kind = kind, .period_ns = (double)NS_PER_S / rate_per_s};
    prng_init_stream(&arrivals->prng, seed, stream);
    (void)prng_uniform(
        &arrivals->prng); /* fermata-sim's are the same times: its first number is for other kinds */
    if (kind == ARRIVALS_UNIFORM) {
        arrivals->phase = prng_uniform(&arrivals->prng);
        arrivals->next_ns = arrivals->phase * arrivals->period_ns;
    } else
        arrivals->next_ns = prng_exponential(&arrivals->prng, arrivals->period_ns);
}

int64_t arrivals_next_ns(const arrivals_t *arrivals)
{
    return isinf(arrivals->next_ns) ? INT64_MAX : (int64_t)arrivals->next_ns;
}

void arrivals_advance(arrivals_t *arrivals)
{
    arrivals->count++;
    if (arrivals->kind == ARRIVALS_UNIFORM)
        arrivals->next_ns =
            arrivals->origin_ns + ((double)arrivals->count + arrivals->phase) * arrivals->period_ns;
    else
        arrivals->next_ns += prng_exponential(&arrivals->prng, arrivals->period_ns);
}

void arrivals_set_rate(arrivals_t *arrivals, int64_t at_ns, double rate_per_s)
{
    const double at = (double)at_ns;
    if (!isinf(arrivals->period_ns))
        arrivals->left = fmax(arrivals->next_ns - at, 0) / arrivals->period_ns;
    arrivals->period_ns = rate_per_s > 0 ? (double)NS_PER_S / rate_per_s : INFINITY;
    arrivals->next_ns = rate_per_s > 0 ? at + arrivals->left * arrivals->period_ns : INFINITY;
    arrivals->origin_ns = at;
    arrivals->phase = arrivals->left;
    arrivals->count = 0;
}
