#include "peers/fake_private.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void worker_send(fake_worker_t *w, Control__WorkerToScheduler *frame)
{
    if (frame->epoch == 0 && !frame->hello)
        frame->epoch = w->fake.epoch;
    (void)rpc_stream_send(w->fake.stream, rpc_pack(&frame->base));
}

static void worker_open(rpc_stream_t *stream, void *arg)
{
    fake_worker_t *w = arg;
    fake_opened(&w->fake, stream);
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.hello = &w->fake.hello;
    frame.epoch = w->fake.hello_epoch;
    worker_send(w, &frame);
}

void worker_tell_done(fake_worker_t *w, const Control__BatchDone *done)
{
    Control__BatchDone *list = (Control__BatchDone *)(uintptr_t)done;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.n_done = 1;
    frame.done = &list;
    worker_send(w, &frame);
}

static void send_done(fake_worker_t *w, uint64_t batch_id, uint32_t device, status_t status, int64_t took_ns)
{
    Control__BatchDone done = CONTROL__BATCH_DONE__INIT;
    done.batch_id = batch_id;
    done.device = device;
    done.status = (uint32_t)status;
    done.exec_ns = done.device_ns = took_ns;
    done.fetch_ns = 50 * NS_PER_US;
    done.push_ns = 20 * NS_PER_US;
    done.reason = (char *)(status == STATUS_OK ? "" : "as the test wants");
    worker_tell_done(w, &done);
}

void worker_tell_device(fake_worker_t *w, uint32_t device, Control__DeviceStatus status, const char *reason)
{
    Control__DeviceState state = CONTROL__DEVICE_STATE__INIT, *list = &state;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    state.device = device;
    state.status = status;
    state.reason = (char *)(uintptr_t)reason;
    frame.n_devices = 1;
    frame.devices = &list;
    worker_send(w, &frame);
}

void worker_done(fake_worker_t *w, uint64_t batch_id, uint32_t device, status_t status)
{
    send_done(w, batch_id, device, status, NS_PER_MS);
}

void worker_ran(fake_worker_t *w, uint64_t batch_id, int64_t took_ns)
{
    send_done(w, batch_id, 0, STATUS_OK, took_ns);
}

static void worker_grant(fake_worker_t *w, const Control__Grant *g)
{
    cr_assert(w->grant_count < FAKE_GRANTS && g->rows <= FAKE_ROWS);
    cr_assert_null(grant_rows_objection(g));
    grant_t *grant = &w->grants[w->grant_count++];
    *grant = (grant_t){.batch_id = g->batch_id,
                       .model = g->model,
                       .device = g->device,
                       .rows = g->rows,
                       .size_count = (uint32_t)g->n_size,
                       .size = g->n_size > 0 ? g->size[0] : 0,
                       .stretches = g->stretches};
    for (uint32_t i = 0; i < g->rows; i++)
        grant->row[i] = grant_rows_at(g, i);
    w->rows_total += grant->rows;
    if (w->auto_done)
        send_done(w, g->batch_id, g->device, STATUS_OK, grant->rows * NS_PER_MS);
}

static void worker_told(fake_worker_t *w, const Control__ModelCommand *command)
{
    cr_assert(w->told_count < sizeof w->told / sizeof w->told[0]);
    told_t *told = &w->told[w->told_count++];
    *told = (told_t){command->id, command->action, "", command->version, command->planned};
    (void)snprintf(told->name, sizeof told->name, "%s", command->name);
}

void worker_answer(fake_worker_t *w, uint64_t command, status_t status, const char *reason)
{
    Control__CommandDone done = CONTROL__COMMAND_DONE__INIT, *list = &done;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    done.id = command;
    done.status = (uint32_t)status;
    done.reason = (char *)(uintptr_t)reason;
    frame.n_commands_done = 1;
    frame.commands_done = &list;
    worker_send(w, &frame);
}

static void worker_peers(fake_worker_t *w, const Control__PeerTable *peers)
{
    w->peers_frames++;
    w->peer_count = (uint32_t)peers->n_peers;
    w->gone_count = (uint32_t)peers->n_gone;
    if (peers->n_peers > 0)
        (void)snprintf(w->peer_address, sizeof w->peer_address, "%s", peers->peers[0]->data_address);
}

static void worker_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    fake_worker_t *w = arg;
    Control__SchedulerToWorker *frame = (Control__SchedulerToWorker *)rpc_unpack(
        &control__scheduler_to_worker__descriptor, bytes, &w->fake.arena);
    cr_assert_not_null(frame);
    fake_heard(&w->fake, frame->epoch, frame->welcome, frame->ping, frame->pong);
    w->model_ids += (int)frame->n_model_ids;
    if (frame->n_model_ids > 0)
        w->model_id = frame->model_ids[0]->id;
    if (frame->peers)
        worker_peers(w, frame->peers);
    if (frame->drain)
        w->drained = frame->drain->drain;
    w->revokes += frame->revoke ? (int)frame->revoke->n_batch_id : 0;
    for (size_t i = 0; i < frame->n_grants; i++)
        worker_grant(w, frame->grants[i]);
    for (size_t i = 0; i < frame->n_commands; i++)
        worker_told(w, frame->commands[i]);
    pb_arena_reset(&w->fake.arena);
}

