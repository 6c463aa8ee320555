#include "plan/herd.h"

#include "plan/herd_sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool sound(double value)
{
    return isfinite(value) && value >= 0;
}

static status_t check_model(const herd_problem_t *problem, uint32_t i, err_t *err)
{
    const herd_model_t *model = &problem->models[i];
    if (!sound(model->rate) || !sound(model->bytes) || !sound(model->alpha) || !sound(model->beta))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "model %u: rate, memory or latency is negative or not finite", i);
    if (!sound(model->goodput) || model->goodput <= 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "model %u: a GPU carries none of its requests", i);
    if (problem->memory_bytes > 0 && model->bytes > problem->memory_bytes)
        return err_set(err, STATUS_NOT_FOUND, "model %u: needs %.0f bytes, a GPU has %.0f", i, model->bytes,
                       problem->memory_bytes);
    return STATUS_OK;
}

static status_t check_count(const char *name, uint32_t value, uint32_t most, err_t *err)
{
    if (value >= 1 && value <= most)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "%s: %u, not in 1..%u", name, value, most);
}

status_t herd_check(const herd_problem_t *problem, err_t *err)
{
    status_t status = check_count("models", problem->model_count, HERD_MODELS_MAX, err);
    if (status == STATUS_OK)
        status = check_count("groups", problem->group_count, HERD_GROUPS_MAX, err);
    if (status == STATUS_OK)
        status = check_count("GPUs", problem->gpu_count, HERD_GPUS_MAX, err);
    if (status != STATUS_OK)
        return status;
    if (!sound(problem->memory_bytes) || !sound(problem->seconds) || !(problem->affinity_max >= 1))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "memory or the time limit is negative, or the affinity is below 1");
    for (uint32_t i = 0; i < problem->model_count && status == STATUS_OK; i++)
        status = check_model(problem, i, err);
    return status;
}

status_t herd_add_streams(herd_model_t *models, uint32_t model_count, const herd_stream_t *streams,
                          uint32_t count, err_t *err)
{
    for (uint32_t s = 0; s < count; s++) {
        if (streams[s].model >= model_count || !sound(streams[s].rate))
            return err_set(err, STATUS_INVALID_ARGUMENT, "stream %u: no such model, or no such rate", s);
    }
    for (uint32_t i = 0; i < model_count; i++)
        models[i].rate = 0;
    for (uint32_t s = 0; s < count; s++)
        models[streams[s].model].rate += streams[s].rate;
    return STATUS_OK;
}

/* ---- Affinity ---- */

static double ratio(double above, double below)
{
    return below > 0 ? above / below : above > 0 ? INFINITY : 1;
}

static double affinity(const herd_model_t *i, const herd_model_t *j)
{
    double whole = ratio(i->alpha + i->beta, j->alpha);
    double left = j->alpha + j->beta - i->beta;
    if (left <= 0)
        return whole;
    return fmin(whole, fmax(ratio(i->alpha, left), ratio(i->alpha, j->alpha)));
}

double herd_affinity(const herd_model_t *a, const herd_model_t *b)
{
    return fmax(affinity(a, b), affinity(b, a));
}

uint32_t herd_affinity_sets(const herd_problem_t *problem, uint32_t *set)
{
    uint32_t sets = 0;
    for (uint32_t i = 0; i < problem->model_count; i++) {
        uint32_t c = 0;
        for (; c < sets && !isinf(problem->affinity_max); c++) {
            bool fits = true;
            for (uint32_t k = 0; k < i && fits; k++)
                fits = set[k] != c ||
                       herd_affinity(&problem->models[i], &problem->models[k]) <= problem->affinity_max;
            if (fits)
                break;
        }
        set[i] = isinf(problem->affinity_max) ? 0 : c;
        sets = set[i] + 1 > sets ? set[i] + 1 : sets;
    }
    return sets;
}

/* ---- What a plan is worth ---- */

typedef struct {
    double need, bytes, load; /* largest n, memory, Σ n of its models */
    uint32_t set, models;
} group_t;

static bool add_up(const herd_problem_t *problem, const uint32_t *set, const herd_plan_t *plan,
                   group_t *groups)
{
    memset(groups, 0, problem->group_count * sizeof *groups);
    for (uint32_t i = 0; i < problem->model_count; i++) {
        if (plan->group[i] >= problem->group_count)
            return false;
        group_t *group = &groups[plan->group[i]];
        if (group->models++ > 0 && group->set != set[i])
            return false;
        group->set = set[i];
        group->need = fmax(group->need, herd_need(&problem->models[i]));
        group->load += herd_need(&problem->models[i]);
        group->bytes += problem->models[i].bytes;
        if (problem->memory_bytes > 0 && group->bytes > problem->memory_bytes * (1 + 1e-9))
            return false;
    }
    return true;
}

