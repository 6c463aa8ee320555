#include "sim/arrivals.h"

#include <stdio.h>
#include <string.h>

enum { ONE_BYTES = 64 }; /* the longest there is has half as many */

/* What stands behind "bursts:N". */
static bool parse_bursts(const char *text, arrivals_spec_t *spec)
{
    double period_ms, start_ms, gap_ms = 0;
    int used = 0, more = 0;
    if (sscanf(text, ",%lf,%lf%n", &period_ms, &start_ms, &used) != 2)
        return false;
    if (text[used] != '\0' &&
        (sscanf(text + used, ",%lf%n", &gap_ms, &more) != 1 || text[used + more] != '\0'))
        return false;
    spec->kind = ARRIVALS_BURSTS;
    spec->period_s = period_ms / 1e3;
    spec->start_s = start_ms / 1e3;
    spec->gap_s = gap_ms / 1e3;
    return spec->burst >= 1 && spec->burst <= 1 << 20 && period_ms >= 1e-3 && period_ms <= 1e9 &&
           start_ms >= 0 && start_ms <= 1e9 && gap_ms >= 0 && gap_ms * spec->burst <= period_ms;
}

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
    if (sscanf(text, "bursts:%u%n", &spec->burst, &used) == 1)
        return parse_bursts(text + used, spec);
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
            "closed:N,THINK_MS, bursts:N,PERIOD_MS,START_MS[,GAP_MS]",
            text);
    *spec = parsed;
    return STATUS_OK;
}

status_t arrivals_parse_each(const char *text, arrivals_spec_t *specs, uint32_t count, err_t *err)
{
    const char *rest = text;
    for (uint32_t m = 0; m < count; m++) {
        char one[ONE_BYTES];
        size_t len = strcspn(rest, "/");
        if (rest[len] != (m + 1 < count ? '/' : '\0') || len >= sizeof(one))
            return err_set(err, STATUS_INVALID_ARGUMENT, "arrivals '%.80s' are not one each for %u models",
                           text, count);
        memcpy(one, rest, len);
        one[len] = '\0';
        status_t status = arrivals_parse(one, &specs[m], err);
        if (status != STATUS_OK)
            return status;
        if (specs[m].kind == ARRIVALS_CLOSED)
            return err_set(err, STATUS_INVALID_ARGUMENT, "arrivals '%.80s': closed is for all models alike",
                           text);
        rest += len + 1;
    }
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
    case ARRIVALS_BURSTS:
        arrivals->at_s = arrivals->spec.start_s +
                         (double)(arrivals->taken / arrivals->spec.burst) * arrivals->spec.period_s +
                         (double)(arrivals->taken % arrivals->spec.burst) * arrivals->spec.gap_s;
        arrivals->taken++;
        break;
    case ARRIVALS_CLOSED: /* its clients come by themselves */
    case ARRIVALS_POISSON:
        arrivals->at_s += prng_exponential(&arrivals->prng, 1 / rate_rps);
        break;
    }
    return arrivals->at_s;
}
