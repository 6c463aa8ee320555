#include "fermata/profile/loads.h"

#include <stdlib.h>

/* The tries have the first ones. A load has few slices, for each begins on an idle device. */
enum { CHOSEN = PROFILE_BASELINES, SEED = 1000, SLICES = 2, PEAK = 0, CLOSED = PROFILE_LOADS - 1 };

static const char *const load_names[PROFILE_LOADS] = {"peak", "low", "medium", "high", "closed"};

const profile_try_t profile_baselines[PROFILE_BASELINES] = {
    {.mode = "zerobatch", .schedule = "", .stages = 1},
    {.mode = "delaybatch", .schedule = "", .stages = 1, .wait_ms = 2},
};

/* At a backlog, and for one request, it makes no difference when a batch is formed. */
static uint32_t modes_at(uint32_t load)
{
    return load == PEAK || load == CLOSED ? PROFILE_BASELINES + 1 : PROFILE_COMPARED;
}

static void name_modes(contest_t *contest, profile_load_t cells[PROFILE_COMPARED],
                       const profile_try_t *chosen)
{
    for (uint32_t i = 0; i < contest->count; i++) {
        bool late = i > CHOSEN;
        cells[i].try = i == CHOSEN ? *chosen : profile_baselines[late ? i - CHOSEN - 1 : i];
        cells[i].try.late = late;
        contest->tries[i] = &cells[i].try;
    }
}

static void compare(const contest_t *contest, profile_load_t *cells)
{
    for (uint32_t i = 0; i < contest->count; i++)
        for (uint32_t base = 0; base < PROFILE_BASELINES; base++)
            cells[i].change[base] = contest_change(contest, i, base, &cells[i].change_error[base]);
}

/* The mean of all requests. */
static status_t find_bound(const contest_t *contest, double *bound_ms, err_t *err)
{
    const profile_how_t *how = contest->o->how;
    trial_cost_t cost;
    double sum_ns = 0, mean_ns = 0;
    status_t status = STATUS_OK;
    trial_cost_init(&cost, how->mix, how->profile, contest->o->rows_max, how->streams);
    for (uint32_t slice = 0; status == STATUS_OK && slice < contest->slices; slice++) {
        operators_work_t work;
        if (contest_draw(contest, slice, &work, err) != STATUS_OK)
            return err->code;
        status = trial_bound(&cost, work.list, work.count, &mean_ns, err);
        sum_ns += mean_ns * work.count;
        free(work.list);
    }
    *bound_ms = sum_ns / contest->queries / 1e6;
    return status;
}

static status_t play_load(operators_t *o, uint32_t number, double rate_rps, profile_found_t *found,
                          err_t *err)
{
    contest_t contest = {.o = o,
                         .count = modes_at(number),
                         .slices = SLICES,
                         .seed = o->how->seed + SEED,
                         .closed = number == CLOSED,
                         .rate_rps = rate_rps,
                         .seconds = PROFILE_LOADS_TIMES * o->how->seconds};
    name_modes(&contest, found->loads[number], &found->tries[found->chosen_try]);
    status_t status = contest_play(&contest, err);
    if (status == STATUS_OK && !contest.closed)
        status = find_bound(&contest, &found->bound_ms[number], err);
    if (status == STATUS_OK) {
        compare(&contest, found->loads[number]);
        contest_sum_up(&contest);
        found->load_count++;
    }
    contest_dispose(&contest);
    return status;
}

status_t profile_loads(operators_t *o, profile_found_t *found, err_t *err)
{
    static const double parts[PROFILE_LOADS] = {0, 0.25, 0.6, 0.9, 0};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < PROFILE_LOADS; i++) {
        const profile_try_t *delaybatch_peak = &found->loads[PEAK][1].try;
        status = play_load(o, i, parts[i] * delaybatch_peak->result.throughput_rps, found, err);
    }
    return status;
}

/* ---- reports ---- */

static void print_change(const profile_load_t *cell, uint32_t base, FILE *out)
{
    fprintf(out, " %+7.1f ± %4.1f %%", 100 * cell->change[base], 100 * cell->change_error[base]);
}

static bool comes_by_chance(uint32_t load)
{
    return load != PEAK && load != CLOSED;
}

static void print_cell(const profile_load_t *cell, uint32_t load, FILE *out)
{
    const profile_try_t *t = &cell->try;
    char rate[16] = "-";
    if (comes_by_chance(load))
        snprintf(rate, sizeof(rate), "%.1f", t->rate_rps);
    fprintf(out, "%-7s %8s %-10s %-5s", load_names[load], rate, t->mode, t->late ? "late" : "");
    if (load == PEAK) { /* how long a backlog takes is no latency */
        fprintf(out, " %16s %9s %10.1f\n", "-", "-", t->result.throughput_rps);
        return;
    }
    fprintf(out, " %9.2f ± %4.2f %9.2f %10.1f", t->result.avg_ms, t->result.avg_error_ms, t->result.p99_ms,
            t->result.throughput_rps);
    for (uint32_t base = 0; base < PROFILE_BASELINES; base++)
        print_change(cell, base, out);
    fputc('\n', out);
}

void profile_loads_table(const profile_found_t *found, FILE *out)
{
    if (found->load_count)
        fprintf(out, "\n%-7s %8s %-16s %16s %9s %10s %15s %15s\n", "load", "come/s", "mode", "mean ms",
                "p99 ms", "requests/s", "of zerobatch", "of delaybatch");
    for (uint32_t load = 0; load < found->load_count; load++) {
        for (uint32_t i = 0; i < modes_at(load); i++)
            print_cell(&found->loads[load][i], load, out);
        if (comes_by_chance(load))
            fprintf(out, "%-7s %8.1f %-16s %9.2f\n", load_names[load], found->loads[load][0].try.rate_rps,
                    "no schedule less", found->bound_ms[load]);
    }
}

const char *profile_cut_name(const profile_try_t *t)
{
    return t->stages == 1 ? "-" : t->by_preference ? "preference" : "even";
}

json_t *profile_try_json(const profile_try_t *t)
{
    return json_pack("{s:s, s:s, s:b, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "mode", t->mode, "schedule",
                     t->schedule, "late", t->late, "stages", (int)t->stages, "cut", profile_cut_name(t),
                     "wait_ms", t->wait_ms, "rate_rps", t->rate_rps, "avg_ms", t->result.avg_ms,
                     "avg_error_ms", t->result.avg_error_ms, "p99_ms", t->result.p99_ms, "throughput_rps",
                     t->result.throughput_rps);
}

static json_t *cell_json(const profile_found_t *found, uint32_t load, uint32_t mode)
{
    static const char *const keys[PROFILE_BASELINES] = {"of_zerobatch", "of_delaybatch"};
    const profile_load_t *cell = &found->loads[load][mode];
    json_t *json = profile_try_json(&cell->try);
    json_object_set_new(json, "load", json_string(load_names[load]));
    for (uint32_t base = 0; load != PEAK && base < PROFILE_BASELINES; base++)
        json_object_set_new(
            json, keys[base],
            json_pack("{s:f, s:f}", "change", cell->change[base], "error", cell->change_error[base]));
    if (comes_by_chance(load))
        json_object_set_new(json, "bound_ms", json_real(found->bound_ms[load]));
    return json;
}

json_t *profile_loads_json(const profile_found_t *found)
{
    json_t *loads = json_array();
    for (uint32_t load = 0; load < found->load_count; load++)
        for (uint32_t i = 0; i < modes_at(load); i++)
            json_array_append_new(loads, cell_json(found, load, i));
    return loads;
}
