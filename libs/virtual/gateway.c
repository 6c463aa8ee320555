#include "virtual/gateway.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/map.h"
#include "estimate_parts.h"
#include "pb_arena.h"
#include "sched/estimate.h"

#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 64, ARENA_BYTES_MAX = 16 << 20 };
/* As the gateway's: how long after the deadline an answer may leave. */
static const int64_t BACKSTOP_NS = 20 * NS_PER_MS;
static const int64_t RECONNECT_NS = 30 * NS_PER_MS;
static const uint32_t ITEM_BYTES = 100;

typedef struct {
    heap_node_t node; /* by deadline */
    uint64_t id;
    uint32_t model, priority;
    int64_t deadline_ns;
    bool sent, admitted;
    bool doubted; /* to be told when its result comes */
} open_task_t;

struct virtual_gateway {
    virtual_gateway_options_t options;
    uint64_t instance_id;
    uint64_t epoch;
    link_t *link;
    bool welcome;
    uint64_t asked; /* the model request under way */
    network_timer_t again, backstop;
    uint32_t catalogue[MODELS_MAX]; /* the scheduler's id of a model, and one; 0: it is not ready */
    estimate_t estimates[MODELS_MAX];
    uint64_t tasks_sent, bytes_sent;
    heap_t open;
    idmap_t by_id;
    pb_arena_t arena;
};

static int64_t now_ns(const virtual_gateway_t *g)
{
    return network_now_ns(g->options.network);
}

/* ---- Tasks ---- */

static open_task_t *task_at(const virtual_gateway_t *g, uint32_t place)
{
    return CONTAINER_OF(g->open.slots[place].node, open_task_t, node);
}

static void watch(virtual_gateway_t *g)
{
    int64_t first_ns = heap_min_key(&g->open);

    network_timer_start(g->options.network, &g->backstop,
                        first_ns == INT64_MAX ? NETWORK_NEVER : first_ns + BACKSTOP_NS);
}

static void end(virtual_gateway_t *g, open_task_t *task, task_end_t how)
{
    uint64_t id = task->id;

    heap_remove(&g->open, &task->node);
    (void)idmap_remove(&g->by_id, id);
    free(task);
    g->options.ended(g->options.ctx, id, how);
}

/* ---- Out ---- */

static void say(virtual_gateway_t *g, Control__GatewayToScheduler *frame)
{
    frame->epoch = g->epoch;
    if (g->link)
        g->bytes_sent += link_to_server(g->link, &frame->base);
}

static void miss(virtual_gateway_t *g, uint64_t id)
{
    Control__CancelBatch cancels = CONTROL__CANCEL_BATCH__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    cancels.n_missed = 1;
    cancels.missed = &id;
    frame.cancels = &cancels;
    if (g->welcome)
        say(g, &frame);
}

static void tell_arrived(virtual_gateway_t *g, uint64_t id)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    frame.n_arrived = 1;
    frame.arrived = &id;
    say(g, &frame);
}

static void on_backstop(void *arg)
{
    virtual_gateway_t *g = arg;

    while (heap_min_key(&g->open) <= now_ns(g) - BACKSTOP_NS) {
        if (task_at(g, 0)->sent)
            miss(g, task_at(g, 0)->id);
        end(g, task_at(g, 0), TASK_EXPIRED);
    }
    watch(g);
}

static void submit_one(virtual_gateway_t *g, open_task_t *task)
{
    uint64_t id = task->id, handle = g->instance_id, offset = 0;
    int64_t budget_ns = task->deadline_ns - now_ns(g);
    uint32_t len_bytes = ITEM_BYTES, model = g->catalogue[task->model] - 1, admitted = 1;
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    if (!g->welcome || !g->catalogue[task->model] || budget_ns <= 0)
        return;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = tasks.n_handle_hi = tasks.n_handle_lo =
        tasks.n_offset_bytes = tasks.n_len_bytes = 1;
    tasks.id = &id;
    tasks.model = &model;
    tasks.budget_ns = &budget_ns;
    tasks.handle_hi = &handle;
    tasks.handle_lo = &id;
    tasks.offset_bytes = &offset;
    tasks.len_bytes = &len_bytes;
    tasks.n_priority = task->priority > 0;
    tasks.priority = &task->priority;
    tasks.n_admitted = task->admitted;
    tasks.admitted = &admitted;
    frame.tasks = &tasks;
    task->sent = true;
    g->tasks_sent++;
    say(g, &frame);
}

