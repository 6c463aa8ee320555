#include "fermata/profile_modes.h"

#include "base/clock.h"
#include "exec/stages.h"
#include "exec/whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shepherd 6. */
static const double EXIT_LIMIT = 0.05;
/* Of the peak: DVABatch's medium load. */
static const double LOAD = 0.6;
enum { COST_SIZES = 3, PREFERENCE_STAGES_MAX = 12, QUERIES_MIN = 40, QUERIES_MAX = 20000, EXIT_RUNS = 5 };
/* The loads are compared by their 99th percentile, too, which wants more queries than choosing does. */
enum { LOADS_TIMES = 3 };

/* The model's operators as measured. */
typedef struct {
    const profile_how_t *how;
    uint32_t rows_max;
    engine_cuts_t cuts;
    uint32_t *cut_ops;
    int64_t *op_ns; /* [COST_SIZES][ops] */
    uint32_t sizes[COST_SIZES], size_count;
    stages_model_t model;
    /* of the try under way */
    uint32_t stages, at[STAGED_STAGES_MAX];
} operators_t;

static void operators_dispose(operators_t *o)
{
    free(o->cut_ops);
    free(o->op_ns);
}

static status_t measure_sizes(operators_t *o, err_t *err)
{
    const uint32_t wanted[COST_SIZES] = {1, (o->rows_max + 1) / 2, o->rows_max};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < COST_SIZES; i++) {
        if (o->size_count && wanted[i] <= o->sizes[o->size_count - 1])
            continue;
        status = profiler_operators(o->how->profiler, wanted[i], o->cuts.ops,
                                    o->op_ns + (size_t)o->size_count * o->cuts.ops, err);
        o->sizes[o->size_count++] = wanted[i];
    }
    return status;
}

static status_t operators_measure(operators_t *o, const profile_how_t *how, err_t *err)
{
    const profiler_t *p = how->profiler;
    uint32_t most = p->ops->info(p->model)->max_batch;
    *o = (operators_t){.how = how, .rows_max = most < EXEC_ROWS_MAX ? most : EXEC_ROWS_MAX};
    if (!p->ops->cuts)
        return err_set(err, STATUS_UNSUPPORTED, "engine %s cannot cut a model", p->ops->name);
    status_t status = p->ops->cuts(p->model, &o->cuts, err);
    if (status != STATUS_OK)
        return status;
    o->cut_ops = calloc(o->cuts.cut_count, sizeof(*o->cut_ops));
    o->op_ns = calloc((size_t)COST_SIZES * o->cuts.ops, sizeof(*o->op_ns));
    status = o->cut_ops && o->op_ns ? measure_sizes(o, err) : err_set(err, STATUS_NO_MEMORY, "out of memory");
    if (status != STATUS_OK) {
        operators_dispose(o);
        return status;
    }
    for (uint32_t i = 0; i < o->cuts.cut_count; i++)
        o->cut_ops[i] = o->cuts.cuts[i].op;
    o->model = (stages_model_t){.ops = o->cuts.ops, .cuts = o->cut_ops, .cut_count = o->cuts.cut_count};
    return STATUS_OK;
}

static double sum_ns(const operators_t *o, uint32_t size, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t op = from; op < to; op++)
        sum += (double)o->op_ns[(size_t)size * o->cuts.ops + op];
    return sum;
}

/* Of a whole batch of rows of this length, of one of the longest. */
static double length_part(const operators_t *o, uint32_t rows, uint32_t length)
{
    const profile_mix_t *mix = o->how->mix;
    if (!mix || length < 1 || length >= mix->count)
        return 1;
    double longest_ns = (double)profile_latency_ns(&mix->shapes[mix->count - 1].latency, rows);
    return longest_ns > 0 ? (double)profile_latency_ns(&mix->shapes[length - 1].latency, rows) / longest_ns
                          : 1;
}

/* Between two measured sizes on the line between them. With one stream the device is always full; with
 * several a batch keeps one of them busy. */
