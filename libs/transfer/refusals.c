#include "transfer/refusals.h"

#include "base/clock.h"
#include "base/log.h"
#include "transfer/internal.h"

void refusals_note(refusals_t *refusals, transfer_stats_t *stats, transfer_refusal_t refusal,
                   const struct sockaddr *from, const char *why)
{
    uint64_t now = (uint64_t)clock_now_ns();
    char peer[TRANSFER_ADDRESS_BYTES];

    stats->refused[refusal]++;
    if (refusals->logged_ns && now - refusals->logged_ns < (uint64_t)NS_PER_S) {
        refusals->left_out++;
        return;
    }
    address_text(from, peer);
    log_warn("data_peer_not_proved", LOG_STR("reason", transfer_refusal_name(refusal)), LOG_STR("peer", peer),
             LOG_STR("why", why), LOG_U64("left_out", refusals->left_out));
    *refusals = (refusals_t){.logged_ns = now};
}
