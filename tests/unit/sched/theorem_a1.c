/*
 * Shepherd's Theorem A.1: the adversary who ruins every deterministic policy that cannot stop a batch, and
 * what preemption makes of it (Theorem 5.2).
 *
 *     X1: one request at 0 that must start at once. Then, by what the policy did with it,
 *     (A) nothing more comes: who let X1 go has 0 of 1
 *     (B) X2 comes at epsilon, w requests that must start at once: who runs X1 without stopping has 1 of w
 *
 * Batches take the same time whatever their size, but for a nanosecond a row, so that the affinity K of
 * Shepherd's equation 4 is 1.
 */
#include "base/prng.h"
#include "play.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const double row = 1e-6, fixed = 1, epsilon = 0.25;
static const double bound = 12.62; /* times K */

typedef struct {
    double at;
    unsigned size;
} batch_t;

static double latency(unsigned size)
{
    return row * size + fixed;
}

/* Requests served of these batches, each of which must start the moment it comes. */
static unsigned served(const char *policy, const char *params, const batch_t *batches, unsigned count)
{
    static play_t play;
    unsigned total = 0;
    play_start(&play, policy, params, 1);
    play_model(&play, 0, 'X', row, fixed, latency(1));
    for (unsigned i = 0; i < count; i++) {
        for (unsigned r = 0; r < batches[i].size; r++)
            play_arrive_slo(&play, 0, batches[i].at, latency(batches[i].size));
        total += batches[i].size;
    }
    play_until(&play, 100);
    unsigned drops = (unsigned)play.drops;
    play_stop(&play);
    return total - drops;
}

/* The worse of the two scenarios: what could be had over what the policy has. Nothing at all counts as w. */
static double ratio(const char *policy, const char *params, unsigned w)
{
    batch_t batches[] = {{0, 1}, {epsilon, w}};
    unsigned in_a = served(policy, params, batches, 1), in_b = served(policy, params, batches, 2);
    double a = in_a ? 1 : w, b = in_b ? (double)w / in_b : w;
    return a > b ? a : b;
}

Test(theorem_a1, without_preemption_every_policy_loses_without_limit)
{
    for (uint32_t i = 0; sched_policy_name(i); i++) {
        const char *policy = sched_policy_name(i);
        const char *params = strcmp(policy, "shepherd") == 0 ? "preempt=off" : NULL;
        for (unsigned w = 4; w <= 256; w *= 4)
            cr_assert_float_eq(ratio(policy, params, w), w, 1e-9, "%s, w = %u: %g", policy, w,
                               ratio(policy, params, w));
    }
}

Test(theorem_a1, flex_with_preemption_loses_at_most_one)
{
    for (unsigned w = 4; w <= 256; w *= 4)
        cr_assert_float_eq(ratio("shepherd", "exits=1000000", w), 1, 1e-9);
    cr_assert_float_eq(ratio("shepherd", "exits=1000000", 3), 3, 1e-9, "3 is less than lambda");
}

/* The most requests that any schedule serves: weighted intervals, from the last to the first. */
static unsigned best(const batch_t *batches, unsigned count)
{
    unsigned value[32] = {0};
    for (unsigned i = count; i-- > 0;) {
        unsigned next = i + 1;
        while (next < count && batches[next].at < batches[i].at + latency(batches[i].size))
            next++;
        unsigned with = batches[i].size + value[next];
        value[i] = with > value[i + 1] ? with : value[i + 1];
    }
    return value[0];
}

/* Even multiples of 2 ns, where exit points lie. */
static double later(prng_t *prng, double most)
{
    return 2 * (1 + (double)prng_below(prng, (uint64_t)(most * 5e5))) / 1e6;
}

/* Every batch comes just before the one before it ends and is just large enough to stop it, the last not
 * quite: FLEX has only the second to last. */
Test(theorem_a1, a_chain_of_preemptions_stays_within_the_bound)
{
    batch_t chain[] = {{0, 1}, {0.999, 4}, {1.998, 13}, {2.997, 40}, {3.996, 121}};
    unsigned had = served("shepherd", "exits=1000000", chain, 5), could = best(chain, 5);
    cr_assert_eq(had, 40, "%u", had);
    cr_assert_eq(could, 1 + 13 + 121, "%u", could);
    cr_assert_geq(bound * had, could);
}

Test(theorem_a1, no_stream_of_urgent_batches_passes_the_bound)
{
    prng_t prng;
    double worst = 1;
    prng_init(&prng, 20261120);
    for (int round = 0; round < 400; round++) {
        batch_t batches[16];
        double at = 0;
        for (unsigned i = 0; i < 16; i++) {
            batches[i] = (batch_t){at, 1 + (unsigned)prng_below(&prng, 1u << prng_below(&prng, 7))};
            at += later(&prng, 1.2);
        }
        unsigned had = served("shepherd", "exits=1000000", batches, 16), could = best(batches, 16);
        cr_assert_leq(could, bound * had, "round %d: %u of %u", round, had, could);
        worst = (double)could / had > worst ? (double)could / had : worst;
    }
    cr_assert_gt(worst, 1.5, "the streams are too kind: %g", worst);
}
