#include "exec/overlap_core.h"

/* The gain of overlapping is a mean of about so many groups, what queries are given one of so many queries. */
enum { GAIN_GROUPS = 16, GIVEN_QUERIES = 16 };

_Static_assert((int)EXEC_PARTS_MAX <= (int)OVERLAP_WAYS_MAX,
               "the parts of a group are predicted in one call");

/* One that comes too late says nothing of what queries are given. */
static void note_given(double *mean_ns, double given_ns)
{
    if (given_ns > 0)
        *mean_ns += *mean_ns > 0 ? (given_ns - *mean_ns) / GIVEN_QUERIES : given_ns;
}

static status_t overlap_submit(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                               uint64_t batch, err_t *err)
{
    overlap_t *overlap = (overlap_t *)exec;
    for (uint32_t i = 0; i < count; i++)
        if (queries[i].model >= overlap->config.models || queries[i].rows == 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "no model %u in this group of services, or no rows",
                           queries[i].model);
    if (overlap->config.queries_max - overlap->active_count < count)
        return err_set(err, STATUS_UNAVAILABLE, "%u queries wait", overlap->active_count);
    for (uint32_t i = 0; i < count; i++) {
        note_given(&overlap->given_ns[queries[i].model], (double)(queries[i].deadline_ns - now_ns));
        overlap->active[overlap->active_count++] = (overlap_active_t){.query = queries[i], .batch = batch};
    }
    overlap->planned = false;
    return STATUS_OK;
}

static bool overlap_finished(exec_t *exec, int64_t now_ns, uint64_t launch)
{
    (void)now_ns;
    overlap_t *overlap = (overlap_t *)exec;
    if (!overlap->busy || overlap->ended || launch != overlap->launch)
        return false;
    return overlap->ended = true;
}

/* What it has left to do is not begun. The next group is planned anew without it. */
static bool overlap_preempt(exec_t *exec, int64_t now_ns, uint64_t batch)
{
    (void)now_ns;
    overlap_t *overlap = (overlap_t *)exec;
    bool any = false;
    for (uint32_t i = 0; i < overlap->active_count; i++) {
        overlap_active_t *active = &overlap->active[i];
        if (active->batch != batch || active->stop ||
            active->next_op == overlap->config.ops[active->query.model])
            continue;
        any = active->stop = true;
        overlap->planned = false;
    }
    return any;
}

static bool has_model(const overlap_plan_t *plan, uint32_t model)
{
    for (uint32_t i = 0; i < plan->group.count; i++)
        if (plan->group.parts[i].model == model)
            return true;
    return false;
}

static bool goes_first(const overlap_active_t *a, const overlap_active_t *b)
{
    return a->behind != b->behind ? b->behind : a->query.deadline_ns < b->query.deadline_ns;
}

/* The query with the nearest deadline whose model is not in the plan. */
static uint32_t most_urgent(const overlap_t *overlap, const overlap_plan_t *plan)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < overlap->active_count; i++)
        if (overlap_ops_left(overlap, i) && !overlap->active[i].stop &&
            !has_model(plan, overlap->active[i].query.model) &&
            (best == UINT32_MAX || goes_first(&overlap->active[i], &overlap->active[best])))
            best = i;
    return best;
}

static void move_down(overlap_plan_t *plan, uint32_t at)
{
    for (uint32_t i = 0; i < plan->group.count; i++)
        if (plan->at[i] == at)
            plan->at[i] = OVERLAP_GONE;
        else if (plan->at[i] != OVERLAP_GONE && plan->at[i] > at)
            plan->at[i]--;
}

static void remove_at(overlap_t *overlap, uint32_t at)
{
    for (uint32_t i = at + 1; i < overlap->active_count; i++)
        overlap->active[i - 1] = overlap->active[i];
    overlap->active_count--;
    move_down(&overlap->running, at);
    move_down(&overlap->next, at);
}

/* It leaves: complete, dropped or given back. */
static void leave(overlap_t *overlap, uint32_t at, exec_action_kind_t kind, exec_sink_fn sink, void *ctx)
{
    exec_query_t query = overlap->active[at].query;
    exec_action_t action = {.kind = kind, .batch = overlap->active[at].batch};
    action.done.queries = &query;
    action.done.count = 1;
    remove_at(overlap, at);
    sink(ctx, &action);
}

