/*
 * What all rooms of the control plane share: the time of what is happening, who they belong to, and whom they tell.
 */
#ifndef CONTROL_CLUSTER_TURN_H
#define CONTROL_CLUSTER_TURN_H

#include "control/cluster/stall.h"
#include "control/cluster/world.h"
#include "control/options.h"
#include "metrics/metrics.h"
#include "pb_arena.h"

typedef struct {
    int64_t now_ns; /* of the event that is being handled; time stands still within one */
    stall_t stall;
    bool dirty; /* something happened: there may be something to decide or to send */
    bool stopping;
    uint64_t epoch, scheduler_id;
    pb_arena_t scratch; /* of what is sent in this turn */
    metrics_t *metrics;
    control_options_t options;
    world_t world;
    void *arg; /* of the world */
} turn_t;

/* There is something to decide or to send at the end of this turn. */
static inline void turn_touch(turn_t *turn)
{
    turn->dirty = true;
}

#define note_at(turn, level, event, ...)          \
    (turn)->world.note((turn)->arg, level, event, \
                       (const log_field_t[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_FIELD_END}})
/* Once for each time that the host stood still. */
#define note_stall(turn, stood_ns, seen_by) \
    note_warn(turn, "host_stood_still", LOG_MS("for_ms", stood_ns), LOG_STR("seen_by", seen_by))
#define note_info(turn, event, ...) note_at(turn, LOG_INFO, event, __VA_ARGS__)
#define note_warn(turn, event, ...) note_at(turn, LOG_WARN, event, __VA_ARGS__)
#define note_error(turn, event, ...) note_at(turn, LOG_ERROR, event, __VA_ARGS__)

#endif
