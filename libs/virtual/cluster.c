#include "virtual/cluster.h"

#include "base/map.h"
#include "sched/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct virtual_cluster {
    virtual_cluster_options_t options;
    network_t *network;
    virtual_scheduler_t *scheduler;
    virtual_gateway_t **gateways;
    virtual_worker_t **workers;
    const char **names; /* of models */
    const virtual_request_t *requests;
    const virtual_fault_t *faults;
    uint64_t request_count, next_request;
    uint32_t fault_count, next_fault;
    network_timer_t request, fault;
    uint8_t *ended;  /* task_end_t by task, which is the number of its request plus 1 */
    idmap_t batches; /* the epoch of the last batch of each number */
    virtual_tally_t tally;
};

/* ---- What is watched ---- */

static void violated(void *ctx, const char *what)
{
    virtual_cluster_t *c = ctx;

    if (c->tally.violation)
        return;
    c->tally.violation = what;
    c->tally.violation_ns = network_now_ns(c->network);
}

static void on_ended(void *ctx, uint64_t task, task_end_t end)
{
    virtual_cluster_t *c = ctx;

    if (c->ended[task - 1] != TASK_OPEN)
        violated(c, "a task ended twice");
    c->ended[task - 1] = (uint8_t)end;
    c->tally.ends[TASK_OPEN]--;
    c->tally.ends[end]++;
}

static bool batch_is_new(void *ctx, uint64_t epoch, uint64_t batch_id)
{
    virtual_cluster_t *c = ctx;
    void *mark = (void *)(uintptr_t)epoch;

    if (idmap_get(&c->batches, batch_id) == mark)
        return false;
    return idmap_put(&c->batches, batch_id, mark) || true; /* beyond its room it is believed */
}

static void on_ran(void *ctx, const virtual_batch_t *batch)
{
    virtual_cluster_t *c = ctx;

    c->tally.batches++;
    c->tally.rows += batch->rows;
    if (c->options.ran)
        c->options.ran(c->options.ctx, batch);
}

static void on_asked_to_measure(void *ctx)
{
    ((virtual_cluster_t *)ctx)->tally.measures++;
}

/* ---- What is given ---- */

static void on_request(void *arg)
{
    virtual_cluster_t *c = arg;
    int64_t now_ns = network_now_ns(c->network);

    while (c->next_request < c->request_count && c->requests[c->next_request].at_ns <= now_ns) {
        const virtual_request_t *request = &c->requests[c->next_request++];
        c->tally.ends[TASK_OPEN]++;
        virtual_gateway_submit(c->gateways[request->gateway],
                               &(virtual_ask_t){.task = c->next_request,
                                                .model = request->model,
                                                .priority = request->priority,
                                                .budget_ns = request->budget_ns});
    }
    if (c->next_request < c->request_count)
        network_timer_start(c->network, &c->request, c->requests[c->next_request].at_ns);
}

static worker_t *worker_of(virtual_cluster_t *c, uint32_t index)
{
    control_t *control = virtual_scheduler_control(c->scheduler);

    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        worker_t *worker = control->roster.workers[i];
        if (worker && worker->peer.instance_id == virtual_worker_instance(c->workers[index]) &&
            !worker->peer.closing)
            return worker;
    }
    return NULL;
}

static void drain(virtual_cluster_t *c, uint32_t index, bool drains, bool leaves)
{
    worker_t *worker = worker_of(c, index);

    if (worker)
        control_drain(virtual_scheduler_control(c->scheduler), network_now_ns(c->network), worker, drains,
                      leaves);
    virtual_scheduler_touch(c->scheduler);
}

static void on_plan(void *ctx, const plan_report_t *report)
{
    (void)ctx;
    (void)report;
}

static void plan(virtual_cluster_t *c)
{
    /* There may be nothing to plan, or a plan under way. */
    (void)control_plan(virtual_scheduler_control(c->scheduler), network_now_ns(c->network), true, on_plan,
                       NULL);
    virtual_scheduler_touch(c->scheduler);
}

static void set_policy(virtual_cluster_t *c, uint32_t index)
{
    err_t err;
    uint32_t count = 0;

    while (sched_policy_name(count))
        count++;
    (void)control_set_policy(virtual_scheduler_control(c->scheduler), network_now_ns(c->network), "",
                             sched_policy_name(index % count), "", &err);
    virtual_scheduler_touch(c->scheduler);
}

