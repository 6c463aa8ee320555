#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the scheduler */

static Control__Tensor tensor(const char *name, const char *type, int64_t *dims)
{
    Control__Tensor made = CONTROL__TENSOR__INIT;
    made.name = (char *)(uintptr_t)name;
    made.datatype = (char *)(uintptr_t)type;
    made.n_dims = 1;
    made.dims = dims;
    return made;
}

static void fill_model(const rig_t *rig, Control__CatalogueModel *model, Control__ModelReport *report,
                       const char *name, uint32_t id)
{
    *report = (Control__ModelReport)CONTROL__MODEL_REPORT__INIT;
    *model = (Control__CatalogueModel)CONTROL__CATALOGUE_MODEL__INIT;
    report->name = (char *)(uintptr_t)name;
    report->version = 1;
    report->platform = (char *)(uintptr_t) "test";
    report->max_batch = rig->max_batch;
    report->slo_ns = rig->slo_ns;
    model->id = id;
    model->ready = true;
    model->description = report;
    model->workers = 1;
}

void rig_send_catalogue(rig_t *rig, uint64_t epoch, uint32_t first_id, bool empty)
{
    int64_t two[] = {2}, three[] = {3};
    Control__Tensor x = tensor("x", "INT32", two), b = tensor("b", "INT8", three);
    Control__Tensor y = tensor("y", "INT32", two), z = tensor("z", "INT8", three);
    Control__Tensor *one_in[] = {&x}, *one_out[] = {&y}, *two_in[] = {&x, &b}, *two_out[] = {&z, &y};
    Control__ModelReport reports[3];
    Control__CatalogueModel models[3], *list[] = {&models[0], &models[1], &models[2]};
    fill_model(rig, &models[0], &reports[0], "one", first_id);
    fill_model(rig, &models[1], &reports[1], "two", first_id + 1);
    reports[0].n_inputs = reports[0].n_outputs = 1;
    reports[0].inputs = one_in;
    reports[0].outputs = one_out;
    reports[1].n_inputs = reports[1].n_outputs = 2;
    reports[1].inputs = two_in;
    reports[1].outputs = two_out;
    models[2] = models[0];
    reports[2] = reports[0];
    models[2].id = first_id + 2;
    models[2].description = &reports[2];
    models[2].tried = true;
    reports[2].version = 2;
    Control__Catalogue catalogue = CONTROL__CATALOGUE__INIT;
    catalogue.version = 1;
    catalogue.n_models = empty ? 0 : rig->tried ? 3 : 2;
    catalogue.models = list;
    Control__SchedulerToGateway message = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    message.catalogue = &catalogue;
    fake_scheduler_tell_gateway(&rig->scheduler, &message, epoch);
}

void rig_send_doubt(rig_t *rig, uint64_t epoch, uint64_t id)
{
    Control__SchedulerToGateway message = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    message.n_doubted = 1;
    message.doubted = &id;
    fake_scheduler_tell_gateway(&rig->scheduler, &message, epoch);
}

void rig_send_estimate(rig_t *rig, uint64_t epoch, int64_t least_ns, double refuse)
{
    double parts[16] = {refuse};
    uint32_t model = 10, number = 1;
    Control__Estimate estimate = CONTROL__ESTIMATE__INIT;
    estimate.n_model = estimate.n_least_ns = estimate.n_parts = 1;
    estimate.model = &model;
    estimate.least_ns = &least_ns;
    estimate.parts = &number;
    estimate.n_refuse = 16;
    estimate.refuse = parts;
    Control__SchedulerToGateway message = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    message.estimate = &estimate;
    fake_scheduler_tell_gateway(&rig->scheduler, &message, epoch);
}

void rig_send_backlog(rig_t *rig, uint64_t epoch, int64_t backlog_ns, int64_t row_ns, int64_t behind_ns)
{
    uint32_t model = 10, none = 0;
    int64_t least_ns = 0;
    Control__Estimate estimate = CONTROL__ESTIMATE__INIT;
    estimate.n_model = estimate.n_least_ns = estimate.n_parts = 1;
    estimate.model = &model;
    estimate.least_ns = &least_ns;
    estimate.parts = &none;
    estimate.n_backlog_ns = estimate.n_row_ns = estimate.n_behind_ns = estimate.n_backlog_priority = 1;
    estimate.backlog_ns = &backlog_ns;
    estimate.row_ns = &row_ns;
    estimate.behind_ns = &behind_ns;
    estimate.backlog_priority = &none;
    Control__SchedulerToGateway message = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    message.estimate = &estimate;
    fake_scheduler_tell_gateway(&rig->scheduler, &message, epoch);
}