static staged_cost_t stage_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const operators_t *o = ctx;
    if (stage >= o->stages)
        return (staged_cost_t){0};
    uint32_t from = stage ? o->at[stage - 1] : 0, to = stage + 1 < o->stages ? o->at[stage] : o->cuts.ops,
             size = 0;
    while (size + 2 < o->size_count && rows > o->sizes[size + 1])
        size++;
    double ns = sum_ns(o, size, from, to);
    if (size + 1 < o->size_count)
        ns += (sum_ns(o, size + 1, from, to) - ns) * ((double)rows - o->sizes[size]) /
              (double)(o->sizes[size + 1] - o->sizes[size]);
    ns *= length_part(o, rows, length);
    return (staged_cost_t){.ns = (int64_t)ns, .busy_ns = (int64_t)(ns / o->how->streams)};
}

/* ---- stages ---- */

/* Of full batches, each padded to the longest. */
static double peak_rps(const operators_t *o)
{
    return o->rows_max * 1e9 / (double)(profile_latency_ns(o->how->profile, o->rows_max) + 1);
}

/* shape: of the inputs, of one row; NULL: they do not vary. */
static status_t prepare_shape(const operators_t *o, const uint32_t *sizes, err_t *err)
{
    const profiler_t *p = o->how->profiler;
    engine_shape_t shapes[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t rows = 1; status == STATUS_OK && rows <= o->rows_max; rows++) {
        if (sizes)
            axes_input_shapes(o->how->mix->axes, sizes, rows, shapes);
        for (uint32_t s = 0; status == STATUS_OK && s < o->stages; s++) {
            engine_range_t range = {.stream = s % o->how->streams,
                                    .from = s ? o->at[s - 1] : 0,
                                    .to = s + 1 < o->stages ? o->at[s] : 0};
            status = p->ops->prepare_range(p->model, &range, rows, sizes ? shapes : NULL, err);
        }
    }
    return status;
}

static status_t prepare(const operators_t *o, err_t *err)
{
    const profile_mix_t *mix = o->how->mix;
    status_t status = mix ? STATUS_OK : prepare_shape(o, NULL, err);
    for (uint32_t i = 0; mix && status == STATUS_OK && i < mix->count; i++)
        status = prepare_shape(o, mix->shapes[i].sizes, err);
    return status;
}

static status_t play(operators_t *o, exec_t *exec, double seconds, profile_try_t *try, err_t *err)
{
    const profiler_t *p = o->how->profiler;
    double rate_rps = try->rate_rps > 0 ? try->rate_rps : peak_rps(o);
    double queries = fmin(fmax(rate_rps * seconds, QUERIES_MIN), QUERIES_MAX);
    trial_t trial = {.ops = p->ops,
                     .engine = p->engine,
                     .model = p->model,
                     .streams = o->how->streams,
                     .mix = o->how->mix,
                     .rows_max = o->rows_max,
                     .stages = o->stages,
                     .rate_rps = try->rate_rps,
                     .queries = (uint32_t)queries,
                     .seed = o->how->seed,
                     .stop = p->stop};
    if (!exec)
        return err->code;
    memcpy(trial.at, o->at, sizeof(trial.at));
    status_t status = prepare(o, err);
    if (status == STATUS_OK)
        status = trial_run(&trial, exec, &try->result, err);
    exec_destroy(exec);
    return status;
}

static exec_t *make_whole(operators_t *o, const profile_try_t *try, err_t *err)
{
    whole_config_t config = {.gather = true,
                             .rows_max = o->rows_max,
                             .queries_max = QUERIES_MAX,
                             .window_ns = (int64_t)(try->wait_ms * 1e6)};
    o->stages = 1;
    return exec_create_whole(&config, err);
}

/* Returns how many cuts were chosen. By preference there are as many as there are. */
static uint32_t place(const operators_t *o, const profile_try_t *try, uint32_t at[STAGED_STAGES_MAX])
{
    stages_profile_t profile = {.sizes = o->sizes, .size_count = o->size_count, .op_ns = o->op_ns};
    const int64_t *op_ns = o->op_ns + (size_t)(o->size_count - 1) * o->cuts.ops;
    return try->by_preference ? stages_by_preference(&o->model, &profile, PREFERENCE_STAGES_MAX, at)
                              : stages_even(&o->model, op_ns, try->stages, at);
}

