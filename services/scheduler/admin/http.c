#include "scheduler/admin/http.h"

#include "control/models/placement.h"
#include "scheduler/admin/state.h"
#include "scheduler/shell.h"

enum { STATE_BYTES_MAX = 16 << 20 };

static void answer(http_request_t *request, strbuf_t *body, const char *type)
{
    err_t err = {0};
    if (strbuf_status(body, &err) == STATUS_OK)
        http_respond_copy(request, 200, type, NULL, body->data, body->len_bytes);
    else
        http_respond_err(request, &err);
    strbuf_dispose(body);
}

static void on_metrics(http_request_t *request, void *user)
{
    scheduler_t *s = user;
    strbuf_t body;
    strbuf_init(&body, METRICS_TEXT_MAX_BYTES);
    metrics_write(s->metrics, &body);
    answer(request, &body, METRICS_CONTENT_TYPE);
}

static void on_health(http_request_t *request, void *user)
{
    const scheduler_t *s = user;
    if (s->stopping)
        http_respond_copy(request, 503, "text/plain", NULL, "stopping\n", 9);
    else
        http_respond_copy(request, 200, "text/plain", NULL, "ok\n", 3);
}

static void on_state(http_request_t *request, void *user)
{
    const scheduler_t *s = user;
    strbuf_t body;
    strbuf_init(&body, STATE_BYTES_MAX);
    state_json(s->control, loop_now_ns(), &body);
    answer(request, &body, "application/json");
}

static void collect_subcluster(const control_t *c, const subcluster_t *sub)
{
    uint32_t busy = 0, idle = 0, models = 0;
    for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++) {
        busy += sub->devices[gpu] && sub->devices[gpu]->inflight > 0;
        idle += sub->devices[gpu] && sub->devices[gpu]->inflight == 0;
    }
    for (uint32_t m = 0; m < c->models.count; m++)
        models += c->models.all[m]->home == sub;
    metrics_set(sub->metric.busy, busy);
    metrics_set(sub->metric.idle, idle);
    metrics_set(sub->metric.models, models);
    metrics_set(sub->metric.desired, sub->autoscale.desired);
    metrics_set(sub->metric.bad_rate, sub->autoscale.state.bad_rate);
    metrics_set(sub->metric.idle_fraction, 1 - sub->autoscale.busy_fraction);
    metrics_set(sub->metric.delay_wake, (double)sub->delays.sched.wake_ns);
    metrics_set(sub->metric.delay_ctrl, (double)sub->delays.sched.ctrl_ns);
    metrics_set(sub->metric.delay_data, (double)(sub->delays.sched.fixed_ns + sub->delays.sched.data_ns));
}

static void collect(void *arg)
{
    const scheduler_t *s = arg;
    const control_t *c = s->control;
    for (uint32_t i = 0; i < c->subclusters.count; i++)
        collect_subcluster(c, c->subclusters.all[i]);
    metrics_set(s->metric.gateways, roster_gateways(&c->roster));
    metrics_set(s->metric.workers, roster_workers(&c->roster));
    for (uint32_t m = 0; m < c->models.count; m++) {
        const model_t *model = c->models.all[m];
        sched_model_stats_t stats;
        sched_scatter_t scatter;
        placement_stats(model, &stats);
        placement_scatter(model, &scatter);
        metrics_set(model->metrics.queue, stats.queued);
        metrics_set(model->metrics.took_mean, scatter.mean);
        metrics_set(model->metrics.took_guard, scatter.guard);
    }
}

status_t http_start(scheduler_t *s, err_t *err)
{
    static const http_handler_ops_t metrics = {.on_request = on_metrics};
    static const http_handler_ops_t health = {.on_request = on_health};
    static const http_handler_ops_t state = {.on_request = on_state};
    const http_route_t routes[] = {
        {HTTP_METHOD_GET, "/metrics", &metrics, s},
        {HTTP_METHOD_GET, "/healthz", &health, s},
        {HTTP_METHOD_GET, "/state", &state, s},
    };
    http_server_config_t config = {
        .listen = s->options.http_address, .tls = s->options.tls, .connections_max = 256};
    status_t status = metrics_on_collect(s->metrics, collect, s);
    if (status != STATUS_OK)
        return err_set(err, status, "metrics: too many collectors");
    return http_server_create(loop_uv(s->loop), &config, routes, sizeof routes / sizeof routes[0], &s->http,
                              err);
}
