#include "exec/overlap_share.h"

enum { HALVINGS = 20 }; /* to a millionth: far below any error of a duration model */

static exec_part_t whole_query(const overlap_config_t *config, uint32_t model, uint32_t rows,
                               const uint32_t *lengths)
{
    return (exec_part_t){.model = model, .to = config->ops[model], .rows = rows, .length = lengths[model]};
}

static double predict(const overlap_config_t *config, const overlap_group_t *group)
{
    int64_t ns;
    config->predict(config->predict_ctx, group, 1, &ns);
    return (double)ns;
}

/* Alone, the shortest first. */
static void sort_alone(const overlap_config_t *config, const overlap_group_t *group, double *alone_ns)
{
    for (uint32_t i = 0; i < group->count; i++) {
        overlap_group_t one = {.parts = {group->parts[i]}, .count = 1};
        double ns = predict(config, &one);
        uint32_t at = i;
        for (; at > 0 && alone_ns[at - 1] > ns; at--)
            alone_ns[at] = alone_ns[at - 1];
        alone_ns[at] = ns;
    }
}

static double together_ns(const double *alone_ns, uint32_t count, double share)
{
    double sum = 0, before = 0;
    for (uint32_t i = 0; i < count; i++) {
        double busy = share * (count - i);
        sum += (busy > 1 ? busy : 1) * (alone_ns[i] - before);
        before = alone_ns[i];
    }
    return sum;
}

static double group_share(const overlap_config_t *config, const overlap_group_t *group)
{
    double alone_ns[EXEC_PARTS_MAX], together = predict(config, group);
    double low = 1.0 / group->count, high = 1;
    sort_alone(config, group, alone_ns);
    for (uint32_t i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (together_ns(alone_ns, group->count, middle) < together)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double overlap_share(const overlap_config_t *config, uint32_t model, uint32_t rows, const uint32_t *lengths)
{
    overlap_group_t all = {.count = 0};
    double sum = 0;
    uint32_t groups = 0;
    for (uint32_t m = 0; m < config->models; m++) {
        exec_part_t other = whole_query(config, m, rows, lengths);
        all.parts[all.count++] = other;
        if (m == model)
            continue;
        exec_part_t own = whole_query(config, model, rows, lengths);
        overlap_group_t pair = {.count = 2};
        pair.parts[m < model] = own; /* parts are in the order of the models */
        pair.parts[m > model] = other;
        sum += group_share(config, &pair);
        groups++;
    }
    if (all.count > 2) {
        sum += group_share(config, &all);
        groups++;
    }
    return groups ? sum / groups : 1;
}