void rig_send_drop(rig_t *rig, uint64_t epoch, uint64_t id, uint32_t status, uint32_t stage,
                   uint32_t retry_after_ms)
{
    Control__DropBatch drops = CONTROL__DROP_BATCH__INIT;
    drops.n_id = drops.n_status = drops.n_stage = drops.n_retry_after_ms = 1;
    drops.id = &id;
    drops.status = &status;
    drops.stage = &stage;
    drops.retry_after_ms = &retry_after_ms;
    Control__SchedulerToGateway message = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    message.drops = &drops;
    fake_scheduler_tell_gateway(&rig->scheduler, &message, epoch);
}

static void take_tasks(rig_t *rig, const Control__TaskBatch *batch)
{
    for (size_t i = 0; rig->counts && i < batch->n_id; i++) {
        rig->counted++;
        rig->last_id = batch->id[i];
    }
    for (size_t i = 0; !rig->counts && i < batch->n_id; i++) {
        cr_assert(rig->task_count < RIG_TASKS);
        rig->tasks[rig->task_count++] = (rig_task_t){.id = batch->id[i],
                                                     .model = batch->model[i],
                                                     .len_bytes = batch->len_bytes[i],
                                                     .budget_ns = batch->budget_ns[i],
                                                     .handle = {batch->handle_hi[i], batch->handle_lo[i]},
                                                     .offset = batch->offset_bytes[i],
                                                     .admitted = batch->n_admitted > 0 && batch->admitted[i]};
    }
}

static void take_refused(rig_t *rig, const Control__Refused *refused)
{
    rig->refused_count++;
    rig->refused_models = refused->n_model;
    cr_assert(refused->n_model > 0);
    rig->refused_model = refused->model[0];
    rig->refused_priority = refused->priority[0];
    rig->refused_overload = refused->overload[0];
    rig->refused_backlog = refused->n_backlog > 0 ? refused->backlog[0] : 0;
    rig->refused_infeasible = refused->infeasible[0];
}

static void on_gateway(void *ctx, const Control__GatewayToScheduler *frame)
{
    rig_t *rig = ctx;
    if (frame->hello)
        cr_assert_eq(frame->hello->instance_id, rig->gateway.instance_id);
    if (frame->tasks)
        take_tasks(rig, frame->tasks);
    rig->arrived_count += (int)frame->n_arrived;
    if (frame->n_arrived > 0)
        rig->arrived = frame->arrived[frame->n_arrived - 1];
    if (frame->refused)
        take_refused(rig, frame->refused);
    if (frame->cancels)
        rig->missed_count += (int)frame->cancels->n_missed;
    for (size_t i = 0; frame->cancels && i < frame->cancels->n_id; i++, rig->cancel_count++)
        if (!rig->counts || rig->cancel_count < RIG_TASKS)
            rig->cancelled[rig->cancel_count] = frame->cancels->id[i];
}