/* Where the stages really are may be less than try->stages. */
static exec_t *make_staged(operators_t *o, profile_try_t *try, err_t *err)
{
    const staged_schedule_t *schedule = staged_schedule_find(try->schedule);
    o->stages = try->stages = 1 + place(o, try, o->at);
    staged_config_t config = {.stages = o->stages,
                              .pairs = TRIAL_PAIRS,
                              .new_pairs = schedule == &staged_schedule_input ? TRIAL_PAIRS : 1,
                              .width = 1,
                              .rows_max = o->rows_max,
                              .queries_max = QUERIES_MAX,
                              .eager = true,
                              .comp_wait_ns = (int64_t)(try->wait_ms * 1e6),
                              .cost = stage_cost,
                              .cost_ctx = o,
                              .schedule = schedule};
    return exec_create_staged(&config, err);
}

static status_t play_one(operators_t *o, double seconds, profile_try_t *try, err_t *err)
{
    exec_t *exec = try->schedule[0] ? make_staged(o, try, err) : make_whole(o, try, err);
    return play(o, exec, seconds, try, err);
}

static status_t try_one(operators_t *o, profile_try_t try, profile_found_t *found, err_t *err)
{
    try.rate_rps = peak_rps(o) * LOAD;
    status_t status = play_one(o, o->how->seconds, &try, err);
    if (status == STATUS_OK)
        found->tries[found->try_count++] = try;
    return status;
}

static status_t try_staged(operators_t *o, const char *schedule, uint32_t stages, int64_t wait_ns,
                           profile_found_t *found, err_t *err)
{
    profile_try_t try = {
        .mode = "staged", .schedule = schedule, .stages = stages, .wait_ms = (double)wait_ns / 1e6};
    return try_one(o, try, found, err);
}

/* Cut where the preferred size changes, if it does. */
static status_t try_preference(operators_t *o, int64_t wait_ns, profile_found_t *found, err_t *err)
{
    profile_try_t try = {
        .mode = "staged", .schedule = "combined", .by_preference = true, .wait_ms = (double)wait_ns / 1e6};
    return place(o, &try, o->at) > 0 ? try_one(o, try, found, err) : STATUS_OK;
}

/* The best so far, with other T_comp_wait. */
static status_t try_waits(operators_t *o, double full_ns, profile_found_t *found, uint32_t best, err_t *err)
{
    static const double waits[] = {0, 0.125, 0.5,
                                   1}; /* of a full batch; a quarter was tried with the counts */
    profile_try_t try = found->tries[best];
    status_t status = STATUS_OK;
    try.schedule = "combined";
    for (size_t i = 0; status == STATUS_OK && i < sizeof(waits) / sizeof(waits[0]); i++) {
        try.wait_ms = full_ns * waits[i] / 1e6;
        status = try_one(o, try, found, err);
    }
    return status;
}

/* Of those of mode staged. */
static uint32_t best_try(const profile_found_t *found)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < found->try_count; i++)
        if (found->tries[i].stages > 1 &&
            (best == UINT32_MAX || found->tries[i].result.avg_ms < found->tries[best].result.avg_ms))
            best = i;
    return best;
}

static const profile_try_t baselines[] = {{.mode = "zerobatch", .schedule = "", .stages = 1},
                                          {.mode = "delaybatch", .schedule = "", .stages = 1, .wait_ms = 2}};

static status_t try_counts(operators_t *o, const char *schedule, int64_t wait_ns, profile_found_t *found,
                           err_t *err)
{
    static const uint32_t counts[] = {2, 3, 4, 6, 8, 12};
    status_t status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i] <= o->cuts.cut_count + 1)
            status = try_staged(o, schedule, counts[i], wait_ns, found, err);
    return status;
}

