/*
 * What is learned of batches that do not take what their profile says: the module by itself, and the core around it.
 */
#include "sched/scatter.h"

#include "base/prng.h"
#include "sched/sched.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { MS = 1000000 };

typedef struct {
    scatter_t scatter;
    prng_t prng;
    int64_t now_ns;
} lab_t;

static void lab_start(lab_t *lab)
{
    *lab = (lab_t){.now_ns = 77 * (int64_t)MS};
    prng_init(&lab->prng, 5);
}

/* `count` batches of 10 ms by their profile, one every 25 ms; `close` of four rows are held to their deadlines. */
static void note(lab_t *lab, unsigned count, double mean, double sigma, uint32_t close)
{
    for (unsigned i = 0; i < count; i++) {
        double took = mean + sigma * prng_normal(&lab->prng, 0, 1);
        scatter_sample_t sample = {.batch = 4,
                                   .profile_ns = 10 * MS,
                                   .took_ns = (int64_t)(took * 10 * MS),
                                   .ran_ns = (int64_t)(took * 10 * MS),
                                   .close = close};
        lab->now_ns += 25 * MS;
        (void)scatter_note(&lab->scatter, lab->now_ns, &sample);
    }
}

static double guard_of(const lab_t *lab)
{
    return lab->scatter.guards[scatter_class_of(4)];
}

Test(scatter, batches_that_take_what_the_profile_says_need_no_guard)
{
    lab_t lab;
    lab_start(&lab);
    note(&lab, 200, 1, 0, 4);
    cr_expect_eq(lab.scatter.mean, 1);
    for (uint32_t c = 0; c < SCATTER_CLASSES; c++)
        cr_expect(lab.scatter.means[c] == 1 && lab.scatter.guards[c] == 1);
}

/* All rows at risk: 1 % of them may be late, 2.33 deviations. A quarter: 4 % of those, 1.75. None: any may. Of what few delays need all is
 * counted on then, half (four times as many may be late, of sixteen), and nothing. */
Test(scatter, the_quantile_follows_from_how_many_rows_are_held_to_their_deadlines)
{
    static const struct {
        uint32_t close;
        double z, rare;
    } cases[] = {{4, 2.33, 1}, {1, 1.75, 0.5}, {0, 1, 0}};
    for (unsigned i = 0; i < 3; i++) {
        lab_t lab;
        lab_start(&lab);
        cr_expect_eq(scatter_rare(&lab.scatter), 1, "nothing was learned");
        note(&lab, 200, 1, 0.05, cases[i].close); /* 5 s */
        cr_expect_float_eq(scatter_mean(&lab.scatter, 4), 1, 0.02, "mean %.4f",
                           scatter_mean(&lab.scatter, 4));
        cr_expect_float_eq(guard_of(&lab), 1 + 0.05 * cases[i].z, 0.035, "%u close: guard %.4f",
                           cases[i].close, guard_of(&lab));
        cr_expect_float_eq(scatter_rare(&lab.scatter), cases[i].rare, 0.01, "%u close: %.3f", cases[i].close,
                           scatter_rare(&lab.scatter));
    }
}

Test(scatter, a_change_is_followed_within_ten_seconds_up_and_down)
{
    lab_t lab;
    lab_start(&lab);
    note(&lab, 400, 1, 0.02, 4);
    note(&lab, 400, 1.5, 0.1, 4);
    cr_expect_float_eq(scatter_mean(&lab.scatter, 4), 1.5, 0.06, "mean %.3f", scatter_mean(&lab.scatter, 4));
    cr_expect_gt(guard_of(&lab), 1.68, "guard %.3f", guard_of(&lab));
    note(&lab, 400, 1, 0.02, 4);
    cr_expect_float_eq(scatter_mean(&lab.scatter, 4), 1, 0.06, "mean %.3f", scatter_mean(&lab.scatter, 4));
    cr_expect_float_eq(guard_of(&lab), 1 + 2.33 * 0.02, 0.03, "guard %.3f", guard_of(&lab));
}

/* For two seconds each: the guard is of both all the time. */
Test(scatter, what_comes_and_goes_is_no_change)
{
    lab_t lab;
    lab_start(&lab);
    for (unsigned i = 0; i < 20; i++) {
        note(&lab, 80, i % 2 ? 1.3 : 1, 0.02, 4);
        if (i > 2)
            cr_expect_gt(guard_of(&lab), 1.3, "guard %.3f", guard_of(&lab));
    }
}

