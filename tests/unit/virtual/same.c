/*
 * The simulator and the service grant the same: for one stream of requests the batches of fermata-sim's core, batch by batch, and
 * those of the control plane with its gateway, worker and network are of the same models, sizes and times.
 *
 * Nothing passes through the virtual network in no time, so that the control plane comes to count on the least delays that it ever
 * counts on; the simulator is told to count on the same. Both are idle for a minute first: in its first second the control plane
 * measures, and the core remembers for 5 s and more by how much what came then differed from what it expected.
 */
#include "base/clock.h"
#include "sim/simulation.h"
#include "virtual/cluster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 3, BATCH_MOST = 16, BATCHES_MAX = 1 << 16, REQUESTS_MAX = 1 << 16, SEED = 7 };
enum { IDLE_S = 60, END_S = IDLE_S + 6 };
/* What a core remembers of the first second differs, as delays were others then, and is weighed ever less. */
static const int64_t TOLERANCE_NS = NS_PER_US;

/* DELAY_LEAST_NS for each way, twice that for waking up; an answer takes two ways and the push. */
static const sched_delays_t measured = {.ctrl_ns = 20000, .fixed_ns = 20000, .wake_ns = 40000};
enum { ANSWER_NS = 60000 };

/* Odd numbers, so that nothing happens at the same time as something else. */
static const struct {
    const char *name;
    int64_t alpha_ns, beta_ns, slo_ns;
} models[MODELS] = {{"a", 1000003, 3000061, 30 * NS_PER_MS},
                    {"b", 500017, 2000083, 20 * NS_PER_MS},
                    {"c", 2000039, 8000077, 80 * NS_PER_MS}};

typedef struct {
    int64_t start_ns, end_ns;
    uint32_t model, rows;
} ran_t;

typedef struct {
    ran_t *batches;
    size_t count;
} log_t;

static void note(log_t *log, const ran_t *batch)
{
    if (batch->start_ns < IDLE_S * NS_PER_S)
        return;
    cr_assert_lt(log->count, BATCHES_MAX);
    log->batches[log->count++] = *batch;
}

static void on_simulated(void *ctx, const simulation_batch_t *batch)
{
    note(ctx, &(ran_t){batch->start_ns, batch->end_ns, batch->model, batch->count});
}

static void on_served(void *ctx, const virtual_batch_t *batch)
{
    note(ctx, &(ran_t){batch->start_ns, batch->end_ns, batch->model, batch->rows});
}

