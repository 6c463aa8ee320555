#include "support.h"

#include "scheduler/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The stage ---- */

void stage_init(stage_t *stage)
{
    err_t err = {0};
    *stage = (stage_t){0};
    cr_assert_eq(loop_create(&stage->loop, &err), STATUS_OK, "%s", err.text);
    rpc_runtime_options_t how = {.loop = stage->loop, .name = "fakes"};
    cr_assert_eq(rpc_runtime_create(&how, &stage->runtime, &err), STATUS_OK, "%s", err.text);
    const char *shards =
        getenv("FERMATA_SHARDS"); /* each test runs with the core on the loop's thread and on others */
    scheduler_options_init(&stage->options);
    stage->options.shards = shards != NULL ? (uint32_t)atoi(shards) : 0;
    stage->options.http_address = "127.0.0.1:0";
}

void stage_start(stage_t *stage)
{
    err_t err = {0};
    stage->options.grpc_address = stage->address[0] != '\0' ? stage->address : "127.0.0.1:0";
    stage->stopped = false;
    cr_assert_eq(scheduler_create(stage->loop, &stage->options, &stage->scheduler, &err), STATUS_OK, "%s",
                 err.text);
    (void)snprintf(stage->address, sizeof stage->address, "%s", scheduler_grpc_address(stage->scheduler));
}

void stage_flag(void *flag)
{
    *(bool *)flag = true;
}

void stage_stop(stage_t *stage)
{
    scheduler_stop(stage->scheduler, stage_flag, &stage->stopped);
    stage_until(stage, stage->stopped);
    scheduler_destroy(stage->scheduler);
    stage->scheduler = NULL;
}

void stage_dispose(stage_t *stage)
{
    if (stage->scheduler != NULL)
        stage_stop(stage);
    rpc_runtime_destroy(stage->runtime);
    loop_destroy(stage->loop);
}

void stage_pass(stage_t *stage, int64_t duration_ns)
{
    int64_t until_ns = clock_now_ns() + duration_ns;
    while (clock_now_ns() < until_ns)
        loop_run_once(stage->loop, NS_PER_MS);
}

/* ---- What the core plans, which no message tells ---- */

static struct {
    stage_t *stage;
    const core_ops_t *ops; /* the core's own */
    sched_sink_fn sink;
    void *ctx;
    int64_t now_ns;
} spy;

static void spy_on_action(void *ctx, const sched_action_t *action)
{
    (void)ctx;
    stage_t *stage = spy.stage;
    if (action->kind == SCHED_GRANT) {
        cr_assert_lt(stage->plan_count, FAKE_GRANTS);
        stage->plan_ns[stage->plan_count++] = action->grant.finish_ns - spy.now_ns;
    }
    spy.sink(spy.ctx, action);
}

static int64_t spy_run(core_t *core, int64_t now_ns, sched_sink_fn sink, void *ctx)
{
    spy.sink = sink;
    spy.ctx = ctx;
    spy.now_ns = now_ns;
    return spy.ops->run(core, now_ns, spy_on_action, NULL);
}

void stage_note_plans(stage_t *stage)
{
    static core_ops_t ops;
    core_t *core = stage->scheduler->control->subclusters.all[0]->core;
    spy.stage = stage;
    spy.ops = core->ops;
    ops = *core->ops;
    ops.run = spy_run;
    core->ops = &ops;
}

/* ---- Both kinds ---- */

struct fake_ops {
    const char *method;
    rpc_stream_ops_t stream;
    void (*send)(fake_t *fake, const Control__Ping *ping, const Control__Pong *pong);
};

static void fake_init(fake_t *fake, const struct fake_ops *ops, stage_t *stage, uint64_t instance_id)
{
    fake->stage = stage;
    fake->ops = ops;
    control__hello__init(&fake->hello);
    fake->hello.min_version = fake->hello.max_version = 1;
    fake->hello.instance_id = instance_id;
    pb_arena_init(&fake->arena, 64 << 20);
}

/* The first place that holds `old` holds `new` from now on. */
static void stage_replace(stage_t *stage, const fake_t *old, fake_t *new)
{
    uint32_t i = 0;
    while (i < STAGE_FAKES && stage->fakes[i] != old)
        i++;
    cr_assert_lt(i, STAGE_FAKES);
    stage->fakes[i] = new;
}