Test(scatter, one_batch_that_was_far_off_is_not_believed_and_forty_are)
{
    lab_t lab;
    lab_start(&lab);
    note(&lab, 200, 1, 0.02, 4);
    double before = guard_of(&lab);
    note(&lab, 1, 20, 0, 4);
    note(&lab, 3, 1, 0.02, 4);
    cr_expect_lt(guard_of(&lab), before + 0.03, "guard %.3f after %.3f", guard_of(&lab), before);
    note(&lab, 40, 10, 0.1, 4);
    cr_expect_gt(scatter_mean(&lab.scatter, 4), 1.5, "mean %.3f", scatter_mean(&lab.scatter, 4));
}

/* Known for one size only: the others go by it until they have batches of their own. */
Test(scatter, sizes_without_batches_go_by_the_others)
{
    lab_t lab;
    lab_start(&lab);
    note(&lab, 200, 1.2, 0.05, 4);
    cr_expect_float_eq(scatter_mean(&lab.scatter, 1), 1.2, 0.03);
    cr_expect_float_eq(scatter_mean(&lab.scatter, 64), 1.2, 0.03);
    for (unsigned i = 0; i < 60; i++) {
        scatter_sample_t large = {
            .batch = 64, .profile_ns = 100 * MS, .took_ns = 100 * MS, .ran_ns = 100 * MS};
        lab.now_ns += 25 * MS;
        (void)scatter_note(&lab.scatter, lab.now_ns, &large);
    }
    cr_expect_lt(scatter_mean(&lab.scatter, 64), 1.06, "mean %.3f", scatter_mean(&lab.scatter, 64));
    cr_expect_gt(scatter_mean(&lab.scatter, 4), 1.12, "mean %.3f", scatter_mean(&lab.scatter, 4));
}

Test(scatter, what_is_built_never_falls_and_is_as_long_as_the_profile)
{
    lab_t lab;
    profile_t line, guarded;
    lab_start(&lab);
    cr_assert_eq(profile_from_line(&line, MS, 5 * MS, 40, NULL), STATUS_OK);
    note(&lab, 200, 1, 0.1, 4);
    lab.scatter.guards[scatter_class_of(8)] = 0.5; /* far less than for the sizes below */
    scatter_build(&lab.scatter, &line, &guarded);
    cr_expect_null(profile_validate(&guarded));
    cr_expect_eq(guarded.max_batch, line.max_batch);
    for (uint32_t b = 2; b <= 40; b++)
        cr_expect_geq(profile_latency_ns(&guarded, b), profile_latency_ns(&guarded, b - 1));
    double ratio = (double)profile_latency_ns(&guarded, 4) / (double)profile_latency_ns(&line, 4);
    cr_expect_float_eq(ratio, guard_of(&lab), 1e-6);
}

Test(scatter, half_of_a_batch_time_as_deviation_is_borne)
{
    lab_t lab;
    lab_start(&lab);
    note(&lab, 400, 1.2, 0.5, 4);
    cr_expect(guard_of(&lab) > 1.8 && guard_of(&lab) < 3.5, "guard %.3f", guard_of(&lab));
}

/* Whether what was learned is, when nothing was measured for that long. */
static bool is_doubted_after(lab_t *lab, int64_t ms)
{
    lab->now_ns += ms * MS;
    return scatter_doubt(&lab->scatter, lab->now_ns, 0);
}

