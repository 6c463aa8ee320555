#include "scheduler/admin/state.h"

#include "control/models/placement.h"
#include "control/models/versions.h"
#include "inputs_land.h"
#include "scheduler/admin/doubts.h"

#include <inttypes.h>
#include <math.h>

const char *device_status(const device_t *device)
{
    if (device->failed)
        return "failed";
    if (device->draining || device->worker->draining)
        return "draining";
    return device->inflight > 0 ? "busy" : "ready";
}

static void put_text(strbuf_t *out, const char *key, const char *value)
{
    strbuf_printf(out, "\"%s\":", key);
    strbuf_json_string(out, value);
    strbuf_putc(out, ',');
}

/* Ids are 64 random bits; as numbers they would lose digits in JavaScript. */
static void put_id(strbuf_t *out, const char *key, uint64_t value)
{
    strbuf_printf(out, "\"%s\":\"%016" PRIx64 "\",", key, value);
}

static void put_peer(strbuf_t *out, const peer_t *peer)
{
    strbuf_printf(out, "\"index\":%" PRIu32 ",", peer->index);
    put_text(out, "name", peer->name);
    put_text(out, "address", peer->address);
    strbuf_printf(out, "\"delay_us\":%.1f,", (double)peer->delay.most_ns / 1e3);
}

static void put_gateways(const control_t *c, strbuf_t *out)
{
    const char *comma = "";
    strbuf_puts(out, "\"gateways\":[");
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const gateway_t *gateway = c->roster.gateways[i];
        if (!gateway)
            continue;
        strbuf_printf(out, "%s{", comma);
        comma = ",";
        put_peer(out, &gateway->peer);
        put_text(out, "data_address", gateway->data_address);
        strbuf_printf(out, "\"tasks_now\":%" PRIu32 ",\"tasks_total\":%" PRIu64 "}", gateway->by_id.len,
                      gateway->tasks_total);
    }
    strbuf_puts(out, "],");
}

static void put_devices(const worker_t *worker, strbuf_t *out)
{
    strbuf_puts(out, "\"devices\":[");
    for (uint32_t i = 0; i < worker->device_count; i++) {
        const device_t *device = &worker->devices[i];
        strbuf_printf(out, "%s{\"index\":%" PRIu32 ",\"gpu\":%" PRIu32 ",", i > 0 ? "," : "", i, device->gpu);
        put_text(out, "name", device->name);
        put_text(out, "kind", device->kind);
        put_text(out, "subcluster", device->subcluster->name);
        strbuf_printf(out, "\"status\":\"%s\",\"batches_in_flight\":%" PRIu32 "}", device_status(device),
                      device->inflight);
    }
    strbuf_puts(out, "]");
}

static void put_workers(const control_t *c, strbuf_t *out)
{
    const char *comma = "";
    strbuf_puts(out, "\"workers\":[");
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const worker_t *worker = c->roster.workers[i];
        if (!worker)
            continue;
        strbuf_printf(out, "%s{", comma);
        comma = ",";
        put_peer(out, &worker->peer);
        strbuf_printf(out, "\"draining\":%s,\"batches_total\":%" PRIu64 ",",
                      worker->draining ? "true" : "false", worker->batches_total);
        strbuf_printf(
            out,
            "\"data\":{\"tcp\":%" PRIu32 ",\"shm\":%" PRIu32 ",\"rdma\":%" PRIu32 ",\"inputs_land\":\"%s\"},",
            worker->data_tcp, worker->data_shm, worker->data_rdma, landing_name(worker->inputs_land));
        put_devices(worker, out);
        strbuf_putc(out, '}');
    }
    strbuf_puts(out, "],");
}

/* With batches up to 1, 2, 4, … and the largest, as the worker reports it. */
static void put_memory(const Control__ModelReport *report, strbuf_t *out)
{
    size_t most = report ? report->n_batch_memory_bytes : 0;
    strbuf_printf(out, "\"memory_bytes\":%" PRIu64 ",\"batch_memory_bytes\":{",
                  report ? report->memory_bytes : 0);
    for (size_t b = 1; b <= most; b = b < most && b * 2 > most ? most : b * 2)
        strbuf_printf(out, "%s\"%zu\":%" PRIu64, b > 1 ? "," : "", b, report->batch_memory_bytes[b - 1]);
    strbuf_puts(out, "},");
}

