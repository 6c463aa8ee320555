/* How soon the policy `fermata` answers where there is room, and what it loses by it: beside `eager`. */
#include "world.h"

#include <criterion/criterion.h>
#include <math.h>

typedef struct {
    double p50_ms, p99_ms;
    uint64_t lost, came;
} answers_t;

static answers_t answers_in(world_t *world, const char *arrivals, double seconds)
{
    err_t err;
    cr_assert_eq(arrivals_parse(arrivals, &world->workload.arrivals, &err), STATUS_OK, "%s", err.text);
    world->config.seconds = seconds;
    simulation_result_t *result = world_run(world);
    answers_t answers = {(double)histogram_quantile_ns(&result->latency, 0.5) / 1e6,
                         (double)histogram_quantile_ns(&result->latency, 0.99) / 1e6,
                         result->all.arrived - result->all.good, result->all.arrived};
    simulation_result_dispose(result);
    world_stop(world);
    return answers;
}

static answers_t answers_to(const char *arrivals, const char *zoo, uint32_t gpus, const char *policy,
                            double rate_rps, double seconds)
{
    world_t world;
    world_start(&world, zoo, gpus, policy, rate_rps);
    return answers_in(&world, arrivals, seconds);
}

/* With batches that scatter, from so many seconds on. */
static answers_t scattering_answers_to(const char *arrivals, const char *zoo, uint32_t gpus,
                                       const char *policy, double jitter, double from_s, double seconds,
                                       uint64_t seed)
{
    world_t world;
    world_start(&world, zoo, gpus, policy, 1);
    world.config.jitter = jitter;
    world.config.warmup_s = from_s;
    world.config.seed = seed;
    return answers_in(&world, arrivals, seconds);
}

static answers_t settled_answers_to(const char *arrivals, const char *zoo, uint32_t gpus, const char *policy,
                                    double seconds)
{
    return scattering_answers_to(arrivals, zoo, gpus, policy, 0.05, 30, seconds, 7);
}

/* Which cycle clients come to is chance. The means of the latencies, and all that are lost, in 40 s each. */
static answers_t answers_of_seeds(const char *arrivals, const char *zoo, uint32_t gpus, const char *policy,
                                  double jitter, double from_s)
{
    enum { SEEDS = 24 };
    answers_t all = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        answers_t answers = scattering_answers_to(arrivals, zoo, gpus, policy, jitter, from_s, 40, seed);
        all.p50_ms += answers.p50_ms / SEEDS;
        all.p99_ms += answers.p99_ms / SEEDS;
        all.lost += answers.lost;
        all.came += answers.came;
    }
    return all;
}

static answers_t answers_of(const char *zoo, uint32_t gpus, const char *policy, double rate_rps,
                            double seconds)
{
    return answers_to("poisson", zoo, gpus, policy, rate_rps, seconds);
}

/* So many times as slow at most. */
static void expect_quick(const char *where, double rate_rps, const answers_t *fermata, const answers_t *eager,
                         double p50_most, double p99_most)
{
    cr_expect_leq(fermata->p50_ms, p50_most * eager->p50_ms, "%s, %.1f/s: p50 %.1f, eager %.1f ms", where,
                  rate_rps, fermata->p50_ms, eager->p50_ms);
    cr_expect_leq(fermata->p99_ms, p99_most * eager->p99_ms, "%s, %.1f/s: p99 %.1f, eager %.1f ms", where,
                  rate_rps, fermata->p99_ms, eager->p99_ms);
}

static void expect_as_quick_as_eager(const char *zoo, uint32_t gpus, double rate_rps, double seconds)
{
    answers_t fermata = answers_of(zoo, gpus, "fermata", rate_rps, seconds),
              eager = answers_of(zoo, gpus, "eager", rate_rps, seconds);
    cr_expect(eager.lost == 0 || gpus <= 2, "%s, %u GPUs, %.1f/s: eager loses %lu", zoo, gpus, rate_rps,
              eager.lost);
    expect_quick(zoo, rate_rps, &fermata, &eager, 1.15, 1.1);
    cr_expect_leq((double)fermata.lost, 1.1 * (double)eager.lost, "%s, %u GPUs, %.1f/s: %lu lost, eager %lu",
                  zoo, gpus, rate_rps, fermata.lost, eager.lost);
}

