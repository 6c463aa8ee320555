#include "world.h"

#include "sim/bound.h"
#include "sim/goodput.h"

#include <criterion/criterion.h>
#include <math.h>

static double bound_of(const char *zoo, uint32_t gpus)
{
    world_t world;
    world_start(&world, zoo, gpus, NULL, 0);
    double bound = bound_rate_rps(&world.workload, gpus);
    world_stop(&world);
    return bound;
}

Test(bound, is_what_the_papers_data_say)
{
    cr_assert_float_eq(bound_of("resnet50", 8), 5875, 1);
    cr_assert_float_eq(bound_of("inception_resnet", 8), 1114, 1);
    cr_assert_float_eq(bound_of("zoo_1080ti", 35), 4062, 1);
    cr_assert_float_eq(bound_of("zoo_1080ti", 140), 18643, 1);
    cr_assert_float_eq(bound_of("zoo_a100", 64), 19153, 1);
    cr_assert_float_eq(bound_of("zoo_a100_strong", 64), 61351, 1);
}

Test(simulation, same_seed_same_result)
{
    for (uint32_t p = 0; sched_policy_name(p); p++) {
        world_t world;
        world_start(&world, "zoo_1080ti", 35, sched_policy_name(p), 3000);
        world.config.jitter = 0.05;
        simulation_result_t *first = world_run(&world), *second = world_run(&world);
        cr_assert_eq(first->all.good, second->all.good);
        cr_assert_eq(first->latency.sum_ns, second->latency.sum_ns);
        world.config.seed++;
        simulation_result_t *other = world_run(&world);
        cr_assert_neq(first->latency.sum_ns, other->latency.sum_ns);
        simulation_result_dispose(first);
        simulation_result_dispose(second);
        simulation_result_dispose(other);
        world_stop(&world);
    }
}

Test(simulation, every_request_has_one_end)
{
    for (uint32_t p = 0; sched_policy_name(p); p++) {
        world_t world;
        world_start(&world, "zoo_1080ti", 35, sched_policy_name(p), 5000); /* overload */
        simulation_result_t *result = world_run(&world);
        uint64_t ended = result->all.good + result->all.late + result->all.unanswered;
        for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
            ended += result->all.dropped[r];
        cr_assert_eq(ended, result->all.arrived, "policy %s", sched_policy_name(p));
        cr_assert_eq(result->all.unanswered, 0);
        cr_assert_eq(result->all.late, 0, "nothing is late when profiles hold and the network is none");
        cr_assert_leq(result->gpu_busy_fraction, 1.0 + 1e-9);
        simulation_result_dispose(result);
        world_stop(&world);
    }
}

/* Bounds of the delays are met with certainty (the quantile tables end at the bound), so nothing is late. */
Test(simulation, delays_within_their_bounds_make_nothing_late)
{
    world_t world;
    err_t err;
    world_start(&world, "resnet50", 8, "deferred", 3000);
    cr_assert_eq(net_parse("rdma", &world.config.net, &err), STATUS_OK);
    simulation_result_t *result = world_run(&world);
    cr_assert_eq(result->all.late, 0);
    cr_assert_lt(result->bad_rate, 0.001);
    simulation_result_dispose(result);
    world_stop(&world);
}

Test(simulation, gpus_that_fail_cost_little_and_work_again_when_they_join)
{
    world_t world;
    simulation_change_t changes[] = {{2, 0, false},  {2, 1, false},  {2, 2, false},
                                     {2.1, 0, true}, {2.1, 1, true}, {2.1, 2, true}};
    world_start(&world, "resnet50", 8, "fermata", 4200);
    world.config.changes = changes;
    world.config.change_count = 6;
    simulation_result_t *result = world_run(&world);
    cr_assert_geq(result->preemptions, 1, "what ran there was broken off");
    cr_assert_leq(result->preemptions, 3);
    cr_assert_lt(result->bad_rate, 0.02);
    cr_assert_gt(result->gpu_busy[0], 0.3, "it works again");
    simulation_result_dispose(result);
    world_stop(&world);
}

