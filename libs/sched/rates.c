#include "sched/rates.h"

#include <math.h>

static uint64_t all_dropped(const shard_t *shard)
{
    uint64_t sum = 0;
    for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
        sum += shard->counts->stats.dropped[r];
    return sum;
}

static void remember(rates_t *rates, const shard_t *shard)
{
    rates->submitted_seen = shard->counts->stats.submitted;
    rates->dropped_seen = all_dropped(shard);
    rates->expired_seen = shard->counts->stats.dropped[SCHED_DROP_EXPIRED];
    rates->spells_seen = shard->counts->spells;
    rates->followers_seen = shard->counts->followers;
    rates->budget_seen_ns = shard->counts->budget_ns;
    rates->granted_seen = shard->counts->stats.granted;
    rates->batches_seen = shard->counts->stats.batches;
    rates->complete_seen = shard->counts->complete;
    rates->work_seen_ns = shard->counts->stats.busy_ns;
    rates->silence_seen_ns = shard->counts->silence_ns;
    rates->silence_expected_seen_ns = shard->counts->silence_expected_ns;
}

void rates_update(rates_t *rates, const shard_t *shard, double dt_ms, double rate_tau_ms, double loss_tau_ms)
{
    if (!rates->started) { /* what came before this policy does not count */
        rates->started = true;
        remember(rates, shard);
        return;
    }
    double keep = exp(-dt_ms / rate_tau_ms), keep_loss = exp(-dt_ms / loss_tau_ms);
    double arrived = (double)(shard->counts->stats.submitted - rates->submitted_seen);
    rates->before_last = rates->last;
    rates->before_last_ms = rates->last_ms;
    rates->last = arrived;
    rates->last_ms = dt_ms;
    rates->arrivals = rates->arrivals * keep + arrived;
    rates->time_ms = rates->time_ms * keep + dt_ms;
    rates->requests = rates->requests * keep_loss + arrived;
    rates->last_dropped = (double)(all_dropped(shard) - rates->dropped_seen);
    rates->dropped = rates->dropped * keep_loss + rates->last_dropped;
    rates->expired = rates->expired * keep_loss +
                     (double)(shard->counts->stats.dropped[SCHED_DROP_EXPIRED] - rates->expired_seen);
    rates->spells = rates->spells * keep_loss + (double)(shard->counts->spells - rates->spells_seen);
    rates->followers =
        rates->followers * keep_loss + (double)(shard->counts->followers - rates->followers_seen);
    rates->granted = rates->granted * keep + (double)(shard->counts->stats.granted - rates->granted_seen);
    rates->last_batches = (double)(shard->counts->stats.batches - rates->batches_seen);
    rates->last_work_ns = (double)(int64_t)(shard->counts->stats.busy_ns - rates->work_seen_ns);
    rates->batches = rates->batches * keep + rates->last_batches;
    rates->complete = rates->complete * keep + (double)(shard->counts->complete - rates->complete_seen);
    rates->silence_ns = rates->silence_ns * keep + shard->counts->silence_ns - rates->silence_seen_ns;
    rates->silence_expected_ns = rates->silence_expected_ns * keep + shard->counts->silence_expected_ns -
                                 rates->silence_expected_seen_ns;
    if (arrived > 0) {
        double budget_ms =
            (double)(int64_t)(shard->counts->budget_ns - rates->budget_seen_ns) / arrived / 1e6;
        double weight =
            rates->budget_ms > 0 ? arrived / rates->arrivals : 1; /* as the arrivals are weighted */
        rates->budget_ms += (budget_ms - rates->budget_ms) * weight;
    }
    remember(rates, shard);
}
