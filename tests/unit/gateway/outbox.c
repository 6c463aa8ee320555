#include "gateway/links/outbox.h"

#include "base/clock.h"
#include "control.pb-c.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static outbox_t *outbox;

static void set_up(void)
{
    outbox = malloc(sizeof *outbox);
    outbox_clear(outbox);
}

static void tear_down(void)
{
    free(outbox);
}

TestSuite(outbox, .init = set_up, .fini = tear_down);

/* Its sizes are its id, id + 1, … */
static status_t add(uint64_t id, int64_t deadline_ns, uint32_t size_count)
{
    uint32_t sizes[8];
    for (uint32_t i = 0; i < size_count; i++)
        sizes[i] = (uint32_t)id + i;
    gateway_control_task_t task = {.id = id,
                                   .model = (uint32_t)id + 1,
                                   .deadline_ns = deadline_ns,
                                   .handle = {.hi = id + 2, .lo = id + 3},
                                   .offset_bytes = id + 4,
                                   .len_bytes = (uint32_t)id + 5,
                                   .priority = (uint32_t)id + 6,
                                   .admitted = id % 2 == 1,
                                   .sizes = sizes,
                                   .size_count = size_count};
    return outbox_add(outbox, &task);
}

Test(outbox, tasks_leave_as_they_came_with_budgets)
{
    Control__TaskBatch tasks;
    Control__CancelBatch cancels;
    cr_assert_not(outbox_take_tasks(outbox, 0, &tasks));
    cr_assert_eq(add(1, 500, 0), STATUS_OK);
    cr_assert_eq(add(2, 900, 0), STATUS_OK);
    outbox_cancel(outbox, 7);
    cr_assert(outbox_take_tasks(outbox, 600, &tasks));
    cr_expect_eq(tasks.n_id, 2);
    cr_expect_eq(tasks.budget_ns[0], -100);
    cr_expect_eq(tasks.budget_ns[1], 300);
    cr_expect_eq(tasks.priority[1], 8);
    cr_assert_eq(tasks.n_admitted, 2);
    cr_expect(tasks.admitted[0] == 1 && tasks.admitted[1] == 0);
    cr_expect_eq(tasks.n_size_count, 0);
    cr_assert(outbox_take_cancels(outbox, &cancels));
    cr_expect_eq(cancels.id[0], 7);
    cr_expect_not(outbox_take_tasks(outbox, 600, &tasks));
    cr_expect_not(outbox_take_cancels(outbox, &cancels));
    cr_assert_eq(add(2, 900, 0), STATUS_OK);
    cr_assert(outbox_take_tasks(outbox, 600, &tasks));
    cr_expect_eq(tasks.n_admitted, 0, "where none was, nothing is said");
}

Test(outbox, what_was_missed_leaves_beside_what_is_cancelled)
{
    Control__CancelBatch cancels;
    outbox_miss(outbox, 8);
    cr_assert(outbox_take_cancels(outbox, &cancels));
    cr_expect_eq(cancels.n_id, 0);
    cr_assert_eq(cancels.n_missed, 1);
    cr_expect_eq(cancels.missed[0], 8);
    cr_expect_not(outbox_take_cancels(outbox, &cancels));
    for (uint64_t id = 0; id <= OUTBOX_CANCELS_MAX; id++)
        outbox_miss(outbox, id);
    cr_assert(outbox_take_cancels(outbox, &cancels));
    cr_expect_eq(cancels.n_missed, OUTBOX_CANCELS_MAX);
}

Test(outbox, what_missed_its_deadline_makes_room_and_the_rest_keeps_its_order)
{
    Control__TaskBatch tasks;
    for (uint64_t id = 0; id < OUTBOX_TASKS_MAX; id++)
        cr_assert_eq(add(id, id % 4 == 3 ? NS_PER_S : 10 * NS_PER_S, (uint32_t)(id % 3)), STATUS_OK);
    cr_assert_eq(add(1, 20 * NS_PER_S, 0), STATUS_UNAVAILABLE);
    cr_assert_eq(outbox_let_go(outbox, NS_PER_S), OUTBOX_TASKS_MAX / 4, "those that end now are too late");
    cr_assert_eq(add(OUTBOX_TASKS_MAX, 20 * NS_PER_S, 2), STATUS_OK);
    cr_assert(outbox_take_tasks(outbox, 0, &tasks));
    cr_assert_eq(tasks.n_id, OUTBOX_TASKS_MAX * 3 / 4 + 1);
    const uint32_t *size = tasks.size;
    for (size_t i = 0; i < tasks.n_id; i++) {
        uint64_t id = i / 3 * 4 + i % 3;
        cr_assert_eq(tasks.id[i], id);
        cr_assert_eq(tasks.model[i], id + 1);
        cr_assert_eq(tasks.handle_hi[i], id + 2);
        cr_assert_eq(tasks.handle_lo[i], id + 3);
        cr_assert_eq(tasks.offset_bytes[i], id + 4);
        cr_assert_eq(tasks.len_bytes[i], id + 5);
        cr_assert_eq(tasks.priority[i], id + 6);
        for (uint32_t s = 0; s < tasks.size_count[i]; s++)
            cr_assert_eq(*size++, id + s);
    }
    cr_expect_eq(size, tasks.size + tasks.n_size);
}

Test(outbox, it_looks_at_most_once_a_millisecond)
{
    cr_assert_eq(add(1, 100, 0), STATUS_OK);
    cr_assert_eq(outbox_let_go(outbox, 50), 0);
    cr_assert_eq(outbox_let_go(outbox, 200), 0, "it has just looked");
    cr_assert_eq(outbox_let_go(outbox, 50 + NS_PER_MS), 1);
}

Test(outbox, sizes_are_bounded_too)
{
    uint64_t id = 0;
    while (add(id, NS_PER_S, 8) == STATUS_OK)
        id++;
    cr_assert_eq(id, OUTBOX_SIZES_MAX / 8);
    cr_assert_eq(add(id, NS_PER_S, 0), STATUS_OK, "one without any fits");
}

Test(outbox, cancellations_beyond_the_bound_are_left_out)
{
    Control__CancelBatch cancels;
    for (uint64_t id = 0; id < OUTBOX_CANCELS_MAX + 5; id++)
        outbox_cancel(outbox, id);
    cr_assert(outbox_take_cancels(outbox, &cancels));
    cr_assert_eq(cancels.n_id, OUTBOX_CANCELS_MAX);
}