/* The two properties of Symphony 3.5. */
Test(simulation, fermata_is_flat_topped_and_load_proportional)
{
    world_t world;
    world_start(&world, "zoo_1080ti", 35, "fermata", 3800);
    world.config.params = "spare=release";
    double peak = 3800;
    static const double loads[] = {0.2, 0.4, 0.6, 0.8};
    for (unsigned i = 0; i < 4; i++) {
        world.workload.rate_rps = peak * loads[i];
        simulation_result_t *result = world_run(&world);
        cr_assert_float_eq(result->gpu_busy_fraction, loads[i], 0.08, "at %.1f busy %.3f", loads[i],
                           result->gpu_busy_fraction);
        cr_assert_eq(result->gpus_used, result->gpu_highest, "the GPUs never used are the highest");
        simulation_result_dispose(result);
    }
    for (double over = 1.5; over <= 3; over *= 2) {
        world.workload.rate_rps = peak * over;
        simulation_result_t *result = world_run(&world);
        cr_assert_gt(result->goodput_rps, 0.97 * peak, "at %.1f times the peak: %.0f r/s", over,
                     result->goodput_rps);
        simulation_result_dispose(result);
    }
    world_stop(&world);
}

/* Answering early takes no more GPUs than it needs, however many there are, and the lowest. */
Test(simulation, fermata_answers_early_on_the_lowest_gpus)
{
    static const double rates_rps[] = {50, 200, 800};
    for (unsigned i = 0; i < sizeof rates_rps / sizeof *rates_rps; i++) {
        for (uint32_t gpus = 70; gpus <= 140; gpus *= 2) {
            world_t world;
            world_start(&world, "zoo_1080ti", gpus, "fermata", rates_rps[i]);
            simulation_result_t *result = world_run(&world);
            cr_expect_eq(result->gpus_used, result->gpu_highest,
                         "%.0f r/s on %u GPUs: %u are used, of the first %u", rates_rps[i], gpus,
                         result->gpus_used, result->gpu_highest);
            cr_expect_leq(result->gpus_used, 35, "%.0f r/s on %u GPUs: %u are used", rates_rps[i], gpus,
                          result->gpus_used);
            simulation_result_dispose(result);
            world_stop(&world);
        }
    }
}

/* The same models `times` as slow and as patient. */
static void slow_down(world_t *world, int64_t times)
{
    err_t err;
    for (uint32_t m = 0; m < world->count; m++) {
        profile_entry_t *model = &world->models[m];
        model->slo_ns *= times;
        cr_assert_eq(profile_from_line(&model->profile, times * model->profile.alpha_ns,
                                       times * model->profile.beta_ns, PROFILE_BATCH_MAX, &err),
                     STATUS_OK, "%s", err.text);
    }
}

/* Batches of seconds begin and end together. Counted when they were granted, GPUs that never rest were found idle in between
 * and filled with batches of one: 0.7 of the bound. */
Test(simulation, fermata_is_flat_topped_where_batches_take_seconds)
{
    enum { TIMES = 60, GPUS = 140 };
    world_t world;
    world_start(&world, "zoo_1080ti", GPUS, "fermata", 0);
    slow_down(&world, TIMES);
    world.config.warmup_s = world.config.seconds = TIMES;
    double bound = bound_rate_rps(&world.workload, GPUS);
    for (double over = 1.2; over <= 3; over *= 2) {
        world.workload.rate_rps = bound * over;
        simulation_result_t *result = world_run(&world);
        cr_assert_gt(result->goodput_rps, 0.9 * bound, "at %.1f times the bound: %.3f of it", over,
                     result->goodput_rps / bound);
        simulation_result_dispose(result);
    }
    world_stop(&world);
}

/* Small batches leave others behind, and of those that do not, before which little came, such a model was taken for clients that wait: whose
 * batches are small. */
