/*
 * The control plane under what gateways and workers may send. Two of each connect, say hello, and the workers report a model;
 * then come the steps of the input: a byte that says who does what, for messages a byte for their length, and the message.
 *
 *   bits 0-1  peer      bits 2-4  0-4 it says, 5 its stream ends and a new one opens, 6 time passes, 7 as 6, for seconds
 *   bit 5     the epoch, batches and commands of the message are what it says, not the present ones
 */
#include "control/control.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { PEERS = 4, FIRST_WORKER = 2, KNOWN = 16, ARENA_BYTES = 16 << 20 };

typedef struct {
    uint32_t index;
    bool ended; /* the machine asked for it; told when it is through */
    gateway_t *gateway;
    worker_t *worker;
} seat_t;

static struct {
    control_t *control;
    metrics_t *metrics;
    pb_arena_t arena;
    seat_t seats[PEERS];
    int64_t now_ns;
    uint64_t batches[KNOWN], commands[KNOWN]; /* the last ones, told in turn */
    uint32_t batch_count, command_count;
} play;

/* ---- The world ---- */

static void on_note(void *arg, log_level_t level, const char *event, const log_field_t *fields)
{
    (void)arg;
    (void)level;
    (void)event;
    (void)fields;
}

static void learn(const Control__SchedulerToWorker *frame)
{
    for (size_t i = 0; i < frame->n_grants; i++)
        play.batches[play.batch_count++ % KNOWN] = frame->grants[i]->batch_id;
    for (size_t i = 0; i < frame->n_commands; i++)
        play.commands[play.command_count++ % KNOWN] = frame->commands[i]->id;
}

/* What it sends can be packed and read again. */
static bool on_send(void *link, const ProtobufCMessage *frame)
{
    const seat_t *seat = link;
    uint8_t *packed = malloc(protobuf_c_message_get_packed_size(frame) + 1);
    size_t len = protobuf_c_message_pack(frame, packed);
    ProtobufCMessage *read = protobuf_c_message_unpack(frame->descriptor, NULL, len, packed);
    if (!read)
        abort();
    protobuf_c_message_free_unpacked(read, NULL);
    free(packed);
    if (seat->index >= FIRST_WORKER)
        learn((const Control__SchedulerToWorker *)frame);
    return true;
}

static bool on_takes_large(void *link)
{
    (void)link;
    return true;
}

static void on_cancel(void *link)
{
    seat_t *seat = link;
    seat->ended = true;
}

static void on_close(void *link, close_reason_t why, const char *text)
{
    (void)why;
    if (!text || !*text)
        abort();
    on_cancel(link);
}

static status_t on_solve(void *arg, plan_job_t *jobs, uint32_t count)
{
    (void)arg;
    (void)jobs;
    (void)count;
    return STATUS_UNAVAILABLE;
}

static const world_t world = {.note = on_note,
                              .send = on_send,
                              .takes_large = on_takes_large,
                              .close = on_close,
                              .cancel = on_cancel,
                              .solve = on_solve};

/* ---- Messages ---- */

static void bring_up_to_date(Control__WorkerToScheduler *frame)
{
    frame->epoch = play.control->turn.epoch;
    for (size_t i = 0; i < frame->n_done; i++)
        frame->done[i]->batch_id = play.batches[frame->done[i]->batch_id % KNOWN];
    for (size_t i = 0; i < frame->n_commands_done; i++)
        frame->commands_done[i]->id = play.commands[frame->commands_done[i]->id % KNOWN];
}

/* As services/scheduler/streams.c reads it. */
static void say(seat_t *seat, const uint8_t *bytes, size_t len, bool as_it_is)
{
    bool is_worker = seat->index >= FIRST_WORKER;
    peer_t *peer = is_worker ? &seat->worker->peer : &seat->gateway->peer;
    if (peer->closing)
        return;
    void *frame = protobuf_c_message_unpack(is_worker ? &control__worker_to_scheduler__descriptor
                                                      : &control__gateway_to_scheduler__descriptor,
                                            &play.arena.allocator, len, bytes);
    if (!frame) {
        control_unreadable(play.control, play.now_ns, peer);
    } else if (is_worker) {
        if (!as_it_is)
            bring_up_to_date(frame);
        control_worker_said(play.control, play.now_ns, seat->worker, frame);
    } else {
        if (!as_it_is)
            ((Control__GatewayToScheduler *)frame)->epoch = play.control->turn.epoch;
        control_gateway_said(play.control, play.now_ns, seat->gateway, frame);
    }
    pb_arena_reset(&play.arena);
}

/* ---- Joining ---- */