Test(scatter, tries_in_vain_become_seldom_until_others_are_measured)
{
    lab_t lab;
    lab_start(&lab);
    cr_expect_not(scatter_granted(&lab.scatter), "none is wanted");
    note(&lab, 200, 3, 0.02, 4);
    for (int64_t wait_ms = 1000; wait_ms <= 16000; wait_ms *= 2) {
        cr_expect_not(is_doubted_after(&lab, (wait_ms < 8000 ? wait_ms : 8000) - 1));
        cr_expect(is_doubted_after(&lab, 1), "%ld ms", (long)wait_ms);
        cr_expect_not(is_doubted_after(&lab, 999), "it is wanted already");
        cr_expect(scatter_granted(&lab.scatter));
        cr_expect_not(scatter_granted(&lab.scatter), "it was one");
        note(&lab, 1, 3, 0, 4);
        cr_expect_gt(guard_of(&lab), 2.9, "it took as long");
    }
    cr_expect(is_doubted_after(&lab, 8000));
    note(&lab, 1, 3, 0, 4); /* it was granted before */
    cr_expect_not(scatter_granted(&lab.scatter), "none is wanted any more");
    lab.scatter.try = SCATTER_TRY_WANTED;
    const scatter_sample_t same = {
        .batch = 4, .profile_ns = MS, .took_ns = 3 * MS, .ran_ns = 3 * MS, .close = 4};
    cr_expect(scatter_note(&lab.scatter, lab.now_ns, &same),
              "what is the guard meanwhile is to be built again");
    cr_expect(is_doubted_after(&lab, 1000));
    cr_expect(scatter_granted(&lab.scatter));
    note(&lab, 1, 1, 0, 4);
    cr_expect_eq(guard_of(&lab), 1, "it is learned anew");
}

/* ---- The core ---- */

/* Two models of b + 9 ms and two GPUs, one for each by duo_start(). Batches of the first take `factor` times that. */
typedef struct {
    sched_t *sched;
    int64_t now_ns, wake_ns, end_ns[2];
    uint64_t batch_id[2];
    int64_t start_ns[2];
    double factor;
    int64_t slow_ns; /* after an odd number of requests a batch begins so much later than promised */
    int64_t lead_ns; /* of the last grant */
    int64_t slo_ns, every_ns;
    unsigned granted[2], dropped[2], late[2];
    uint64_t tag;
} duo_t;

static void on_action(void *ctx, const sched_action_t *action)
{
    duo_t *duo = ctx;
    if (action->kind == SCHED_DROP) {
        duo->dropped[action->model]++;
    } else if (action->kind == SCHED_GRANT) {
        uint32_t gpu = action->grant.gpu, count = action->grant.count;
        double factor = action->model == 0 ? duo->factor : 1;
        duo->granted[action->model] += count;
        duo->batch_id[gpu] = action->grant.batch_id;
        duo->lead_ns = action->grant.start_ns - duo->now_ns;
        duo->start_ns[gpu] = action->grant.start_ns + (duo->granted[action->model] % 2 ? duo->slow_ns : 0);
        duo->end_ns[gpu] = duo->start_ns[gpu] + (int64_t)(factor * (count + 9) * MS);
        for (uint32_t i = 0; i < count; i++) {
            cr_assert_geq(action->grant.tasks[i].deadline_ns, action->grant.finish_ns, "as it is planned");
            duo->late[action->model] += action->grant.tasks[i].deadline_ns < duo->end_ns[gpu];
        }
    }
}

static void start(duo_t *duo, double factor, const char *policy)
{
    sched_limits_t limits = {
        .models_max = 2, .gpus_max = 2, .tasks_max = 1000, .batch_max = 64, .gpu_inflight_max = 1};
    profile_t line;
    *duo =
        (duo_t){.factor = factor, .slo_ns = 60 * MS, .every_ns = 10 * MS, .end_ns = {INT64_MAX, INT64_MAX}};
    cr_assert_eq(profile_from_line(&line, MS, 9 * MS, 64, NULL), STATUS_OK);
    duo->sched = sched_create(&limits, NULL);
    cr_assert_not_null(duo->sched);
    cr_assert_eq(sched_set_policy(duo->sched, 0, policy, NULL, NULL), STATUS_OK);
    for (uint32_t m = 0; m < 2; m++) {
        cr_assert_eq(sched_add_model(duo->sched, 0, m, &line, NULL, NULL), STATUS_OK);
        cr_assert_eq(sched_add_gpu(duo->sched, 0, m, 0), STATUS_OK);
    }
}

static void duo_start(duo_t *duo, double factor)
{
    start(duo, factor, "deferred");
    for (uint32_t m = 0; m < 2; m++)
        cr_assert_eq(sched_allow(duo->sched, 0, m, 1 - m, false), STATUS_OK);
}

static void turn(duo_t *duo)
{
    const char *broken = sched_validate(duo->sched);
    cr_assert_null(broken, "%s", broken);
    duo->wake_ns = sched_run(duo->sched, duo->now_ns, on_action, duo);
}