Test(simulation, fermata_is_flat_topped_with_one_model)
{
    enum { GPUS = 8 };
    const struct {
        const char *zoo, *arrivals;
        double over;
    } cases[] = {{"resnet50", "poisson", 1.25},
                 {"resnet50", "poisson", 3},
                 {"resnet50", "gamma:0.1", 2},
                 {"densenet121", "gamma:0.1", 2},
                 {"densenet121", "gamma:0.1", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_t world;
        err_t err;
        double bound = bound_of(cases[i].zoo, GPUS);
        world_start(&world, cases[i].zoo, GPUS, "fermata", bound * cases[i].over);
        cr_assert_eq(arrivals_parse(cases[i].arrivals, &world.workload.arrivals, &err), STATUS_OK, "%s",
                     err.text);
        world.config.seconds = 10;
        simulation_result_t *result = world_run(&world);
        cr_expect_gt(result->goodput_rps, 0.97 * bound, "%s, %s, %.2f times the bound: %.3f of it",
                     cases[i].zoo, cases[i].arrivals, cases[i].over, result->goodput_rps / bound);
        simulation_result_dispose(result);
        world_stop(&world);
    }
}

/* An overload after a pause: what was idle then is forgotten as soon as the GPUs are busy, however long their batches. */
Test(simulation, fermata_is_flat_topped_after_a_pause)
{
    enum { TIMES = 20, GPUS = 512, PAUSE_S = 5 };
    world_t world;
    world_start(&world, "zoo_1080ti", GPUS, "fermata", 0);
    slow_down(&world, TIMES);
    double bound = bound_rate_rps(&world.workload, GPUS);
    rate_step_t steps[70];
    for (uint32_t m = 0; m < world.count; m++) {
        steps[m] = (rate_step_t){.at_s = TIMES, .model = m, .factor = 0};
        steps[world.count + m] = (rate_step_t){.at_s = TIMES + PAUSE_S, .model = m, .factor = 1};
    }
    world.workload.rate_rps = 1.3 * bound;
    world.workload.steps = steps;
    world.workload.step_count = 2 * world.count;
    world.config.warmup_s = TIMES + PAUSE_S + TIMES / 2;
    world.config.seconds = TIMES;
    simulation_result_t *result = world_run(&world);
    cr_assert_gt(result->goodput_rps, 0.95 * bound, "%.3f of the bound", result->goodput_rps / bound);
    simulation_result_dispose(result);
    world_stop(&world);
}

/* Nothing tells the core how far what GPUs take scatters; a twentieth, and a tenth. */
Test(simulation, scattered_latencies_are_learned)
{
    static const struct {
        double jitter, rate_rps;
    } cases[] = {{0.05, 0.88 * 4062}, {0.1, 0.84 * 4062}};
    for (unsigned i = 0; i < 2; i++) {
        world_t world;
        world_start(&world, "zoo_1080ti", 35, "fermata", cases[i].rate_rps);
        world.config.jitter = cases[i].jitter;
        world.config.warmup_s = 5;
        world.config.seconds = 10;
        simulation_result_t *result = world_run(&world);
        cr_expect_lt(result->worst_model_bad_rate, 0.012, "jitter %.2f: the worst model loses %.4f",
                     cases[i].jitter, result->worst_model_bad_rate);
        simulation_result_dispose(result);
        world_stop(&world);
    }
}

/* Of the model that most is lost of. */
static double least_served(const simulation_result_t *result)
{
    double least = 1;
    for (uint32_t m = 0; m < result->model_count; m++)
        least = fmin(least, (double)result->models[m].good / (double)result->models[m].arrived);
    return least;
}

/* Half the load, and a standard deviation of half of what batches take: by what is learned of that the urgent of `urgent_among_many` can
 * never be served, so they must be tried again and again. */
Test(simulation, latencies_however_scattered_stop_nobody)
{
    static const struct {
        const char *zoo;
        uint32_t gpus;
        double rate_rps, served; /* of each model, at least: by eager .995, .995, .88 and .09 */
    } cases[] = {{"three_slos", 4, 817, 0.98},
                 {"mixed_slo", 8, 2817, 0.98},
                 {"short_and_long", 4, 1664, 0.87},
                 {"urgent_among_many", 14, 550, 0.04}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        world_t world;
        world_start(&world, cases[i].zoo, cases[i].gpus, "fermata", cases[i].rate_rps);
        world.config.jitter = 0.5;
        world.config.warmup_s = 5;
        world.config.seconds = 20;
        simulation_result_t *fermata = world_run(&world);
        world.config.policy = "eager";
        simulation_result_t *eager = world_run(&world);
        cr_expect_gt(least_served(fermata), cases[i].served, "%s: of a model %.3f are served, by eager %.3f",
                     cases[i].zoo, least_served(fermata), least_served(eager));
        cr_expect_lt(fermata->bad_rate, eager->bad_rate + 0.005, "%s: %.4f are lost, by eager %.4f",
                     cases[i].zoo, fermata->bad_rate, eager->bad_rate);
        simulation_result_dispose(fermata);
        simulation_result_dispose(eager);
        world_stop(&world);
    }
}

/* No model loses more than 1 % of its requests. */
static void expect_borne_in(world_t *world, double warmup_s, double seconds)
{
    world->config.warmup_s = warmup_s;
    world->config.seconds = seconds;
    simulation_result_t *result = world_run(world);
    cr_expect_lt(result->worst_model_bad_rate, 0.01, "the worst model loses %.4f",
                 result->worst_model_bad_rate);
    simulation_result_dispose(result);
}

/* None of these does under the policy `fermata`. */
static void expect_borne(const char *zoo, uint32_t gpus, double rate_rps, const char *arrivals,
                         double warmup_s, double seconds)
{
    world_t world;
    err_t err;
    world_start(&world, zoo, gpus, "fermata", rate_rps);
    cr_assert_eq(arrivals_parse(arrivals, &world.workload.arrivals, &err), STATUS_OK, "%s", err.text);
    expect_borne_in(&world, warmup_s, seconds);
    world_stop(&world);
}

/* A batch that has become large enough starts before its time. In bursts that split them, and took all GPUs for what one could do
 * when the next request needed one. */
Test(simulation, fermata_keeps_bunches_together)
{
    expect_borne("bunched", 4, 49, "gamma:0.14", 10, 200);
}

/* Bursts of half a second in each of eight models, most of which cannot wait for a batch of the longest. What had been started early before
 * them, and the more because of what was lost in them, left them no GPU. */
Test(simulation, fermata_yields_to_bursts)
{
    expect_borne("swinging", 45, 3300, "mmpp:1.87,0.39", 2, 40);
}

/* One model that can wait for three of its batches of one, in bursts that need all GPUs. */
Test(simulation, fermata_yields_to_bursts_of_those_that_can_wait)
{
    expect_borne("resnet50", 8, 2880, "mmpp:1.9,0.3", 2, 40);
}

/* Requests at perfectly even distances look like clients that wait for their answers: as many are there at each grant. */
Test(simulation, fermata_takes_even_arrivals_for_a_stream)
{
    expect_borne("resnet50", 8, 5720, "uniform", 2, 20);
}

/* With all GPUs busy there is one size of batch that keeps up, and nothing but giving up heads comes back to it. */
Test(simulation, fermata_keeps_up_with_even_arrivals)
{
    expect_borne("resnet50", 8, 5850, "uniform", 2, 20);
}

/* Three models can wait for 16 ms, three for 478: whose batches of 100 ms the former must find a GPU beside. */
Test(simulation, fermata_starts_the_urgent_earlier)
{
    expect_borne("short_and_long", 4, 1500, "gamma:0.1", 2, 100);
}

/* And not at the cost of those that can wait, whose batches would become the longer. */
Test(simulation, fermata_starts_the_others_no_later_for_it)
{
    expect_borne("short_and_long", 4, 2000, "poisson", 2, 100);
}

/* As many models like the first, of this SLO. */
static void copy_first(world_t *world, uint32_t models, int64_t slo_ns)
{
    err_t err;
    workload_dispose(&world->workload);
    world->models = realloc(world->models, models * sizeof(*world->models));
    cr_assert_not_null(world->models);
    world->models[0].slo_ns = slo_ns;
    for (uint32_t m = 1; m < models; m++)
        world->models[m] = world->models[0];
    world->count = models;
    cr_assert_eq(workload_init(&world->workload, world->models, models, NULL, &err), STATUS_OK, "%s",
                 err.text);
}

/* Twenty models of 15 ms that begin all at once. A second that is full from its first moment on is found full at once: heads that would
 * keep batches small are given up, and none waits until it can make it no more, which would be taken for a sign to start earlier. */
Test(simulation, fermata_sees_at_once_that_the_gpus_are_busy)
{
    enum { GPUS = 32 };
    world_t world;
    uint64_t expired = 0;
    world_start(&world, "resnet_like", GPUS, "fermata", 0);
    copy_first(&world, 20, 15000000);
    world.workload.rate_rps = 0.89 * bound_rate_rps(&world.workload, GPUS);
    world.config.warmup_s = 0;
    world.config.seconds = 1;
    for (world.config.seed = 1; world.config.seed <= 4; world.config.seed++) {
        simulation_result_t *result = world_run(&world);
        expired += result->all.dropped[SCHED_DROP_EXPIRED];
        simulation_result_dispose(result);
    }
    cr_expect_leq(expired, 10, "%llu", (unsigned long long)expired);
    world_stop(&world);
}

/* Ten models that can wait alike, near their peak: that each starts earlier for the sake of the others would only make batches smaller. */
Test(simulation, fermata_leads_nobody_where_all_can_wait_alike)
{
    enum { GPUS = 32, SEEDS = 4 };
    world_t world;
    double bad = 0;
    world_start(&world, "densenet121", GPUS, "fermata", 0);
    copy_first(&world, 10, 30000000);
    world.workload.rate_rps = 0.9157 * bound_rate_rps(&world.workload, GPUS);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        world.config.seed = 7 + seed;
        simulation_result_t *result = world_run(&world);
        bad += result->bad_rate / SEEDS;
        simulation_result_dispose(result);
    }
    cr_expect_lt(bad, 0.0035, "%.5f", bad);
    world_stop(&world);
}

