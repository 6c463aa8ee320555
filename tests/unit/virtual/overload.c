/*
 * More requests than can be served, of three priorities, through gateways that answer by what the scheduler has told ahead and through ones
 * that send every task: the same is served, of each priority and of each model, and the scheduler knows of all that was asked for.
 */
#include "base/clock.h"
#include "virtual/cluster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { MODELS = 2, PRIORITIES = 3, GATEWAYS = 2, SECONDS = 40, CALM_S = 5 };
static const int64_t SLO_NS = 100 * NS_PER_MS;

typedef struct {
    virtual_cluster_options_t options;
    virtual_model_t models[MODELS];
    virtual_request_t *requests;
    uint64_t count;
} rig_t;

/* One device serves some 800 rows a second: 16 of a batch take 20 ms. */
static void make(rig_t *rig, uint32_t rate_rps)
{
    err_t err;
    *rig = (rig_t){.options = {.gateways = GATEWAYS,
                               .workers = 1,
                               .devices = 1,
                               .models = rig->models,
                               .model_count = MODELS,
                               .fetch_ns = 100 * NS_PER_US},
                   .count = (uint64_t)rate_rps * SECONDS};
    control_options_init(&rig->options.control);
    rig->options.control.epoch = 10;
    rig->options.control.plan_interval_ns = 0;
    rig->options.network =
        (network_options_t){.seed = 7, .delay_ns = 200 * NS_PER_US, .jitter_ns = 100 * NS_PER_US};
    for (uint32_t m = 0; m < MODELS; m++) {
        rig->models[m] = (virtual_model_t){.name = m ? "two" : "one", .slo_ns = SLO_NS};
        cr_assert_eq(profile_from_line(&rig->models[m].profile, NS_PER_MS, 4 * NS_PER_MS, 16, &err),
                     STATUS_OK);
    }
    prng_t dice;
    prng_init_stream(&dice, 7, 3);
    rig->requests = calloc(rig->count, sizeof(*rig->requests));
    for (uint64_t i = 0; i < rig->count; i++)
        rig->requests[i] = (virtual_request_t){.at_ns = NS_PER_S + (int64_t)i * NS_PER_S / rate_rps,
                                               .gateway = (uint32_t)prng_below(&dice, GATEWAYS),
                                               .model = (uint32_t)prng_below(&dice, MODELS),
                                               .priority = (uint32_t)prng_below(&dice, PRIORITIES),
                                               .budget_ns = SLO_NS};
}

typedef struct {
    uint64_t asked[MODELS][PRIORITIES], good[MODELS][PRIORITIES]; /* once the first seconds are over */
    uint64_t by_gateway[GATEWAYS]; /* of those good, over all models and priorities */
    uint64_t refused, tasks, bytes, requests, bad, infeasible;
    uint32_t desired;
} outcome_t;

static void look_at_scheduler(virtual_cluster_t *cluster, outcome_t *outcome)
{
    const control_t *control = virtual_cluster_control(cluster);
    const subcluster_t *home = control->models.all[0]->home;
    outcome->requests = home->sums.requests;
    outcome->bad = home->sums.bad;
    outcome->desired = home->autoscale.desired;
    for (uint32_t m = 0; m < control->models.count; m++)
        outcome->infeasible += control->models.all[m]->infeasible;
}

static outcome_t run(rig_t *rig, uint32_t heedless)
{
    virtual_cluster_t *cluster;
    outcome_t outcome = {0};
    err_t err = {0};
    rig->options.heedless_gateways = heedless;
    cr_assert_eq(virtual_cluster_create(&rig->options, rig->requests, rig->count, NULL, 0, &cluster, &err),
                 STATUS_OK, "%s", err.text);
    virtual_cluster_run(cluster, (SECONDS + 3) * NS_PER_S);
    const virtual_tally_t *tally = virtual_cluster_tally(cluster);
    cr_expect_null(tally->violation, "%s", tally->violation);
    cr_expect_null(virtual_cluster_leftover(cluster), "%s", virtual_cluster_leftover(cluster));
    outcome.tasks = tally->tasks_sent;
    outcome.bytes = tally->bytes_sent;
    outcome.refused = tally->ends[TASK_REFUSED];
    look_at_scheduler(cluster, &outcome);
    for (uint64_t i = 0; i < rig->count; i++) {
        const virtual_request_t *request = &rig->requests[i];
        if (request->at_ns < (1 + CALM_S) * NS_PER_S)
            continue;
        outcome.asked[request->model][request->priority]++;
        bool good = virtual_cluster_end(cluster, i) == TASK_GOOD;
        outcome.good[request->model][request->priority] += good;
        outcome.by_gateway[request->gateway] += good;
    }
    virtual_cluster_destroy(cluster);
    return outcome;
}

