#include "scheduler/admin/admin.h"

#include "admin.pb-c.h"
#include "control/models/placement.h"
#include "loop/loop.h"
#include "repeated.h"
#include "rpc/pb.h"
#include "scheduler/admin/doubts.h"
#include "scheduler/admin/state.h"
#include "scheduler/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ProtobufCMessage *request_of(rpc_call_t *call, scheduler_t *s, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *request = rpc_unpack(type, rpc_call_request(call), &s->arena);
    if (!request)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "unreadable request", NULL);
    return request;
}

static void finish(rpc_call_t *call, scheduler_t *s, const ProtobufCMessage *response)
{
    rpc_call_finish(call, RPC_OK, NULL, rpc_pack(response));
    pb_arena_reset(&s->arena);
}

/* ---- GetState ---- */

static void *make(scheduler_t *s, const ProtobufCMessageDescriptor *type, size_t count)
{
    return repeated_make(type, count, &s->arena.allocator);
}

static bool add_gateways(scheduler_t *s, Admin__GetStateResponse *response)
{
    response->gateways = make(s, &admin__gateway_state__descriptor, PEERS_MAX);
    for (uint32_t i = 0; i < PEERS_MAX && response->gateways; i++) {
        gateway_t *gateway = s->control->roster.gateways[i];
        if (!gateway)
            continue;
        Admin__GatewayState *state = response->gateways[response->n_gateways++];
        state->index = i;
        state->name = gateway->peer.name;
        state->data_address = gateway->data_address;
        state->delay_ns = gateway->peer.delay.most_ns;
        state->tasks = gateway->tasks_total;
    }
    return response->gateways;
}

/* False: no memory. */
static bool add_devices(scheduler_t *s, worker_t *worker, Admin__WorkerState *state)
{
    state->devices = make(s, &admin__device_state__descriptor, worker->device_count);
    if (!state->devices)
        return false;
    state->n_devices = worker->device_count;
    for (uint32_t i = 0; i < worker->device_count; i++) {
        device_t *device = &worker->devices[i];
        Admin__DeviceState *out = state->devices[i];
        out->index = i;
        out->name = device->name;
        out->kind = device->kind;
        out->status = (char *)(uintptr_t)device_status(device);
        out->inflight_batches = device->inflight;
        out->subcluster = device->subcluster->name;
    }
    return true;
}

static bool add_workers(scheduler_t *s, Admin__GetStateResponse *response)
{
    response->workers = make(s, &admin__worker_state__descriptor, PEERS_MAX);
    for (uint32_t i = 0; i < PEERS_MAX && response->workers; i++) {
        worker_t *worker = s->control->roster.workers[i];
        if (!worker)
            continue;
        Admin__WorkerState *state = response->workers[response->n_workers++];
        state->index = i;
        state->name = worker->peer.name;
        state->draining = worker->draining;
        state->delay_ns = worker->peer.delay.most_ns;
        state->batches = worker->batches_total;
        state->data_tcp = worker->data_tcp;
        state->data_shm = worker->data_shm;
        state->data_rdma = worker->data_rdma;
        state->inputs_land = worker->inputs_land;
        if (!add_devices(s, worker, state))
            return false;
    }
    return response->workers;
}

static bool add_models(scheduler_t *s, Admin__GetStateResponse *response)
{
    response->models = make(s, &admin__model_state__descriptor, s->control->models.count);
    if (!response->models)
        return false;
    for (uint32_t m = 0; m < s->control->models.count; m++) {
        model_t *model = s->control->models.all[m];
        Admin__ModelState *state = response->models[response->n_models];
        sched_model_stats_t stats;
        if (model->forgotten)
            continue;
        response->n_models++;
        placement_stats(model, &stats);
        state->id = m;
        state->name = model->name;
        state->version = model->version;
        state->ready = model->ready;
        state->reason = model->reason;
        state->workers = model->ready_workers;
        state->max_batch = model->profile->max_batch;
        state->slo_ns = model->slo_ns;
        state->queued = stats.queued;
        state->inflight = stats.in_flight;
        state->done = model->done;
        state->dropped = model->dropped;
        if (model->canonical) {
            state->memory_bytes = model->canonical->report->memory_bytes;
            state->n_batch_memory_bytes = model->canonical->report->n_batch_memory_bytes;
            state->batch_memory_bytes = model->canonical->report->batch_memory_bytes;
        }
        state->subcluster = (char *)(uintptr_t)(model->home ? model->home->name : "");
    }
    return true;
}