static double goodput_in(const world_t *world)
{
    goodput_config_t config = {.base = world->config, .precision = 0.005};
    simulation_result_t *result;
    double rate_rps;
    err_t err;
    cr_assert_eq(goodput_search(&config, &rate_rps, &result, &err), STATUS_OK, "%s", err.text);
    cr_assert_leq(result->worst_model_bad_rate, 0.01);
    simulation_result_dispose(result);
    return rate_rps;
}

static double goodput_of(const char *zoo, uint32_t gpus, const char *policy)
{
    world_t world;
    world_start(&world, zoo, gpus, policy, 0);
    double rate_rps = goodput_in(&world);
    world_stop(&world);
    return rate_rps;
}

/* Long batches of models that can wait block those that cannot: starting them earlier makes it worse. */
Test(goodput, short_and_long_deadlines_live_together)
{
    double fermata = goodput_of("short_and_long", 4, "fermata");
    double deferred = goodput_of("short_and_long", 4, "deferred"),
           clockwork = goodput_of("short_and_long", 4, "clockwork");
    cr_expect_gt(fermata, 1.1 * deferred, "%.0f r/s, deferred %.0f", fermata, deferred);
    cr_expect_gt(fermata, 1.1 * clockwork, "%.0f r/s, clockwork %.0f", fermata, clockwork);
}