static void fake_connect(fake_t *fake)
{
    err_t err = {0};
    rpc_client_options_t options = {.address = fake->stage->address,
                                    .limits = {.send_queue_bytes = 64 << 20}};
    cr_assert_eq(rpc_client_create(fake->stage->runtime, &options, &fake->client, &err), STATUS_OK, "%s",
                 err.text);
    rpc_link_options_t link = {.method = fake->ops->method, .ops = fake->ops->stream, .arg = fake};
    cr_assert_eq(rpc_link_create(fake->client, &link, &fake->link, &err), STATUS_OK, "%s", err.text);
    stage_replace(fake->stage, NULL, fake);
    fake->closed = false;
}

void fake_kill(fake_t *fake)
{
    rpc_link_close(fake->link, stage_flag, &fake->closed);
    stage_until(fake->stage, fake->closed);
    rpc_client_destroy(fake->client);
    stage_replace(fake->stage, fake, NULL);
    pb_arena_dispose(&fake->arena);
    fake->link = NULL;
    fake->client = NULL;
}

static void fake_opened(fake_t *fake, rpc_stream_t *stream)
{
    fake->stream = stream;
    fake->heard = fake->stage->barriers; /* what was sent before is lost, and nobody waits for it */
}

static void fake_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    fake_t *fake = arg;
    fake->closes++;
    fake->code = code;
    fake->stream = NULL;
    (void)snprintf(fake->text, sizeof fake->text, "%s", text);
}

static void fake_pinged(fake_t *fake, const Control__Ping *ping)
{
    Control__Pong pong = CONTROL__PONG__INIT;
    fake->pings++;
    pong.sent_ns = ping->sent_ns;
    if (!fake->silent)
        fake->ops->send(fake, NULL, &pong);
}

/* What every frame may bring. The pong comes last, but nothing looks at it before the frame has been read. */
static void fake_heard(fake_t *fake, uint64_t epoch, const Control__Welcome *welcome,
                       const Control__Ping *ping, const Control__Pong *pong)
{
    fake->epoch = epoch;
    if (ping != NULL)
        fake_pinged(fake, ping);
    if (pong != NULL)
        fake->heard = pong->sent_ns;
    if (welcome == NULL)
        return;
    fake->welcomes++;
    fake->index = welcome->peer_index;
    fake->scheduler_id = welcome->scheduler_id;
    cr_expect_eq(welcome->version, 1);
    cr_expect_gt(welcome->ping_interval_ns, 0);
}

/* ---- The barrier ---- */

static bool stage_all_heard(const stage_t *stage, uint64_t serial)
{
    for (uint32_t i = 0; i < STAGE_FAKES; i++)
        if (stage->fakes[i] != NULL && stage->fakes[i]->stream != NULL && stage->fakes[i]->heard != serial)
            return false;
    return true;
}

static void stage_ping_round(stage_t *stage)
{
    Control__Ping ping = CONTROL__PING__INIT;
    ping.sent_ns = ++stage->barriers;
    for (uint32_t i = 0; i < STAGE_FAKES; i++)
        if (stage->fakes[i] != NULL && stage->fakes[i]->stream != NULL)
            stage->fakes[i]->ops->send(stage->fakes[i], &ping, NULL);
    stage_until(stage, stage_all_heard(stage, ping.sent_ns));
}

/* Threads that decide come to a stand for a device that is out of range, work off what was told to them, and go on with the
 * next run. A core of the loop's thread has decided before the pong was sent. */
static void stage_stand(stage_t *stage)
{
    control_t *control = stage->scheduler->control;
    const sched_gpu_mode_t whole = {0};
    for (uint32_t i = 0; i < control->subclusters.count; i++) {
        core_t *core = control->subclusters.all[i]->core;
        err_t err;
        if (core->ops->threads)
            cr_assert_neq(core->ops->add_gpu(core, loop_now_ns(), UINT32_MAX, &whole, 0, &err), STATUS_OK);
    }
}

/* The second round is behind what the first one's messages have led to, on every stream. */
void stage_barrier(stage_t *stage)
{
    stage_ping_round(stage);
    stage_stand(stage);
    stage_ping_round(stage);
}

void stage_upkeep(stage_t *stage)
{
    const control_t *control = stage->scheduler->control;
    stage_barrier(stage);
    int64_t next_ns = control->tick_ns;
    stage_until(stage, control->tick_ns != next_ns);
    stage_barrier(stage);
}

/* ---- Gateway ---- */

static void gateway_send_frame(fake_gateway_t *g, Control__GatewayToScheduler *frame)
{
    if (frame->epoch == 0 && frame->hello == NULL)
        frame->epoch = g->fake.epoch;
    (void)rpc_stream_send(g->fake.stream, rpc_pack(&frame->base));
}