static void submit_unsent(virtual_gateway_t *g)
{
    for (uint32_t i = 0; i < g->open.len; i++)
        if (!task_at(g, i)->sent)
            submit_one(g, task_at(g, i));
}

void virtual_gateway_submit(virtual_gateway_t *g, const virtual_ask_t *ask)
{
    estimate_verdict_t verdict = g->options.heedless ? ESTIMATE_SILENT
                                                     : estimate_judge(&g->estimates[ask->model], now_ns(g),
                                                                      ask->priority, ask->budget_ns, 1);
    open_task_t *task;

    if (verdict != ESTIMATE_SILENT && verdict != ESTIMATE_ADMITS) {
        g->options.ended(g->options.ctx, ask->task, TASK_REFUSED);
        return;
    }
    task = calloc(1, sizeof(*task));
    if (!task)
        abort();
    *task = (open_task_t){.id = ask->task,
                          .model = ask->model,
                          .priority = ask->priority,
                          .deadline_ns = now_ns(g) + ask->budget_ns,
                          .admitted = verdict == ESTIMATE_ADMITS};
    if (!heap_insert(&g->open, &task->node, task->deadline_ns, task->id) ||
        !idmap_put(&g->by_id, task->id, task))
        abort();
    submit_one(g, task);
    if (task->sent)
        estimate_sent(&g->estimates[ask->model], now_ns(g), ask->budget_ns, 1);
    if (task->deadline_ns + BACKSTOP_NS < g->backstop.due_ns)
        watch(g);
}

void virtual_gateway_cancel(virtual_gateway_t *g, uint64_t id)
{
    open_task_t *task = idmap_get(&g->by_id, id);
    Control__CancelBatch cancels = CONTROL__CANCEL_BATCH__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    if (!task)
        return;
    cancels.n_id = 1;
    cancels.id = &id;
    frame.cancels = &cancels;
    if (task->sent)
        say(g, &frame);
    end(g, task, TASK_CANCELLED);
}

bool virtual_gateway_ask(virtual_gateway_t *g, bool load, uint32_t model)
{
    Control__ModelRequest request = CONTROL__MODEL_REQUEST__INIT, *list = &request;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    if (!g->welcome || g->asked)
        return false;
    request.id = g->asked = (uint64_t)now_ns(g);
    request.action =
        load ? CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD : CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD;
    request.name = (char *)(uintptr_t)g->options.model_names[model];
    frame.n_model_requests = 1;
    frame.model_requests = &list;
    say(g, &frame);
    return true;
}

/* ---- In ---- */

void virtual_gateway_result(virtual_gateway_t *g, uint64_t instance_id, uint64_t id, bool failed)
{
    open_task_t *task = instance_id == g->instance_id ? idmap_get(&g->by_id, id) : NULL;

    if (!task || g->options.deaf)
        return;
    if (task->doubted)
        tell_arrived(g, id);
    end(g, task, failed ? TASK_FAILED : TASK_GOOD);
}

static void on_catalogue(virtual_gateway_t *g, const Control__Catalogue *catalogue)
{
    Control__GatewayToScheduler seen = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    memset(g->catalogue, 0, sizeof(g->catalogue));
    for (size_t i = 0; i < catalogue->n_models; i++)
        for (uint32_t m = 0; m < g->options.model_count && catalogue->models[i]->ready; m++)
            if (strcmp(catalogue->models[i]->description->name, g->options.model_names[m]) == 0)
                g->catalogue[m] = catalogue->models[i]->id + 1;
    seen.catalogue_seen = catalogue->version;
    say(g, &seen);
    submit_unsent(g);
}

