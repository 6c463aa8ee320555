#include "control/cluster/stall.h"

static bool is_rare(int64_t ran_ns, int64_t stood_ns)
{
    return ran_ns >= STALL_APART_NS && ran_ns >= 2 * stood_ns;
}

void stall_init(stall_t *stall, int64_t now_ns)
{
    *stall = (stall_t){.ended_ns = now_ns, .excused_ns = INT64_MIN, .asked_ns = INT64_MAX};
}

bool stall_was(stall_t *stall, int64_t from_ns, int64_t to_ns)
{
    int64_t stood_ns = to_ns - from_ns, ran_ns = from_ns - stall->ended_ns;
    if (stood_ns <= STALL_LEAST_NS)
        return false;
    stall->ended_ns = to_ns;
    bool same = from_ns < stall->excused_ns; /* seen from another side */
    bool rare = is_rare(ran_ns, stood_ns);
    if (same || rare)
        stall->excused_ns = to_ns;
    return rare && !same;
}

void stall_asked(stall_t *stall, int64_t now_ns)
{
    if (stall->asked_ns == INT64_MAX)
        stall->asked_ns = now_ns;
}

bool stall_heard(stall_t *stall, int64_t now_ns)
{
    int64_t asked_ns = stall->asked_ns;
    stall->asked_ns = INT64_MAX;
    return asked_ns != INT64_MAX && stall_was(stall, asked_ns, now_ns);
}