static void gateway_open(rpc_stream_t *stream, void *arg)
{
    fake_gateway_t *g = arg;
    fake_opened(&g->fake, stream);
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.hello = &g->fake.hello;
    frame.epoch = g->fake.hello_epoch;
    gateway_send_frame(g, &frame);
}

static void gateway_catalogue(fake_gateway_t *g, const Control__Catalogue *catalogue)
{
    Control__GatewayToScheduler seen = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    seen.catalogue_seen = catalogue->version;
    if (!g->blind)
        gateway_send_frame(g, &seen);
    g->catalogues++;
    g->models = (uint32_t)catalogue->n_models;
    g->models_ready = 0;
    for (size_t i = 0; i < catalogue->n_models; i++) {
        g->models_ready += catalogue->models[i]->ready != 0;
        (void)snprintf(g->last_reason, sizeof g->last_reason, "%s", catalogue->models[i]->reason);
    }
    if (catalogue->n_models == 0)
        return;
    const Control__CatalogueModel *first = catalogue->models[0];
    g->model_id = first->id;
    g->ready = first->ready;
    g->ready_workers = first->workers;
    g->slo_ns = first->description->slo_ns;
    (void)snprintf(g->reason, sizeof g->reason, "%s", first->reason);
}

static void gateway_answered(fake_gateway_t *g, const Control__ModelAnswer *answer)
{
    g->answer_count++;
    g->answer_id = answer->id;
    g->answer_status = answer->status;
    (void)snprintf(g->answer_reason, sizeof g->answer_reason, "%s", answer->reason);
}

void gateway_ask(fake_gateway_t *g, uint64_t id, Control__ModelAction action, const char *name)
{
    Control__ModelRequest request = CONTROL__MODEL_REQUEST__INIT, *list = &request;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    request.id = id;
    request.action = action;
    request.name = (char *)(uintptr_t)name;
    frame.n_model_requests = 1;
    frame.model_requests = &list;
    gateway_send_frame(g, &frame);
}

static void gateway_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    fake_gateway_t *g = arg;
    Control__SchedulerToGateway *frame = (Control__SchedulerToGateway *)rpc_unpack(
        &control__scheduler_to_gateway__descriptor, bytes, &g->fake.arena);
    cr_assert_not_null(frame);
    fake_heard(&g->fake, frame->epoch, frame->welcome, frame->ping, frame->pong);
    if (frame->catalogue != NULL)
        gateway_catalogue(g, frame->catalogue);
    for (size_t i = 0; i < frame->n_model_answers; i++)
        gateway_answered(g, frame->model_answers[i]);
    g->drop_total += frame->drops != NULL ? frame->drops->n_id : 0;
    for (size_t i = 0; frame->drops != NULL && i < frame->drops->n_id && g->drop_count < FAKE_DROPS; i++)
        g->drops[g->drop_count++] =
            (drop_t){frame->drops->id[i], frame->drops->status[i], frame->drops->stage[i]};
    pb_arena_reset(&g->fake.arena);
}

static void gateway_send_ping(fake_t *fake, const Control__Ping *ping, const Control__Pong *pong)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.ping = (Control__Ping *)(uintptr_t)ping;
    frame.pong = (Control__Pong *)(uintptr_t)pong;
    gateway_send_frame((fake_gateway_t *)fake, &frame);
}

void gateway_init(fake_gateway_t *g, stage_t *stage, uint64_t instance_id)
{
    static const struct fake_ops ops = {
        .method = "/fermata.control.v1.Control/Gateway",
        .stream = {.on_open = gateway_open, .on_message = gateway_message, .on_close = fake_close},
        .send = gateway_send_ping};
    memset(g, 0, sizeof *g);
    fake_init(&g->fake, &ops, stage, instance_id);
    g->fake.hello.name = (char *)"fake-gateway";
    g->fake.hello.data_address = (char *)"127.0.0.1:8003";
}

void gateway_connect(fake_gateway_t *g)
{
    fake_connect(&g->fake);
}