static bool runs(const overlap_t *overlap, uint32_t at)
{
    for (uint32_t i = 0; i < overlap->running.group.count; i++)
        if (overlap->running.at[i] == at)
            return true;
    return false;
}

static void give_back(overlap_t *overlap, exec_sink_fn sink, void *ctx)
{
    for (uint32_t i = 0; i < overlap->active_count;) {
        if (overlap->active[i].stop && !runs(overlap, i))
            leave(overlap, i, EXEC_REQUEUE, sink, ctx);
        else
            i++;
    }
}

/* Is the last one that joined worth it? What runs side by side for nothing only makes the others wait. */
static bool saves(overlap_t *overlap, const overlap_plan_t *without, const overlap_plan_t *with, uint32_t at)
{
    overlap_plan_t alone = {.group.count = 0};
    if (overlap->config.least_saving <= 0)
        return true;
    for (uint32_t i = 0; i < with->group.count; i++)
        if (with->at[i] == at)
            overlap_add_part(&alone, with->group.parts[i], at);
    overlap_predict(overlap, &alone, 1);
    return (double)(with->predicted_ns - without->predicted_ns) <=
           (1 - overlap->config.least_saving) * (double)alone.predicted_ns;
}

/* Whole queries first, `ways` prefixes of the order at once; returns the query that did not fit, or save, any more. */
static uint32_t add_whole(overlap_t *overlap, overlap_plan_t *plan, int64_t headroom_ns)
{
    for (;;) {
        overlap_plan_t tries[OVERLAP_WAYS_MAX];
        uint32_t ats[OVERLAP_WAYS_MAX], count = 0;
        overlap_plan_t grown = *plan;
        while (count < overlap->config.ways && grown.group.count < EXEC_PARTS_MAX) {
            uint32_t at = most_urgent(overlap, &grown);
            if (at == UINT32_MAX)
                break;
            overlap_add_part(&grown, overlap_part_of(overlap, at, overlap_ops_left(overlap, at)), at);
            ats[count] = at;
            tries[count++] = grown;
        }
        if (count == 0)
            return UINT32_MAX;
        overlap_predict(overlap, tries, count);
        uint32_t fit = 0;
        while (fit < count && tries[fit].predicted_ns <= headroom_ns &&
               saves(overlap, plan, &tries[fit], ats[fit]))
            *plan = tries[fit++];
        if (fit < count)
            return ats[fit];
    }
}

/* The most operators of one more query: every round cuts what is open into ways + 1 parts. */
static void add_partial(overlap_t *overlap, overlap_plan_t *plan, uint32_t at, int64_t headroom_ns)
{
    uint32_t good = 0, bad = overlap_ops_left(overlap, at);
    overlap_plan_t best = *plan;
    while (bad - good > 1) {
        overlap_plan_t tries[OVERLAP_WAYS_MAX];
        uint32_t sizes[OVERLAP_WAYS_MAX], count = 0;
        for (uint32_t way = 1; way <= overlap->config.ways; way++) {
            uint32_t size = good + (bad - good) * way / (overlap->config.ways + 1);
            if (size <= good || (count && size == sizes[count - 1]))
                continue;
            tries[count] = *plan;
            overlap_add_part(&tries[count], overlap_part_of(overlap, at, size), at);
            sizes[count++] = size;
        }
        if (count == 0) { /* fewer operators are open than ways */
            tries[0] = *plan;
            overlap_add_part(&tries[0], overlap_part_of(overlap, at, good + 1), at);
            sizes[count++] = good + 1;
        }
        overlap_predict(overlap, tries, count);
        uint32_t fit = 0;
        while (fit < count && tries[fit].predicted_ns <= headroom_ns) {
            best = tries[fit];
            good = sizes[fit++];
        }
        if (fit < count)
            bad = sizes[fit];
    }
    *plan = best;
}

