#include "transfer/refusals.h"

#include "base/log.h"
#include "transfer/internal.h"

void refusals_note(transfer_stats_t *stats, transfer_refusal_t refusal, const struct sockaddr *from,
                   const char *why)
{
    char peer[TRANSFER_ADDRESS_BYTES];

    stats->refused[refusal]++;
    address_text(from, peer);
    log_warn_limited("data_peer_not_proved", LOG_STR("reason", transfer_refusal_name(refusal)),
                     LOG_STR("peer", peer), LOG_STR("why", why));
}

void refusals_crowded(const struct sockaddr *of, uint32_t connections)
{
    char peer[TRANSFER_ADDRESS_BYTES];

    address_text(of, peer);
    log_warn_limited("data_connections_full", LOG_U64("connections", connections),
                     LOG_STR("told_to_leave", peer));
}