void gateway_send(fake_gateway_t *g, uint32_t model, uint64_t first_id, uint32_t count, int64_t budget_ns)
{
    enum { MOST = 1024 };
    static uint64_t ids[MOST], hi[MOST], lo[MOST], offsets[MOST];
    static uint32_t models[MOST], lens[MOST], counts[MOST];
    static int64_t budgets[MOST];
    cr_assert_leq(count, MOST);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = first_id + i;
        hi[i] = g->fake.hello.instance_id;
        lo[i] = ids[i] * 3;
        offsets[i] = 0;
        models[i] = model;
        lens[i] = 100;
        budgets[i] = budget_ns;
    }
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = tasks.n_handle_hi = tasks.n_handle_lo =
        tasks.n_offset_bytes = tasks.n_len_bytes = count;
    tasks.id = ids;
    tasks.model = models;
    tasks.budget_ns = budgets;
    tasks.handle_hi = hi;
    tasks.handle_lo = lo;
    tasks.offset_bytes = offsets;
    tasks.len_bytes = lens;
    if (g->sizes != NULL) {
        for (uint32_t i = 0; i < count; i++)
            counts[i] = 1;
        tasks.n_size_count = tasks.n_size = count;
        tasks.size_count = counts;
        tasks.size = (uint32_t *)(uintptr_t)g->sizes;
    }
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.tasks = &tasks;
    gateway_send_frame(g, &frame);
}

void gateway_cancel(fake_gateway_t *g, uint64_t id)
{
    Control__CancelBatch cancels = CONTROL__CANCEL_BATCH__INIT;
    cancels.n_id = 1;
    cancels.id = &id;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.cancels = &cancels;
    gateway_send_frame(g, &frame);
}

const drop_t *gateway_dropped(const fake_gateway_t *g, uint64_t id)
{
    for (uint32_t i = 0; i < g->drop_count; i++)
        if (g->drops[i].id == id)
            return &g->drops[i];
    return NULL;
}

/* ---- Worker ---- */

void worker_send(fake_worker_t *w, Control__WorkerToScheduler *frame)
{
    if (frame->epoch == 0 && frame->hello == NULL)
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
    Control__BatchDone *list[] = {&done};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.n_done = 1;
    frame.done = list;
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
    if (frame->peers != NULL)
        worker_peers(w, frame->peers);
    if (frame->drain != NULL)
        w->drained = frame->drain->drain;
    w->revokes += frame->revoke != NULL ? (int)frame->revoke->n_batch_id : 0;
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

void worker_init(fake_worker_t *w, stage_t *stage, uint64_t instance_id, uint32_t devices)
{
    static const struct fake_ops ops = {
        .method = "/fermata.control.v1.Control/Worker",
        .stream = {.on_open = worker_open, .on_message = worker_message, .on_close = fake_close},
        .send = worker_send_ping};
    memset(w, 0, sizeof *w);
    fake_init(&w->fake, &ops, stage, instance_id);
    w->fake.hello.name = (char *)"fake-worker";
    for (uint32_t i = 0; i < devices; i++) {
        control__device__init(&w->device[i]);
        w->device[i].name = (char *)"fake";
        w->device[i].kind = (char *)"emulated";
        w->device_list[i] = &w->device[i];
    }
    w->fake.hello.n_devices = devices;
    w->fake.hello.devices = w->device_list;
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
    report.slo_ns = 100 * NS_PER_MS;
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

/* ---- Two on a stage ---- */

duo_t *duo_new(uint32_t devices)
{
    duo_t *duo = calloc(1, sizeof *duo);
    stage_init(&duo->stage);
    worker_init(&duo->worker, &duo->stage, 7, devices);
    gateway_init(&duo->gateway, &duo->stage, 9);
    return duo;
}

void duo_begin(duo_t *duo, int64_t alpha_ns, int64_t beta_ns)
{
    stage_start(&duo->stage);
    worker_connect(&duo->worker);
    gateway_connect(&duo->gateway);
    stage_until(&duo->stage, duo->worker.fake.welcomes == 1);
    worker_report(&duo->worker, "net", CONTROL__MODEL_STATE__MODEL_STATE_READY, alpha_ns, beta_ns);
    stage_until(&duo->stage, duo->gateway.ready && duo->worker.peer_count == 1);
}

void duo_add_worker(duo_t *duo, fake_worker_t *second)
{
    worker_init(second, &duo->stage, 8, 1);
    worker_connect(second);
    stage_until(&duo->stage, second->fake.welcomes == 1);
    worker_report(second, "net", CONTROL__MODEL_STATE__MODEL_STATE_READY, NS_PER_MS, NS_PER_MS);
    stage_until(&duo->stage, duo->gateway.ready_workers == 2);
}

void duo_free(duo_t *duo)
{
    if (duo->gateway.fake.link != NULL)
        fake_kill(&duo->gateway.fake);
    if (duo->worker.fake.link != NULL)
        fake_kill(&duo->worker.fake);
    stage_dispose(&duo->stage);
    free(duo);
}