/* Those behind come first too rarely to be dropped there in time. */
static void drop_hopeless(overlap_t *overlap, int64_t start_ns, exec_sink_fn sink, void *ctx)
{
    for (uint32_t i = overlap->active_count; i-- > 0;)
        if (overlap_ops_left(overlap, i) && !overlap->active[i].stop &&
            start_ns + overlap_solo_ns(overlap, i) > overlap->active[i].query.deadline_ns)
            leave(overlap, i, EXEC_DROP, sink, ctx);
}

/* 0: none. */
static int64_t group_limit_ns(const overlap_t *overlap)
{
    double least = 0;
    for (uint32_t m = 0; m < overlap->config.models; m++)
        if (overlap->given_ns[m] > 0 && (least == 0 || overlap->given_ns[m] < least))
            least = overlap->given_ns[m];
    return (int64_t)(least * overlap->config.group_part);
}

/* All that is left of the first query, or as much as ends within the limit of a group. Returns what the
 * group may take. */
static int64_t begin_group(overlap_t *overlap, overlap_plan_t *plan, uint32_t first, int64_t headroom_ns)
{
    int64_t alone_ns = overlap_solo_ns(overlap, first), limit_ns = group_limit_ns(overlap);
    if (limit_ns == 0 || alone_ns <= limit_ns) {
        overlap_add_part(plan, overlap_part_of(overlap, first, overlap_ops_left(overlap, first)), first);
        plan->predicted_ns = alone_ns;
    } else {
        add_partial(overlap, plan, first, limit_ns);
        if (plan->group.count == 0) {
            overlap_add_part(plan, overlap_part_of(overlap, first, 1), first);
            overlap_predict(overlap, plan, 1);
        }
        headroom_ns -= alone_ns - plan->predicted_ns;
    }
    return limit_ns && headroom_ns > 2 * limit_ns ? 2 * limit_ns : headroom_ns;
}

/* A group that begins at start_ns. */
static bool plan_group(overlap_t *overlap, int64_t start_ns, exec_sink_fn sink, void *ctx)
{
    if (overlap->config.triage) {
        drop_hopeless(overlap, start_ns, sink, ctx);
        overlap_triage(overlap, start_ns);
    }
    for (;;) {
        overlap_plan_t plan = {.group.count = 0};
        uint32_t first = most_urgent(overlap, &plan);
        if (first == UINT32_MAX)
            return false;
        int64_t headroom_ns = overlap->active[first].query.deadline_ns - start_ns;
        if (overlap_solo_ns(overlap, first) > headroom_ns) {
            leave(overlap, first, EXEC_DROP, sink, ctx);
            continue;
        }
        headroom_ns = begin_group(overlap, &plan, first, headroom_ns);
        uint32_t more = add_whole(overlap, &plan, headroom_ns);
        overlap->next = plan;
        if (more != UINT32_MAX && plan.group.count < EXEC_PARTS_MAX)
            add_partial(overlap, &plan, more, headroom_ns);
        if (plan.group.count > overlap->next.group.count && saves(overlap, &overlap->next, &plan, more))
            overlap->next = plan;
        return true;
    }
}

/* FCFS, SJF, EDF. */
static bool plan_single(overlap_t *overlap, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    bool predicted = overlap->config.drop_predicted;
    for (uint32_t i = overlap->active_count; i-- > 0;)
        if (overlap->active[i].query.deadline_ns < now_ns + (predicted ? overlap_solo_ns(overlap, i) : 0))
            leave(overlap, i, EXEC_DROP, sink, ctx);
    uint32_t best = 0;
    int64_t best_key = INT64_MAX;
    for (uint32_t i = 0; i < overlap->active_count; i++) {
        const exec_query_t *query = &overlap->active[i].query;
        int64_t key = overlap->config.order == OVERLAP_SJF   ? overlap_solo_ns(overlap, i)
                      : overlap->config.order == OVERLAP_EDF ? query->deadline_ns
                                                             : query->arrival_ns;
        if (key < best_key) {
            best_key = key;
            best = i;
        }
    }
    overlap->next = (overlap_plan_t){.group.count = 0};
    if (overlap->active_count)
        overlap_add_part(&overlap->next, overlap_part_of(overlap, best, overlap_ops_left(overlap, best)),
                         best);
    return overlap->active_count > 0;
}

