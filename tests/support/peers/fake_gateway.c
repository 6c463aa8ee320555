#include "peers/fake_private.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void gateway_send_frame(fake_gateway_t *g, Control__GatewayToScheduler *frame)
{
    if (frame->epoch == 0 && !frame->hello)
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

/* Its results are there as soon as a worker says so. */
static void gateway_doubted(fake_gateway_t *g, uint64_t *ids, size_t count)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.n_arrived = count;
    frame.arrived = ids;
    gateway_send_frame(g, &frame);
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
    if (frame->catalogue)
        gateway_catalogue(g, frame->catalogue);
    for (size_t i = 0; i < frame->n_model_answers; i++)
        gateway_answered(g, frame->model_answers[i]);
    g->drop_total += frame->drops ? frame->drops->n_id : 0;
    for (size_t i = 0; frame->drops && i < frame->drops->n_id && g->drop_count < FAKE_DROPS; i++)
        g->drops[g->drop_count++] =
            (drop_t){frame->drops->id[i], frame->drops->status[i], frame->drops->stage[i]};
    if (frame->n_doubted > 0)
        gateway_doubted(g, frame->doubted, frame->n_doubted);
    pb_arena_reset(&g->fake.arena);
}

static void gateway_send_ping(fake_t *fake, const Control__Ping *ping, const Control__Pong *pong)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.ping = (Control__Ping *)(uintptr_t)ping;
    frame.pong = (Control__Pong *)(uintptr_t)pong;
    gateway_send_frame((fake_gateway_t *)fake, &frame);
}

void gateway_init(fake_gateway_t *g, fakes_t *fakes, uint64_t instance_id)
{
    static const struct fake_ops ops = {
        .method = "/fermata.control.v1.Control/Gateway",
        .stream = {.on_open = gateway_open, .on_message = gateway_message, .on_close = fake_close},
        .send = gateway_send_ping};
    memset(g, 0, sizeof *g);
    fake_init(&g->fake, &ops, fakes, instance_id);
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
    if (g->sizes) {
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
