#include "fermata/profile/loads.h"

#include "model/measure/profiler_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shepherd 6. */
static const double EXIT_LIMIT = 0.05;
/* Of the peak: DVABatch's medium load. */
static const double LOAD = 0.6;
enum { QUERIES_MIN = 40, SLICES = 4, EXIT_RUNS = 5 };

/* ---- stages ---- */

/* What is tried, in the order of the report. */
typedef struct {
    operators_t *o;
    profile_found_t *found;
    double rate_rps; /* that comes to all */
} search_t;

static void enter(search_t *search, profile_try_t try)
{
    search->found->tries[search->found->try_count++] = try;
}

static contest_t contest_of(const search_t *search)
{
    const profile_how_t *how = search->o->how;
    return (contest_t){.o = search->o,
                       .slices = SLICES,
                       .seed = how->seed,
                       .rate_rps = search->rate_rps,
                       .seconds = search->rate_rps > 0 ? fmax(how->seconds, QUERIES_MIN / search->rate_rps)
                                                       : how->seconds};
}

/* As DelayBatch serves a backlog. */
static status_t find_rate(search_t *search, err_t *err)
{
    profile_try_t delaybatch = profile_baselines[1];
    contest_t contest = contest_of(search);
    contest.tries[contest.count++] = &delaybatch;
    status_t status = contest_play(&contest, err);
    if (status == STATUS_OK)
        contest_sum_up(&contest);
    contest_dispose(&contest);
    search->rate_rps = LOAD * delaybatch.result.throughput_rps;
    return status;
}

/* Evenly, and where the preferred size changes. */
static void enter_counts(search_t *search, profile_try_t try, bool by_preference)
{
    static const uint32_t counts[] = {2, 3, 4, 6, 8, 12};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        try.stages = counts[i];
        if (counts[i] <= search->o->cuts.cut_count + 1)
            enter(search, try);
    }
    try.by_preference = true;
    if (by_preference && operators_place(search->o, &try, search->o->at) > 0)
        enter(search, try);
}

/* The best so far, which lets no rows join, with each T_comp_wait: parts of a full batch. */
static void enter_waits(search_t *search, double full_ns, profile_try_t try)
{
    static const double waits[] = {0, 0.125, 0.25, 0.5, 1};
    size_t first = strcmp(try.schedule, "combined") == 0; /* the first was tried with the counts */
    try.schedule = "combined";
    for (size_t i = first; i < sizeof(waits) / sizeof(waits[0]); i++) {
        try.wait_ms = full_ns * waits[i] / 1e6;
        enter(search, try);
    }
}

/* Of those of mode staged the one with the least mean, and of those that are no worse by more than chance the one with
 * the fewest stages: each costs a launch. */
static uint32_t choose_count(const contest_t *contest)
{
    uint32_t best = UINT32_MAX;
    double error;
    for (uint32_t i = 0; i < contest->count; i++)
        if (contest->tries[i]->stages > 1 &&
            (best == UINT32_MAX || contest_change(contest, i, best, &error) < 0))
            best = i;
    uint32_t chosen = best;
    for (uint32_t i = 0; best != UINT32_MAX && i < contest->count; i++) {
        uint32_t stages = contest->tries[i]->stages;
        if (stages > 1 && stages < contest->tries[chosen]->stages &&
            contest_change(contest, i, best, &error) <= error)
            chosen = i;
    }
    return chosen;
}

/* The one with the least mean that is better than `than` by more than chance; else that. */
static uint32_t choose_better(const contest_t *contest, uint32_t than)
{
    uint32_t chosen = than;
    double error, least = 0;
    for (uint32_t i = 0; i < contest->count; i++) {
        double change = contest_change(contest, i, than, &error);
        if (i != than && change + error < 0 && change < least) {
            chosen = i;
            least = change;
        }
    }
    return chosen;
}

/* The baseline with the least mean latency, if that is below what staged was taken for; else NULL. */
static const profile_try_t *faster_whole(const profile_found_t *found)
{
    const profile_try_t *best = NULL;
    for (uint32_t i = 0; i < found->try_count; i++)
        if (found->tries[i].stages == 1 && (!best || found->tries[i].result.avg_ms < best->result.avg_ms))
            best = &found->tries[i];
    return best && best->result.avg_ms < found->tries[found->chosen_try].result.avg_ms ? best : NULL;
}