static bool add_subclusters(scheduler_t *s, Admin__GetStateResponse *response)
{
    response->subclusters = make(s, &admin__subcluster_state__descriptor, s->control->subclusters.count);
    if (!response->subclusters)
        return false;
    response->n_subclusters = s->control->subclusters.count;
    for (uint32_t i = 0; i < s->control->subclusters.count; i++) {
        subcluster_t *sub = s->control->subclusters.all[i];
        Admin__SubclusterState *state = response->subclusters[i];
        state->name = sub->name;
        state->device_class = sub->device_class;
        state->policy = (char *)(uintptr_t)subcluster_policy(sub);
        state->devices = sub->device_count;
        state->serving = sub->autoscale.devices;
        state->desired = sub->autoscale.desired;
        state->bad_rate = sub->autoscale.state.bad_rate;
        state->busy_fraction = sub->autoscale.busy_fraction;
    }
    return true;
}

/* ---- Plan ---- */

static Admin__PlanResponse *plan_message(scheduler_t *s, const plan_report_t *report)
{
    Admin__PlanResponse *plan = pb_arena_alloc(&s->arena, sizeof *plan);
    if (!plan)
        return NULL;
    admin__plan_response__init(plan);
    plan->number = report->number;
    plan->moves = report->moves;
    plan->apply = report->apply;
    plan->imbalance_before = report->imbalance_before;
    plan->imbalance_after = report->imbalance_after;
    plan->solve_ns = report->solve_ns;
    plan->note = (char *)(uintptr_t)report->note;
    plan->models = make(s, &admin__planned_model__descriptor, report->row_count);
    if (!plan->models)
        return NULL;
    plan->n_models = report->row_count;
    for (uint32_t r = 0; r < report->row_count; r++) {
        const plan_row_t *row = &report->rows[r];
        Admin__PlannedModel *model = plan->models[r];
        model->name = (char *)(uintptr_t)row->model->name;
        model->version = row->model->version;
        model->from = (char *)(uintptr_t)(row->from ? row->from->name : "");
        model->to = (char *)(uintptr_t)(row->to ? row->to->name : "");
        model->load = row->load;
        model->note = (char *)(uintptr_t)row->note;
    }
    return plan;
}

typedef struct {
    scheduler_t *scheduler;
    rpc_call_t *call;
} plan_call_t;

static void on_planned(void *ctx, const plan_report_t *report)
{
    plan_call_t *asked = ctx;
    Admin__PlanResponse *plan = plan_message(asked->scheduler, report);
    if (plan)
        rpc_call_finish(asked->call, RPC_OK, NULL, rpc_pack(&plan->base));
    else
        rpc_call_finish(asked->call, RPC_RESOURCE_EXHAUSTED, "no memory for the plan", NULL);
    pb_arena_reset(&asked->scheduler->arena);
    free(asked);
}

static void on_plan(rpc_call_t *call, void *arg)
{
    scheduler_t *s = arg;
    Admin__PlanRequest *request = (Admin__PlanRequest *)request_of(call, s, &admin__plan_request__descriptor);
    if (!request)
        return;
    bool apply = request->apply;
    pb_arena_reset(&s->arena);
    plan_call_t *asked = malloc(sizeof *asked);
    if (asked)
        *asked = (plan_call_t){s, call};
    if (asked && control_plan(s->control, loop_now_ns(), apply, on_planned, asked) == STATUS_OK)
        return;
    free(asked);
    rpc_call_finish(call, RPC_UNAVAILABLE, "a plan is being made or carried out", NULL);
}

/* ---- GetState, answered ---- */

static bool add_doubts(scheduler_t *s, Admin__GetStateResponse *response)
{
    doubt_t rows[DOUBTS_MAX];
    uint32_t count = doubts_list(s->control, loop_now_ns(), rows);
    response->doubts = make(s, &admin__doubt__descriptor, count);
    for (uint32_t i = 0; i < count && response->doubts; i++) {
        Admin__Doubt *doubt = response->doubts[response->n_doubts++];
        doubt->peer = (char *)(uintptr_t)rows[i].peer;
        doubt->model = (char *)(uintptr_t)rows[i].model;
        doubt->device = (char *)(uintptr_t)rows[i].device;
        doubt->state = (char *)(uintptr_t)rows[i].state;
        doubt->reason = (char *)(uintptr_t)rows[i].reason;
        doubt->strikes = rows[i].strikes;
        doubt->for_ns = rows[i].for_ns;
    }
    return response->doubts || count == 0;
}