static double part(const outcome_t *outcome, uint32_t model, uint32_t priority)
{
    return (double)outcome->good[model][priority] / (double)outcome->asked[model][priority];
}

static void tell(const char *name, const outcome_t *outcome)
{
    printf("%s: %llu tasks, %llu bytes sent, %llu refused before; scheduler: %llu requests, %llu bad, %llu "
           "infeasible, %u desired; good",
           name, (unsigned long long)outcome->tasks, (unsigned long long)outcome->bytes,
           (unsigned long long)outcome->refused, (unsigned long long)outcome->requests,
           (unsigned long long)outcome->bad, (unsigned long long)outcome->infeasible, outcome->desired);
    for (uint32_t m = 0; m < MODELS; m++)
        for (uint32_t p = 0; p < PRIORITIES; p++)
            printf(" %.3f", outcome->asked[m][p] ? part(outcome, m, p) : -1);
    printf("\n");
}

/* Within two hundredths of each. */
static void expect_same_goodput(const outcome_t *a, const outcome_t *b)
{
    for (uint32_t m = 0; m < MODELS; m++)
        for (uint32_t p = 0; p < PRIORITIES; p++)
            cr_expect_float_eq(part(a, m, p), part(b, m, p), 0.02, "model %u, priority %u: %.3f and %.3f", m,
                               p, part(a, m, p), part(b, m, p));
}

static void compare(uint32_t rate_rps, const char *policy)
{
    rig_t rig;
    make(&rig, rate_rps);
    rig.options.control.policy = policy;
    const outcome_t sends = run(&rig, GATEWAYS), heeds = run(&rig, 0);
    printf("%s at %u/s\n", policy, rate_rps);
    tell("sends all", &sends);
    tell("heeds", &heeds);
    expect_same_goodput(&sends, &heeds);
    cr_expect_eq(sends.refused, 0);
    cr_expect_eq(heeds.tasks + heeds.refused, rig.count);
    cr_expect_eq(sends.requests, rig.count);
    cr_expect_eq(heeds.requests, rig.count, "%llu of %llu", (unsigned long long)heeds.requests,
                 (unsigned long long)rig.count);
    cr_expect_eq(heeds.desired, sends.desired);
    free(rig.requests);
}

Test(overload, the_same_is_served_and_less_is_sent)
{
    compare(1600, "fermata");
    compare(4000, "fermata");
    compare(1600, "deferred");
    compare(1600, "eager");
    compare(1600, "nexus");
}

/* What was refused already is not refused again, and who refuses nothing has no more for it. */
Test(overload, gateways_of_both_kinds_are_served_alike)
{
    rig_t rig;
    make(&rig, 1600);
    const outcome_t sends = run(&rig, GATEWAYS), mixed = run(&rig, 1);
    tell("sends all", &sends);
    tell("mixed", &mixed);
    expect_same_goodput(&sends, &mixed);
    cr_expect_gt(mixed.refused, 0);
    double ratio = (double)mixed.by_gateway[0] / (double)mixed.by_gateway[1];
    cr_expect_float_eq(ratio, (double)sends.by_gateway[0] / (double)sends.by_gateway[1], 0.02, "%.3f", ratio);
    free(rig.requests);
}

/* All of one priority, one model and so many gateways. */
static void make_equals(rig_t *rig, uint32_t rate_rps, uint32_t gateways, int64_t slo_ns)
{
    make(rig, rate_rps);
    rig->options.gateways = gateways;
    rig->models[0].slo_ns = slo_ns;
    for (uint64_t i = 0; i < rig->count; i++) {
        rig->requests[i].gateway %= gateways;
        rig->requests[i].model = 0;
        rig->requests[i].priority = 2;
        rig->requests[i].budget_ns = slo_ns;
    }
}

/* What comes in a second comes in the first `on_ms` of it. */
static void bunch(rig_t *rig, uint32_t on_ms)
{
    for (uint64_t i = 0; i < rig->count; i++) {
        int64_t second = rig->requests[i].at_ns / NS_PER_S, rest = rig->requests[i].at_ns % NS_PER_S;
        rig->requests[i].at_ns = second * NS_PER_S + rest / 1000 * on_ms;
    }
}

