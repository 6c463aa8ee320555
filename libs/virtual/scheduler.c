#include "virtual/scheduler.h"

#include "pb_arena.h"
#include "plan/partition.h"

#include <stdio.h>
#include <stdlib.h>

enum { ARENA_BYTES_MAX = 64 << 20 };
/* What a search for a plan takes of virtual time. */
static const int64_t SOLVE_NS = 2000000;

struct virtual_scheduler {
    network_t *network;
    control_options_t options;
    metrics_t *metrics;
    control_t *control;
    pb_arena_t arena;
    network_timer_t wake, solved;
    plan_job_t *jobs;
    uint32_t job_count;
    struct open_link {
        link_t *link;
        const link_ops_t *ops;
    } * links;
    uint32_t link_count, link_room;
    bool verbose;
};

static int64_t now_ns(const virtual_scheduler_t *s)
{
    return network_now_ns(s->network);
}

/* ---- The world ---- */

static void on_note(void *arg, log_level_t level, const char *event, const log_field_t *fields)
{
    const virtual_scheduler_t *s = arg;

    if (!s->verbose)
        return;
    fprintf(stderr, "%.6f ", (double)now_ns(s) / 1e9);
    log_write(level, event, fields);
}

static bool on_send(void *link, const ProtobufCMessage *frame)
{
    link_to_client(link, frame);
    return true;
}

static bool on_takes_large(void *link)
{
    (void)link;
    return true;
}

static void on_close(void *link, close_reason_t why, const char *text)
{
    (void)why;
    (void)text;
    link_end(link);
}

static void on_cancel(void *link)
{
    link_break(link);
}

static status_t on_solve(void *arg, plan_job_t *jobs, uint32_t count)
{
    virtual_scheduler_t *s = arg;

    if (s->jobs)
        return STATUS_UNAVAILABLE;
    s->jobs = jobs;
    s->job_count = count;
    network_timer_start(s->network, &s->solved, now_ns(s) + SOLVE_NS);
    return STATUS_OK;
}

static void on_solved(void *arg)
{
    virtual_scheduler_t *s = arg;

    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].err = (err_t){0};
        s->jobs[i].status = partition_search(&s->jobs[i].problem, &s->jobs[i].plan, &s->jobs[i].err);
    }
    s->jobs = NULL;
    control_planned(s->control, now_ns(s), false);
    virtual_scheduler_touch(s);
}

/* ---- The turn ---- */

void virtual_scheduler_touch(virtual_scheduler_t *s)
{
    network_timer_start(s->network, &s->wake, control_due_ns(s->control));
}

/* Behind everything else of this moment, as the service's turn of the loop. */
static void on_wake(void *arg)
{
    virtual_scheduler_t *s = arg;

    control_decide(s->control, now_ns(s));
    control_flush(s->control, now_ns(s));
    virtual_scheduler_touch(s);
}

/* ---- Links ---- */

static const link_ops_t gateways, workers;

static void note_link(virtual_scheduler_t *s, link_t *link, const link_ops_t *ops)
{
    if (s->link_count == s->link_room) {
        s->link_room = s->link_room ? 2 * s->link_room : 16;
        s->links = realloc(s->links, s->link_room * sizeof(*s->links));
        if (!s->links)
            abort();
    }
    s->links[s->link_count++] = (struct open_link){link, ops};
}

static void forget_link(virtual_scheduler_t *s, const link_t *link)
{
    uint32_t i = 0;

    while (s->links[i].link != link)
        i++;
    s->links[i] = s->links[--s->link_count];
}

static void gateway_opened(void *arg, link_t *link)
{
    virtual_scheduler_t *s = arg;

    note_link(s, link, &gateways);
    link_set_peer(link, control_gateway_opened(s->control, now_ns(s), link, "gateway"));
    virtual_scheduler_touch(s);
}

static void worker_opened(void *arg, link_t *link)
{
    virtual_scheduler_t *s = arg;

    note_link(s, link, &workers);
    link_set_peer(link, control_worker_opened(s->control, now_ns(s), link, "worker"));
    virtual_scheduler_touch(s);
}

/* NULL: nobody listens to it any more, or it is none. */
static void *unpack(virtual_scheduler_t *s, peer_t *peer, const ProtobufCMessageDescriptor *type,
                    const uint8_t *bytes, size_t len_bytes)
{
    if (!peer || peer->closing)
        return NULL;
    void *frame = protobuf_c_message_unpack(type, &s->arena.allocator, len_bytes, bytes);
    if (!frame)
        control_unreadable(s->control, now_ns(s), peer);
    return frame;
}