static void worker_send_ping(fake_t *fake, const Control__Ping *ping, const Control__Pong *pong)
{
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.ping = (Control__Ping *)(uintptr_t)ping;
    frame.pong = (Control__Pong *)(uintptr_t)pong;
    worker_send((fake_worker_t *)fake, &frame);
}

void worker_init(fake_worker_t *w, fakes_t *fakes, uint64_t instance_id, uint32_t devices)
{
    static const struct fake_ops ops = {
        .method = "/fermata.control.v1.Control/Worker",
        .stream = {.on_open = worker_open, .on_message = worker_message, .on_close = fake_close},
        .send = worker_send_ping};
    memset(w, 0, sizeof *w);
    fake_init(&w->fake, &ops, fakes, instance_id);
    w->fake.hello.name = (char *)"fake-worker";
    for (uint32_t i = 0; i < devices; i++) {
        control__device__init(&w->device[i]);
        w->device[i].name = (char *)"fake";
        w->device[i].kind = (char *)"emulated";
        w->device_list[i] = &w->device[i];
    }
    w->fake.hello.n_devices = devices;
    w->fake.hello.devices = w->device_list;
    w->slo_ns = 100 * NS_PER_MS;
}

void worker_connect(fake_worker_t *w)
{
    for (size_t i = 0; i < w->fake.hello.n_devices; i++)
        w->device[i].stretches = w->staged;
    fake_connect(&w->fake);
}

/* Gives a report one axis, in place of its dimensions. */
static void report_axis(Control__ModelReport *report)
{
    static uint32_t of_dim[] = {1}, sizes[] = {10, 100};
    static int64_t open[] = {-1};
    static Control__Axis axis, *axes[] = {&axis};
    static Control__Latency latencies[2];
    static Control__ShapeLatency at[2], *all[] = {&at[0], &at[1]};
    control__axis__init(&axis);
    axis.name = (char *)"length";
    axis.size_max = 1000;
    for (int i = 0; i < 2; i++) {
        control__latency__init(&latencies[i]);
        latencies[i].alpha_ns = report->latency->alpha_ns * (i ? 10 : 1);
        latencies[i].beta_ns = report->latency->beta_ns * (i ? 10 : 1);
        control__shape_latency__init(&at[i]);
        at[i].n_size = 1;
        at[i].size = &sizes[i];
        at[i].latency = &latencies[i];
    }
    report->inputs[0]->n_dims = report->inputs[0]->n_axes = 1;
    report->inputs[0]->dims = open;
    report->inputs[0]->axes = of_dim;
    report->n_axes = 1;
    report->axes = axes;
    report->n_shape_latencies = 2;
    report->shape_latencies = all;
}

static void report_model(fake_worker_t *w, const char *name, int64_t version, Control__ModelState state,
                         int64_t alpha_ns, int64_t beta_ns)
{
    int64_t dims[] = {1, 28, 28};
    uint32_t until[] = {500, 1000};
    Control__Tensor input = CONTROL__TENSOR__INIT, output = CONTROL__TENSOR__INIT;
    Control__Tensor *inputs[] = {&input}, *outputs[] = {&output};
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport report = CONTROL__MODEL_REPORT__INIT;
    input.name = (char *)"x";
    output.name = (char *)"y";
    input.datatype = output.datatype = (char *)"FP32";
    input.dims = output.dims = dims;
    input.n_dims = output.n_dims = 3;
    latency.alpha_ns = (double)alpha_ns;
    latency.beta_ns = (double)beta_ns;
    report.name = (char *)(uintptr_t)name;
    report.version = version;
    report.state = state;
    report.reason =
        (char *)(state == CONTROL__MODEL_STATE__MODEL_STATE_FAILED ? "operator Foo of node bar" : "");
    report.max_batch = 8;
    report.memory_bytes = w->model_bytes;
    report.exit_points = w->exit_points;
    report.n_stage_until = w->staged ? 2 : 0;
    report.mode_elements = w->mode_elements;
    report.stage_until = until;
    report.slo_ns = w->slo_ns;
    report.n_inputs = report.n_outputs = 1;
    report.inputs = inputs;
    report.outputs = outputs;
    report.latency = &latency;
    if (w->axis)
        report_axis(&report);
    char *label = calloc(1, w->label_bytes + 1);
    memset(label, 'a', w->label_bytes);
    report.n_labels = w->label_bytes > 0;
    report.labels = &label;
    Control__ModelReport *reports[] = {&report};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.n_models = 1;
    frame.models = reports;
    worker_send(w, &frame);
    free(label);
}

void worker_report(fake_worker_t *w, const char *name, Control__ModelState state, int64_t alpha_ns,
                   int64_t beta_ns)
{
    report_model(w, name, 1, state, alpha_ns, beta_ns);
}

void worker_report_version(fake_worker_t *w, const char *name, int64_t version, Control__ModelState state)
{
    report_model(w, name, version, state, NS_PER_MS, NS_PER_MS);
}

bool worker_has_task(const fake_worker_t *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->grant_count; i++)
        for (uint32_t row = 0; row < w->grants[i].rows; row++)
            if (w->grants[i].row[row].task_id == id)
                return true;
    return false;
}
