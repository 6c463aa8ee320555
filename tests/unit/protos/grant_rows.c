/* The rows of a grant come out of a message as they went in, and what is no row is not read. */
#include "grant_rows.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { ROWS = 3 };

/* Every field of every row differs from the others, in its high bits, too. */
static grant_row_t row_of(uint32_t i)
{
    const uint64_t high = UINT64_C(0xf) << 60;
    return (grant_row_t){.task_id = high | (10 + i),
                         .handle_hi = high | (20 + i),
                         .handle_lo = high | (30 + i),
                         .offset_bytes = high | (40 + i),
                         .budget_ns = i == 0 ? INT64_MIN : -50 - (int64_t)i,
                         .len_bytes = UINT32_MAX - i,
                         .gateway = i == 2 ? UINT32_MAX : 60 + i};
}

static void expect_row(const Control__Grant *grant, uint32_t i)
{
    const grant_row_t want = row_of(i), got = grant_rows_at(grant, i);
    cr_expect_eq(got.task_id, want.task_id);
    cr_expect_eq(got.handle_hi, want.handle_hi);
    cr_expect_eq(got.handle_lo, want.handle_lo);
    cr_expect_eq(got.offset_bytes, want.offset_bytes);
    cr_expect_eq(got.budget_ns, want.budget_ns);
    cr_expect_eq(got.len_bytes, want.len_bytes);
    cr_expect_eq(got.gateway, want.gateway);
}

static void fill(Control__Grant *grant, uint64_t *room)
{
    control__grant__init(grant);
    grant_rows_begin(grant, room);
    for (uint32_t i = 0; i < ROWS; i++) {
        const grant_row_t row = row_of(i);
        grant_rows_append(grant, &row);
    }
}

Test(grant_rows, rows_come_over_the_wire_as_they_are)
{
    uint64_t room[ROWS * GRANT_ROW_WORDS];
    uint8_t bytes[1024];
    Control__Grant grant;
    fill(&grant, room);
    cr_assert_leq(control__grant__get_packed_size(&grant), sizeof bytes);
    Control__Grant *got = control__grant__unpack(NULL, control__grant__pack(&grant, bytes), bytes);
    cr_assert_not_null(got);
    cr_assert_null(grant_rows_objection(got));
    cr_assert_eq(got->rows, ROWS);
    for (uint32_t i = 0; i < ROWS; i++)
        expect_row(got, i);
    control__grant__free_unpacked(got, NULL);
}

Test(grant_rows, a_row_can_be_put_anew)
{
    uint64_t room[ROWS * GRANT_ROW_WORDS];
    Control__Grant grant;
    fill(&grant, room);
    const grant_row_t other = {.task_id = 7};
    grant_rows_put(&grant, 1, &other);
    cr_expect_eq(grant.rows, ROWS);
    cr_expect_eq(grant_rows_at(&grant, 1).task_id, 7);
    expect_row(&grant, 0);
    expect_row(&grant, 2);
}

Test(grant_rows, another_number_of_words_is_refused)
{
    static const struct {
        uint32_t rows;
        size_t words;
        bool refused;
    } cases[] = {
        {0, 0, true},
        {0, GRANT_ROW_WORDS, true},
        {1, 0, true},
        {1, GRANT_ROW_WORDS, false},
        {1, GRANT_ROW_WORDS - 1, true},
        {2, GRANT_ROW_WORDS, true},
        {ROWS, ROWS * (GRANT_ROW_WORDS - 1), true},
        {ROWS, ROWS * (GRANT_ROW_WORDS + 1), true},
        {UINT32_MAX, (uint32_t)(UINT32_MAX * (uint64_t)GRANT_ROW_WORDS), true}, /* as 32 bits would have it */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Control__Grant grant = CONTROL__GRANT__INIT;
        grant.rows = cases[i].rows;
        grant.n_word = cases[i].words;
        cr_expect_eq(grant_rows_objection(&grant) != NULL, cases[i].refused, "case %zu", i);
    }
}