static status_t try_all(operators_t *o, profile_found_t *found, err_t *err)
{
    double full_ns = (double)profile_latency_ns(o->how->profile, o->rows_max);
    bool mixed = o->how->mix && o->how->mix->count > 1;
    status_t status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < sizeof(baselines) / sizeof(baselines[0]); i++)
        status = try_one(o, baselines[i], found, err);
    if (status == STATUS_OK)
        status = mixed ? try_counts(o, "input", 0, found, err)
                       : try_counts(o, "combined", (int64_t)(full_ns / 4), found, err);
    if (status == STATUS_OK && !mixed)
        status = try_preference(o, (int64_t)(full_ns / 4), found, err);
    uint32_t best = status == STATUS_OK ? best_try(found) : UINT32_MAX;
    return best != UINT32_MAX ? try_waits(o, full_ns, found, best, err) : status;
}

static status_t play_loads(operators_t *o, profile_found_t *found, err_t *err)
{
    static const double parts[PROFILE_LOADS] = {0, 0.25, 0.6, 0.9};
    const profile_try_t *modes[] = {&baselines[0], &baselines[1], &found->tries[found->chosen_try]};
    const profile_try_t *delaybatch_peak = &found->loads[1];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < 3 * PROFILE_LOADS; i++) {
        profile_try_t try = *modes[i % 3];
        try.rate_rps = parts[i / 3] * delaybatch_peak->result.throughput_rps;
        status = play_one(o, LOADS_TIMES * o->how->seconds, &try, err);
        if (status == STATUS_OK)
            found->loads[found->load_count++] = try;
    }
    return status;
}

status_t profile_stages(const profile_how_t *how, profile_modes_t *modes, profile_found_t *found, err_t *err)
{
    operators_t o;
    status_t status = operators_measure(&o, how, err);
    if (status != STATUS_OK)
        return status;
    status = try_all(&o, found, err);
    found->chosen_try = best_try(found);
    if (status == STATUS_OK && found->chosen_try == UINT32_MAX)
        status = err_set(err, STATUS_UNSUPPORTED, "no cut divides the time of the model");
    if (status == STATUS_OK && how->loads)
        status = play_loads(&o, found, err);
    if (status == STATUS_OK) {
        const profile_try_t *best = &found->tries[found->chosen_try];
        modes->stage_count = place(&o, best, modes->stages);
        modes->comp_wait_ns = (int64_t)(best->wait_ms * 1e6);
    }
    operators_dispose(&o);
    return status;
}

/* ---- exit points ---- */

static double longest_part(const operators_t *o, const uint32_t *at, uint32_t count)
{
    uint32_t size = o->size_count - 1;
    double longest = 0, all = sum_ns(o, size, 0, o->cuts.ops);
    for (uint32_t i = 0; i <= count; i++)
        longest = fmax(longest, sum_ns(o, size, i ? at[i - 1] : 0, i < count ? at[i] : o->cuts.ops));
    return all > 0 ? longest / all : 1;
}

static status_t try_exits(operators_t *o, uint32_t points, uint32_t at[STAGED_STAGES_MAX],
                          profile_found_t *found, err_t *err)
{
    uint32_t count =
        stages_even(&o->model, o->op_ns + (size_t)(o->size_count - 1) * o->cuts.ops, points + 1, at);
    int64_t with_ns, without_ns;
    status_t status =
        profiler_exits(o->how->profiler, o->rows_max, at, count, EXIT_RUNS, &with_ns, &without_ns, err);
    if (status == STATUS_OK)
        found->exits[found->exits_count++] =
            (profile_exits_t){.points = count,
                              .overhead = without_ns > 0 ? (double)with_ns / (double)without_ns - 1 : 0,
                              .delay = longest_part(o, at, count)};
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
        modes->exit_count = stages_even(&o.model, o.op_ns + (size_t)(o.size_count - 1) * o.cuts.ops,
                                        found->exits[found->chosen_exits].points + 1, modes->exits);
    operators_dispose(&o);
    return status;
}