/* Of the worker whose description gateways see. */
static void put_profile(const Control__ModelReport *report, strbuf_t *out)
{
    const Control__Latency *latency = report ? report->latency : NULL;
    strbuf_printf(
        out, "\"profile\":{\"measured\":%" PRIu32 ",\"up_to\":%" PRIu32 ",\"spread\":%.3f,\"doubt\":%.3f},",
        latency ? latency->measured : 0, latency ? latency->measured_up_to : 0,
        latency && isfinite(latency->spread) ? latency->spread : 0.0,
        latency && isfinite(latency->doubt) ? latency->doubt : 0.0);
}

static void put_model(const model_t *model, strbuf_t *out)
{
    sched_model_stats_t stats;
    sched_scatter_t scatter;
    placement_stats(model, &stats);
    placement_scatter(model, &scatter);
    strbuf_printf(out, "{\"id\":%" PRIu32 ",", model->id);
    put_text(out, "name", model->name);
    strbuf_printf(out, "\"version\":%" PRId64 ",\"ready\":%s,", model->version,
                  model->ready ? "true" : "false");
    put_text(out, "reason", model->reason);
    put_text(out, "trial", version_state_name(model->trial.state));
    put_text(out, "mode", model->canonical ? model->canonical->report->mode : "");
    put_text(out, "engine", model->canonical ? model->canonical->report->engine : "");
    put_text(out, "engines", model->canonical ? model->canonical->report->engines : "");
    put_text(out, "mode_reason", model->canonical ? model->canonical->report->mode_reason : "");
    strbuf_printf(out, "\"stages\":%" PRIu32 ",\"exit_points\":%" PRIu32 ",",
                  model->canonical ? model->canonical->report->stages : 0,
                  model->canonical ? model->canonical->report->exit_points : 0);
    put_text(out, "subcluster", model->home ? model->home->name : "");
    strbuf_printf(out, "\"workers\":%" PRIu32 ",\"max_batch\":%" PRIu32 ",\"slo_ms\":%.3f,",
                  model->ready_workers, model->profile->max_batch, (double)model->slo_ns / 1e6);
    strbuf_printf(out, "\"latency_ms\":{\"one\":%.4f,\"most\":%.4f},",
                  model->home ? (double)profile_latency_ns(model->profile, 1) / 1e6 : 0.0,
                  model->home ? (double)profile_latency_ns(model->profile, model->profile->max_batch) / 1e6
                              : 0.0);
    put_profile(model->canonical ? model->canonical->report : NULL, out);
    strbuf_printf(out, "\"scatter\":{\"mean\":%.4f,\"guard\":%.4f},", scatter.mean, scatter.guard);
    put_memory(model->canonical ? model->canonical->report : NULL, out);
    strbuf_printf(out,
                  "\"queued\":%" PRIu32 ",\"in_flight\":%" PRIu32 ",\"granted\":%" PRIu64
                  ",\"batches\":%" PRIu64 ",\"done\":%" PRIu64 ",\"dropped\":%" PRIu64
                  ",\"infeasible\":%" PRIu64 "}",
                  stats.queued, stats.in_flight, stats.granted, stats.batches, model->done, model->dropped,
                  model->infeasible);
}

static void put_subcluster(const subcluster_t *sub, strbuf_t *out)
{
    const subcluster_delays_t *delays = &sub->delays;
    strbuf_putc(out, '{');
    put_text(out, "name", sub->name);
    put_text(out, "device_class", sub->device_class);
    put_text(out, "policy", subcluster_policy(sub));
    strbuf_printf(out, "\"devices\":%" PRIu32 ",\"serving\":%" PRIu32 ",\"desired\":%" PRIu32 ",",
                  sub->device_count, sub->autoscale.devices, sub->autoscale.desired);
    strbuf_printf(
        out, "\"requests\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"bad_rate\":%.4f,\"busy_fraction\":%.4f,",
        sub->sums.requests, sub->sums.bad, sub->autoscale.state.bad_rate, sub->autoscale.busy_fraction);
    strbuf_printf(out, "\"refused_part\":%.4f,", sub->shed.part);
    strbuf_printf(
        out,
        "\"delays_us\":{\"ctrl\":%.1f,\"ctrl_rare\":%.1f,\"fetch_fixed\":%.1f,\"fetch_fixed_rare\":%.1f,"
        "\"fetch_per_task\":%.2f,\"push\":%.1f,\"wake\":%.1f}}",
        (double)delays->sched.ctrl_ns / 1e3, (double)delays->sched.ctrl_rare_ns / 1e3,
        (double)delays->sched.fixed_ns / 1e3, (double)delays->sched.fixed_rare_ns / 1e3,
        (double)delays->sched.data_ns / 1e3, (double)delays->push_bound_ns / 1e3,
        (double)delays->sched.wake_ns / 1e3);
}