static void strike(virtual_cluster_t *c, const virtual_fault_t *fault)
{
    virtual_gateway_t *gateway = c->gateways[fault->index % c->options.gateways];
    virtual_worker_t *worker = c->workers[fault->index % c->options.workers];
    uint32_t w = fault->index % c->options.workers;
    uint64_t task;

    switch (fault->kind) {
    case FAULT_GATEWAY_LINK:
        virtual_gateway_break(gateway);
        break;
    case FAULT_GATEWAY_CRASH:
        virtual_gateway_crash(gateway);
        break;
    case FAULT_GATEWAY_CANCEL:
        task = virtual_gateway_some_task(gateway);
        if (task)
            virtual_gateway_cancel(gateway, task);
        break;
    case FAULT_WORKER_LINK:
        virtual_worker_break(worker);
        break;
    case FAULT_WORKER_CRASH:
        virtual_worker_crash(worker);
        break;
    case FAULT_WORKER_DRAIN:
        drain(c, w, true, false);
        break;
    case FAULT_WORKER_UNDRAIN:
        drain(c, w, false, false);
        break;
    case FAULT_WORKER_LEAVE:
        drain(c, w, true, true);
        break;
    case FAULT_SCHEDULER:
        virtual_scheduler_restart(c->scheduler);
        break;
    case FAULT_LOAD:
    case FAULT_UNLOAD:
        (void)virtual_gateway_ask(c->gateways[0], fault->kind == FAULT_LOAD,
                                  fault->index % c->options.model_count);
        break;
    case FAULT_PLAN:
        plan(c);
        break;
    case FAULT_POLICY:
        set_policy(c, fault->index);
        break;
    case FAULTS:
        break;
    }
}

static void on_fault(void *arg)
{
    virtual_cluster_t *c = arg;
    int64_t now_ns = network_now_ns(c->network);

    while (c->next_fault < c->fault_count && c->faults[c->next_fault].at_ns <= now_ns)
        strike(c, &c->faults[c->next_fault++]);
    if (c->next_fault < c->fault_count)
        network_timer_start(c->network, &c->fault, c->faults[c->next_fault].at_ns);
}

/* ---- Making ---- */

static void make_peers(virtual_cluster_t *c)
{
    const virtual_cluster_options_t *o = &c->options;
    uint32_t open_max = c->request_count < 1 << 22 ? (uint32_t)c->request_count + 1 : 1 << 22;
    uint32_t inflight = o->control.device_inflight_max ? o->control.device_inflight_max : 2;

    for (uint32_t i = 0; i < o->gateways; i++)
        c->gateways[i] =
            virtual_gateway_create(&(virtual_gateway_options_t){.network = c->network,
                                                                .scheduler = c->scheduler,
                                                                .open_max = open_max,
                                                                .model_names = c->names,
                                                                .model_count = o->model_count,
                                                                .deaf = i < o->deaf_gateways,
                                                                .heedless = i < o->heedless_gateways,
                                                                .ended = on_ended,
                                                                .ctx = c});
    for (uint32_t i = 0; i < o->workers; i++)
        c->workers[i] = virtual_worker_create(&(virtual_worker_options_t){
            .network = c->network,
            .scheduler = c->scheduler,
            .gateways = c->gateways,
            .gateway_count = o->gateways,
            .index = i,
            .devices = o->devices,
            .models = o->models,
            .model_count = o->model_count,
            .device_class = o->class_count ? o->classes[i % o->class_count] : NULL,
            .fetch_ns = o->fetch_ns,
            .jitter = o->jitter,
            .failures = o->failures,
            .vice = o->vices ? o->vices[i] : VICE_NONE,
            .vice_from_ns = o->vice_from_ns,
            .vice_until_ns = o->vice_until_ns,
            .inflight_max = inflight,
            .ran = on_ran,
            .asked_to_measure = on_asked_to_measure,
            .violated = violated,
            .batch_is_new = batch_is_new,
            .ctx = c});
}

static status_t make(virtual_cluster_t *c, err_t *err)
{
    const virtual_cluster_options_t *o = &c->options;
    uint32_t batches = c->request_count < 1 << 20 ? (uint32_t)c->request_count * 4 + 64 : 1 << 22;

    c->gateways = calloc(o->gateways, sizeof(virtual_gateway_t *));
    c->workers = calloc(o->workers, sizeof(virtual_worker_t *));
    c->names = calloc(o->model_count, sizeof(char *));
    c->ended = calloc(c->request_count + 1, 1);
    if (!c->gateways || !c->workers || !c->names || !c->ended)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a cluster");
    for (uint32_t m = 0; m < o->model_count; m++)
        c->names[m] = o->models[m].name;
    status_t status = idmap_init(&c->batches, batches, err);
    if (status == STATUS_OK)
        status = network_create(&o->network, &c->network, err);
    if (status == STATUS_OK)
        status = virtual_scheduler_create(c->network, &o->control, &c->scheduler, err);
    if (status != STATUS_OK)
        return status;
    make_peers(c);
    if (c->request_count > 0)
        network_timer_start(c->network, &c->request, c->requests[0].at_ns);
    if (c->fault_count > 0)
        network_timer_start(c->network, &c->fault, c->faults[0].at_ns);
    return STATUS_OK;
}