/* One model of b + 6 ms with an SLO below twice the time of one request. */
static void tight_start(world_t *world, const char *policy, double rate_rps)
{
    err_t err;
    world_start(world, "resnet50", 8, policy, rate_rps);
    world->models[0].slo_ns = 11200000;
    cr_assert_eq(profile_from_line(&world->models[0].profile, 1000000, 6000000, 64, &err), STATUS_OK);
}

static double tight_goodput(const char *policy)
{
    world_t world;
    tight_start(&world, policy, 0);
    double rate_rps = goodput_in(&world);
    world_stop(&world);
    return rate_rps;
}

/* More batches only take the GPUs away from those that starve. */
Test(goodput, starvation_that_starting_early_cannot_cure_is_not_fed)
{
    double fermata = tight_goodput("fermata"), deferred = tight_goodput("deferred");
    cr_expect_gt(fermata, deferred, "%.0f r/s, deferred %.0f", fermata, deferred);
}

/* Nothing is spent on the chance that all GPUs are busy: they are so with the model's own batches, which more would only delay. */
Test(goodput, one_model_that_cannot_wait_is_in_its_own_way)
{
    world_t world;
    tight_start(&world, "fermata", 2300);
    expect_borne_in(&world, 2, 40);
    world_stop(&world);
}

