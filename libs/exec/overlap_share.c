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

/* Of both queries of a pair together: 1 to 2. */
static double pair_busy(const overlap_config_t *config, uint32_t a, uint32_t b, uint32_t rows,
                        const uint32_t *lengths)
{
    overlap_group_t pair = {.count = 2};
    pair.parts[a > b] = whole_query(config, a, rows, lengths); /* parts are in the order of the models */
    pair.parts[a < b] = whole_query(config, b, rows, lengths);
    return 2 * group_share(config, &pair);
}

/* With o of each, sum O, the pairs of model m sum up to (n - 2) o + O, and all pairs to (n - 1) O. */
double overlap_share(const overlap_config_t *config, uint32_t model, uint32_t rows, const uint32_t *lengths)
{
    uint32_t models = config->models;
    double own = 0, all = 0;
    if (models < 2)
        return 1;
    for (uint32_t a = 0; a < models; a++)
        for (uint32_t b = a + 1; b < models; b++) {
            double busy = pair_busy(config, a, b, rows, lengths);
            all += busy;
            own += a == model || b == model ? busy : 0;
        }
    if (models == 2)
        return all / 2;
    double share = (own - all / (models - 1)) / (models - 2), least = 1.0 / models;
    return share < least ? least : share > 1 ? 1 : share;
}

overlap_busy_t overlap_busy(const overlap_config_t *config, uint32_t model, uint32_t rows_max,
                            const uint32_t *lengths, uint32_t whole)
{
    double one = whole * overlap_share(config, model, 1, lengths), most = one, row = 0;
    for (uint32_t rows = 1; rows < rows_max;) {
        rows = 2 * rows < rows_max ? 2 * rows : rows_max;
        most = whole * overlap_share(config, model, rows, lengths);
        double slope = (most - one) / (rows - 1);
        row = slope > row ? slope : row;
    }
    double fixed = most > one ? one - row : (one + most) / 2;
    return (overlap_busy_t){.fixed = (uint32_t)(fixed > 1 ? fixed : 1),
                            .row = most > one ? (uint32_t)(row + 0.5) : 0};
}