status_t virtual_cluster_create(const virtual_cluster_options_t *options, const virtual_request_t *requests,
                                uint64_t request_count, const virtual_fault_t *faults, uint32_t fault_count,
                                virtual_cluster_t **out, err_t *err)
{
    virtual_cluster_t *c = calloc(1, sizeof(*c));

    if (!c)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a cluster");
    *c = (virtual_cluster_t){.options = *options,
                             .requests = requests,
                             .request_count = request_count,
                             .faults = faults,
                             .fault_count = fault_count,
                             .request = {on_request, c, NETWORK_NEVER},
                             .fault = {on_fault, c, NETWORK_NEVER}};
    status_t status = make(c, err);
    if (status != STATUS_OK) {
        virtual_cluster_destroy(c);
        return status;
    }
    *out = c;
    return STATUS_OK;
}

void virtual_cluster_destroy(virtual_cluster_t *c)
{
    if (!c)
        return;
    virtual_scheduler_destroy(c->scheduler);
    for (uint32_t i = 0; c->gateways && i < c->options.gateways; i++)
        virtual_gateway_destroy(c->gateways[i]);
    for (uint32_t i = 0; c->workers && i < c->options.workers; i++)
        virtual_worker_destroy(c->workers[i]);
    network_destroy(c->network);
    idmap_dispose(&c->batches);
    free(c->gateways);
    free(c->workers);
    free(c->names);
    free(c->ended);
    free(c);
}

/* ---- Running ---- */

void virtual_cluster_run(virtual_cluster_t *c, int64_t until_ns)
{
    network_run(c->network, until_ns);
}

static uint64_t strikes(const control_t *control)
{
    uint64_t sum = 0;

    for (uint32_t m = 0; m < control->models.count; m++)
        for (uint32_t kind = ILL_FAILED; kind < ILL_KINDS; kind++)
            sum += (uint64_t)metrics_value(control->models.all[m]->metrics.strikes[kind]);
    return sum;
}

static uint64_t device_strikes(const control_t *control)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < control->subclusters.count; i++)
        sum += (uint64_t)metrics_value(control->subclusters.all[i]->metric.strikes);
    return sum;
}

static uint32_t outliers(const control_t *control)
{
    uint32_t count = 0;

    for (uint32_t m = 0; m < control->models.count; m++)
        for (const instance_t *i = control->models.all[m]->instances; i; i = i->next)
            count += i->outlier;
    return count;
}

const virtual_tally_t *virtual_cluster_tally(virtual_cluster_t *c)
{
    c->tally.outliers = outliers(virtual_scheduler_control(c->scheduler));
    c->tally.strikes = strikes(virtual_scheduler_control(c->scheduler));
    c->tally.device_strikes = device_strikes(virtual_scheduler_control(c->scheduler));
    c->tally.digest = network_digest(c->network);
    c->tally.tasks_sent = c->tally.bytes_sent = 0;
    for (uint32_t i = 0; i < c->options.gateways; i++) {
        c->tally.tasks_sent += virtual_gateway_tasks_sent(c->gateways[i]);
        c->tally.bytes_sent += virtual_gateway_bytes_sent(c->gateways[i]);
    }
    return &c->tally;
}

control_t *virtual_cluster_control(const virtual_cluster_t *c)
{
    return virtual_scheduler_control(c->scheduler);
}

task_end_t virtual_cluster_end(const virtual_cluster_t *c, uint64_t request)
{
    return (task_end_t)c->ended[request];
}

const char *virtual_cluster_leftover(const virtual_cluster_t *c)
{
    const control_t *control = virtual_scheduler_control(c->scheduler);

    if (c->tally.ends[TASK_OPEN] > 0)
        return "a task has not ended";
    if (control->tasks.pool.lent > 0)
        return "the scheduler still has a task";
    if (control->tasks.batches.lent > 0)
        return "the scheduler still has a batch";
    if (control->tasks.batches_by_id.len > 0)
        return "the scheduler still knows a batch by its number";
    if (virtual_scheduler_links(c->scheduler) != c->options.gateways + c->options.workers)
        return "not every gateway and worker is connected, or one twice";
    for (uint32_t i = 0; i < c->options.workers; i++)
        if (!virtual_worker_is_idle(c->workers[i]))
            return "a worker still has a batch";
    return NULL;
}
