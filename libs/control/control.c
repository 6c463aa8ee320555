#include "control/control.h"

#include "base/clock.h"
#include "control/models/catalogue.h"
#include "control/peers/gateways.h"
#include "control/peers/requests.h"
#include "control/peers/workers.h"
#include "control/tasks/decide.h"
#include "control/upkeep.h"

#include <stdlib.h>

enum {
    SCRATCH_BYTES_MAX = 64 << 20,
    DEVICE_INFLIGHT_DEFAULT = 2, /* one runs while the inputs of the next travel */
};

void control_options_init(control_options_t *options)
{
    *options = (control_options_t){
        .policy = "fermata",
        .tasks_max = 65536,
        .models_max = 1024,
        .devices_max = 1024,
        .batch_max = 256,
        .ping_interval_ns = 100 * NS_PER_MS,
        .peer_timeout_ns = 3 * NS_PER_S,
        .worker_grace_ns = 500 * NS_PER_MS,
        .initial_delay_ns = NS_PER_MS,
        .autoscale_window_ns = 5 * NS_PER_S,
        .plan_interval_ns = 300 * NS_PER_S,
        .plan_limit_ns = 2 * NS_PER_S,
        .plan_moves_max = 16,
    };
}

/* ---- Making ---- */

/* Something happens. What should have happened long before shows that nothing could. */
static void begin(control_t *c, int64_t now_ns)
{
    int64_t due_ns = control_due_ns(c), from_ns = due_ns > c->turn.now_ns ? due_ns : c->turn.now_ns;
    if (due_ns < now_ns && stall_was(&c->turn.stall, from_ns, now_ns))
        note_stall(&c->turn, now_ns - from_ns, "itself");
    c->turn.now_ns = now_ns;
}

static void init_turn(turn_t *turn, const control_options_t *options, const world_t *world, void *arg,
                      metrics_t *metrics)
{
    turn->options = *options;
    turn->world = *world;
    turn->arg = arg;
    turn->metrics = metrics;
    turn->epoch = options->epoch;
    turn->scheduler_id = options->scheduler_id;
    if (turn->options.device_inflight_max == 0)
        turn->options.device_inflight_max = DEVICE_INFLIGHT_DEFAULT;
    pb_arena_init(&turn->scratch, SCRATCH_BYTES_MAX);
    metrics_set(metrics_series(metrics, METRIC_SCHED_EPOCH), (double)turn->epoch);
}

static status_t init_rooms(control_t *c, err_t *err)
{
    turn_t *turn = &c->turn;
    status_t status = subclusters_init(&c->subclusters, turn, err);
    if (status == STATUS_OK)
        status = catalogue_init(&c->models, turn, &c->roster, &c->subclusters, err);
    if (status == STATUS_OK)
        status = tasks_init(&c->tasks, turn, &c->roster, &c->models, err);
    if (status == STATUS_OK)
        status = planner_create(turn, &c->models, &c->planner, err);
    c->peers = (peers_t){.turn = turn,
                         .roster = &c->roster,
                         .models = &c->models,
                         .tasks = &c->tasks,
                         .began_ns = turn->now_ns};
    return status;
}

status_t control_create(const control_options_t *options, const world_t *world, void *arg, metrics_t *metrics,
                        int64_t now_ns, control_t **out, err_t *err)
{
    control_t *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the control plane");
    c->turn.now_ns = now_ns;
    stall_init(&c->turn.stall, now_ns);
    init_turn(&c->turn, options, world, arg, metrics);
    c->started_ns = now_ns;
    c->wake_ns = SCHED_NEVER;
    c->tick_ns = now_ns + options->ping_interval_ns;
    status_t status = init_rooms(c, err);
    if (status != STATUS_OK) {
        control_destroy(c);
        return status;
    }
    *out = c;
    return STATUS_OK;
}

void control_destroy(control_t *c)
{
    if (!c)
        return;
    requests_dispose(&c->peers);
    planner_destroy(c->planner);
    tasks_dispose(&c->tasks);
    catalogue_dispose(&c->models);
    subclusters_dispose(&c->subclusters);
    pb_arena_dispose(&c->turn.scratch);
    free(c);
}

/* ---- What happens ---- */

gateway_t *control_gateway_opened(control_t *c, int64_t now_ns, void *link, const char *address)
{
    begin(c, now_ns);
    return gateway_open(&c->peers, link, address);
}

worker_t *control_worker_opened(control_t *c, int64_t now_ns, void *link, const char *address)
{
    begin(c, now_ns);
    return worker_open(&c->peers, link, address);
}

void control_gateway_said(control_t *c, int64_t now_ns, gateway_t *gateway,
                          const Control__GatewayToScheduler *frame)
{
    begin(c, now_ns);
    gateway_said(&c->peers, gateway, frame);
}

void control_worker_said(control_t *c, int64_t now_ns, worker_t *worker,
                         const Control__WorkerToScheduler *frame)
{
    begin(c, now_ns);
    worker_said(&c->peers, worker, frame);
}

void control_unreadable(control_t *c, int64_t now_ns, peer_t *peer)
{
    begin(c, now_ns);
    peer_unreadable(peer);
}

void control_gateway_closed(control_t *c, int64_t now_ns, gateway_t *gateway, const char *code,
                            const char *text)
{
    begin(c, now_ns);
    gateway_closed(&c->peers, gateway, code, text);
}

void control_worker_closed(control_t *c, int64_t now_ns, worker_t *worker, const char *code, const char *text)
{
    begin(c, now_ns);
    worker_closed(&c->peers, worker, code, text);
}

void control_planned(control_t *c, int64_t now_ns, bool cancelled)
{
    begin(c, now_ns);
    planner_solved(c->planner, cancelled);
}

/* ---- What people ask for ---- */

status_t control_set_policy(control_t *c, int64_t now_ns, const char *subcluster, const char *policy,
                            const char *params, err_t *err)
{
    begin(c, now_ns);
    return subclusters_set_policy(&c->subclusters, subcluster, policy, params, err);
}

status_t control_plan(control_t *c, int64_t now_ns, bool apply, plan_done_fn done, void *ctx)
{
    begin(c, now_ns);
    return planner_ask(c->planner, apply, done, ctx);
}

void control_drain(control_t *c, int64_t now_ns, worker_t *worker, bool drain, bool leave)
{
    begin(c, now_ns);
    worker_drain(&c->peers, worker, drain, leave);
}

void control_stop(control_t *c, int64_t now_ns)
{
    begin(c, now_ns);
    c->turn.stopping = true;
    registry_stop(&c->peers);
    planner_stop(c->planner);
}

/* ---- What follows ---- */

int64_t control_due_ns(const control_t *c)
{
    if (c->turn.dirty)
        return INT64_MIN;
    return c->wake_ns < c->tick_ns ? c->wake_ns : c->tick_ns;
}

void control_decide(control_t *c, int64_t now_ns)
{
    begin(c, now_ns);
    if (c->tick_ns <= now_ns) {
        upkeep_tick(c);
        c->tick_ns = now_ns + c->turn.options.ping_interval_ns;
    }
    if (c->wake_ns <= now_ns && !stall_excuses(&c->turn.stall, c->wake_ns))
        delay_add(&c->lateness, now_ns, now_ns - c->wake_ns);
    c->wake_ns = decide(&c->tasks);
}

void control_flush(control_t *c, int64_t now_ns)
{
    begin(c, now_ns);
    workers_flush(&c->peers);
    gateways_flush(&c->peers);
    pb_arena_reset(&c->turn.scratch);
    c->turn.dirty = false; /* all that was touched meanwhile has just been sent */
}
