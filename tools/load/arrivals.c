#include "load/arrivals.h"

#include "base/clock.h"

void arrivals_init(arrivals_t *arrivals, arrivals_kind_t kind, double rate_per_s, uint64_t seed,
                   uint64_t stream)
{
    *arrivals = (arrivals_t){.kind = kind, .period_ns = (double)NS_PER_S / rate_per_s};
    prng_init_stream(&arrivals->prng, seed, stream);
    arrivals->phase = prng_uniform(&arrivals->prng);
    if (kind == ARRIVALS_UNIFORM)
        arrivals->next_ns = arrivals->phase * arrivals->period_ns;
    else
        arrivals->next_ns = prng_exponential(&arrivals->prng, arrivals->period_ns);
}

int64_t arrivals_next_ns(const arrivals_t *arrivals)
{
    return (int64_t)arrivals->next_ns;
}

void arrivals_advance(arrivals_t *arrivals)
{
    arrivals->count++;
    if (arrivals->kind == ARRIVALS_UNIFORM)
        arrivals->next_ns = ((double)arrivals->count + arrivals->phase) * arrivals->period_ns;
    else
        arrivals->next_ns += prng_exponential(&arrivals->prng, arrivals->period_ns);
}
