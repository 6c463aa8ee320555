#include "scenario.h"

#include "base/clock.h"
#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[SCENARIO_MODELS] = {"small", "middle", "large"};
static const char *const classes[] = {"a", "b"};

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b; /* at_ns is the first of both kinds */

    return (x > y) - (x < y);
}

static void make_models(scenario_t *s, prng_t *dice)
{
    for (uint32_t m = 0; m < SCENARIO_MODELS; m++) {
        int64_t alpha_ns = prng_range(dice, 50 * NS_PER_US, 2 * NS_PER_MS),
                beta_ns = prng_range(dice, 0, 5 * NS_PER_MS);
        uint32_t most = (uint32_t)prng_range(dice, 1, 16);
        s->models[m].name = names[m];
        (void)profile_from_line(&s->models[m].profile, alpha_ns, beta_ns, most, NULL);
        s->models[m].slo_ns = prng_range(dice, 2, 8) * (alpha_ns + beta_ns) + 10 * NS_PER_MS;
        s->models[m].exit_points = prng_below(dice, 3) == 0 ? 4 : 0;
    }
}

static void make_requests(scenario_t *s, prng_t *dice, int64_t from_ns, int64_t span_ns)
{
    for (uint32_t i = 0; i < SCENARIO_REQUESTS; i++) {
        uint32_t m = (uint32_t)prng_below(dice, SCENARIO_MODELS);
        s->requests[i] = (virtual_request_t){.at_ns = prng_range(dice, from_ns, from_ns + span_ns),
                                             .gateway = (uint32_t)prng_below(dice, s->options.gateways),
                                             .model = m,
                                             .budget_ns = s->models[m].slo_ns * prng_range(dice, 1, 4) / 2};
    }
    qsort(s->requests, SCENARIO_REQUESTS, sizeof(s->requests[0]), by_time);
}

static void make_faults(scenario_t *s, prng_t *dice, int64_t from_ns, int64_t span_ns)
{
    s->fault_count = (uint32_t)prng_range(dice, 1, SCENARIO_FAULTS);
    for (uint32_t i = 0; i < s->fault_count; i++)
        s->faults[i] = (virtual_fault_t){.at_ns = prng_range(dice, from_ns, from_ns + span_ns),
                                         .kind = (virtual_fault_kind_t)prng_below(dice, FAULTS),
                                         .index = (uint32_t)prng_below(dice, 64)};
    qsort(s->faults, s->fault_count, sizeof(s->faults[0]), by_time);
}

void scenario_make(scenario_t *s, uint64_t seed, bool faults)
{
    static const char *const policies[] = {"fermata", "eager", "deferred", "shepherd", "clockwork"};
    const int64_t from_ns = 50 * NS_PER_MS, span_ns = 600 * NS_PER_MS;
    prng_t dice;

    memset(s, 0, sizeof(*s));
    prng_init_stream(&dice, seed, 1);
    s->options = (virtual_cluster_options_t){
        .network = {.delay_ns = prng_range(&dice, 10, 500) * NS_PER_US,
                    .jitter_ns = faults ? prng_range(&dice, 0, 2) * NS_PER_MS : 0,
                    .seed = seed},
        .gateways = (uint32_t)prng_range(&dice, 1, 3),
        .workers = (uint32_t)prng_range(&dice, 1, 3),
        .devices = (uint32_t)prng_range(&dice, 1, 2),
        .models = s->models,
        .model_count = SCENARIO_MODELS,
        .classes = classes,
        .class_count = (uint32_t)prng_range(&dice, 1, 2),
        .fetch_ns = prng_range(&dice, 0, 200) * NS_PER_US,
        .jitter = faults ? 0.1 * prng_uniform(&dice) : 0,
        .failures = faults && prng_below(&dice, 4) == 0 ? 0.05 : 0,
    };
    control_options_init(&s->options.control);
    s->options.control.tasks_max = 512;
    s->options.control.models_max = 16;
    s->options.control.devices_max = 16;
    s->options.control.batch_max = 16;
    s->options.control.peer_timeout_ns = 500 * NS_PER_MS;
    s->options.control.policy = policies[prng_below(&dice, sizeof(policies) / sizeof(policies[0]))];
    make_models(s, &dice);
    make_requests(s, &dice, from_ns, span_ns);
    if (faults)
        make_faults(s, &dice, from_ns, span_ns);
    s->end_ns = from_ns + span_ns + 2 * NS_PER_S;
}