void rig_scheduler_start(rig_t *rig, uint64_t epoch)
{
    rig->scheduler.loop = rig->gateway.loop;
    rig->scheduler.runtime = rig->rpc;
    rig->scheduler.on_gateway = on_gateway;
    rig->scheduler.ctx = rig;
    rig->scheduler.welcomes = epoch;
    fake_scheduler_listen(&rig->scheduler);
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

/* ------------------------------------------------------------------ the worker */

typedef struct {
    bool done;
    status_t status;
} transfer_end_t;

static void on_transfer_end(void *ctx, status_t status)
{
    *(transfer_end_t *)ctx = (transfer_end_t){true, status};
}

status_t rig_fetch(rig_t *rig, const rig_task_t *task, void *data)
{
    struct iovec piece = {data, task->len_bytes};
    transfer_item_t item = {.handle = task->handle,
                            .offset = task->offset,
                            .len_bytes = task->len_bytes,
                            .iov = &piece,
                            .iov_count = 1};
    transfer_end_t end = {0};
    cr_assert(transfer_fetch(rig->peer, &item, 1, 0, on_transfer_end, &end, NULL) == STATUS_OK);
    rig_until(rig, end.done);
    return end.status == STATUS_OK ? item.status : end.status;
}

bool rig_push(rig_t *rig, const rig_task_t *task, status_t status, const char *text, const void *data,
              size_t len)
{
    struct iovec piece = {(void *)(uintptr_t)data, len};
    transfer_result_t result = {
        .task_id = task->id,
        .handle = task->handle,
        .status = status,
        .text = text,
        .timing = {.batch_size = 2, .queue_ns = 1000, .fetch_ns = 2000, .exec_ns = 3000000},
        .iov = &piece,
        .iov_count = len > 0 ? 1 : 0};
    transfer_end_t end = {0};
    cr_assert(transfer_push(rig->peer, &result, 1, 0, on_transfer_end, &end, NULL) == STATUS_OK);
    rig_until(rig, end.done);
    return end.status == STATUS_OK;
}

/* ------------------------------------------------------------------ the client */

static void keep_header(const http_client_response_t *response, const char *name, char text[16])
{
    const char *value = http_client_response_header(response, name);
    snprintf(text, 16, "%.15s", value ? value : "");
}

static void on_answer(const http_client_response_t *response, const err_t *err, void *user)
{
    rig_answer_t *answer = user;
    (void)err;
    answer->took_ns = clock_now_ns() - answer->sent_ns;
    if (!response) {
        answer->status = -1;
        return;
    }
    const uint8_t *body = http_client_response_body(response, &answer->body_len);
    cr_assert(answer->status == 0, "answered twice");
    cr_assert(answer->body_len < RIG_BODY);
    if (answer->body_len > 0)
        memcpy(answer->body, body, answer->body_len);
    answer->body[answer->body_len] = '\0';
    keep_header(response, "Retry-After", answer->retry_after);
    keep_header(response, "Inference-Header-Content-Length", answer->json_length);
    answer->status = http_client_response_status(response);
}

int rig_infer(rig_t *rig, const char *model, const char *extra_headers, const void *body, size_t len)
{
    char target[128];
    struct iovec piece = {(void *)(uintptr_t)body, len};
    rig_answer_t *answer = &rig->answers[rig->sent];
    snprintf(target, sizeof target, "/v2/models/%s/infer", model);
    answer->sent_ns = clock_now_ns();
    http_client_request_t request = {.method = HTTP_METHOD_POST,
                                     .target = target,
                                     .content_type = "application/json",
                                     .extra_headers = extra_headers,
                                     .body = &piece,
                                     .body_count = 1,
                                     .timeout_ms = 8000};
    cr_assert(http_client_call(rig->client, &request, on_answer, answer, NULL) == STATUS_OK);
    return rig->sent++;
}

int rig_infer_json(rig_t *rig, const char *model, const char *json)
{
    return rig_infer(rig, model, NULL, json, strlen(json));
}

/* ------------------------------------------------------------------ all of it */

static void start_gateway(rig_t *rig, size_t arena_bytes, uint32_t requests_max)
{
    gateway_t *gateway = &rig->gateway;
    err_t err = {0};
    gateway->name = "test";
    gateway->instance_id = 77;
    gateway->body_bytes_max = 1 << 20;
    cr_assert(arena_create(&gateway->arena, arena_bytes ? arena_bytes : 1 << 20, &err) == STATUS_OK, "%s",
              err.text);
    cr_assert(catalogue_create(gateway->metrics, NULL, &gateway->catalogue, &err) == STATUS_OK);
    cr_assert(sessions_create(gateway, requests_max, &gateway->sessions, &err) == STATUS_OK, "%s", err.text);
    const dataplane_options_t dataplane = {.loop = gateway->loop,
                                           .listen = "127.0.0.1:0",
                                           .instance_id = gateway->instance_id,
                                           .arena = gateway->arena,
                                           .receiver = sessions_receiver(),
                                           .ctx = gateway->sessions};
    cr_assert(dataplane_create(&dataplane, &gateway->dataplane, &err) == STATUS_OK, "%s", err.text);
    const gateway_control_options_t control = {.loop = gateway->loop,
                                               .rpc = rig->rpc,
                                               .metrics = gateway->metrics,
                                               .scheduler = rig->scheduler.address,
                                               .name = "test",
                                               .instance_id = gateway->instance_id,
                                               .data_address = dataplane_advertised(gateway->dataplane),
                                               .ops = sessions_control_ops(),
                                               .ctx = gateway->sessions};
    cr_assert(gateway_control_create(&control, &gateway->control, &err) == STATUS_OK, "%s", err.text);
    const http_server_config_t http = {.listen = "127.0.0.1:0", .body_bytes_max = 1 << 20};
    cr_assert(rest_create(gateway, &http, &rig->rest, &err) == STATUS_OK, "%s", err.text);
}

void rig_start(rig_t *rig, size_t arena_bytes, uint32_t requests_max)
{
    gateway_t *gateway = &rig->gateway;
    err_t err = {0};
    memset(rig, 0, sizeof *rig);
    rig->max_batch = 4;
    rig->slo_ns = 300 * NS_PER_MS;
    gateway->metrics = metrics_create("gateway", &err);
    cr_assert(loop_create(&gateway->loop, &err) == STATUS_OK);
    const rpc_runtime_options_t rpc = {.loop = gateway->loop, .name = "test"};
    cr_assert(rpc_runtime_create(&rpc, &rig->rpc, &err) == STATUS_OK);
    rig_scheduler_start(rig, 5);
    start_gateway(rig, arena_bytes, requests_max);
    const transfer_pool_options_t pool = {.loop = loop_uv(gateway->loop)};
    cr_assert(transfer_pool_create(&pool, &rig->pool, &err) == STATUS_OK);
    cr_assert(transfer_peer_open(rig->pool, dataplane_advertised(gateway->dataplane), 77, &rig->peer, &err) ==
              STATUS_OK);
    const http_client_config_t client = {.server = rest_address(rig->rest)};
    cr_assert(http_client_create(loop_uv(gateway->loop), &client, &rig->client, &err) == STATUS_OK);
    rig_until(rig, rig->scheduler.hellos == 1);
    rig_send_catalogue(rig, 5, 10, false);
    rig_until(rig, gateway_control_is_up(gateway->control));
}

/* Criterion forgets what fails in a teardown, so that a failure there is a crash. */
static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "at the end of the test: %s\n", what);
    abort();
}

