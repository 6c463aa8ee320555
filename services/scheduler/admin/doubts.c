#include "scheduler/admin/doubts.h"

static uint32_t list_gateways(const control_t *control, doubt_t *rows)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const gateway_t *gateway = control->roster.gateways[i];
        if (gateway && gateway->disbelieved)
            rows[count++] = (doubt_t){.peer = gateway->peer.name,
                                      .model = "",
                                      .state = "disbelieved",
                                      .reason = GATEWAY_DISBELIEVED};
    }
    return count;
}

uint32_t doubts_list(const control_t *control, int64_t now_ns, doubt_t *rows)
{
    uint32_t count = list_gateways(control, rows);
    for (uint32_t m = 0; m < control->models.count; m++) {
        const model_t *model = control->models.all[m];
        for (const instance_t *i = model->instances; i && count < DOUBTS_MAX; i = i->next) {
            const standing_t *standing = &i->standing;
            if (standing->state == STANDING_TRUSTED)
                continue;
            bool shunned = standing->state == STANDING_SHUNNED && standing->until_ns > now_ns;
            rows[count++] = (doubt_t){.peer = i->worker->peer.name,
                                      .model = model->name,
                                      .state = standing_state_name(standing->state),
                                      .reason = ill_text(standing->worst),
                                      .strikes = standing->strikes,
                                      .for_ns = shunned ? standing->until_ns - now_ns : 0};
        }
    }
    return count;
}