/* What it has refused itself since the last estimate. */
static void say_refused(virtual_gateway_t *g)
{
    enum { MOST = MODELS_MAX * SHED_LEVELS };
    uint32_t model[MOST], priority[MOST], overload[MOST], backlog[MOST], infeasible[MOST];
    Control__Refused refused = CONTROL__REFUSED__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    estimate_refused_t taken;
    size_t n = 0;
    bool any;

    for (uint32_t m = 0; m < g->options.model_count; m++)
        for (uint32_t level = 0; level < SHED_LEVELS; level++) {
            model[n] = g->catalogue[m] - 1;
            priority[n] = level;
            any = estimate_take_refused(&g->estimates[m], level, &taken);
            overload[n] = taken.overload;
            backlog[n] = taken.backlog;
            infeasible[n] = taken.infeasible;
            n += any && g->catalogue[m];
        }
    if (n == 0)
        return;
    refused.n_model = refused.n_priority = refused.n_overload = refused.n_backlog = refused.n_infeasible = n;
    refused.model = model;
    refused.priority = priority;
    refused.overload = overload;
    refused.backlog = backlog;
    refused.infeasible = infeasible;
    frame.refused = &refused;
    say(g, &frame);
}

static void hear_of(virtual_gateway_t *g, uint32_t model, const Control__Estimate *estimate, size_t place)
{
    estimate_backlog_t backlog;

    estimate_tell(&g->estimates[model], now_ns(g), estimate->least_ns[place],
                  estimate_refuse(estimate, place));
    if (!estimate_has_backlog(estimate, place))
        return;
    backlog = (estimate_backlog_t){.ends_in_ns = estimate->backlog_ns[place],
                                   .row_ns = estimate->row_ns[place],
                                   .behind_ns = estimate->behind_ns[place],
                                   .level = estimate->backlog_priority[place]};
    estimate_tell_backlog(&g->estimates[model], now_ns(g), &backlog);
}

static void on_estimate(virtual_gateway_t *g, const Control__Estimate *estimate)
{
    if (!estimate_is_whole(estimate))
        abort();
    say_refused(g);
    for (uint32_t m = 0; m < g->options.model_count; m++) {
        size_t place = g->catalogue[m] ? estimate_find(estimate, g->catalogue[m] - 1) : estimate->n_model;
        if (place == estimate->n_model)
            estimate_lapse(&g->estimates[m]);
        else
            hear_of(g, m, estimate, place);
    }
}

static void on_drops(virtual_gateway_t *g, const Control__DropBatch *drops)
{
    for (size_t i = 0; i < drops->n_id; i++) {
        open_task_t *task = idmap_get(&g->by_id, drops->id[i]);
        if (task)
            end(g, task, TASK_DROPPED);
    }
}

static void on_doubted(virtual_gateway_t *g, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        open_task_t *task = idmap_get(&g->by_id, ids[i]);
        if (task)
            task->doubted = true;
        else
            tell_arrived(g, ids[i]);
    }
}

static void on_message(void *arg, link_t *link, const uint8_t *bytes, size_t len_bytes)
{
    virtual_gateway_t *g = arg;
    const Control__SchedulerToGateway *frame = (void *)protobuf_c_message_unpack(
        &control__scheduler_to_gateway__descriptor, &g->arena.allocator, len_bytes, bytes);
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__GatewayToScheduler answer = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    (void)link;
    if (frame && frame->epoch >= g->epoch) {
        g->epoch = frame->epoch;
        g->welcome = g->welcome || frame->welcome;
        if (frame->catalogue)
            on_catalogue(g, frame->catalogue);
        if (frame->drops)
            on_drops(g, frame->drops);
        on_doubted(g, frame->doubted, frame->n_doubted);
        if (frame->estimate)
            on_estimate(g, frame->estimate);
        for (size_t i = 0; i < frame->n_model_answers; i++)
            g->asked = frame->model_answers[i]->id == g->asked ? 0 : g->asked;
        if (frame->ping) {
            pong.sent_ns = frame->ping->sent_ns;
            answer.pong = &pong;
            say(g, &answer);
        }
    }
    pb_arena_reset(&g->arena);
}