static void gateway_message(void *arg, link_t *link, const uint8_t *bytes, size_t len_bytes)
{
    virtual_scheduler_t *s = arg;
    gateway_t *gateway = link_peer(link);
    const Control__GatewayToScheduler *frame = unpack(
        s, gateway ? &gateway->peer : NULL, &control__gateway_to_scheduler__descriptor, bytes, len_bytes);

    if (frame)
        control_gateway_said(s->control, now_ns(s), gateway, frame);
    pb_arena_reset(&s->arena);
    virtual_scheduler_touch(s);
}

static void worker_message(void *arg, link_t *link, const uint8_t *bytes, size_t len_bytes)
{
    virtual_scheduler_t *s = arg;
    worker_t *worker = link_peer(link);
    const Control__WorkerToScheduler *frame =
        unpack(s, worker ? &worker->peer : NULL, &control__worker_to_scheduler__descriptor, bytes, len_bytes);

    if (frame)
        control_worker_said(s->control, now_ns(s), worker, frame);
    pb_arena_reset(&s->arena);
    virtual_scheduler_touch(s);
}

static void gateway_closed(void *arg, link_t *link)
{
    virtual_scheduler_t *s = arg;

    forget_link(s, link);
    if (link_peer(link))
        control_gateway_closed(s->control, now_ns(s), link_peer(link), "UNAVAILABLE", "the link has ended");
    virtual_scheduler_touch(s);
}

static void worker_closed(void *arg, link_t *link)
{
    virtual_scheduler_t *s = arg;

    forget_link(s, link);
    if (link_peer(link))
        control_worker_closed(s->control, now_ns(s), link_peer(link), "UNAVAILABLE", "the link has ended");
    virtual_scheduler_touch(s);
}

static const link_ops_t gateways = {gateway_opened, gateway_message, gateway_closed};
static const link_ops_t workers = {worker_opened, worker_message, worker_closed};

const link_ops_t *virtual_scheduler_gateways(void)
{
    return &gateways;
}

const link_ops_t *virtual_scheduler_workers(void)
{
    return &workers;
}

/* ---- Life ---- */

static status_t start(virtual_scheduler_t *s, err_t *err)
{
    static const world_t world = {.note = on_note,
                                  .send = on_send,
                                  .takes_large = on_takes_large,
                                  .close = on_close,
                                  .cancel = on_cancel,
                                  .solve = on_solve};

    s->metrics = metrics_create("scheduler", err);
    if (!s->metrics)
        return STATUS_NO_MEMORY;
    s->options.epoch++;
    s->options.scheduler_id = s->options.epoch * 1000;
    status_t status = control_create(&s->options, &world, s, s->metrics, now_ns(s), &s->control, err);
    if (status == STATUS_OK)
        virtual_scheduler_touch(s);
    return status;
}

/* The machine is told that its peers have gone; the peers hear of it by themselves. */
static void stop(virtual_scheduler_t *s)
{
    if (!s->control)
        return;
    control_stop(s->control, now_ns(s));
    while (s->link_count > 0) {
        struct open_link open = s->links[0];
        open.ops->closed(s, open.link);
        link_orphan(open.link);
    }
    if (s->jobs) {
        s->jobs = NULL;
        network_timer_start(s->network, &s->solved, NETWORK_NEVER);
        control_planned(s->control, now_ns(s), true);
    }
    s->options.epoch = virtual_scheduler_epoch(s); /* it may have outgrown a peer's */
    control_destroy(s->control);
    metrics_destroy(s->metrics);
    s->control = NULL;
    s->metrics = NULL;
}

status_t virtual_scheduler_create(network_t *network, const control_options_t *options,
                                  virtual_scheduler_t **out, err_t *err)
{
    virtual_scheduler_t *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a scheduler");
    *s = (virtual_scheduler_t){.network = network,
                               .options = *options,
                               .wake = {on_wake, s, NETWORK_NEVER},
                               .solved = {on_solved, s, NETWORK_NEVER},
                               .verbose = getenv("FERMATA_VIRTUAL_LOG")};
    pb_arena_init(&s->arena, ARENA_BYTES_MAX);
    status_t status = start(s, err);
    if (status != STATUS_OK) {
        virtual_scheduler_destroy(s);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

void virtual_scheduler_destroy(virtual_scheduler_t *s)
{
    if (!s)
        return;
    stop(s);
    pb_arena_dispose(&s->arena);
    free(s->links);
    free(s);
}

void virtual_scheduler_restart(virtual_scheduler_t *s)
{
    err_t err;

    stop(s);
    if (start(s, &err) != STATUS_OK) /* it has started with these options before */
        abort();
}

control_t *virtual_scheduler_control(virtual_scheduler_t *s)
{
    return s->control;
}

uint64_t virtual_scheduler_epoch(const virtual_scheduler_t *s)
{
    return s->control->turn.epoch;
}

uint32_t virtual_scheduler_links(const virtual_scheduler_t *s)
{
    return s->link_count;
}
