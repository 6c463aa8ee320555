#include "load/tally.h"

#include "base/clock.h"

#include <criterion/criterion.h>

static tally_t tally, other;

static timing_t batch_of(uint32_t size)
{
    return (timing_t){.known = true, .batch_size = size, .queue_us = 10, .compute_us = 20};
}

Test(tally, a_late_answer_is_served_but_bad)
{
    timing_t none = {0};
    tally_init(&tally);
    tally_record(&tally, OUTCOME_OK, 5 * NS_PER_MS, 10 * NS_PER_MS, &none);
    tally_record(&tally, OUTCOME_OK, 15 * NS_PER_MS, 10 * NS_PER_MS, &none);
    tally_record(&tally, OUTCOME_UNAVAILABLE, NS_PER_MS, 10 * NS_PER_MS, &none);
    cr_assert_eq(tally.offered, 3);
    cr_assert_eq(tally_served(&tally), 2);
    cr_assert_eq(tally_bad(&tally), 2);
    cr_assert_eq(tally.outcomes[OUTCOME_LATE], 1);
    cr_assert_eq(tally.latency.count, 2, "refusals have no latency");
}

Test(tally, without_a_deadline_nothing_is_late)
{
    timing_t none = {0};
    tally_init(&tally);
    tally_record(&tally, OUTCOME_OK, 3600 * NS_PER_S, 0, &none);
    cr_assert_eq(tally_bad(&tally), 0);
}

Test(tally, mean_batch_is_over_batches)
{
    timing_t one = batch_of(1), three = batch_of(3);
    tally_init(&tally);
    tally_record(&tally, OUTCOME_OK, 1, 0, &one);
    for (int i = 0; i < 3; i++)
        tally_record(&tally, OUTCOME_OK, 1, 0, &three);
    /* Four requests in two batches. */
    cr_assert_float_eq(tally_mean_batch(&tally), 2, 1e-9);
}

Test(tally, oversized_batches_are_counted_in_the_last_place)
{
    timing_t huge = batch_of(100000);
    tally_init(&tally);
    tally_record(&tally, OUTCOME_OK, 1, 0, &huge);
    cr_assert_eq(tally.batch_sizes[TALLY_BATCH_MAX], 1);
}

Test(tally, merge_adds_everything)
{
    timing_t two = batch_of(2);
    tally_init(&tally);
    tally_init(&other);
    tally_record(&tally, OUTCOME_OK, 1000, 0, &two);
    tally_record(&other, OUTCOME_OK, 2000, 0, &two);
    tally_record(&other, OUTCOME_CONNECTION, 0, 0, &two);
    tally_merge(&tally, &other);
    cr_assert_eq(tally.offered, 3);
    cr_assert_eq(tally.latency.count, 2);
    cr_assert_eq(tally.batch_sizes[2], 2);
    cr_assert_eq(tally.outcomes[OUTCOME_CONNECTION], 1);
}

Test(tally, every_public_status_has_its_outcome)
{
    /* DESIGN 2.7 by both protocols: the same reason has the same name. */
    static const struct {
        int http, grpc;
        const char *name;
    } table[] = {{200, 0, "ok"},        {400, 3, "invalid_argument"}, {404, 5, "not_found"},
                 {413, 8, "too_large"}, {503, 14, "unavailable"},     {504, 4, "deadline_exceeded"},
                 {499, 1, "cancelled"}, {501, 12, "unsupported"},     {500, 13, "internal"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cr_assert_str_eq(outcome_name(outcome_of_http(table[i].http)), table[i].name);
        cr_assert_str_eq(outcome_name(outcome_of_grpc(table[i].grpc)), table[i].name);
    }
    cr_assert_eq(outcome_of_http(302), OUTCOME_INTERNAL);
    for (int i = 0; i < OUTCOME_COUNT; i++)
        cr_assert_not_null(outcome_name((outcome_t)i));
}