/* Plays until then; with `asking`, each model gets a request every so often: by itself of 60 ms every 10 ms. */
static void duo_play(duo_t *duo, int64_t until_ns, bool asking)
{
    int64_t ask_ns = asking ? duo->now_ns : INT64_MAX;
    while (true) {
        int64_t next_ns = duo->wake_ns < ask_ns ? duo->wake_ns : ask_ns;
        for (uint32_t g = 0; g < 2; g++)
            next_ns = duo->end_ns[g] < next_ns ? duo->end_ns[g] : next_ns;
        if (next_ns > until_ns)
            break;
        duo->now_ns = next_ns > duo->now_ns ? next_ns : duo->now_ns;
        for (uint32_t g = 0; g < 2; g++) {
            if (duo->end_ns[g] > duo->now_ns)
                continue;
            cr_assert(
                sched_batch_ran(duo->sched, duo->now_ns, duo->batch_id[g], duo->start_ns[g], duo->end_ns[g]));
            duo->end_ns[g] = INT64_MAX;
            cr_assert(sched_batch_done(duo->sched, duo->now_ns, duo->batch_id[g], duo->now_ns));
        }
        for (uint32_t m = 0; ask_ns <= duo->now_ns && m < 2; m++) {
            sched_task_t task = {
                .tag = ++duo->tag, .arrival_ns = duo->now_ns, .deadline_ns = duo->now_ns + duo->slo_ns};
            cr_assert_eq(sched_submit(duo->sched, duo->now_ns, m, &task, NULL), STATUS_OK);
        }
        if (ask_ns <= duo->now_ns)
            ask_ns += duo->every_ns;
        turn(duo);
    }
    duo->now_ns = until_ns;
}

static void forget_counts(duo_t *duo)
{
    memset(duo->granted, 0, sizeof duo->granted);
    memset(duo->dropped, 0, sizeof duo->dropped);
    memset(duo->late, 0, sizeof duo->late);
}

Test(scatter, a_model_that_is_slower_than_its_profile_is_late_only_until_that_is_known)
{
    duo_t duo;
    sched_scatter_t scatter;
    duo_start(&duo, 1.3);
    duo_play(&duo, 5000 * (int64_t)MS, true);
    cr_expect_gt(duo.late[0], 0, "nobody could know");
    forget_counts(&duo);
    duo_play(&duo, 8000 * (int64_t)MS, true);
    cr_expect_eq(duo.late[0], 0, "%u late", duo.late[0]);
    cr_expect_eq(duo.late[1] + duo.dropped[1], 0, "the other model has nothing to do with it");
    cr_assert(sched_model_scatter(duo.sched, 0, &scatter));
    cr_expect_float_eq(scatter.mean, 1.3, 0.02, "mean %.3f", scatter.mean);
    cr_assert(sched_model_scatter(duo.sched, 1, &scatter));
    cr_expect(scatter.mean == 1 && scatter.guard == 1);
    cr_expect_not(sched_model_scatter(duo.sched, 2, &scatter));
    sched_destroy(duo.sched);
}

/* Ten times as long as profiled: it can never make it. It is tried now and then, and stops nobody else. */
Test(scatter, a_model_that_always_runs_ten_times_as_long_stops_nobody)
{
    duo_t duo;
    duo_start(&duo, 10);
    duo_play(&duo, 20000 * (int64_t)MS, true);
    cr_expect_eq(duo.late[1] + duo.dropped[1], 0);
    cr_expect_gt(duo.granted[1], 1900);
    cr_expect_gt(duo.dropped[0], 1000, "what is known to be late is refused");
    forget_counts(&duo);
    duo.factor = 1; /* it is mended: the next try shows it */
    duo_play(&duo, 40000 * (int64_t)MS, true);
    forget_counts(&duo);
    duo_play(&duo, 45000 * (int64_t)MS, true);
    cr_expect_eq(duo.late[0] + duo.dropped[0], 0, "%u late, %u dropped", duo.late[0], duo.dropped[0]);
    sched_destroy(duo.sched);
}