static void put_subclusters(const control_t *c, strbuf_t *out)
{
    strbuf_puts(out, "\"subclusters\":[");
    for (uint32_t i = 0; i < c->subclusters.count; i++) {
        strbuf_puts(out, i > 0 ? "," : "");
        put_subcluster(c->subclusters.all[i], out);
    }
    strbuf_puts(out, "],");
}

static void put_plan(const control_t *c, strbuf_t *out)
{
    const plan_report_t *plan = planner_last(c->planner);
    if (plan) {
        strbuf_printf(out,
                      "\"plan\":{\"number\":%" PRIu64 ",\"applied\":%s,\"moves\":%" PRIu32
                      ",\"imbalance_before\":%.4f,\"imbalance_after\":%.4f,\"solve_ms\":%.1f,",
                      plan->number, plan->apply ? "true" : "false", plan->moves, plan->imbalance_before,
                      plan->imbalance_after, (double)plan->solve_ns / 1e6);
        put_text(out, "note", plan->note);
        strbuf_puts(out, "\"left_out\":{");
        const char *comma = "";
        for (uint32_t r = 0; r < plan->row_count; r++) {
            if (plan->rows[r].note[0] == '\0')
                continue;
            strbuf_puts(out, comma);
            strbuf_json_string(out, plan->rows[r].model->name);
            strbuf_putc(out, ':');
            strbuf_json_string(out, plan->rows[r].note);
            comma = ",";
        }
        strbuf_puts(out, "}},");
    }
    strbuf_printf(out, "\"moving\":%" PRIu32 ",", planner_moving(c->planner));
}

static void put_doubts(const control_t *c, int64_t now_ns, strbuf_t *out)
{
    doubt_t rows[DOUBTS_MAX];
    uint32_t count = doubts_list(c, now_ns, rows);
    strbuf_puts(out, "\"doubts\":[");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_puts(out, i > 0 ? ",{" : "{");
        put_text(out, "peer", rows[i].peer);
        put_text(out, "model", rows[i].model);
        put_text(out, "device", rows[i].device);
        put_text(out, "state", rows[i].state);
        put_text(out, "reason", rows[i].reason);
        strbuf_printf(out, "\"strikes\":%" PRIu32 ",\"for_ms\":%.1f}", rows[i].strikes,
                      (double)rows[i].for_ns / 1e6);
    }
    strbuf_puts(out, "],");
}

void state_json(const control_t *c, int64_t now_ns, strbuf_t *out)
{
    strbuf_printf(out, "{\"epoch\":%" PRIu64 ",", c->turn.epoch);
    put_id(out, "scheduler_id", c->turn.scheduler_id);
    strbuf_printf(out, "\"uptime_s\":%.3f,", (double)(now_ns - c->started_ns) / 1e9);
    put_text(out, "policy", subclusters_policy(&c->subclusters));
    strbuf_puts(out, "\"policies\":[");
    for (uint32_t i = 0; sched_policy_name(i); i++) {
        strbuf_puts(out, i > 0 ? "," : "");
        strbuf_json_string(out, sched_policy_name(i));
    }
    strbuf_puts(out, "],");
    put_subclusters(c, out);
    put_plan(c, out);
    put_gateways(c, out);
    put_workers(c, out);
    put_doubts(c, now_ns, out);
    strbuf_puts(out, "\"models\":[");
    const char *comma = "";
    for (uint32_t m = 0; m < c->models.count; m++) {
        if (c->models.all[m]->forgotten)
            continue;
        strbuf_puts(out, comma);
        put_model(c->models.all[m], out);
        comma = ",";
    }
    strbuf_puts(out, "]}\n");
}