static void is_at_deferred(const char *zoo, uint32_t gpus, double least)
{
    world_t world;
    double goodput_rps[2];
    for (int i = 0; i < 2; i++) {
        world_start(&world, zoo, gpus, i ? "deferred" : "fermata", 0);
        world.config.warmup_s = 2;
        world.config.seconds = 10;
        goodput_rps[i] = goodput_in(&world);
        world_stop(&world);
    }
    cr_expect_gt(goodput_rps[0], least * goodput_rps[1], "%s: %.0f r/s, deferred %.0f", zoo, goodput_rps[0],
                 goodput_rps[1]);
}

/* One model can wait for 1 ms. Starting early on chance's account, as is right for those that can wait for 200, takes the GPUs
 * that it must find free at once; and so do the milliseconds by which those start early that can wait for 10. */
Test(goodput, what_starting_early_takes_from_the_urgent_is_given_back)
{
    is_at_deferred("one_urgent", 11, 0.95);
    is_at_deferred("urgent_among_many", 14, 0.96);
}

Test(goodput, orders_the_policies_as_the_papers_do)
{
    double fermata = goodput_of("resnet50", 8, "fermata"), deferred = goodput_of("resnet50", 8, "deferred");
    double zoo = goodput_of("zoo_1080ti", 35, "fermata"), zoo_eager = goodput_of("zoo_1080ti", 35, "eager");
    cr_assert_gt(fermata, 0.90 * 5875);
    cr_assert_gt(fermata, 1.05 * deferred);
    cr_assert_gt(zoo, 0.90 * 4062);
    cr_assert_gt(zoo, zoo_eager);
}

static void fails(world_t *world, const char *reason)
{
    simulation_result_t *result = NULL;
    err_t err;
    cr_assert_eq(simulation_run(&world->config, &result, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, reason);
    cr_assert_null(result);
}

Test(simulation, bad_configurations_are_errors)
{
    world_t world;
    world_start(&world, "resnet50", 0, "fermata", 100);
    fails(&world, "gpus is 0, not within 1..16384");
    world.config.gpus = 1;
    world.workload.rate_rps = 0;
    fails(&world, "rate must be above 0 and at most 1e9 requests/s");
    world.workload.rate_rps = NAN;
    fails(&world, "rate must be above 0 and at most 1e9 requests/s");
    world.workload.rate_rps = 10;
    world.config.policy = "guess";
    fails(&world, "there is no policy 'guess'");
    static const struct {
        const char *policy, *params, *reason;
    } refused[] = {
        {"timeout", "k_ms=-1", "policy timeout: 'k_ms=-1' is not k_ms=0 to 1e+06"},
        {"timeout", "k_ms=1,k_ms=2", "policy timeout: 'k_ms' is given twice"},
        {"timeout", "speed=1", "policy timeout has no parameter 'speed'; it has k_ms, fraction"},
        {"fermata", "spare=never", "policy fermata: 'spare=never' is not spare=latency or release"},
        {"fermata", "spare", "policy fermata: 'spare' is not spare=latency or release"},
        {"eager", "spare", "policy eager has no parameter 'spare'; it has none"},
        {"fermata", "room=0.7", "policy fermata: 'room=0.7' is not room=1e-09 to 0.5"},
        {"fermata", "spare=release,room=0.01",
         "policy fermata: 'room' goes with spare=latency, not with spare=release"},
    };
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        world.config.policy = refused[i].policy;
        world.config.params = refused[i].params;
        fails(&world, refused[i].reason);
    }
    world_stop(&world);
}

typedef struct {
    uint32_t gpus_at[200];
    double bad_at[200];
} seconds_t;