/* Nor where they share their GPUs: one batch at a time is tried, more and more seldom; and every eight seconds still. */
Test(scatter, a_model_that_always_runs_ten_times_as_long_leaves_shared_gpus_to_others)
{
    static const char *const policies[] = {"fermata", "eager", "deferred"};
    for (unsigned p = 0; p < 3; p++) {
        duo_t duo;
        start(&duo, 10, policies[p]);
        duo_play(&duo, 10000 * (int64_t)MS, true);
        forget_counts(&duo);
        duo_play(&duo, 40000 * (int64_t)MS, true);
        cr_expect_eq(duo.late[1] + duo.dropped[1], 0, "%s: %u dropped", policies[p], duo.dropped[1]);
        cr_expect(duo.granted[0] >= 3 && duo.granted[0] <= 40, "%s: %u", policies[p], duo.granted[0]);
        duo.factor = 1;
        duo_play(&duo, 50000 * (int64_t)MS, true);
        forget_counts(&duo);
        duo_play(&duo, 55000 * (int64_t)MS, true);
        cr_expect_eq(duo.late[0] + duo.dropped[0], 0, "%s: %u late", policies[p], duo.late[0]);
        sched_destroy(duo.sched);
    }
}

/* Where nothing runs nothing is measured anew: an old estimate does not refuse anybody. */
Test(scatter, an_estimate_that_is_older_than_a_second_refuses_nobody)
{
    duo_t duo;
    duo_start(&duo, 10);
    duo_play(&duo, 3000 * (int64_t)MS, true);
    duo_play(&duo, 6000 * (int64_t)MS, false);
    duo.factor = 1;
    forget_counts(&duo);
    duo_play(&duo, 6005 * (int64_t)MS, true);
    duo_play(&duo, 6200 * (int64_t)MS, false);
    cr_expect_eq(duo.granted[0], 1, "%u granted, %u dropped", duo.granted[0], duo.dropped[0]);
    cr_expect_eq(duo.late[0], 0);
    sched_destroy(duo.sched);
}

Test(scatter, times_that_make_no_sense_are_refused_and_change_nothing)
{
    duo_t duo;
    sched_scatter_t scatter;
    duo_start(&duo, 1);
    duo_play(&duo, 55 * (int64_t)MS, true);
    uint64_t batch = duo.batch_id[0];
    cr_assert_neq(duo.end_ns[0], INT64_MAX, "one runs");
    cr_expect_not(sched_batch_ran(duo.sched, duo.now_ns, batch, 20 * MS, 10 * MS), "it ends before it began");
    cr_expect_not(sched_batch_ran(duo.sched, duo.now_ns, batch ^ (UINT64_C(1) << 40), 10 * MS, 20 * MS),
                  "no such batch");
    cr_assert(sched_model_scatter(duo.sched, 0, &scatter));
    cr_expect(scatter.mean == 1 && scatter.guard == 1);
    sched_destroy(duo.sched);
}

/* Of the lead of 4 ms a half is there for the slowest few. Who starts at once has time, in lanes as well, and who holds each request to its
 * end has none. */
Test(scatter, who_has_time_is_not_granted_for_the_slowest_ways)
{
    const sched_delays_t delays = {
        .ctrl_ns = 3 * MS, .fixed_ns = MS, .ctrl_rare_ns = 7 * MS / 4, .fixed_rare_ns = MS / 4};
    static const struct {
        const char *policy;
        int64_t lead_ns;
    } cases[] = {{"eager", 2 * MS}, {"deferred", 4 * MS}, {"nexus", 2 * MS}};
    for (unsigned i = 0; i < 3; i++) {
        duo_t duo;
        start(&duo, 1, cases[i].policy);
        duo.slo_ns = 30 * MS;
        duo.every_ns = 25 * MS;
        duo.slow_ns = 3 * MS;
        sched_set_delays(duo.sched, 0, &delays);
        duo_play(&duo, 20 * MS, true);
        cr_expect_eq(duo.lead_ns, 4 * MS, "nothing was learned");
        duo_play(&duo, 8000 * (int64_t)MS, true);
        cr_expect_float_eq((double)duo.lead_ns, (double)cases[i].lead_ns, 0.2 * MS, "%s: %.2f ms",
                           cases[i].policy, (double)duo.lead_ns / MS);
        sched_set_delays(duo.sched, duo.now_ns, &(sched_delays_t){.ctrl_ns = MS});
        duo_play(&duo, 8100 * (int64_t)MS, true);
        cr_expect_eq(duo.lead_ns, MS, "others were measured, which do not scatter");
        sched_destroy(duo.sched);
    }
}