static void wait_for(rig_t *rig, const bool *flag, const char *what)
{
    int64_t until_ns = clock_now_ns() + HANG_NS;
    while (!*flag && clock_now_ns() < until_ns)
        loop_run_once(rig->gateway.loop, NS_PER_MS * 2);
    must(*flag, what);
}

void rig_stop(rig_t *rig)
{
    gateway_t *gateway = &rig->gateway;
    arena_stats_t arena;
    int64_t until_ns = clock_now_ns() + HANG_NS;
    for (int i = 0; i < rig->sent; i++) {
        while (rig->answers[i].status == 0 && clock_now_ns() < until_ns)
            loop_run_once(gateway->loop, NS_PER_MS * 2);
        must(rig->answers[i].status != 0, "a call was not answered");
    }
    http_client_destroy(rig->client);
    rest_stop(rig->rest, 1000, set_flag, &rig->rest_stopped);
    wait_for(rig, &rig->rest_stopped, "the REST server did not stop");
    must(sessions_waiting(gateway->sessions) == 0, "a session was not answered");
    must(sessions_tasks_waiting(gateway->sessions) == 0, "tasks are left");
    arena_stats(gateway->arena, &arena);
    must(arena.regions == 0, "memory did not come back");
    transfer_pool_destroy(rig->pool);
    gateway_control_stop(gateway->control, set_flag, &rig->control_closed);
    wait_for(rig, &rig->control_closed, "the control stream did not close");
    if (rig->scheduler.server)
        fake_scheduler_unlisten(&rig->scheduler);
    rest_destroy(rig->rest);
    gateway_control_destroy(gateway->control);
    dataplane_destroy(gateway->dataplane);
    rpc_runtime_destroy(rig->rpc);
    sessions_destroy(gateway->sessions);
    catalogue_destroy(gateway->catalogue);
    loop_destroy(gateway->loop);
    arena_destroy(gateway->arena);
    metrics_destroy(gateway->metrics);
}
