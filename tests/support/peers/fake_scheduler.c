#include "peers/fake_scheduler.h"

#include "until.h"

#include <stdio.h>

/* ---- What it says ---- */

static void say(fake_scheduler_t *scheduler, const ProtobufCMessage *frame)
{
    cr_assert_eq(rpc_stream_send(scheduler->stream, rpc_pack(frame)), STATUS_OK);
}

void fake_scheduler_tell_gateway(fake_scheduler_t *scheduler, Control__SchedulerToGateway *frame,
                                 uint64_t epoch)
{
    frame->epoch = epoch;
    say(scheduler, &frame->base);
}

void fake_scheduler_tell_worker(fake_scheduler_t *scheduler, Control__SchedulerToWorker *frame,
                                uint64_t epoch)
{
    frame->epoch = epoch;
    say(scheduler, &frame->base);
}

/* What messages to both kinds may begin with. */
static void tell_head(fake_scheduler_t *scheduler, uint64_t epoch, Control__Welcome *welcome,
                      Control__Ping *ping)
{
    Control__SchedulerToGateway to_gateway = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    Control__SchedulerToWorker to_worker = CONTROL__SCHEDULER_TO_WORKER__INIT;

    to_gateway.welcome = to_worker.welcome = welcome;
    to_gateway.ping = to_worker.ping = ping;
    if (scheduler->on_gateway)
        fake_scheduler_tell_gateway(scheduler, &to_gateway, epoch);
    else
        fake_scheduler_tell_worker(scheduler, &to_worker, epoch);
}

void fake_scheduler_welcome(fake_scheduler_t *scheduler, uint64_t epoch)
{
    Control__Welcome welcome = CONTROL__WELCOME__INIT;

    welcome.version = 1;
    welcome.ping_interval_ns = NS_PER_S;
    tell_head(scheduler, epoch, &welcome, NULL);
}

void fake_scheduler_ping(fake_scheduler_t *scheduler, uint64_t epoch, uint64_t sent_ns)
{
    Control__Ping ping = CONTROL__PING__INIT;

    ping.sent_ns = sent_ns;
    tell_head(scheduler, epoch, NULL, &ping);
}

/* ---- What it hears ---- */

static void hear_head(fake_scheduler_t *scheduler, uint64_t epoch, const Control__Hello *hello,
                      const Control__Pong *pong)
{
    if (pong) {
        scheduler->pongs++;
        scheduler->pong_ns = pong->sent_ns;
    }
    if (!hello)
        return;
    scheduler->hellos++;
    scheduler->hello_epoch = epoch;
    scheduler->hello_instance = hello->instance_id;
    scheduler->hello_devices = (uint32_t)hello->n_devices;
    if (scheduler->welcomes)
        fake_scheduler_welcome(scheduler, scheduler->welcomes);
}

static void on_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    fake_scheduler_t *scheduler = arg;
    const ProtobufCMessageDescriptor *kind = scheduler->on_gateway
                                                 ? &control__gateway_to_scheduler__descriptor
                                                 : &control__worker_to_scheduler__descriptor;
    const ProtobufCMessage *frame = rpc_unpack(kind, bytes, &scheduler->arena);

    (void)stream, (void)keep;
    cr_assert_not_null(frame);
    if (scheduler->on_gateway) {
        const Control__GatewayToScheduler *said = (const Control__GatewayToScheduler *)frame;
        hear_head(scheduler, said->epoch, said->hello, said->pong);
        scheduler->on_gateway(scheduler->ctx, said);
    } else {
        const Control__WorkerToScheduler *said = (const Control__WorkerToScheduler *)frame;
        hear_head(scheduler, said->epoch, said->hello, said->pong);
        scheduler->on_worker(scheduler->ctx, said);
    }
    pb_arena_reset(&scheduler->arena);
}

/* ---- Listening ---- */

static void on_open(rpc_stream_t *stream, void *arg)
{
    fake_scheduler_t *scheduler = arg;

    scheduler->stream = stream;
    if (scheduler->refuses)
        rpc_stream_close(stream, RPC_FAILED_PRECONDITION, "this scheduler speaks version 2, its peer 1");
}

static void on_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    fake_scheduler_t *scheduler = arg;

    (void)code, (void)text;
    if (scheduler->stream == stream)
        scheduler->stream = NULL;
}

void fake_scheduler_listen(fake_scheduler_t *scheduler)
{
    static const rpc_stream_ops_t ops = {.on_open = on_open, .on_message = on_message, .on_close = on_close};
    const rpc_server_options_t options = {.address =
                                              scheduler->address[0] ? scheduler->address : "127.0.0.1:0"};
    const char *method =
        scheduler->on_gateway ? "/fermata.control.v1.Control/Gateway" : "/fermata.control.v1.Control/Worker";
    err_t err = {0};

    pb_arena_init(&scheduler->arena, 0);
    cr_assert_eq(rpc_server_create(scheduler->runtime, &options, &scheduler->server, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(rpc_server_add_stream(scheduler->server, method, &ops, scheduler), STATUS_OK);
    cr_assert_eq(rpc_server_start(scheduler->server, &err), STATUS_OK, "%s", err.text);
    (void)snprintf(scheduler->address, sizeof(scheduler->address), "%s",
                   rpc_server_address(scheduler->server));
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

void fake_scheduler_unlisten(fake_scheduler_t *scheduler)
{
    scheduler->stopped = false;
    rpc_server_stop(scheduler->server, 0, set_flag, &scheduler->stopped);
    loop_until(scheduler->loop, scheduler->stopped);
    rpc_server_destroy(scheduler->server);
    pb_arena_dispose(&scheduler->arena);
    scheduler->server = NULL;
    scheduler->stream = NULL;
}