/* What is idle is spent on answering early, as far as that costs nobody anything. With few GPUs as well, where a batch of a model that
 * can wait takes one for longer than another can, or nobody can but all have their turns. */
Test(answers, fermata_is_as_quick_as_eager_where_there_is_room)
{
    static const struct {
        const char *zoo;
        uint32_t gpus;
        double peak_rps, seconds;
    } rooms[] = {{"zoo_1080ti", 35, 4062, 5}, {"zoo_a100", 64, 19153, 5},   {"resnet50", 8, 5875, 5},
                 {"mixed_slo", 8, 2400, 5},   {"zoo_cpu", 1, 55, 100},      {"zoo_cpu", 2, 110, 50},
                 {"close_slos", 2, 923, 20},  {"long_batches", 3, 900, 20}, {"two_long", 2, 180, 50},
                 {"patient", 4, 3500, 10},    {"three_slos", 4, 1633, 20},  {"just_short", 4, 240, 50}};
    static const double loads[] = {0.1, 0.2, 0.4, 0.6};
    for (unsigned r = 0; r < sizeof rooms / sizeof *rooms; r++) {
        for (unsigned i = 0; i < 4; i++)
            expect_as_quick_as_eager(rooms[r].zoo, rooms[r].gpus, loads[i] * rooms[r].peak_rps,
                                     rooms[r].seconds);
    }
}

/* Two that happen to come soon after one another are no bunch that is worth waiting for, and who loses a few whatever is done loses
 * hardly more without waiting. */
