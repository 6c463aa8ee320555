/* What a group is made of: the operators that are left of a query, and what the model of durations says of them. */
#include "exec/overlap_core.h"

exec_part_t overlap_part_of(const overlap_t *overlap, uint32_t at, uint32_t op_count)
{
    const overlap_active_t *active = &overlap->active[at];
    return (exec_part_t){.model = active->query.model,
                         .stream = active->query.model,
                         .from = active->next_op,
                         .to = active->next_op + op_count,
                         .rows = active->query.rows,
                         .length = active->query.length,
                         .tag = active->query.tag};
}

uint32_t overlap_ops_left(const overlap_t *overlap, uint32_t at)
{
    return overlap->config.ops[overlap->active[at].query.model] - overlap->active[at].next_op;
}

void overlap_add_part(overlap_plan_t *plan, exec_part_t part, uint32_t at)
{
    uint32_t to = plan->group.count++;
    for (; to > 0 && plan->group.parts[to - 1].model > part.model; to--) {
        plan->group.parts[to] = plan->group.parts[to - 1];
        plan->at[to] = plan->at[to - 1];
    }
    plan->group.parts[to] = part;
    plan->at[to] = at;
}

void overlap_predict(overlap_t *overlap, overlap_plan_t *plans, uint32_t count)
{
    overlap_group_t groups[OVERLAP_WAYS_MAX] = {{.count = 0}};
    int64_t ns[OVERLAP_WAYS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++)
        groups[i] = plans[i].group;
    overlap->config.predict(overlap->config.predict_ctx, groups, count, ns);
    for (uint32_t i = 0; i < count; i++)
        plans[i].predicted_ns = ns[i] + (int64_t)((double)ns[i] * overlap->config.margin);
}

int64_t overlap_solo_ns(overlap_t *overlap, uint32_t at)
{
    overlap_active_t *active = &overlap->active[at];
    overlap_plan_t plan = {.group.count = 0};
    if (active->solo_ns && active->solo_op == active->next_op)
        return active->solo_ns;
    overlap_add_part(&plan, overlap_part_of(overlap, at, overlap_ops_left(overlap, at)), at);
    overlap_predict(overlap, &plan, 1);
    active->solo_op = active->next_op;
    return active->solo_ns = plan.predicted_ns;
}