static void gateway_joins(seat_t *seat)
{
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = 100 + seat->index;
    hello.data_address = "127.0.0.1:9";
    frame.hello = &hello;
    seat->gateway = control_gateway_opened(play.control, play.now_ns, seat, "gateway");
    control_gateway_said(play.control, play.now_ns, seat->gateway, &frame);
}

static void worker_reports(const seat_t *seat)
{
    int64_t table_ns[] = {2 * NS_PER_MS, 3 * NS_PER_MS, 4 * NS_PER_MS, 5 * NS_PER_MS}, dims[] = {2};
    Control__Tensor tensor = CONTROL__TENSOR__INIT, *tensors = &tensor;
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport model = CONTROL__MODEL_REPORT__INIT, *models = &model;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    tensor.name = "x";
    tensor.datatype = "FP32";
    tensor.dims = dims;
    tensor.n_dims = 1;
    latency.table_ns = table_ns;
    latency.n_table_ns = model.max_batch = 4;
    latency.alpha_ns = 1e6;
    latency.beta_ns = 1e6;
    model.name = model.platform = model.mode = "whole";
    model.version = 1;
    model.state = CONTROL__MODEL_STATE__MODEL_STATE_READY;
    model.slo_ns = 50 * NS_PER_MS;
    model.n_inputs = model.n_outputs = 1;
    model.inputs = model.outputs = &tensors;
    model.latency = &latency;
    frame.models = &models;
    frame.n_models = 1;
    frame.epoch = play.control->turn.epoch;
    control_worker_said(play.control, play.now_ns, seat->worker, &frame);
}

static void worker_joins(seat_t *seat)
{
    Control__Device device = CONTROL__DEVICE__INIT, *devices = &device;
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    device.name = device.kind = "cpu";
    device.memory_bytes = 1 << 30;
    device.stretches = seat->index % 2;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = 200 + seat->index;
    hello.devices = &devices;
    hello.n_devices = 1;
    frame.hello = &hello;
    seat->worker = control_worker_opened(play.control, play.now_ns, seat, "worker");
    control_worker_said(play.control, play.now_ns, seat->worker, &frame);
    worker_reports(seat);
}

static void sit(seat_t *seat)
{
    seat->ended = false;
    if (seat->index >= FIRST_WORKER)
        worker_joins(seat);
    else
        gateway_joins(seat);
}

static void leave(seat_t *seat)
{
    if (seat->index >= FIRST_WORKER)
        control_worker_closed(play.control, play.now_ns, seat->worker, "UNAVAILABLE", "gone");
    else
        control_gateway_closed(play.control, play.now_ns, seat->gateway, "UNAVAILABLE", "gone");
}

/* ---- Steps ---- */

static void end_turn(void)
{
    control_decide(play.control, play.now_ns);
    control_flush(play.control, play.now_ns);
    for (uint32_t i = 0; i < PEERS; i++)
        if (play.seats[i].ended) {
            leave(&play.seats[i]);
            sit(&play.seats[i]);
        }
}

/* The number of bytes taken behind the first. */
static size_t step(uint8_t what, const uint8_t *bytes, size_t len)
{
    seat_t *seat = &play.seats[what & 3];
    uint32_t kind = what >> 2 & 7;
    size_t taken = 0;
    if (kind <= 4 && len > 0) {
        taken = bytes[0] < len - 1 ? bytes[0] : len - 1;
        say(seat, bytes + 1, taken, what & 32);
        taken++;
    } else if (kind == 5) {
        leave(seat);
        sit(seat);
    } else if (kind >= 6) {
        play.now_ns += kind == 6 ? NS_PER_MS : NS_PER_S;
    }
    end_turn();
    return taken;
}

static void begin(void)
{
    control_options_t options;
    err_t err = {.text = ""};
    memset(&play, 0, sizeof play);
    control_options_init(&options);
    options.tasks_max = 64;
    options.models_max = options.devices_max = 8;
    options.batch_max = 8;
    options.epoch = 5;
    play.now_ns = 1000 * NS_PER_S;
    pb_arena_init(&play.arena, ARENA_BYTES);
    play.metrics = metrics_create("scheduler", &err);
    if (control_create(&options, &world, NULL, play.metrics, play.now_ns, &play.control, &err) != STATUS_OK)
        abort();
    for (uint32_t i = 0; i < PEERS; i++) {
        play.seats[i].index = i;
        sit(&play.seats[i]);
    }
    end_turn();
}

static void end(void)
{
    control_stop(play.control, play.now_ns);
    for (uint32_t i = 0; i < PEERS; i++)
        leave(&play.seats[i]);
    control_destroy(play.control);
    metrics_destroy(play.metrics);
    pb_arena_dispose(&play.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    begin();
    for (size_t at = 0; at < len;) {
        uint8_t what = bytes[at++];
        at += step(what, bytes + at, len - at);
    }
    end();
    return 0;
}