static int by_end(const void *a, const void *b)
{
    const ran_t *x = a, *y = b;

    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static int by_time(const void *a, const void *b)
{
    const virtual_request_t *x = a, *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* Silence but for one request of each model, then so many a second. */
static void load(workload_t *workload, profile_entry_t entries[MODELS], rate_step_t steps[2], double rate)
{
    memset(entries, 0, MODELS * sizeof(*entries));
    for (uint32_t m = 0; m < MODELS; m++) {
        snprintf(entries[m].name, sizeof(entries[m].name), "%s", models[m].name);
        cr_assert_eq(
            profile_from_line(&entries[m].profile, models[m].alpha_ns, models[m].beta_ns, BATCH_MOST, NULL),
            STATUS_OK);
        entries[m].slo_ns = models[m].slo_ns;
        entries[m].weight = 1;
    }
    cr_assert_eq(workload_init(workload, entries, MODELS, "equal", NULL), STATUS_OK);
    cr_assert_eq(arrivals_parse("poisson", &workload->arrivals, NULL), STATUS_OK);
    steps[0] = (rate_step_t){.at_s = 0, .model = RATE_STEP_ALL, .factor = 0};
    steps[1] = (rate_step_t){.at_s = IDLE_S, .model = RATE_STEP_ALL, .factor = 1};
    workload->rate_rps = rate;
    workload->steps = steps;
    workload->step_count = 2;
}

static void simulate(const workload_t *workload, const char *policy, uint32_t devices, log_t *log)
{
    const simulation_config_t config = {.workload = workload,
                                        .gpus = devices,
                                        .policy = policy,
                                        .seconds = END_S,
                                        .seed = SEED,
                                        .measured = &measured,
                                        .answer_ns = ANSWER_NS,
                                        .on_batch = on_simulated,
                                        .ctx = log};
    simulation_result_t *result;
    err_t err;

    cr_assert_eq(simulation_run(&config, &result, &err), STATUS_OK, "%s", err.text);
    simulation_result_dispose(result);
}

/* The requests of the simulator's streams. */
static size_t requests_of(const workload_t *workload, virtual_request_t *requests)
{
    size_t count = 0;

    for (uint32_t m = 0; m < MODELS; m++) {
        double rate = workload->rate_rps * workload->shares[m];
        arrivals_t arrivals;
        arrivals_init(&arrivals, &workload->arrivals, SEED, m);
        double at_s = arrivals_next_s(&arrivals, rate);
        arrivals.at_s = IDLE_S;
        for (; at_s < END_S; at_s = arrivals_next_s(&arrivals, rate)) {
            cr_assert_lt(count, REQUESTS_MAX);
            requests[count++] = (virtual_request_t){
                .at_ns = (int64_t)(at_s * 1e9), .model = m, .budget_ns = models[m].slo_ns};
        }
    }
    qsort(requests, count, sizeof(*requests), by_time);
    return count;
}

static void serve(const workload_t *workload, const char *policy, uint32_t devices, log_t *log)
{
    virtual_model_t held[MODELS] = {0};
    virtual_request_t *requests = calloc(REQUESTS_MAX, sizeof(*requests));
    virtual_cluster_options_t options = {.network = {.seed = SEED},
                                         .gateways = 1,
                                         .workers = 1,
                                         .devices = devices,
                                         .models = held,
                                         .model_count = MODELS,
                                         .ran = on_served,
                                         .ctx = log};
    virtual_cluster_t *cluster;
    err_t err;

    for (uint32_t m = 0; m < MODELS; m++)
        held[m] = (virtual_model_t){
            .name = models[m].name, .profile = workload->models[m].profile, .slo_ns = models[m].slo_ns};
    control_options_init(&options.control);
    options.control.policy = policy;
    options.control.tasks_max = 1 << 16;
    options.control.initial_delay_ns = 0;
    options.control.device_inflight_max = 16; /* the simulator's */
    options.control.plan_interval_ns = 0;
    size_t count = requests_of(workload, requests);
    cr_assert_eq(virtual_cluster_create(&options, requests, count, NULL, 0, &cluster, &err), STATUS_OK, "%s",
                 err.text);
    virtual_cluster_run(cluster, (END_S + 2) * NS_PER_S);
    cr_assert_null(virtual_cluster_tally(cluster)->violation);
    virtual_cluster_destroy(cluster);
    free(requests);
}

static bool are_near(int64_t a_ns, int64_t b_ns)
{
    return a_ns - b_ns <= TOLERANCE_NS && b_ns - a_ns <= TOLERANCE_NS;
}

static void compare(const char *policy, double rate, uint32_t devices)
{
    log_t simulated = {calloc(BATCHES_MAX, sizeof(ran_t)), 0},
          served = {calloc(BATCHES_MAX, sizeof(ran_t)), 0};
    profile_entry_t entries[MODELS];
    rate_step_t steps[2];
    workload_t workload;

    load(&workload, entries, steps, rate);
    simulate(&workload, policy, devices, &simulated);
    serve(&workload, policy, devices, &served);
    qsort(simulated.batches, simulated.count, sizeof(ran_t), by_end);
    qsort(served.batches, served.count, sizeof(ran_t), by_end);
    cr_expect_gt(simulated.count, 100);
    cr_expect_eq(simulated.count, served.count, "%s at %.0f/s on %u: %zu and %zu batches", policy, rate,
                 devices, simulated.count, served.count);
    for (size_t i = 0; i < simulated.count && i < served.count; i++) {
        const ran_t *a = &simulated.batches[i], *b = &served.batches[i];
        bool same = a->model == b->model && a->rows == b->rows && are_near(a->start_ns, b->start_ns) &&
                    are_near(a->end_ns, b->end_ns);
        cr_expect(same,
                  "%s at %.0f/s on %u, batch %zu: %u of model %u at %.6f s simulated, %u of model %u at %.6f "
                  "s served",
                  policy, rate, devices, i, a->rows, a->model, (double)a->start_ns / 1e9, b->rows, b->model,
                  (double)b->start_ns / 1e9);
        if (!same)
            break;
    }
    workload_dispose(&workload);
    free(simulated.batches);
    free(served.batches);
}

/* With room to spare, nearly full, and twice of what there is. */
Test(same, grants_of_simulator_and_service_at_every_load_under_every_policy)
{
    for (uint32_t p = 0; sched_policy_name(p); p++) {
        compare(sched_policy_name(p), 300, 2);
        compare(sched_policy_name(p), 900, 2);
        compare(sched_policy_name(p), 2000, 2);
        compare(sched_policy_name(p), 200, 1);
        compare(sched_policy_name(p), 2500, 6);
    }
}
