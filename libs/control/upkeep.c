#include "control/upkeep.h"

#include "control/models/catalogue.h"
#include "control/models/draining.h"
#include "control/models/placement.h"
#include "control/models/versions.h"
#include "control/tasks/deadline.h"
#include "control/tasks/foretell.h"

/* Of the models that a sub-cluster serves. */
static int64_t shortest_slo_ns(const models_t *models, const subcluster_t *sub)
{
    int64_t shortest_ns = INT64_MAX;
    for (uint32_t m = 0; m < models->count; m++)
        if (models->all[m]->home == sub && models->all[m]->slo_ns > 0 && models->all[m]->slo_ns < shortest_ns)
            shortest_ns = models->all[m]->slo_ns;
    return shortest_ns;
}

/* Of the workers that have a device in a sub-cluster; 0: there is none. */
static delay_bounds_t slowest_way(const subcluster_t *sub)
{
    delay_bounds_t slowest = {0};
    for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++) {
        const device_t *device = sub->devices[gpu];
        if (device && !device->worker->peer.closing)
            slowest = delay_bounds_longer(slowest, device->worker->peer.delay);
    }
    return slowest;
}

static void update_delays(const control_t *c, subcluster_t *sub)
{
    int64_t now_ns = c->turn.now_ns, initial_ns = c->turn.options.initial_delay_ns;
    delay_bounds_t ctrl = slowest_way(sub);
    if (ctrl.most_ns == 0)
        ctrl = (delay_bounds_t){initial_ns, initial_ns, initial_ns};
    subcluster_update_delays(sub, now_ns, ctrl, delay_bound_ns(&c->lateness, now_ns, initial_ns),
                             shortest_slo_ns(&c->models, sub), initial_ns);
}

static uint32_t serving_devices(const subcluster_t *sub)
{
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++)
        count += sub->devices[gpu] && device_serves(sub->devices[gpu]);
    return count;
}

static void tick_subcluster(const control_t *c, subcluster_t *sub)
{
    update_delays(c, sub);
    uint32_t devices = serving_devices(sub);
    subcluster_autoscale(sub, devices);
    shed_tick(&sub->shed, c->turn.now_ns, devices, sub->sums.busy_ns);
}

void upkeep_tick(control_t *c)
{
    registry_tick(&c->peers);
    for (uint32_t i = 0; i < c->subclusters.count; i++)
        tick_subcluster(c, c->subclusters.all[i]);
    planner_tick(c->planner);
    catalogue_tick(&c->models);
    versions_tick(&c->models);
    placement_tick(&c->models);
    deadlines_tick(&c->tasks);
    foretell_tick(&c->tasks);
    draining_tick(&c->models);
    turn_touch(&c->turn);
}