static double load_of(const group_t *group, uint32_t size)
{
    return size ? group->load / size : group->load > 0 ? INFINITY : 0;
}

/* GPUs that no tolerance asks for go where the average load is highest. */
static void give_rest(const herd_problem_t *problem, const group_t *groups, uint32_t *size)
{
    uint32_t rest = problem->gpu_count;
    for (uint32_t j = 0; j < problem->group_count; j++)
        rest -= size[j];
    for (; rest > 0; rest--) {
        uint32_t at = problem->group_count;
        for (uint32_t j = 0; j < problem->group_count; j++) {
            if (groups[j].models > 0 && size[j] < herd_cap(problem) &&
                (at == problem->group_count || load_of(&groups[j], size[j]) > load_of(&groups[at], size[at])))
                at = j;
        }
        if (at == problem->group_count)
            return;
        size[at]++;
    }
}

/* The model may go there without a loss: memory, affinity, tolerance, and the other stays less loaded than this one. */
static bool may_move(const herd_problem_t *problem, const herd_plan_t *plan, const group_t *groups,
                     const uint32_t *set, uint32_t i, uint32_t to)
{
    const herd_model_t *model = &problem->models[i];
    const group_t *from = &groups[plan->group[i]], *group = &groups[to];
    double need = herd_need(model);
    if (to == plan->group[i] || group->models == 0 || group->set != set[i] || from->models == 1)
        return false;
    if (problem->memory_bytes > 0 && group->bytes + model->bytes > problem->memory_bytes)
        return false;
    if (plan->size[to] < plan->tolerance * need)
        return false;
    return (group->load + need) / plan->size[to] < load_of(from, plan->size[plan->group[i]]) * (1 - 1e-9);
}

static void spread_load(const herd_problem_t *problem, const uint32_t *set, herd_plan_t *plan,
                        group_t *groups)
{
    enum { ROUNDS = 8 }; /* each evens out what the one before has left; the last ones find little */
    for (int round = 0; round < ROUNDS; round++) {
        bool moved = false;
        for (uint32_t i = 0; i < problem->model_count; i++) {
            uint32_t best = plan->group[i];
            double best_load = INFINITY, need = herd_need(&problem->models[i]);
            for (uint32_t j = 0; j < problem->group_count; j++) {
                if (may_move(problem, plan, groups, set, i, j) &&
                    (groups[j].load + need) / plan->size[j] < best_load) {
                    best = j;
                    best_load = (groups[j].load + need) / plan->size[j];
                }
            }
            if (best == plan->group[i])
                continue;
            group_t *from = &groups[plan->group[i]];
            from->load -= need;
            from->bytes -= problem->models[i].bytes;
            from->models--;
            groups[best].load += need;
            groups[best].bytes += problem->models[i].bytes;
            groups[best].models++;
            plan->group[i] = best;
            moved = true;
        }
        if (!moved)
            return;
    }
}

static void measure(const herd_problem_t *problem, const group_t *groups, herd_plan_t *plan)
{
    plan->groups = 0;
    plan->load_most = 0;
    for (uint32_t j = 0; j < problem->group_count; j++) {
        plan->groups += groups[j].models > 0;
        plan->load_most = fmax(plan->load_most, load_of(&groups[j], plan->size[j]));
    }
}

static double apportion(const herd_problem_t *problem, const group_t *groups, double *need, herd_plan_t *plan)
{
    for (uint32_t j = 0; j < problem->group_count; j++)
        need[j] = groups[j].need;
    return herd_apportion(problem, need, problem->group_count, plan->size);
}

bool herd_evaluate(const herd_problem_t *problem, const uint32_t *set, bool spread, herd_plan_t *plan)
{
    group_t *groups = malloc(problem->group_count * sizeof *groups);
    double *need = malloc(problem->group_count * sizeof *need);
    bool valid = groups && need && add_up(problem, set, plan, groups);
    if (valid) {
        plan->tolerance = apportion(problem, groups, need, plan);
        give_rest(problem, groups, plan->size);
        if (spread)
            spread_load(problem, set, plan, groups);
        measure(problem, groups, plan);
    }
    free(need);
    free(groups);
    return valid;
}

void herd_plan_dispose(herd_plan_t *plan)
{
    free(plan->group);
    free(plan->size);
    plan->group = plan->size = NULL;
}