/* ---- reports ---- */

static void loads_table(const profile_found_t *found, FILE *out)
{
    static const char *const names[PROFILE_LOADS] = {"peak", "low", "medium", "high"};
    if (found->load_count)
        fprintf(out, "\n%-7s %10s %-12s %9s %9s %12s\n", "load", "come/s", "mode", "mean ms", "p99 ms",
                "requests/s");
    for (uint32_t i = 0; i < found->load_count; i++) {
        const profile_try_t *t = &found->loads[i];
        fprintf(out, "%-7s %10.1f %-12s ", names[i / 3], t->rate_rps, t->mode);
        if (t->rate_rps > 0)
            fprintf(out, "%9.2f %9.2f %12.1f\n", t->result.avg_ms, t->result.p99_ms,
                    t->result.throughput_rps);
        else /* how long a backlog takes is no latency */
            fprintf(out, "%9s %9s %12.1f\n", "-", "-", t->result.throughput_rps);
    }
}

static const char *cut_name(const profile_try_t *t)
{
    return t->stages == 1 ? "-" : t->by_preference ? "preference" : "even";
}

void profile_found_table(const profile_found_t *found, FILE *out)
{
    if (found->try_count)
        fprintf(out, "\n%-12s %-9s %6s %-10s %8s %9s %9s %12s\n", "mode", "schedule", "stages", "cut",
                "wait ms", "mean ms", "p99 ms", "requests/s");
    for (uint32_t i = 0; i < found->try_count; i++) {
        const profile_try_t *t = &found->tries[i];
        fprintf(out, "%-12s %-9s %6u %-10s %8.2f %9.2f %9.2f %12.1f%s\n", t->mode, t->schedule, t->stages,
                cut_name(t), t->wait_ms, t->result.avg_ms, t->result.p99_ms, t->result.throughput_rps,
                i == found->chosen_try ? "  <- taken" : "");
    }
    loads_table(found, out);
    if (found->exits_count)
        fprintf(out, "\n%11s %10s %10s\n", "exit points", "overhead", "delay");
    for (uint32_t i = 0; i < found->exits_count; i++)
        fprintf(out, "%11u %8.2f %% %8.2f %%%s\n", found->exits[i].points, 100 * found->exits[i].overhead,
                100 * found->exits[i].delay, i == found->chosen_exits ? "  <- taken" : "");
    if (found->exits_count && found->chosen_exits == UINT32_MAX)
        fprintf(out, "none: each costs %.0f %% of a batch or more\n", 100 * EXIT_LIMIT);
}

static json_t *try_json(const profile_try_t *t)
{
    return json_pack("{s:s, s:s, s:i, s:s, s:f, s:f, s:f, s:f, s:f}", "mode", t->mode, "schedule",
                     t->schedule, "stages", (int)t->stages, "cut", cut_name(t), "wait_ms", t->wait_ms,
                     "rate_rps", t->rate_rps, "avg_ms", t->result.avg_ms, "p99_ms", t->result.p99_ms,
                     "throughput_rps", t->result.throughput_rps);
}

json_t *profile_found_json(const profile_found_t *found)
{
    json_t *tries = json_array(), *exits = json_array(), *loads = json_array();
    for (uint32_t i = 0; i < found->try_count; i++) {
        json_t *try = try_json(&found->tries[i]);
        json_object_set_new(try, "taken", json_boolean(i == found->chosen_try));
        json_array_append_new(tries, try);
    }
    for (uint32_t i = 0; i < found->load_count; i++)
        json_array_append_new(loads, try_json(&found->loads[i]));
    for (uint32_t i = 0; i < found->exits_count; i++)
        json_array_append_new(exits,
                              json_pack("{s:i, s:f, s:f, s:b}", "exit_points", (int)found->exits[i].points,
                                        "overhead", found->exits[i].overhead, "delay", found->exits[i].delay,
                                        "taken", i == found->chosen_exits));
    return json_pack("{s:o, s:o, s:o}", "stages", tries, "exit_points", exits, "loads", loads);
}