/* Returns which part of all its gateway has refused. */
static double compare_equals(uint32_t rate_rps, uint32_t on_ms, int64_t slo_ns, const char *policy)
{
    rig_t rig;
    make_equals(&rig, rate_rps, 1, slo_ns);
    bunch(&rig, on_ms);
    rig.options.control.policy = policy;
    const outcome_t sends = run(&rig, 1), heeds = run(&rig, 0);
    double refused = (double)heeds.refused / (double)rig.count;
    printf("%s at %u/s in %u ms, SLO %ld ms: good %.3f and %.3f, refused %.3f\n", policy, rate_rps, on_ms,
           (long)(slo_ns / NS_PER_MS), part(&sends, 0, 2), part(&heeds, 0, 2), refused);
    cr_expect_geq(part(&heeds, 0, 2), 0.97 * part(&sends, 0, 2), "%s at %u/s", policy, rate_rps);
    cr_expect_eq(sends.refused, 0);
    cr_expect_eq(heeds.tasks + heeds.refused, rig.count);
    cr_expect_eq(heeds.requests, sends.requests);
    cr_expect_leq((double)heeds.bad, 1.03 * (double)sends.bad);
    /* Who serves more wants fewer devices in proportion, but for one. */
    cr_expect(heeds.desired <= sends.desired &&
                  (heeds.desired + 1) * part(&heeds, 0, 2) >= sends.desired * part(&sends, 0, 2),
              "%u and %u devices", sends.desired, heeds.desired);
    free(rig.requests);
    return refused;
}

Test(overload, among_equals_what_would_come_too_late_is_not_sent)
{
    cr_expect_gt(compare_equals(1600, 1000, 100 * NS_PER_MS, "fermata"), 0.3);
    cr_expect_gt(compare_equals(4000, 1000, 100 * NS_PER_MS, "fermata"), 0.6);
    cr_expect_gt(compare_equals(1600, 1000, 300 * NS_PER_MS, "deferred"), 0.3);
    cr_expect_gt(compare_equals(1600, 1000, 100 * NS_PER_MS, "clockwork"), 0.3);
}

Test(overload, in_bursts_as_much_is_served)
{
    cr_expect_gt(compare_equals(1600, 300, 100 * NS_PER_MS, "fermata"), 0.3);
    cr_expect_gt(compare_equals(1000, 900, 300 * NS_PER_MS, "fermata"), 0.03);
}

/* What can be served is served, and short deadlines are the policy's affair: a batch has only what just came. */
Test(overload, among_equals_nobody_is_refused_where_more_can_be_served)
{
    cr_expect_eq(compare_equals(700, 1000, 100 * NS_PER_MS, "fermata"), 0);
    cr_expect_eq(compare_equals(4000, 1000, 30 * NS_PER_MS, "fermata"), 0);
}

/* Each gateway knows only what it sent itself: nobody is refused for what others may have sent. */
Test(overload, several_gateways_refuse_no_more_than_one_would)
{
    rig_t rig;
    make_equals(&rig, 4000, GATEWAYS, SLO_NS);
    const outcome_t sends = run(&rig, GATEWAYS), heeds = run(&rig, 0);
    cr_expect_geq(part(&heeds, 0, 2), 0.97 * part(&sends, 0, 2));
    cr_expect_gt(heeds.refused, rig.count / 3);
    cr_expect_lt(heeds.refused, rig.count * 6 / 10);
    free(rig.requests);
}

/* Every other request leaves less time than a row takes. */
Test(overload, what_nobody_could_keep_is_not_sent)
{
    rig_t rig;
    make(&rig, 200);
    for (uint64_t i = 0; i < rig.count; i += 2)
        rig.requests[i].budget_ns = 3 * NS_PER_MS;
    const outcome_t sends = run(&rig, GATEWAYS), heeds = run(&rig, 0);
    tell("sends all", &sends);
    tell("heeds", &heeds);
    cr_expect_geq(sends.infeasible + sends.requests, rig.count - MODELS); /* what is tried counts nowhere */
    cr_expect_eq(heeds.infeasible, sends.infeasible);
    cr_expect_eq(heeds.requests, sends.requests);
    cr_expect_eq(heeds.bad, sends.bad);
    cr_expect_eq(heeds.tasks + heeds.refused, rig.count);
    /* One a second is sent of each model at each gateway, and what comes before it was told. */
    uint64_t tried = heeds.tasks - heeds.requests;
    cr_expect_leq(tried, (SECONDS + 1) * MODELS * GATEWAYS + 100, "%llu", (unsigned long long)tried);
    cr_expect_geq(tried, (SECONDS - 1) * MODELS * GATEWAYS, "%llu", (unsigned long long)tried);
    free(rig.requests);
}
