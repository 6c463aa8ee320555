#include "sim/arrivals.h"

#include <stdio.h>
#include <string.h>

static bool parse_spec(const char *text, arrivals_spec_t *spec)
{
    int used = 0;
    if (strcmp(text, "poisson") == 0) {
        spec->kind = ARRIVALS_POISSON;
        return true;
    }
    if (strcmp(text, "uniform") == 0) {
        spec->kind = ARRIVALS_UNIFORM;
        return true;
    }
    if (sscanf(text, "uniform:%lf%n", &spec->phase, &used) == 1 && text[used] == '\0') {
        spec->kind = ARRIVALS_UNIFORM;
        spec->phased = true;
        return spec->phase >= 0 && spec->phase <= 1;
    }
    if (sscanf(text, "gamma:%lf%n", &spec->shape, &used) == 1 && text[used] == '\0') {
        spec->kind = ARRIVALS_GAMMA;
        return spec->shape >= 1e-3 && spec->shape <= 1e6;
    }
    if (sscanf(text, "mmpp:%lf,%lf%n", &spec->factor, &spec->dwell_s, &used) == 2 && text[used] == '\0') {
        spec->kind = ARRIVALS_MMPP;
        return spec->factor > 1 && spec->factor <= 2 && spec->dwell_s >= 1e-3 && spec->dwell_s <= 1e6;
    }
    double think_ms;
    if (sscanf(text, "closed:%u,%lf%n", &spec->clients, &think_ms, &used) == 2 && text[used] == '\0') {
        spec->kind = ARRIVALS_CLOSED;
        spec->think_s = think_ms / 1e3;
        return spec->clients >= 1 && spec->clients <= 1 << 20 && think_ms >= 1e-3 && think_ms <= 1e6;
    }
    return false;
}

status_t arrivals_parse(const char *text, arrivals_spec_t *spec, err_t *err)
{
    arrivals_spec_t parsed = {0};
    if (!parse_spec(text, &parsed))
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "arrivals '%.80s' is none of poisson, uniform[:PHASE], gamma:SHAPE, mmpp:FACTOR,DWELL_S, "
            "closed:N,THINK_MS",
            text);
    *spec = parsed;
    return STATUS_OK;
}

void arrivals_init(arrivals_t *arrivals, const arrivals_spec_t *spec, uint64_t seed, uint64_t stream)
{
    *arrivals = (arrivals_t){.spec = *spec};
    prng_init_stream(&arrivals->prng, seed, stream);
    arrivals->busy = prng_uniform(&arrivals->prng) < 0.5;
    if (spec->kind == ARRIVALS_MMPP)
        arrivals->switches_s = prng_exponential(&arrivals->prng, spec->dwell_s);
    if (spec->kind == ARRIVALS_UNIFORM)
        arrivals->at_s = -1; /* the phase is drawn when the first rate is known */
}

static double next_uniform(arrivals_t *arrivals, double rate_rps)
{
    if (arrivals->at_s < 0)
        return (arrivals->spec.phased ? arrivals->spec.phase : prng_uniform(&arrivals->prng)) / rate_rps;
    return arrivals->at_s + 1 / rate_rps;
}

/* Exponential gaps have no memory, so the part of a gap that reaches over a switch is drawn anew. */
static double next_mmpp(arrivals_t *arrivals, double rate_rps)
{
    double at_s = arrivals->at_s;
    for (;;) {
        double factor = arrivals->busy ? arrivals->spec.factor : 2 - arrivals->spec.factor;
        double rate = rate_rps * factor;
        double next_s = rate > 0 ? at_s + prng_exponential(&arrivals->prng, 1 / rate) : arrivals->switches_s;
        if (next_s < arrivals->switches_s)
            return next_s;
        at_s = arrivals->switches_s;
        arrivals->busy = !arrivals->busy;
        arrivals->switches_s = at_s + prng_exponential(&arrivals->prng, arrivals->spec.dwell_s);
    }
}

double arrivals_next_s(arrivals_t *arrivals, double rate_rps)
{
    double shape = arrivals->spec.shape;
    switch (arrivals->spec.kind) {
    case ARRIVALS_UNIFORM:
        arrivals->at_s = next_uniform(arrivals, rate_rps);
        break;
    case ARRIVALS_GAMMA:
        arrivals->at_s += prng_gamma(&arrivals->prng, shape, 1 / (shape * rate_rps));
        break;
    case ARRIVALS_MMPP:
        arrivals->at_s = next_mmpp(arrivals, rate_rps);
        break;
    case ARRIVALS_CLOSED: /* its clients come by themselves */
    case ARRIVALS_POISSON:
        arrivals->at_s += prng_exponential(&arrivals->prng, 1 / rate_rps);
        break;
    }
    return arrivals->at_s;
}
