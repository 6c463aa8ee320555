#include "control/cluster/peer.h"

static const char *const nonsense_names[NONSENSE_KINDS] = {
    [NONSENSE_GARBAGE] = "unreadable_message",
    [NONSENSE_EPOCH] = "stale_epoch",
    [NONSENSE_ARRAYS] = "unequal_arrays",
    [NONSENSE_TIME] = "impossible_time",
    [NONSENSE_DUPLICATE] = "duplicate_task",
    [NONSENSE_BATCH] = "unknown_batch",
    [NONSENSE_DEVICE] = "unknown_device",
    [NONSENSE_MODEL] = "bad_model",
    [NONSENSE_HELLO] = "bad_hello",
    [NONSENSE_FLOOD] = "flood",
};

void peer_complain(peer_t *peer, nonsense_t kind, const char *detail)
{
    uint32_t bit = UINT32_C(1) << kind;
    if (peer->complained & bit)
        return;
    peer->complained |= bit;
    note_warn(peer->turn, "peer_nonsense", LOG_STR("peer", peer->name), LOG_STR("what", nonsense_names[kind]),
              LOG_STR("detail", detail));
}

int64_t peer_duration(peer_t *peer, int64_t value_ns)
{
    if (value_ns >= 0 && value_ns <= DURATION_MOST_NS)
        return value_ns;
    peer_complain(peer, NONSENSE_TIME, value_ns < 0 ? "negative duration" : "duration over an hour");
    return value_ns < 0 ? 0 : DURATION_MOST_NS;
}

void peer_close(peer_t *peer, close_reason_t why, const char *text)
{
    if (peer->closing)
        return;
    peer->closing = true;
    peer->turn->world.close(peer->link, why, text);
}

void peer_cancel(peer_t *peer)
{
    peer->closing = true;
    peer->turn->world.cancel(peer->link);
}

void peer_send(peer_t *peer, const ProtobufCMessage *frame)
{
    if (peer->closing)
        return;
    if (peer->turn->world.send(peer->link, frame))
        return; /* sent, or closed already: its end is under way */
    note_warn(peer->turn, "peer_stuck", LOG_STR("peer", peer->name));
    peer_cancel(peer);
}
