#include "sched/inside.h"

/* Until it has gone through beside what just leaves room for another: it is slowed, and a sixteenth is kept
 * back. Where it finds no room that is time to wait for some. 0: it keeps all of a GPU busy. */
static int64_t beside_ns(const shard_t *shard, uint32_t batch)
{
    if (shard->inside.busy_fixed == 0 && shard->inside.busy_row == 0)
        return 0;
    int64_t lead_ns = shard_lead_ns(shard, batch);
    int64_t left_ns = lead_ns + shard_expected_ns(shard, batch);
    uint32_t filled = inside_busy(shard, batch) + INSIDE_ROOM_LEAST;
    if (filled > SCHED_WHOLE)
        left_ns = inside_part_ns(left_ns, filled);
    return left_ns + left_ns / INSIDE_KEPT_BACK - lead_ns;
}

bool inside_may_join(const shard_t *shard, const inside_join_t *join, uint32_t count, int64_t deadline_ns)
{
    int64_t wait_ns = join->inside->comp_wait_ns;
    if (count == 0 || count < inside_least_joining(join->rows, join->part) ||
        (wait_ns && join->age_ns > wait_ns))
        return false;
    int64_t together_ns = inside_together_ns(shard, join, count);
    int64_t next_ns = join->alone_ns + shard_expected_ns(shard, count);
    return next_ns > deadline_ns ||
           (next_ns - together_ns) * count > (together_ns - join->alone_ns) * join->rows;
}

/* Until the fewest rows that are worth it have caught up after its first stage, and all have gone through the
 * others. They come in the middle of that stage, and nobody knows their deadlines yet. 0: no number of rows is. */
static int64_t stretched_ns(const shard_t *shard, uint32_t batch)
{
    if (shard->inside.stages < 2 || batch >= shard->limit)
        return 0;
    int64_t latency_ns = shard_expected_ns(shard, batch);
    inside_join_t join = {.inside = &shard->inside,
                          .rows = batch,
                          .part = shard->inside.until[0],
                          .border_ns = inside_part_ns(latency_ns, shard->inside.until[0]),
                          .alone_ns = latency_ns};
    join.age_ns = join.border_ns / 2;
    uint32_t count = inside_least_joining(batch, join.part);
    for (count += count == 0; batch + count <= shard->limit; count *= 2) {
        if (inside_may_join(shard, &join, count, INT64_MAX))
            return inside_together_ns(shard, &join, count);
    }
    return 0;
}

int64_t inside_hold_with_modes_ns(const shard_t *shard, uint32_t batch)
{
    int64_t hold_ns = profile_latency_ns(shard->guard, batch + 1);
    int64_t reserve_ns = shard_reserve_ns(shard, batch + 1);
    int64_t beside = shard->gpus & SHARD_GPUS_SHARE ? beside_ns(shard, batch + 1) + reserve_ns : 0;
    int64_t stretched = shard->gpus & SHARD_GPUS_STRETCH ? stretched_ns(shard, batch) + reserve_ns : 0;
    hold_ns = beside > hold_ns ? beside : hold_ns;
    return stretched > hold_ns ? stretched : hold_ns;
}
