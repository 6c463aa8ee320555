#include "sched/inside.h"

/* Until it has gone through beside what just leaves room for another: it is slowed, and a sixteenth is kept
 * back. Where it finds no room that is time to wait for some. 0: it keeps all of a GPU busy. */
static int64_t beside_ns(const shard_t *shard, uint32_t batch)
{
    if (shard->inside.busy_fixed == 0 && shard->inside.busy_row == 0)
        return 0;
    int64_t lead_ns = shard_lead_ns(shard, batch);
    int64_t left_ns = lead_ns + profile_latency_ns(shard->profile, batch);
    uint32_t filled = inside_busy(shard, batch) + INSIDE_ROOM_LEAST;
    if (filled > SCHED_WHOLE)
        left_ns = inside_part_ns(left_ns, filled);
    return left_ns + left_ns / INSIDE_KEPT_BACK - lead_ns;
}

/* Until the fewest rows that may join have caught up after its first stage, and all have gone through the others. */
static int64_t stretched_ns(const shard_t *shard, uint32_t batch)
{
    uint32_t part = shard->inside.until[0], joining = inside_least_joining(batch, part);
    if (shard->inside.stages < 2 || batch + joining > shard->limit)
        return 0;
    return inside_part_ns(profile_latency_ns(shard->profile, batch), part) +
           inside_catch_up_ns(shard, part, joining) + inside_rest_ns(shard, part, batch + joining);
}

int64_t inside_hold_with_modes_ns(const shard_t *shard, uint32_t batch)
{
    int64_t hold_ns = profile_latency_ns(shard->profile, batch + 1);
    int64_t beside = shard->gpus & SHARD_GPUS_SHARE ? beside_ns(shard, batch + 1) : 0;
    int64_t stretched = shard->gpus & SHARD_GPUS_STRETCH ? stretched_ns(shard, batch) : 0;
    hold_ns = beside > hold_ns ? beside : hold_ns;
    return stretched > hold_ns ? stretched : hold_ns;
}
