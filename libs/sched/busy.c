#include "sched/busy.h"

static const int64_t HORIZON_NS = (BUSY_SLOTS - 1) * BUSY_SLOT_NS;

void busy_init(busy_t *busy, int64_t now_ns)
{
    *busy = (busy_t){.taken_ns = now_ns};
}

static double *slot_at(busy_t *busy, int64_t at_ns)
{
    return &busy->work_ns[(uint64_t)(at_ns / BUSY_SLOT_NS) % BUSY_SLOTS];
}

/* When the slot that at_ns is in ends, or end_ns before that. */
static int64_t slot_end_ns(int64_t at_ns, int64_t end_ns)
{
    int64_t next_ns = (at_ns / BUSY_SLOT_NS + 1) * BUSY_SLOT_NS;
    return next_ns < end_ns ? next_ns : end_ns;
}

void busy_add(busy_t *busy, int64_t from_ns, int64_t length_ns, double work_ns)
{
    int64_t begin_ns = from_ns > busy->taken_ns ? from_ns : busy->taken_ns;
    int64_t most_ns = busy->taken_ns + HORIZON_NS - begin_ns;
    length_ns = length_ns < most_ns ? length_ns : most_ns;
    if (length_ns <= 0) {
        busy->at_once_ns += work_ns;
        return;
    }
    for (int64_t at_ns = begin_ns, end_ns = begin_ns + length_ns; at_ns < end_ns;) {
        int64_t next_ns = slot_end_ns(at_ns, end_ns);
        *slot_at(busy, at_ns) += work_ns * (double)(next_ns - at_ns) / (double)length_ns;
        at_ns = next_ns;
    }
}

/* Of a slot that has not yet passed, the part of what is left in it that has. */
static double take_from(double *slot, int64_t from_ns, int64_t to_ns)
{
    int64_t left_ns = slot_end_ns(from_ns, INT64_MAX) - from_ns;
    double taken = *slot * (double)(to_ns - from_ns) / (double)left_ns;
    *slot -= taken;
    return taken;
}

double busy_take(busy_t *busy, int64_t now_ns)
{
    double taken = 0, at_once_ns = busy->at_once_ns;
    busy->at_once_ns = 0;
    int64_t horizon_ns = busy->taken_ns + HORIZON_NS, end_ns = now_ns < horizon_ns ? now_ns : horizon_ns;
    for (int64_t at_ns = busy->taken_ns; at_ns < end_ns;) {
        int64_t next_ns = slot_end_ns(at_ns, end_ns);
        taken += take_from(slot_at(busy, at_ns), at_ns, next_ns);
        at_ns = next_ns;
    }
    if (now_ns > busy->taken_ns)
        busy->taken_ns = now_ns;
    return at_once_ns + taken;
}