/* ---- The stream ---- */

static void on_closed(void *arg, link_t *link)
{
    virtual_gateway_t *g = arg;

    (void)link;
    g->link = NULL;
    g->welcome = false;
    g->asked = 0;
    for (uint32_t i = 0; i < g->open.len; i++) /* the next stream knows nothing of what waits here */
        task_at(g, i)->sent = task_at(g, i)->admitted = false;
    for (uint32_t m = 0; m < g->options.model_count; m++)
        estimate_forget(&g->estimates[m]);
    network_timer_start(g->options.network, &g->again, now_ns(g) + RECONNECT_NS);
}

static const link_ops_t ops = {NULL, on_message, on_closed};

static void join(void *arg)
{
    virtual_gateway_t *g = arg;
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    memset(g->catalogue, 0, sizeof(g->catalogue));
    g->link =
        network_connect(g->options.network, &ops, g, virtual_scheduler_gateways(), g->options.scheduler);
    hello.min_version = hello.max_version = 1;
    hello.instance_id = g->instance_id;
    hello.name = (char *)"gateway";
    hello.data_address = (char *)"virtual";
    frame.hello = &hello;
    say(g, &frame);
}

virtual_gateway_t *virtual_gateway_create(const virtual_gateway_options_t *options)
{
    virtual_gateway_t *g = calloc(1, sizeof(*g));

    if (!g || options->model_count > MODELS_MAX)
        abort();
    *g = (virtual_gateway_t){.options = *options,
                             .instance_id = prng_u64(network_prng(options->network)) | 1,
                             .again = {join, g, NETWORK_NEVER},
                             .backstop = {on_backstop, g, NETWORK_NEVER}};
    pb_arena_init(&g->arena, ARENA_BYTES_MAX);
    if (heap_init(&g->open, options->open_max, NULL) != STATUS_OK ||
        idmap_init(&g->by_id, options->open_max, NULL) != STATUS_OK)
        abort();
    join(g);
    return g;
}

void virtual_gateway_destroy(virtual_gateway_t *g)
{
    if (!g)
        return;
    pb_arena_dispose(&g->arena);
    while (g->open.len > 0)
        free(CONTAINER_OF(heap_pop(&g->open), open_task_t, node));
    heap_dispose(&g->open);
    idmap_dispose(&g->by_id);
    free(g);
}

uint64_t virtual_gateway_tasks_sent(const virtual_gateway_t *g)
{
    return g->tasks_sent;
}

uint64_t virtual_gateway_bytes_sent(const virtual_gateway_t *g)
{
    return g->bytes_sent;
}

uint64_t virtual_gateway_instance(const virtual_gateway_t *g)
{
    return g->instance_id;
}

uint64_t virtual_gateway_some_task(const virtual_gateway_t *g)
{
    return g->open.len ? task_at(g, (uint32_t)prng_below(network_prng(g->options.network), g->open.len))->id
                       : 0;
}

void virtual_gateway_break(virtual_gateway_t *g)
{
    if (g->link)
        link_break(g->link);
}

void virtual_gateway_crash(virtual_gateway_t *g)
{
    if (g->link)
        link_abandon(g->link);
    while (g->open.len > 0)
        end(g, task_at(g, 0), TASK_LOST);
    g->epoch = 0;
    g->instance_id = prng_u64(network_prng(g->options.network)) | 1;
    on_closed(g, NULL);
}
