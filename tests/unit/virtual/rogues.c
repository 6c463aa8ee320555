/*
 * Workers that lie, beside honest ones: what they cost the clients, in the first second and from then on. The whole control plane,
 * on a virtual network.
 */
#include "base/clock.h"
#include "virtual/cluster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { RATE = 200, SECONDS = 60, REQUESTS = RATE * SECONDS, GATEWAYS = 2, WORKERS = 3 };

static const virtual_vice_t one_mute[WORKERS] = {VICE_MUTE},
                            two_mute[WORKERS] = {VICE_MUTE, VICE_NONE, VICE_MUTE},
                            rows[WORKERS] = {VICE_ROWS}, gives_up[WORKERS] = {VICE_GIVES_UP},
                            fails[WORKERS] = {VICE_FAILS}, slow[WORKERS] = {VICE_SLOW},
                            slept[WORKERS] = {VICE_SLEPT}, dawdles[WORKERS] = {VICE_DAWDLES},
                            half[WORKERS] = {VICE_HALF}, honest[WORKERS] = {VICE_NONE};

typedef struct {
    uint64_t strikes, device_strikes, bad,
        bad_later; /* bads: of all; of those that were asked after the first second of the vice */
    uint64_t measures;
    uint32_t outliers;
    const char *violation, *leftover;
} outcome_t;

typedef struct {
    virtual_cluster_options_t options;
    virtual_model_t models[2];
    virtual_request_t *requests;
} rig_t;

static int64_t at_ns(uint32_t request)
{
    return NS_PER_S + (int64_t)request * NS_PER_S / RATE;
}

static void make(rig_t *rig, const virtual_vice_t vices[WORKERS])
{
    err_t err;
    *rig = (rig_t){.options = {.gateways = GATEWAYS,
                               .workers = WORKERS,
                               .devices = 1,
                               .models = rig->models,
                               .model_count = 2,
                               .fetch_ns = 100 * NS_PER_US,
                               .vices = vices,
                               .vice_until_ns = INT64_MAX}};
    control_options_init(&rig->options.control);
    rig->options.control.epoch = 10;
    rig->options.control.policy = "fermata";
    rig->options.network =
        (network_options_t){.seed = 7, .delay_ns = 200 * NS_PER_US, .jitter_ns = 100 * NS_PER_US};
    for (uint32_t m = 0; m < 2; m++) {
        rig->models[m] = (virtual_model_t){.name = m ? "two" : "one", .slo_ns = 100 * NS_PER_MS};
        cr_assert_eq(profile_from_line(&rig->models[m].profile, NS_PER_MS, 4 * NS_PER_MS, 16, &err),
                     STATUS_OK);
    }
    rig->requests = calloc(REQUESTS, sizeof(*rig->requests));
    for (uint32_t i = 0; i < REQUESTS; i++)
        rig->requests[i] = (virtual_request_t){.at_ns = at_ns(i),
                                               .gateway = i % GATEWAYS,
                                               .model = i / GATEWAYS % 2,
                                               .budget_ns = 100 * NS_PER_MS};
}

static uint64_t bad_of(virtual_cluster_t *cluster)
{
    const virtual_tally_t *tally = virtual_cluster_tally(cluster);
    return tally->ends[TASK_DROPPED] + tally->ends[TASK_REFUSED] + tally->ends[TASK_FAILED] +
           tally->ends[TASK_EXPIRED];
}

static outcome_t run(rig_t *rig, int64_t vice_from_ns)
{
    virtual_cluster_t *cluster;
    err_t err = {0};
    rig->options.vice_from_ns = vice_from_ns;
    cr_assert_eq(virtual_cluster_create(&rig->options, rig->requests, REQUESTS, NULL, 0, &cluster, &err),
                 STATUS_OK, "%s", err.text);
    virtual_cluster_run(cluster, vice_from_ns + 1200 * NS_PER_MS);
    uint64_t first = bad_of(cluster);
    virtual_cluster_run(cluster, at_ns(REQUESTS) + 2 * NS_PER_S);
    const outcome_t outcome = {virtual_cluster_tally(cluster)->strikes,
                               virtual_cluster_tally(cluster)->device_strikes,
                               bad_of(cluster),
                               bad_of(cluster) - first,
                               virtual_cluster_tally(cluster)->measures,
                               virtual_cluster_tally(cluster)->outliers,
                               virtual_cluster_tally(cluster)->violation,
                               virtual_cluster_leftover(cluster)};
    virtual_cluster_destroy(cluster);
    free(rig->requests);
    return outcome;
}

/* One of two gateways says of every result that it never came: hardly a worker is shunned for it even in the first moments, and the
 * other's clients lose nothing, whatever comes first. */