static void on_second(void *ctx, const simulation_second_t *second)
{
    seconds_t *seconds = ctx;
    int at = (int)second->at_s;
    if (at >= 200)
        return;
    seconds->gpus_at[at] = second->gpus;
    seconds->bad_at[at] = second->arrived ? (double)second->bad / (double)second->arrived : 0;
}

/* The load trebles at 60 s and falls to a quarter at 100 s; an operator follows the advice. */
Test(simulation, the_autoscaling_advice_follows_the_load)
{
    world_t world;
    seconds_t seconds = {0};
    rate_step_t steps[] = {{0, RATE_STEP_ALL, 1}, {60, RATE_STEP_ALL, 3}, {100, RATE_STEP_ALL, 0.75}};
    world_start(&world, "zoo_1080ti", 64, "fermata", 1200);
    world.workload.steps = steps;
    world.workload.step_count = 3;
    world.config.seconds = 190;
    world.config.warmup_s = 0;
    world.config.autoscale = &autoscale_defaults;
    world.config.start_gpus = 8;
    world.config.on_second = on_second;
    world.config.ctx = &seconds;
    simulation_result_t *result = world_run(&world);
    cr_assert_geq(seconds.gpus_at[50], 11, "%u GPUs at 1,200 r/s", seconds.gpus_at[50]);
    cr_assert_leq(seconds.gpus_at[50], 20);
    cr_assert_lt(seconds.bad_at[50], 0.02);
    cr_assert_geq(seconds.gpus_at[95], 30, "%u GPUs at 3,600 r/s", seconds.gpus_at[95]);
    cr_assert_lt(seconds.bad_at[95], 0.02);
    cr_assert_leq(seconds.gpus_at[180], 16, "%u GPUs at 900 r/s", seconds.gpus_at[180]);
    cr_assert_lt(seconds.bad_at[180], 0.02);
    simulation_result_dispose(result);
    world_stop(&world);
}

typedef struct {
    uint32_t gpus;
    double lost; /* part of the requests of the last minute */
} advised_t;

/* After two minutes. */
static advised_t advised(const char *params, const char *arrivals, double jitter, uint32_t start_gpus)
{
    world_t world;
    err_t err;
    seconds_t seconds = {0};
    world_start(&world, "three_slos", 8, "fermata", 900);
    cr_assert_eq(arrivals_parse(arrivals, &world.workload.arrivals, &err), STATUS_OK, "%s", err.text);
    world.config.params = params;
    world.config.jitter = jitter;
    world.config.warmup_s = world.config.seconds = 60;
    world.config.autoscale = &autoscale_defaults;
    world.config.start_gpus = start_gpus;
    world.config.on_second = on_second;
    world.config.ctx = &seconds;
    simulation_result_t *result = world_run(&world);
    advised_t found = {seconds.gpus_at[119], result->bad_rate};
    simulation_result_dispose(result);
    world_stop(&world);
    return found;
}

static uint32_t gpus_advised(const char *params, uint32_t start_gpus)
{
    return advised(params, "poisson", 0, start_gpus).gpus;
}

/* What is spent on answering early is not needed, and what keeps the GPUs busy is no more than there are. */
Test(simulation, the_autoscaling_advice_does_not_hang_on_what_idle_gpus_are_for)
{
    static const struct {
        uint32_t from, to; /* three are enough, and four are not too many */
    } cases[] = {{2, 3}, {4, 4}, {8, 4}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(gpus_advised("spare=latency", cases[i].from), cases[i].to, "from %u", cases[i].from);
        cr_expect_eq(gpus_advised("spare=release", cases[i].from), cases[i].to, "from %u", cases[i].from);
    }
}

