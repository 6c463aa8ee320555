#include "exec/stages.h"

int64_t stages_time_ns(const int64_t *op_ns, uint32_t from, uint32_t to)
{
    int64_t sum_ns = 0;
    for (uint32_t op = from; op < to; op++)
        sum_ns += op_ns[op];
    return sum_ns;
}

uint32_t stages_even(const stages_model_t *model, const int64_t *op_ns, uint32_t stages,
                     uint32_t at[STAGED_STAGES_MAX])
{
    uint32_t count = 0, op = 0, most = stages < STAGED_STAGES_MAX ? stages : STAGED_STAGES_MAX;
    double all = (double)stages_time_ns(op_ns, 0, model->ops), done = 0;
    if (most > model->cut_count + 1)
        most = model->cut_count + 1;
    for (uint32_t cut = 0; cut < model->cut_count && count + 1 < most; cut++) {
        for (; op < model->cuts[cut]; op++)
            done += (double)op_ns[op];
        bool last_chance =
            model->cut_count - cut <= most - 1 - count; /* one is left for each of the others */
        if (last_chance || done >= all * (count + 1) / most)
            at[count++] = model->cuts[cut];
    }
    return count;
}

static uint32_t start_of(const uint32_t *at, uint32_t stage)
{
    return stage ? at[stage - 1] : 0;
}

static uint32_t end_of(const stages_model_t *model, const uint32_t *at, uint32_t count, uint32_t stage)
{
    return stage < count ? at[stage] : model->ops;
}

double stages_longest(const stages_model_t *model, const int64_t *op_ns, const uint32_t *at, uint32_t count)
{
    int64_t all_ns = stages_time_ns(op_ns, 0, model->ops), longest_ns = 0;
    for (uint32_t stage = 0; stage <= count; stage++) {
        int64_t ns = stages_time_ns(op_ns, start_of(at, stage), end_of(model, at, count, stage));
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return all_ns > 0 ? (double)longest_ns / (double)all_ns : 1;
}

static bool is_cut(const stages_model_t *model, uint32_t op, uint32_t *before, uint32_t *behind)
{
    *before = 0;
    *behind = model->ops;
    for (uint32_t i = 0; i < model->cut_count; i++) {
        if (model->cuts[i] == op)
            return true;
        if (model->cuts[i] < op)
            *before = model->cuts[i];
        else if (model->cuts[i] < *behind)
            *behind = model->cuts[i];
    }
    return false;
}

status_t stages_named(const stages_model_t *model, const uint32_t *wanted, uint32_t count,
                      uint32_t at[STAGED_STAGES_MAX], err_t *err)
{
    uint32_t before, behind;
    if (count >= STAGED_STAGES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u cuts make more than %d stages", count,
                       STAGED_STAGES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (i && wanted[i] <= wanted[i - 1])
            return err_set(err, STATUS_INVALID_ARGUMENT, "cut %u comes after cut %u", wanted[i],
                           wanted[i - 1]);
        if (!is_cut(model, wanted[i], &before, &behind))
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "the model cannot be cut before operator %u; the nearest places are %u and %u",
                           wanted[i], before, behind);
        at[i] = wanted[i];
    }
    return STATUS_OK;
}

static double row_ns(const stages_model_t *model, const stages_profile_t *profile, uint32_t size,
                     uint32_t from, uint32_t to)
{
    return (double)stages_time_ns(profile->op_ns + (size_t)size * model->ops, from, to) /
           (double)profile->sizes[size];
}

uint32_t stages_preferred_size(const stages_model_t *model, const stages_profile_t *profile, uint32_t from,
                               uint32_t to)
{
    double best = row_ns(model, profile, 0, from, to);
    uint32_t size = 0;
    for (uint32_t i = 1; i < profile->size_count; i++) {
        double ns = row_ns(model, profile, i, from, to);
        best = ns < best ? ns : best;
    }
    while (row_ns(model, profile, size, from, to) > 1.1 * best)
        size++;
    return size;
}

/* The stage that takes least. */
static uint32_t shortest(const stages_model_t *model, const int64_t *op_ns, const uint32_t *at,
                         uint32_t count, int64_t *least_ns)
{
    uint32_t best = 0;
    *least_ns = INT64_MAX;
    for (uint32_t stage = 0; stage <= count; stage++) {
        int64_t ns = stages_time_ns(op_ns, start_of(at, stage), end_of(model, at, count, stage));
        if (ns < *least_ns) {
            *least_ns = ns;
            best = stage;
        }
    }
    return best;
}

/* It joins the stage in front of it; the first one the stage behind it. */
static void join(uint32_t *at, uint32_t *count, uint32_t stage)
{
    for (uint32_t i = stage ? stage - 1 : 0; i + 1 < *count; i++)
        at[i] = at[i + 1];
    --*count;
}

static void tidy(const stages_model_t *model, const int64_t *op_ns, uint32_t most, uint32_t *at,
                 uint32_t *count)
{
    int64_t all_ns = stages_time_ns(op_ns, 0, model->ops), least_ns;
    while (*count) {
        uint32_t stage = shortest(model, op_ns, at, *count, &least_ns);
        if (least_ns * 20 >= all_ns && *count < most)
            return;
        join(at, count, stage);
    }
}

/* Neighbours that prefer the same size after all. */
static void join_alike(const stages_model_t *model, const stages_profile_t *profile, uint32_t *at,
                       uint32_t *count)
{
    for (uint32_t i = 0; i < *count;) {
        uint32_t front = stages_preferred_size(model, profile, start_of(at, i), at[i]);
        if (front == stages_preferred_size(model, profile, at[i], end_of(model, at, *count, i + 1)))
            join(at, count, i + 1);
        else
            i++;
    }
}

uint32_t stages_by_preference(const stages_model_t *model, const stages_profile_t *profile, uint32_t stages,
                              uint32_t at[STAGED_STAGES_MAX])
{
    const int64_t *op_ns = profile->op_ns + (size_t)(profile->size_count - 1) * model->ops;
    uint32_t count = 0, from = 0, most = stages < STAGED_STAGES_MAX ? stages : STAGED_STAGES_MAX;
    for (uint32_t i = 0; i < model->cut_count; i++) {
        uint32_t cut = model->cuts[i], next = i + 1 < model->cut_count ? model->cuts[i + 1] : model->ops;
        if (stages_preferred_size(model, profile, from, cut) ==
            stages_preferred_size(model, profile, cut, next))
            continue;
        if (count + 1 == STAGED_STAGES_MAX)
            tidy(model, op_ns, STAGED_STAGES_MAX - 1, at, &count);
        at[count++] = from = cut;
    }
    tidy(model, op_ns, most, at, &count);
    join_alike(model, profile, at, &count);
    return count;
}