/* Numbers of stages beside the baselines. */
static status_t try_counts(search_t *search, err_t *err)
{
    profile_found_t *found = search->found;
    const profile_mix_t *mix = search->o->how->mix;
    bool mixed = mix && mix->count > 1;
    contest_t contest = contest_of(search);
    for (size_t i = 0; i < PROFILE_BASELINES; i++)
        enter(search, profile_baselines[i]);
    enter_counts(search, (profile_try_t){.mode = "staged", .schedule = mixed ? "input" : "combined"}, !mixed);
    while (contest.count < found->try_count) {
        contest.tries[contest.count] = &found->tries[contest.count];
        contest.count++;
    }
    status_t status = contest_play(&contest, err);
    if (status == STATUS_OK) {
        found->chosen_try = choose_count(&contest);
        contest_sum_up(&contest);
    }
    contest_dispose(&contest);
    return status;
}

/* Against what was chosen, which is played once more. */
static status_t try_waits(search_t *search, double full_ns, err_t *err)
{
    profile_found_t *found = search->found;
    profile_try_t chosen = found->tries[found->chosen_try];
    contest_t contest = contest_of(search);
    uint32_t from = found->try_count;
    enter_waits(search, full_ns, chosen);
    contest.tries[contest.count++] = &chosen;
    for (uint32_t i = from; i < found->try_count; i++)
        contest.tries[contest.count++] = &found->tries[i];
    status_t status = contest_play(&contest, err);
    if (status == STATUS_OK) {
        uint32_t better = choose_better(&contest, 0);
        found->chosen_try = better ? from + better - 1 : found->chosen_try;
        contest_sum_up(&contest);
    }
    contest_dispose(&contest);
    return status;
}

static status_t try_all(operators_t *o, profile_found_t *found, err_t *err)
{
    double full_ns = (double)profile_latency_ns(o->how->profile, o->rows_max);
    search_t search = {.o = o, .found = found};
    status_t status = find_rate(&search, err);
    if (status == STATUS_OK)
        status = try_counts(&search, err);
    if (status == STATUS_OK && found->chosen_try == UINT32_MAX)
        status = err_set(err, STATUS_UNSUPPORTED, "no cut divides the time of the model");
    return status == STATUS_OK ? try_waits(&search, full_ns, err) : status;
}

status_t profile_stages(const profile_how_t *how, profile_modes_t *modes, profile_found_t *found, err_t *err)
{
    operators_t o;
    status_t status = operators_measure(&o, how, err);
    if (status != STATUS_OK)
        return status;
    status = try_all(&o, found, err);
    if (status == STATUS_OK && how->loads)
        status = profile_loads(&o, found, err);
    if (status == STATUS_OK) {
        const profile_try_t *best = &found->tries[found->chosen_try];
        modes->stage_count = operators_place(&o, best, modes->stages);
        modes->comp_wait_ns = operators_comp_wait_ns(best);
        snprintf(modes->schedule, sizeof(modes->schedule), "%s", best->schedule);
        modes->whole_is_faster = faster_whole(found);
    }
    operators_dispose(&o);
    return status;
}

/* ---- exit points ---- */

/* Of the largest batch. */
static const int64_t *whole_op_ns(const operators_t *o)
{
    return o->op_ns + (size_t)(o->size_count - 1) * o->cuts.ops;
}

static status_t try_exits(operators_t *o, uint32_t points, uint32_t at[STAGED_STAGES_MAX],
                          profile_found_t *found, err_t *err)
{
    uint32_t count = stages_even(&o->model, whole_op_ns(o), points + 1, at);
    int64_t with_ns, without_ns;
    status_t status =
        profiler_exits(o->how->profiler, o->rows_max, at, count, EXIT_RUNS, &with_ns, &without_ns, err);
    if (status == STATUS_OK)
        found->exits[found->exits_count++] =
            (profile_exits_t){.points = count,
                              .overhead = without_ns > 0 ? (double)with_ns / (double)without_ns - 1 : 0,
                              .delay = stages_longest(&o->model, whole_op_ns(o), at, count)};
    return status;
}

