#include "scheduler/admin/doubts.h"

static uint32_t list_gateways(const control_t *control, doubt_t *rows)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const gateway_t *gateway = control->roster.gateways[i];
        if (gateway && gateway->disbelieved)
            rows[count++] = (doubt_t){.peer = gateway->peer.name,
                                      .model = "",
                                      .device = "",
                                      .state = "disbelieved",
                                      .reason = GATEWAY_DISBELIEVED};
    }
    return count;
}

static doubt_t doubt_of(const worker_t *worker, const standing_t *standing, int64_t now_ns)
{
    bool shunned = standing->state == STANDING_SHUNNED && standing->until_ns > now_ns;
    return (doubt_t){.peer = worker->peer.name,
                     .model = "",
                     .device = "",
                     .state = standing_state_name(standing->state),
                     .reason = ill_text(standing->worst),
                     .strikes = standing->strikes,
                     .for_ns = shunned ? standing->until_ns - now_ns : 0};
}

static uint32_t list_devices(const control_t *control, int64_t now_ns, doubt_t *rows, uint32_t count)
{
    for (uint32_t w = 0; w < PEERS_MAX; w++) {
        const worker_t *worker = control->roster.workers[w];
        for (uint32_t d = 0; worker && d < worker->device_count && count < DOUBTS_MAX; d++) {
            const device_t *device = &worker->devices[d];
            if (device->standing.state == STANDING_TRUSTED)
                continue;
            rows[count] = doubt_of(worker, &device->standing, now_ns);
            rows[count++].device = device->name;
        }
    }
    return count;
}

static uint32_t list_models(const control_t *control, int64_t now_ns, doubt_t *rows, uint32_t count)
{
    for (uint32_t m = 0; m < control->models.count; m++) {
        const model_t *model = control->models.all[m];
        for (const instance_t *i = model->instances; i && count < DOUBTS_MAX; i = i->next) {
            if (i->standing.state == STANDING_TRUSTED)
                continue;
            rows[count] = doubt_of(i->worker, &i->standing, now_ns);
            rows[count++].model = model->name;
        }
    }
    return count;
}

uint32_t doubts_list(const control_t *control, int64_t now_ns, doubt_t *rows)
{
    uint32_t count = list_devices(control, now_ns, rows, list_gateways(control, rows));
    return list_models(control, now_ns, rows, count);
}