static void on_get_state(rpc_call_t *call, void *arg)
{
    scheduler_t *s = arg;
    enum { POLICIES_MAX = 64 };
    char *policies[POLICIES_MAX];
    Admin__GetStateResponse response = ADMIN__GET_STATE_RESPONSE__INIT;
    response.epoch = s->control->turn.epoch;
    response.scheduler_id = s->control->turn.scheduler_id;
    response.uptime_ns = loop_now_ns() - s->control->started_ns;
    response.policy = (char *)(uintptr_t)subclusters_policy(&s->control->subclusters);
    response.policies = policies;
    const plan_report_t *last = planner_last(s->control->planner);
    response.plan = last ? plan_message(s, last) : NULL;
    response.moving = planner_moving(s->control->planner);
    for (uint32_t i = 0; i < POLICIES_MAX && sched_policy_name(i); i++)
        policies[response.n_policies++] = (char *)(uintptr_t)sched_policy_name(i);
    if (add_gateways(s, &response) && add_workers(s, &response) && add_models(s, &response) &&
        add_subclusters(s, &response) && add_doubts(s, &response)) {
        finish(call, s, &response.base);
        return;
    }
    rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory for the state", NULL);
    pb_arena_reset(&s->arena);
}

/* ---- SetPolicy ---- */

/* "key=value,key=value"; false when it does not fit. */
static bool join_options(const Admin__SetPolicyRequest *request, char *params, size_t params_bytes)
{
    size_t len = 0;
    params[0] = '\0';
    for (size_t i = 0; i < request->n_options; i++) {
        int n = snprintf(params + len, params_bytes - len, "%s%s=%s", i > 0 ? "," : "",
                         request->options[i]->key, request->options[i]->value);
        if (n < 0 || (size_t)n >= params_bytes - len)
            return false;
        len += (size_t)n;
    }
    return true;
}

static void on_set_policy(rpc_call_t *call, void *arg)
{
    scheduler_t *s = arg;
    Admin__SetPolicyRequest *request =
        (Admin__SetPolicyRequest *)request_of(call, s, &admin__set_policy_request__descriptor);
    if (!request)
        return;
    char params[POLICY_PARAMS_BYTES], previous[SUBCLUSTER_NAME_BYTES];
    err_t err = {0};
    Admin__SetPolicyResponse response = ADMIN__SET_POLICY_RESPONSE__INIT;
    const subcluster_t *one = subclusters_find(&s->control->subclusters, request->subcluster);
    (void)snprintf(previous, sizeof previous, "%s",
                   one ? subcluster_policy(one) : subclusters_policy(&s->control->subclusters));
    response.previous = previous;
    status_t status = join_options(request, params, sizeof params)
                          ? control_set_policy(s->control, loop_now_ns(), request->subcluster,
                                               request->policy, params, &err)
                          : err_set(&err, STATUS_TOO_LARGE, "options are over %zu bytes", sizeof params);
    if (status == STATUS_OK) {
        finish(call, s, &response.base);
        return;
    }
    rpc_call_finish(call, rpc_code_of(status), err.text, NULL);
    pb_arena_reset(&s->arena);
}

/* ---- DrainWorker ---- */

static worker_t *worker_of(scheduler_t *s, const char *name)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (s->control->roster.workers[i] && strcmp(s->control->roster.workers[i]->peer.name, name) == 0)
            return s->control->roster.workers[i];
    return NULL;
}

static void on_drain(rpc_call_t *call, void *arg)
{
    scheduler_t *s = arg;
    Admin__DrainWorkerRequest *request =
        (Admin__DrainWorkerRequest *)request_of(call, s, &admin__drain_worker_request__descriptor);
    if (!request)
        return;
    worker_t *worker = worker_of(s, request->name);
    if (!worker) {
        rpc_call_finish(call, RPC_NOT_FOUND, "no worker of this name", NULL);
        pb_arena_reset(&s->arena);
        return;
    }
    if (request->resume && worker->leaving) {
        rpc_call_finish(call, RPC_FAILED_PRECONDITION, "the worker is on its way out", NULL);
        pb_arena_reset(&s->arena);
        return;
    }
    control_drain(s->control, loop_now_ns(), worker, !request->resume, request->exit && !request->resume);
    Admin__DrainWorkerResponse response = ADMIN__DRAIN_WORKER_RESPONSE__INIT;
    for (uint32_t i = 0; i < worker->device_count; i++)
        response.inflight_batches += worker->devices[i].inflight;
    finish(call, s, &response.base);
}

const rpc_unary_method_t scheduler_admin_calls[] = {{"/fermata.admin.v1.Admin/GetState", on_get_state},
                                                    {"/fermata.admin.v1.Admin/SetPolicy", on_set_policy},
                                                    {"/fermata.admin.v1.Admin/DrainWorker", on_drain},
                                                    {"/fermata.admin.v1.Admin/Plan", on_plan},
                                                    {NULL, NULL}};

status_t admin_init(scheduler_t *s)
{
    status_t status = STATUS_OK;
    for (const rpc_unary_method_t *call = scheduler_admin_calls; call->path && status == STATUS_OK; call++)
        status = rpc_server_add_unary(s->server, call->path, call->handler, s);
    return status;
}