/* Nor does it with bursts and batches that scatter: by one GPU at most. */
Test(simulation, the_autoscaling_advice_is_enough_for_bursts_whatever_idle_gpus_are_for)
{
    static const struct {
        const char *arrivals;
        double jitter;
    } cases[] = {{"poisson", 0.05},
                 {"mmpp:1.9,0.3", 0},
                 {"mmpp:1.9,0.3", 0.05},
                 {"gamma:0.1", 0.05},
                 {"bursts:20,66,5,1", 0.05}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arrivals = cases[i].arrivals;
        double jitter = cases[i].jitter;
        for (uint32_t from = 2; from <= 8; from += 6) {
            advised_t latency = advised("spare=latency", arrivals, jitter, from),
                      release = advised("spare=release", arrivals, jitter, from);
            cr_expect(latency.gpus <= release.gpus + 1 && release.gpus <= latency.gpus + 1,
                      "%s, jitter %.2f, from %u: %u GPUs, with spare=release %u", arrivals, jitter, from,
                      latency.gpus, release.gpus);
            cr_expect_lt(fmax(latency.lost, release.lost), 0.01,
                         "%s, jitter %.2f, from %u: %.4f are lost, with spare=release %.4f", arrivals, jitter,
                         from, latency.lost, release.lost);
        }
    }
}

/* Clients that wait for their answers are no stream: holding their requests brings no others. Deferral
 * holds each until its SLO of 100 ms; fermata must see what they are and be nearly as quick as eager. */
static double closed_loop_goodput(const char *policy, uint32_t gpus, double row_ms, const char *clients)
{
    world_t world;
    err_t err;
    world_start(&world, "resnet50", gpus, policy, 1);
    world.models[0].slo_ns = 100000000;
    if (row_ms > 0)
        cr_assert_eq(profile_from_line(&world.models[0].profile, (int64_t)(row_ms * 1e6), 2000000, 64, &err),
                     STATUS_OK);
    cr_assert_eq(arrivals_parse(clients, &world.workload.arrivals, &err), STATUS_OK, "%s", err.text);
    simulation_result_t *result = world_run(&world);
    double goodput_rps = result->goodput_rps;
    simulation_result_dispose(result);
    world_stop(&world);
    return goodput_rps;
}

Test(simulation, fermata_does_not_hold_clients_that_wait)
{
    static const struct {
        uint32_t gpus;
        double row_ms; /* 0: ResNet50 */
        const char *clients;
    } cases[] = {{1, 0, "closed:1,0.2"},  {1, 0, "closed:1,10"},  {1, 0, "closed:2,10"},
                 {2, 0, "closed:1,0.2"},  {2, 0, "closed:2,0.2"}, {2, 0, "closed:4,0.2"},
                 {2, 0, "closed:16,0.2"}, {1, 8, "closed:1,0.2"}, {1, 8, "closed:2,0.2"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *clients = cases[i].clients;
        double row_ms = cases[i].row_ms;
        double fermata = closed_loop_goodput("fermata", cases[i].gpus, row_ms, clients),
               eager = closed_loop_goodput("eager", cases[i].gpus, row_ms, clients);
        double deferred = closed_loop_goodput("deferred", cases[i].gpus, row_ms, clients);
        cr_expect_gt(fermata, 0.95 * eager, "%s: %.0f r/s, eager %.0f", clients, fermata, eager);
        cr_expect_gt(fermata, 1.5 * deferred, "%s: %.0f r/s, deferred %.0f", clients, fermata, deferred);
    }
}

/* Requests so seldom and short that none meets another while it runs look like one client. When more come, holding one brings others,
 * although they still do not meet if each starts at once. */
Test(simulation, fermata_sees_that_requests_that_were_seldom_come_more_often)
{
    world_t world;
    err_t err;
    rate_step_t steps[] = {{.at_s = 30, .model = 0, .factor = 5},
                           {.at_s = 60, .model = 0, .factor = 15},
                           {.at_s = 90, .model = 0, .factor = 50}};
    world_start(&world, "resnet50", 1, "fermata", 2);
    world.models[0].slo_ns = 50000000;
    cr_assert_eq(profile_from_line(&world.models[0].profile, 10000, 50000, 64, &err), STATUS_OK);
    world.workload.steps = steps;
    world.workload.step_count = 3;
    world.config.params = "spare=release";
    world.config.warmup_s = 100;
    world.config.seconds = 20;
    simulation_result_t *result = world_run(&world);
    cr_expect_geq(result->median_batch, 3, "batches of %u", result->median_batch);
    simulation_result_dispose(result);
    world_stop(&world);
}
