/* The control plane on a virtual network: it does its work, alike from the same seed. */
#include "scenario.h"

#include "base/clock.h"

#include <criterion/criterion.h>

static virtual_tally_t run(uint64_t seed, bool faults)
{
    scenario_t s;
    virtual_cluster_t *cluster;
    err_t err = {0};

    scenario_make(&s, seed, faults);
    cr_assert_eq(virtual_cluster_create(&s.options, s.requests, SCENARIO_REQUESTS, s.faults, s.fault_count,
                                        &cluster, &err),
                 STATUS_OK, "%s", err.text);
    virtual_cluster_run(cluster, s.end_ns);
    virtual_tally_t tally = *virtual_cluster_tally(cluster);
    virtual_cluster_destroy(cluster);
    return tally;
}

Test(virtual, the_same_seed_sends_the_same_messages)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        cr_expect_eq(run(seed, true).digest, run(seed, true).digest, "seed %llu", (unsigned long long)seed);
    cr_expect_neq(run(1, true).digest, run(2, true).digest);
}

Test(virtual, where_nothing_breaks_everybody_is_answered)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        virtual_tally_t tally = run(seed, false);
        cr_expect_null(tally.violation, "seed %llu: %s", (unsigned long long)seed, tally.violation);
        uint64_t refused = tally.ends[TASK_DROPPED] + tally.ends[TASK_REFUSED];
        cr_expect_eq(tally.ends[TASK_GOOD] + refused, SCENARIO_REQUESTS,
                     "seed %llu: %llu good, %llu dropped or refused, %llu expired", (unsigned long long)seed,
                     (unsigned long long)tally.ends[TASK_GOOD], (unsigned long long)refused,
                     (unsigned long long)tally.ends[TASK_EXPIRED]);
        cr_expect_gt(tally.ends[TASK_GOOD], 0);
    }
}
