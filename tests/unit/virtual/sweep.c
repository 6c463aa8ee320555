/*
 * Ten thousand small clusters (CASES), each with what its seed makes break: links, processes, drains, loads, plans, another
 * policy, the scheduler itself. FERMATA_SEED=N runs that one alone, FERMATA_SEEDS=N so many from 1 on; FERMATA_VIRTUAL_LOG=1
 * shows what the control plane notes.
 */
#include "scenario.h"

#include "base/clock.h"
#include "support/cases.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { SEEDS = CASES(10000), FAILURES_MOST = 10 };

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* NULL: all was as it should be. */
static const char *play(uint64_t seed, virtual_tally_t *tally)
{
    static scenario_t s;
    virtual_cluster_t *cluster;
    err_t err = {0};

    scenario_make(&s, seed, true);
    cr_assert_eq(virtual_cluster_create(&s.options, s.requests, SCENARIO_REQUESTS, s.faults, s.fault_count,
                                        &cluster, &err),
                 STATUS_OK, "%s", err.text);
    virtual_cluster_run(cluster, s.end_ns);
    *tally = *virtual_cluster_tally(cluster);
    const char *wrong = tally->violation ? tally->violation : virtual_cluster_leftover(cluster);
    virtual_cluster_destroy(cluster);
    return wrong;
}

Test(virtual_sweep, whatever_breaks_each_task_ends_once_and_nothing_is_left, .timeout = 600)
{
    uint64_t one = number_of("FERMATA_SEED", 0), last = one ? one : number_of("FERMATA_SEEDS", SEEDS);
    uint64_t ends[TASK_ENDS] = {0};
    uint32_t failures = 0;

    for (uint64_t seed = one ? one : 1; seed <= last && failures < FAILURES_MOST; seed++) {
        virtual_tally_t tally;
        const char *wrong = play(seed, &tally);
        failures += wrong != NULL;
        cr_expect_null(wrong, "FERMATA_SEED=%llu: %s (at %.3f s)", (unsigned long long)seed, wrong,
                       (double)tally.violation_ns / 1e9);
        for (int end = 0; end < TASK_ENDS; end++)
            ends[end] += tally.ends[end];
    }
    cr_expect_gt(ends[TASK_GOOD], 0);
}
