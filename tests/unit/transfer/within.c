/* Fetches and pushes on the loop of the owner itself, of one that nobody else can reach. */
#include "harness.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 1000 };

typedef struct {
    uv_loop_t loop;
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    uint8_t arena[LEN];
    int begun, done;
    bool discard;
    transfer_incoming_t last;
    char text[64];
    uint8_t got[LEN];
} within_t;

static transfer_dest_t on_begin(void *ctx, const transfer_incoming_t *result)
{
    within_t *within = ctx;

    within->begun++;
    within->last = *result;
    snprintf(within->text, sizeof(within->text), "%s", result->text);
    return (transfer_dest_t){.buffer = within->discard ? NULL : within->got, .token = within->got};
}

static void on_done(void *ctx, void *token, uint64_t task_id, status_t status)
{
    within_t *within = ctx;

    cr_assert_eq(token, within->got);
    cr_assert_eq(task_id, within->last.task_id);
    cr_assert_eq(status, STATUS_OK);
    within->done++;
}

static void within_init(within_t *within)
{
    memset(within, 0, sizeof(*within));
    uv_loop_init(&within->loop);
    const transfer_owner_options_t options = {
        .loop = &within->loop, .instance_id = 7, .receiver = {on_begin, on_done}, .ctx = within};
    cr_assert_eq(transfer_owner_create(&options, &within->owner, NULL), STATUS_OK);
    cr_assert_str_eq(transfer_owner_address(within->owner), "this process");
    for (int i = 0; i < LEN; i++)
        within->arena[i] = (uint8_t)(i % 251);
    cr_assert_eq(transfer_memory_register(within->owner, within->arena, LEN, NULL, &within->memory, NULL),
                 STATUS_OK);
}

static void within_end(within_t *within)
{
    transfer_owner_destroy(within->owner);
    transfer_memory_unregister(within->memory);
    uv_run(&within->loop, UV_RUN_NOWAIT);
    cr_assert_eq(uv_loop_close(&within->loop), 0, "nothing of it is left on the loop");
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

Test(within, items_are_copied_at_once_and_each_says_what_was_wrong_with_it)
{
    within_t within;
    int released = 0;
    uint8_t a[10], b[20], none[5];
    struct iovec two[] = {{a, sizeof(a)}, {b, sizeof(b)}}, one = {none, sizeof(none)};
    transfer_handle_t handle, gone;

    within_init(&within);
    cr_assert_eq(transfer_publish(within.memory, within.arena + 100, 50, count, &released, &handle),
                 STATUS_OK);
    cr_assert_eq(transfer_publish(within.memory, within.arena, 50, NULL, NULL, &gone), STATUS_OK);
    cr_assert(transfer_unpublish(within.owner, gone));
    transfer_item_t items[] = {
        {.handle = handle, .offset = 20, .len_bytes = 30, .iov = two, .iov_count = 2},
        {.handle = gone, .len_bytes = 5, .iov = &one, .iov_count = 1},
        {.handle = handle, .offset = 46, .len_bytes = 5, .iov = &one, .iov_count = 1},
    };
    transfer_take(within.owner, items, 3);
    cr_assert_eq(items[0].status, STATUS_OK);
    cr_assert_arr_eq(a, within.arena + 120, sizeof(a));
    cr_assert_arr_eq(b, within.arena + 130, sizeof(b));
    cr_assert_eq(items[1].status, STATUS_NOT_FOUND);
    cr_assert_eq(items[2].status, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(released, 0);
    cr_assert(transfer_unpublish(within.owner, handle));
    cr_assert_eq(released, 1, "nothing is pinned behind a take");
    within_end(&within);
}

Test(within, results_are_handed_over_at_once)
{
    within_t within;
    struct iovec two[] = {{(void *)(uintptr_t) "abc", 3}, {(void *)(uintptr_t) "defg", 4}};
    transfer_result_t results[] = {
        {.task_id = 5, .status = STATUS_OK, .timing = {.batch_size = 9}, .iov = two, .iov_count = 2},
        {.task_id = 6, .status = STATUS_INTERNAL, .text = "why"},
    };

    within_init(&within);
    transfer_hand(within.owner, results, 1);
    cr_assert_eq(within.last.len_bytes, 7);
    cr_assert_eq(within.last.timing.batch_size, 9);
    cr_assert_arr_eq(within.got, "abcdefg", 7);
    within.discard = true;
    transfer_hand(within.owner, results, 2);
    cr_assert_eq(within.done, 3);
    cr_assert_eq(within.last.status, STATUS_INTERNAL);
    cr_assert_str_eq(within.text, "why");
    within_end(&within);
}
