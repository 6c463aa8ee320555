/* What is known of copies of a model. */
#include "model/measure/profile_memo.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>

static profile_t profile;
static profile_modes_t modes;

static bool knows(const profile_memo_t *memo, const char *hash, const char *sizes, uint32_t max_batch,
                  int64_t now_ns)
{
    profile_memo_key_t key = {.hash = hash, .sizes = sizes, .max_batch = max_batch};

    return profile_memo_find(memo, &key, now_ns, &profile, &modes);
}

Test(memo, knows_the_same_model_of_the_same_shape_and_batch_for_a_minute)
{
    profile_memo_t *memo = profile_memo_create();
    profile_memo_key_t key = {.hash = "fnv1a:1", .sizes = "16x16", .max_batch = 8};
    profile_t line;
    profile_modes_t exits = {.exits = {2}, .exit_count = 1};

    cr_assert_not_null(memo);
    cr_assert_eq(profile_from_line(&line, 1, 2, 8, NULL), STATUS_OK);
    cr_expect_not(knows(memo, "fnv1a:1", "16x16", 8, 0));
    profile_memo_add(memo, &key, NS_PER_S, &line, &exits);
    cr_expect(knows(memo, "fnv1a:1", "16x16", 8, 60 * NS_PER_S));
    cr_expect_eq(profile_latency_ns(&profile, 3), 5);
    cr_expect_eq(modes.exit_count, 1);
    cr_expect_not(knows(memo, "fnv1a:2", "16x16", 8, NS_PER_S));
    cr_expect_not(knows(memo, "fnv1a:1", "", 8, NS_PER_S));
    cr_expect_not(knows(memo, "fnv1a:1", "16x16", 4, NS_PER_S));
    cr_expect_not(knows(memo, "fnv1a:1", "16x16", 8, 61 * NS_PER_S));
    profile_memo_destroy(memo);
    cr_expect_not(knows(NULL, "fnv1a:1", "16x16", 8, NS_PER_S));
    profile_memo_add(NULL, &key, NS_PER_S, &line, &exits);
    profile_memo_destroy(NULL);
}

Test(memo, what_is_known_by_now_takes_the_place_of_what_was)
{
    profile_memo_t *memo = profile_memo_create();
    const profile_memo_key_t key = {.hash = "fnv1a:1", .sizes = "", .max_batch = 8},
                             other = {.hash = "fnv1a:2", .sizes = "", .max_batch = 8};
    profile_t line;

    for (int64_t beta_ns = 1; beta_ns <= 300; beta_ns++) {
        cr_assert_eq(profile_from_line(&line, 0, beta_ns, 8, NULL), STATUS_OK);
        profile_memo_add(memo, beta_ns == 1 ? &other : &key, NS_PER_S, &line, &modes);
    }
    cr_assert(knows(memo, "fnv1a:1", "", 8, NS_PER_S));
    cr_expect_eq(profile_latency_ns(&profile, 1), 300);
    cr_expect(knows(memo, "fnv1a:2", "", 8, NS_PER_S), "it has not pushed out others");
    profile_memo_destroy(memo);
}

Test(memo, forgets_the_oldest)
{
    enum { MANY = 1000 };
    profile_memo_t *memo = profile_memo_create();
    profile_t line;
    char hash[32];
    uint32_t known = 0;

    cr_assert_eq(profile_from_line(&line, 1, 2, 8, NULL), STATUS_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(hash, sizeof(hash), "%d", i);
        profile_memo_add(memo, &(profile_memo_key_t){hash, "", 8}, NS_PER_S, &line, &modes);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(hash, sizeof(hash), "%d", i);
        bool found = knows(memo, hash, "", 8, NS_PER_S);
        cr_expect(found || known == 0, "%d", i);
        known += found;
    }
    cr_expect_eq(known, 256);
    profile_memo_destroy(memo);
}