Test(answers, fermata_is_as_quick_as_eager_with_hardly_a_request)
{
    static const struct {
        const char *zoo;
        uint32_t gpus;
        double rate_rps;
    } cases[] = {
        {"zoo_cpu", 1, 1.1}, {"zoo_cpu", 4, 4.4}, {"close_slos", 1, 9.2}, {"short_and_long", 1, 8.7}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_as_quick_as_eager(cases[i].zoo, cases[i].gpus, cases[i].rate_rps, 200);
}

/* Of the 1 % that a model may lose as much is spent on answering early as GPUs are left idle. */
Test(answers, fermata_is_as_quick_as_eager_where_little_is_lost_by_it)
{
    static const struct {
        const char *zoo;
        uint32_t gpus;
        double rate_rps;
    } cases[] = {{"mixed_slo", 1, 50}, {"just_short", 2, 51}, {"short_beside_long", 2, 25}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_as_quick_as_eager(cases[i].zoo, cases[i].gpus, cases[i].rate_rps, 100);
}

/* Bunches may be split as long as there are GPUs for all of them, and what has passed by the next moment takes none for good. */
Test(answers, fermata_is_as_quick_as_eager_in_bursts_where_there_is_room)
{
    static const struct {
        const char *arrivals, *zoo;
        uint32_t gpus;
        double rate_rps;
    } cases[] = {{"gamma:0.1", "zoo_1080ti", 35, 420}, {"gamma:0.1", "zoo_1080ti", 35, 840},
                 {"gamma:0.1", "mixed_slo", 4, 110},   {"gamma:0.1", "one_resnet50v2", 4, 97},
                 {"gamma:0.3", "three_slos", 4, 800},  {"gamma:0.1", "zoo_a100", 64, 12000}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers_t fermata = answers_to(cases[i].arrivals, cases[i].zoo, cases[i].gpus, "fermata",
                                       cases[i].rate_rps, 20),
                  eager = answers_to(cases[i].arrivals, cases[i].zoo, cases[i].gpus, "eager",
                                     cases[i].rate_rps, 20);
        expect_quick(cases[i].zoo, cases[i].rate_rps, &fermata, &eager, 1.15, 1.3);
        cr_expect_lt((double)fermata.lost, 0.0005 * 20 * cases[i].rate_rps, "%s, %.0f/s: %lu lost, eager %lu",
                     cases[i].zoo, cases[i].rate_rps, fermata.lost, eager.lost);
    }
}

/* One model that cannot wait for a batch of one. What its bunches find no GPU for is lost, so they are held, however many GPUs stand idle
 * between them. */
Test(answers, fermata_keeps_bunches_together_that_would_run_short_of_gpus)
{
    static const double rates_rps[] = {700, 1400};
    for (unsigned i = 0; i < sizeof rates_rps / sizeof *rates_rps; i++) {
        answers_t fermata = answers_to("gamma:0.1", "tight", 16, "fermata", rates_rps[i], 20),
                  eager = answers_to("gamma:0.1", "tight", 16, "eager", rates_rps[i], 20);
        cr_expect_lt((double)fermata.lost, 0.2 * (double)eager.lost, "%.0f/s: %lu lost, eager %lu",
                     rates_rps[i], fermata.lost, eager.lost);
    }
}

/* One model whose slack is shorter than a batch of one. Batches that start early keep the GPUs busy for whoever comes next, be they many or
 * few, and more of them make that worse. Nor are its bursts clients that wait for their answers, though nothing comes after them for long. */
Test(answers, fermata_holds_one_model_that_would_shut_itself_out)
{
    static const struct {
        const char *arrivals, *zoo;
        uint32_t gpus;
        double rate_rps, lost_most;
    } cases[] = {
        {"poisson", "tight", 16, 3500, 0.001},          {"poisson", "tight", 16, 4200, 0.001},
        {"poisson", "tight", 12, 2600, 0.001},          {"poisson", "tight", 12, 3100, 0.001},
        {"poisson", "rows_cost_little", 2, 116, 0.001}, {"gamma:0.3", "rows_cost_little", 2, 174, 0.002},
        {"gamma:0.1", "just_short", 4, 424, 0.1}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers_t fermata =
            answers_to(cases[i].arrivals, cases[i].zoo, cases[i].gpus, "fermata", cases[i].rate_rps, 20);
        cr_expect_lt((double)fermata.lost, cases[i].lost_most * 20 * cases[i].rate_rps,
                     "%s, %s, %u GPUs, %.0f/s: %lu lost", cases[i].zoo, cases[i].arrivals, cases[i].gpus,
                     cases[i].rate_rps, fermata.lost);
    }
}

/* Cameras in step: as many come every 100 ms, so no load shows that they do so within 2, and there are not GPUs for each at once. */
Test(answers, fermata_keeps_cameras_in_step_together)
{
    static const struct {
        const char *arrivals, *zoo;
        uint32_t gpus;
        double rate_rps;
    } cases[] = {{"bursts:8,100,10,0.3", "just_short", 4, 80},
                 {"bursts:4,100,10,0.3", "just_short", 1, 40},
                 {"bursts:8,100,10,0.3", "just_short", 2, 80}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers_t fermata = answers_to(cases[i].arrivals, cases[i].zoo, cases[i].gpus, "fermata",
                                       cases[i].rate_rps, 60),
                  eager = answers_to(cases[i].arrivals, cases[i].zoo, cases[i].gpus, "eager",
                                     cases[i].rate_rps, 60);
        cr_expect_gt(eager.lost, 0);
        cr_expect_eq(fermata.lost, 0, "%s on %u GPUs: %lu lost, eager %lu", cases[i].arrivals, cases[i].gpus,
                     fermata.lost, eager.lost);
    }
}

/* Those that are like clients are tried to be taken apart, and kept together for long where that loses some. */
Test(answers, fermata_splits_cameras_in_step_seldom)
{
    answers_t fermata = settled_answers_to("bursts:4,100,10,0.3", "tight", 2, "fermata", 840),
              eager = settled_answers_to("bursts:4,100,10,0.3", "tight", 2, "eager", 840);
    cr_expect_gt(eager.lost, 16000);
    cr_expect(10 < fermata.lost && fermata.lost < 70, "%lu of 33600 lost, in one trial", fermata.lost);
}

/* Of several models that have their turns in time, if their requests came one by one. All are held when too many have been lost. */
Test(answers, fermata_holds_cameras_in_step_of_several_models)
{
    static const struct {
        const char *arrivals;
        uint32_t gpus;
        uint64_t first_most; /* lost before they are held, of those of 26 s */
    } cases[] = {{"bursts:12,200,10,0.3", 2, 120}, {"bursts:24,200,10,0.3", 4, 90}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arrivals = cases[i].arrivals;
        answers_t first = answers_to(arrivals, "two_eyes", cases[i].gpus, "fermata", 1, 26),
                  fermata = settled_answers_to(arrivals, "two_eyes", cases[i].gpus, "fermata", 60),
                  eager = settled_answers_to(arrivals, "two_eyes", cases[i].gpus, "eager", 60);
        cr_expect_gt(eager.lost, 400, "%s: eager loses %lu", arrivals, eager.lost);
        cr_expect_lt(first.lost, cases[i].first_most, "%s: %lu lost at first", arrivals, first.lost);
        cr_expect_leq(fermata.lost, 10, "%s: %lu lost, eager %lu", arrivals, fermata.lost, eager.lost);
        expect_quick(arrivals, 0, &fermata, &eager, 1, 1.02);
    }
}

/* Who is answered together comes back together, for as long as that is held. */
Test(answers, fermata_takes_clients_apart_that_were_answered_together)
{
    static const struct {
        const char *arrivals;
        uint32_t gpus;
    } cases[] = {{"closed:16,100", 2}, {"closed:32,100", 4}, {"closed:24,200", 2}, {"closed:48,200", 4}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers_t fermata = settled_answers_to(cases[i].arrivals, "tight", cases[i].gpus, "fermata", 20),
                  eager = settled_answers_to(cases[i].arrivals, "tight", cases[i].gpus, "eager", 20);
        expect_quick(cases[i].arrivals, 0, &fermata, &eager, 1, 1.05);
        cr_expect_lt(fermata.lost, 5, "%lu lost, eager %lu", fermata.lost, eager.lost);
    }
}

/* Four of each model, whose batches of one would take all four GPUs together, just when those of the other model come: from then on each
 * time, since they come back as they were answered. */
Test(answers, fermata_takes_clients_apart_on_their_share_of_the_gpus)
{
    static const double alone_ms[] = {11, 26};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        world_t world;
        world_start(&world, "two_long", 4, "fermata", 1);
        world.config.jitter = 0.02;
        world.config.warmup_s = 30;
        world.config.seed = seed;
        world.config.seconds = 60;
        world.config.model_latency = true;
        world.workload.arrivals = (arrivals_spec_t){.kind = ARRIVALS_CLOSED, .clients = 4, .think_s = 0.1};
        simulation_result_t *result = world_run(&world);
        for (int m = 0; m < 2; m++) {
            double p50_ms = (double)histogram_quantile_ns(result->models[m].latency, 0.5) / 1e6;
            cr_expect_lt(p50_ms, alone_ms[m] + 2, "seed %lu: model %d: p50 %.1f ms", seed, m, p50_ms);
        }
        simulation_result_dispose(result);
        world_stop(&world);
    }
}

/* If each started alone they would ask for two to three times the GPUs. */
Test(answers, fermata_takes_clients_apart_whose_batches_grow_while_they_wait)
{
    static const struct {
        const char *clients;
        double jitter, from_s, p50_most;
    } cases[] = {{"closed:16,50", 0.02, 10, 1}, {"closed:28,100", 0.05, 30, 1.1}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *clients = cases[i].clients;
        double jitter = cases[i].jitter, from_s = cases[i].from_s;
        answers_t fermata = answers_of_seeds(clients, "just_short", 2, "fermata", jitter, from_s),
                  eager = answers_of_seeds(clients, "just_short", 2, "eager", jitter, from_s);
        expect_quick(clients, 0, &fermata, &eager, cases[i].p50_most, 1.05);
        cr_expect_leq(fermata.lost, 2 * eager.lost, "%s: %lu lost, eager %lu", clients, fermata.lost,
                      eager.lost);
    }
}

/* On one GPU all of a batch come back to it at once, and there is no other for some of them. */
Test(answers, fermata_takes_clients_apart_on_one_gpu)
{
    static const char *const clients[] = {"closed:18,100", "closed:22,100", "closed:36,200", "closed:44,200"};
    for (unsigned i = 0; i < sizeof clients / sizeof *clients; i++) {
        answers_t fermata = answers_of_seeds(clients[i], "one_resnet50v2", 1, "fermata", 0.05, 15),
                  eager = answers_of_seeds(clients[i], "one_resnet50v2", 1, "eager", 0.05, 15);
        expect_quick(clients[i], 0, &fermata, &eager, 1, 1.05);
        cr_expect_lt(1000 * fermata.lost, 3 * fermata.came, "%s: %lu of %lu lost", clients[i], fermata.lost,
                     fermata.came);
    }
}

/* Held, each would still run when the next but one could wait no longer. */
Test(answers, fermata_starts_at_once_what_comes_evenly_to_one_gpu)
{
    static const struct {
        const char *arrivals, *zoo;
        double rate_rps;
    } cases[] = {{"gamma:8", "just_short", 40}, {"uniform", "just_short", 40}, {"gamma:8", "tight", 90}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers_t fermata = answers_to(cases[i].arrivals, cases[i].zoo, 1, "fermata", cases[i].rate_rps, 50),
                  eager = answers_to(cases[i].arrivals, cases[i].zoo, 1, "eager", cases[i].rate_rps, 50);
        expect_quick(cases[i].zoo, cases[i].rate_rps, &fermata, &eager, 1.01, 1.1);
        cr_expect_leq(fermata.lost, eager.lost + 5, "%s, %s: %lu lost, eager %lu", cases[i].arrivals,
                      cases[i].zoo, fermata.lost, eager.lost);
    }
}

/* Clients that wait come back together, as their batch has ended. As one batch again they would leave seven GPUs idle for ever. */
Test(answers, fermata_spreads_clients_that_wait_over_idle_gpus)
{
    answers_t fermata = answers_to("closed:8,0.1", "one_resnet50v2", 8, "fermata", 1, 10),
              eager = answers_to("closed:8,0.1", "one_resnet50v2", 8, "eager", 1, 10);
    cr_expect_lt(fermata.p50_ms, 0.5 * eager.p50_ms, "%.1f, eager %.1f ms", fermata.p50_ms, eager.p50_ms);
    cr_expect_eq(fermata.lost, 0);
}

/* Also where their batches would have to be held if they came at random, since they may be too late for any. */
Test(answers, fermata_spreads_clients_that_wait_though_batches_are_held)
{
    answers_t fermata = settled_answers_to("closed:6,0.1", "tight", 4, "fermata", 10),
              eager = settled_answers_to("closed:6,0.1", "tight", 4, "eager", 10);
    expect_quick("closed:6,0.1", 0, &fermata, &eager, 1.15, 1);
    cr_expect_lt(fermata.lost, 5, "%lu lost, eager %lu", fermata.lost, eager.lost);
}

/* Of whom a half second, and a second, has now one round more, now one less. */
Test(answers, fermata_takes_clients_apart_whose_rounds_fit_no_half_second)
{
    static const uint32_t gpus[] = {2, 4};
    for (int i = 0; i < 2; i++) {
        answers_t fermata = answers_of_seeds("closed:24,400", "tight", gpus[i], "fermata", 0.02, 30),
                  eager = answers_of_seeds("closed:24,400", "tight", gpus[i], "eager", 0.02, 30);
        expect_quick("closed:24,400", 0, &fermata, &eager, 1.1, 1.05);
        cr_expect_lt((double)fermata.lost, 0.01 * (double)fermata.came, "%u GPUs: %lu lost", gpus[i],
                     fermata.lost);
    }
}

/* Who comes back once a second as well. Before they have found their places both lose most of them. */
Test(answers, fermata_takes_clients_apart_that_think_for_long)
{
    answers_t fermata = answers_of_seeds("closed:24,1000", "just_short", 1, "fermata", 0.05, 60),
              held = answers_of_seeds("closed:24,1000", "just_short", 1, "deferred", 0.05, 60);
    cr_expect_lt(fermata.p50_ms, 0.85 * held.p50_ms, "p50 %.1f, held %.1f ms", fermata.p50_ms, held.p50_ms);
    cr_expect_lt(10 * fermata.lost, held.lost, "%lu lost, held %lu", fermata.lost, held.lost);
}

/* Who is held is in time only if a GPU comes free just then. Where that loses as many as starting early, nobody is held for it. */
Test(answers, fermata_holds_nobody_where_more_are_lost_by_it)
{
    answers_t fermata = answers_of("short_and_long", 3, "fermata", 920, 20),
              eager = answers_of("short_and_long", 3, "eager", 920, 20);
    expect_quick("short_and_long", 920, &fermata, &eager, 1.15, INFINITY);
    cr_expect_lt((double)fermata.lost, 0.005 * 20 * 920, "%lu lost, eager %lu", fermata.lost, eager.lost);
}

/* Short ones beside long. p99, which is of the long, and how many are lost: so many times eager's at most. */
static void expect_short_ones_served(uint32_t gpus, double rate_rps, double seconds, double p99_most,
                                     double lost_most)
{
    answers_t fermata = answers_of("short_beside_long", gpus, "fermata", rate_rps, seconds),
              eager = answers_of("short_beside_long", gpus, "eager", rate_rps, seconds);
    expect_quick("short_beside_long", rate_rps, &fermata, &eager, 1.15, p99_most);
    cr_expect_lt((double)fermata.lost, lost_most * (double)eager.lost, "%.0f/s: %lu lost, eager %lu",
                 rate_rps, fermata.lost, eager.lost);
}

/* If the long started at once on all GPUs they would shut out the short, as with `eager`; so they do on all but one. */
Test(answers, fermata_leaves_a_gpu_to_whoever_cannot_wait)
{
    static const double rates_rps[] = {150, 170, 190};
    for (unsigned i = 0; i < sizeof rates_rps / sizeof *rates_rps; i++)
        expect_short_ones_served(3, rates_rps[i], 100, 1.5, 0.7);
}

/* Each of three has its turn in time whatever chance does, and none of them is alone with its own batches: nearly all of what is idle
 * is spent. */
Test(answers, fermata_is_as_quick_as_eager_where_all_have_their_turns)
{
    static const double rates_rps[] = {350, 450, 550};
    for (unsigned i = 0; i < sizeof rates_rps / sizeof *rates_rps; i++) {
        answers_t fermata = answers_of("taking_turns", 3, "fermata", rates_rps[i], 20),
                  eager = answers_of("taking_turns", 3, "eager", rates_rps[i], 20);
        expect_quick("taking_turns", rates_rps[i], &fermata, &eager, 1.15, 1.1);
        cr_expect_lt((double)fermata.lost, 0.001 * 20 * rates_rps[i], "%.0f/s: %lu lost", rates_rps[i],
                     fermata.lost);
    }
}

/* A long batch takes for longer than the short model can wait. Long ones are held, so that they are few; the short are in nobody's way. */
Test(answers, fermata_answers_at_once_who_is_in_nobodys_way)
{
    static const double rates_rps[] = {60, 75, 90, 230, 255, 280};
    for (unsigned i = 0; i < sizeof rates_rps / sizeof *rates_rps; i++)
        expect_short_ones_served(2, rates_rps[i], 50, INFINITY, 0.5);
}