/* Both limits kept, by as few as there can be; else the least delay of what costs too little to notice. */
static uint32_t choose_exits(const profile_found_t *found)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < found->exits_count; i++) {
        const profile_exits_t *e = &found->exits[i];
        if (e->overhead >= EXIT_LIMIT)
            continue;
        if (e->delay < EXIT_LIMIT)
            return i;
        if (best == UINT32_MAX || e->delay < found->exits[best].delay)
            best = i;
    }
    return best;
}

status_t profile_exit_points(const profile_how_t *how, profile_modes_t *modes, profile_found_t *found,
                             err_t *err)
{
    static const uint32_t points[] = {1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 31};
    operators_t o;
    uint32_t at[STAGED_STAGES_MAX];
    status_t status = operators_measure(&o, how, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; status == STATUS_OK && i < sizeof(points) / sizeof(points[0]); i++)
        if (points[i] <= o.cuts.cut_count)
            status = try_exits(&o, points[i], at, found, err);
    found->chosen_exits = choose_exits(found);
    modes->exit_count = 0;
    if (status == STATUS_OK && found->chosen_exits != UINT32_MAX)
        modes->exit_count = stages_even(&o.model, whole_op_ns(&o),
                                        found->exits[found->chosen_exits].points + 1, modes->exits);
    operators_dispose(&o);
    return status;
}

/* ---- reports ---- */

void profile_found_table(const profile_found_t *found, FILE *out)
{
    if (found->try_count)
        fprintf(out,
                "\nrows come one by one, %.1f a second: %.0f %% of what DelayBatch serves of a backlog\n",
                found->tries[0].rate_rps, 100 * LOAD);
    if (found->try_count)
        fprintf(out, "%-12s %-9s %6s %-10s %8s %16s %9s %12s\n", "mode", "schedule", "stages", "cut",
                "wait ms", "mean ms", "p99 ms", "requests/s");
    for (uint32_t i = 0; i < found->try_count; i++) {
        const profile_try_t *t = &found->tries[i];
        fprintf(out, "%-12s %-9s %6u %-10s %8.2f %9.2f ± %4.2f %9.2f %12.1f%s\n", t->mode, t->schedule,
                t->stages, profile_cut_name(t), t->wait_ms, t->result.avg_ms, t->result.avg_error_ms,
                t->result.p99_ms, t->result.throughput_rps, i == found->chosen_try ? "  <- taken" : "");
    }
    const profile_try_t *whole = faster_whole(found), *taken = &found->tries[found->chosen_try];
    if (found->try_count)
        fprintf(out, "a worker in mode staged takes it up, unless config.yaml names something else\n");
    if (whole)
        fprintf(out, "whole is faster than staged here: %s has %.2f ms where the best stages have %.2f\n",
                whole->mode, whole->result.avg_ms, taken->result.avg_ms);
    profile_loads_table(found, out);
    if (found->exits_count)
        fprintf(out, "\n%11s %10s %10s\n", "exit points", "overhead", "delay");
    for (uint32_t i = 0; i < found->exits_count; i++)
        fprintf(out, "%11u %8.2f %% %8.2f %%%s\n", found->exits[i].points, 100 * found->exits[i].overhead,
                100 * found->exits[i].delay, i == found->chosen_exits ? "  <- taken" : "");
    if (found->exits_count && found->chosen_exits == UINT32_MAX)
        fprintf(out, "none: each costs %.0f %% of a batch or more\n", 100 * EXIT_LIMIT);
}

json_t *profile_found_json(const profile_found_t *found)
{
    json_t *tries = json_array(), *exits = json_array();
    for (uint32_t i = 0; i < found->try_count; i++) {
        json_t *try = profile_try_json(&found->tries[i]);
        json_object_set_new(try, "taken", json_boolean(i == found->chosen_try));
        json_array_append_new(tries, try);
    }
    for (uint32_t i = 0; i < found->exits_count; i++)
        json_array_append_new(exits,
                              json_pack("{s:i, s:f, s:f, s:b}", "exit_points", (int)found->exits[i].points,
                                        "overhead", found->exits[i].overhead, "delay", found->exits[i].delay,
                                        "taken", i == found->chosen_exits));
    return json_pack("{s:o, s:b, s:o, s:o}", "stages", tries, "whole_is_faster", faster_whole(found) ? 1 : 0,
                     "exit_points", exits, "loads", profile_loads_json(found));
}