Test(rogues, a_gateway_to_which_nothing_ever_comes)
{
    enum { SEEDS = 8 };
    rig_t rig;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        make(&rig, honest);
        rig.options.network.seed = seed;
        rig.options.deaf_gateways = 1;
        for (uint32_t i = 0; i < REQUESTS; i++)
            rig.requests[i].gateway = i % 4 == 0; /* most go to it */
        const outcome_t outcome = run(&rig, 0);
        cr_expect_null(outcome.violation, "%s", outcome.violation);
        cr_expect_eq(outcome.bad, REQUESTS * 3 / 4, "seed %llu: %llu bad", (unsigned long long)seed,
                     (unsigned long long)outcome.bad);
        cr_expect_leq(outcome.strikes, 1, "seed %llu: %llu strikes", (unsigned long long)seed,
                      (unsigned long long)outcome.strikes);
    }
}

/* One device of two fails whatever it is given: what it is given is run again elsewhere, and its worker is believed. */
Test(rogues, one_device_that_fails)
{
    rig_t rig;
    make(&rig, half);
    rig.options.devices = 2;
    const outcome_t outcome = run(&rig, 0);
    cr_expect_null(outcome.violation, "%s", outcome.violation);
    cr_expect_eq(outcome.bad, 0, "%llu bad", (unsigned long long)outcome.bad);
    cr_expect_eq(outcome.strikes, 0, "its worker has done nothing: %llu strikes",
                 (unsigned long long)outcome.strikes);
    cr_expect(outcome.device_strikes >= 4 && outcome.device_strikes <= 6, "%llu strikes of devices",
              (unsigned long long)outcome.device_strikes);
    cr_expect_null(outcome.leftover, "%s", outcome.leftover);
}

static void expect_borne(const char *name, const virtual_vice_t vices[WORKERS], uint64_t bad_most,
                         uint64_t later_most)
{
    rig_t rig;
    for (int64_t from_s = 0; from_s <= 10; from_s += 10) { /* from the start, and by one that was trusted */
        make(&rig, vices);
        const outcome_t outcome = run(&rig, from_s * NS_PER_S);
        printf("%s from %lld s: %llu of %d bad, %llu later\n", name, (long long)from_s,
               (unsigned long long)outcome.bad, REQUESTS, (unsigned long long)outcome.bad_later);
        cr_expect_null(outcome.violation, "%s: %s", name, outcome.violation);
        cr_expect_null(outcome.leftover, "%s: %s", name, outcome.leftover);
        cr_expect_eq(outcome.strikes > 0, vices != honest && vices != slow, "%s: %llu strikes", name,
                     (unsigned long long)outcome.strikes);
        cr_expect_leq(outcome.bad, bad_most, "%s from %lld s: %llu bad", name, (long long)from_s,
                      (unsigned long long)outcome.bad);
        cr_expect_leq(outcome.bad_later, later_most, "%s from %lld s: %llu bad later", name,
                      (long long)from_s, (unsigned long long)outcome.bad_later);
    }
}

Test(rogues, one_that_pushes_nothing)
{
    expect_borne("mute", one_mute, REQUESTS / 300, 0);
}

Test(rogues, two_of_three_that_push_nothing)
{
    expect_borne("two mute", two_mute, REQUESTS / 300, 0);
}

Test(rogues, one_whose_rows_all_fail)
{
    expect_borne("rows", rows, REQUESTS / 100, REQUESTS / 1000);
}

Test(rogues, one_that_says_that_all_clients_went_away)
{
    expect_borne("gives up", gives_up, REQUESTS / 100, REQUESTS / 1000);
}

Test(rogues, one_whose_batches_all_fail)
{
    expect_borne("fails", fails, REQUESTS / 100, REQUESTS / 1000);
}

Test(rogues, one_whose_profile_says_an_hour)
{
    expect_borne("slow", slow, 0, 0);
}

/* It was measured while its host was busy with other things, or asleep. */
Test(rogues, one_whose_profile_said_an_hour_is_asked_again_and_serves)
{
    rig_t rig;
    make(&rig, slept);
    const outcome_t outcome = run(&rig, 0);
    cr_expect_null(outcome.violation, "%s", outcome.violation);
    cr_expect_eq(outcome.bad, 0);
    cr_expect_eq(outcome.measures, 2, "once for each model, not %llu times",
                 (unsigned long long)outcome.measures);
    cr_expect_eq(outcome.outliers, 0);
}

/* At the start and a minute later, for each of two models. */
Test(rogues, one_that_stays_so_slow_is_asked_ever_more_seldom)
{
    rig_t rig;
    make(&rig, slow);
    const outcome_t outcome = run(&rig, 0);
    cr_expect_eq(outcome.measures, 4, "%llu times", (unsigned long long)outcome.measures);
    cr_expect_eq(outcome.outliers, 2);
}

Test(rogues, one_that_takes_thirty_times_as_long_as_it_says)
{
    expect_borne("dawdles", dawdles, REQUESTS / 100, REQUESTS / 200);
}

Test(rogues, without_any_nobody_loses_anything)
{
    expect_borne("honest", honest, 0, 0);
}