/* What its parts would take one after the other, over what the group takes. */
static double gain_of(overlap_t *overlap, const overlap_plan_t *plan)
{
    overlap_plan_t parts[EXEC_PARTS_MAX];
    double sum = 0;
    for (uint32_t i = 0; i < plan->group.count; i++) {
        parts[i].group.count = 0;
        overlap_add_part(&parts[i], plan->group.parts[i], plan->at[i]);
    }
    overlap_predict(overlap, parts, plan->group.count);
    for (uint32_t i = 0; i < plan->group.count; i++)
        sum += (double)parts[i].predicted_ns;
    return plan->predicted_ns > 0 && sum > (double)plan->predicted_ns ? sum / (double)plan->predicted_ns : 1;
}

static void launch(overlap_t *overlap, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    if (overlap->config.triage)
        overlap->gain += (gain_of(overlap, &overlap->next) - overlap->gain) / GAIN_GROUPS;
    overlap->running = overlap->next;
    overlap->busy = true;
    overlap->planned = false;
    overlap->until_ns = now_ns + overlap->running.predicted_ns;
    exec_action_t action = {.kind = EXEC_LAUNCH};
    action.launch.launch = ++overlap->launch;
    action.launch.count = overlap->running.group.count;
    for (uint32_t i = 0; i < action.launch.count; i++) {
        action.launch.parts[i] = overlap->running.group.parts[i];
        overlap->active[overlap->running.at[i]].next_op = overlap->running.group.parts[i].to;
    }
    sink(ctx, &action);
}

/* What is through leaves; the others wait for their next group. */
static void end_group(overlap_t *overlap, exec_sink_fn sink, void *ctx)
{
    overlap->busy = overlap->ended = false;
    overlap->running.group.count = 0;
    for (uint32_t i = 0; i < overlap->active_count;) {
        if (overlap_ops_left(overlap, i) > 0) {
            i++;
            continue;
        }
        leave(overlap, i, EXEC_COMPLETE, sink, ctx);
    }
}

static int64_t overlap_run(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    overlap_t *overlap = (overlap_t *)exec;
    bool single = overlap->config.order != OVERLAP_ABACUS;
    if (overlap->busy && overlap->ended)
        end_group(overlap, sink, ctx);
    give_back(overlap, sink, ctx);
    if (!overlap->busy && !overlap->planned)
        overlap->planned =
            single ? plan_single(overlap, now_ns, sink, ctx) : plan_group(overlap, now_ns, sink, ctx);
    if (!overlap->busy && overlap->planned)
        launch(overlap, now_ns, sink, ctx);
    /* The search for the next group hides behind this one. What comes meanwhile makes the plan anew. */
    if (!single && overlap->busy && !overlap->planned)
        overlap->planned =
            plan_group(overlap, now_ns > overlap->until_ns ? now_ns : overlap->until_ns, sink, ctx);
    return EXEC_NEVER;
}

static uint32_t overlap_room(const exec_t *exec)
{
    const overlap_t *overlap = (const overlap_t *)exec;
    return overlap->config.queries_max - overlap->active_count;
}

static const char *overlap_validate(const exec_t *exec)
{
    const overlap_t *overlap = (const overlap_t *)exec;
    for (uint32_t i = 0; i < overlap->active_count; i++)
        if (overlap->active[i].next_op > overlap->config.ops[overlap->active[i].query.model])
            return "a query is behind its last operator";
    for (uint32_t i = 0; i < overlap->running.group.count; i++)
        if (overlap->running.at[i] != OVERLAP_GONE &&
            (overlap->running.at[i] >= overlap->active_count ||
             overlap->active[overlap->running.at[i]].query.tag != overlap->running.group.parts[i].tag))
            return "the running group names another query";
    return NULL;
}

const exec_ops_t overlap_ops = {
    .submit = overlap_submit,
    .finished = overlap_finished,
    .preempt = overlap_preempt,
    .run = overlap_run,
    .room = overlap_room,
    .validate = overlap_validate,
};
