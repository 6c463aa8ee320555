/* Fetches and pushes within a process: on the loop of the owner itself, and from other threads. */
#include "harness.h"

#include "loop/loop.h"
#include "until.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 1000 };

typedef struct {
    uv_loop_t loop;
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    uint8_t arena[LEN];
    int begun, done, vacated;
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

static const transfer_receiver_t without_places = {.begin = on_begin, .done = on_done};

static void within_init(within_t *within, const transfer_receiver_t *receiver)
{
    memset(within, 0, sizeof(*within));
    uv_loop_init(&within->loop);
    const transfer_owner_options_t options = {
        .loop = &within->loop, .instance_id = 7, .receiver = *receiver, .ctx = within};
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

    within_init(&within, &without_places);
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

    within_init(&within, &without_places);
    transfer_handover_t handover = {.owner = within.owner, .results = results, .count = 1};
    cr_assert(transfer_hand(&handover, NULL));
    cr_assert_eq(within.last.len_bytes, 7);
    cr_assert_eq(within.last.timing.batch_size, 9);
    cr_assert_arr_eq(within.got, "abcdefg", 7);
    within.discard = true;
    handover.count = 2;
    cr_assert(transfer_hand(&handover, NULL));
    cr_assert_eq(within.done, 3);
    cr_assert_eq(within.last.status, STATUS_INTERNAL);
    cr_assert_str_eq(within.text, "why");
    within_end(&within);
}

static void *on_place(void *ctx, const transfer_wanted_t *wanted, void **token)
{
    within_t *within = ctx;

    cr_assert_eq(wanted->task_id, 5);
    *token = within;
    return within->got;
}

static void on_vacate(void *ctx, void *token, void *memory)
{
    within_t *within = ctx;

    cr_assert(token == within && memory == within->got);
    within->vacated++;
}

static const transfer_receiver_t with_places = {on_begin, on_done, on_place, on_vacate};
static const transfer_wanted_t wanted = {.task_id = 5, .count = 1, .len_bytes = 7};

Test(within, results_that_were_made_in_place_stay_there)
{
    within_t within;
    void *token;

    within_init(&within, &with_places);
    uint8_t *place = transfer_place(within.owner, &wanted, &token);
    cr_assert_eq(place, within.got);
    memcpy(place, "abcdefg", 7);
    struct iovec two[] = {{place, 3}, {place + 3, 4}};
    const transfer_result_t result = {.task_id = 5, .iov = two, .iov_count = 2};
    transfer_handover_t handover = {.owner = within.owner, .results = &result, .count = 1};
    cr_assert(transfer_hand(&handover, NULL));
    cr_assert_eq(within.last.made_at, place);
    cr_assert_arr_eq(within.got, "abcdefg", 7);
    transfer_vacate(within.owner, token, place);
    cr_assert_eq(within.vacated, 1);
    within_end(&within);
}

Test(within, a_receiver_without_places_has_none)
{
    within_t within;
    void *token;

    within_init(&within, &without_places);
    cr_assert_null(transfer_place(within.owner, &wanted, &token));
    within_end(&within);
}

/* ---- from another loop ---- */

static transfer_handle_t publish(within_t *within, size_t at, size_t len, int *released)
{
    transfer_handle_t handle;

    cr_assert_eq(transfer_publish(within->memory, within->arena + at, len, count, released, &handle),
                 STATUS_OK);
    return handle;
}

static void shared_init(within_t *within, loop_t **loop)
{
    memset(within, 0, sizeof(*within));
    cr_assert_eq(loop_create(loop, NULL), STATUS_OK);
    const transfer_owner_options_t options = {
        .loop = loop_uv(*loop), .shared = *loop, .instance_id = 7, .receiver = with_places, .ctx = within};
    cr_assert_eq(transfer_owner_create(&options, &within->owner, NULL), STATUS_OK);
    cr_assert_eq(transfer_memory_register(within->owner, within->arena, LEN, NULL, &within->memory, NULL),
                 STATUS_OK);
}

static void shared_end(within_t *within, loop_t *loop)
{
    transfer_owner_destroy(within->owner);
    transfer_memory_unregister(within->memory);
    loop_destroy(loop);
}

typedef struct {
    within_t *within;
    transfer_handle_t handle;
    uint32_t pin;
    status_t status;
    bool released_there; /* the thread lets go itself */
} holder_t;

static void *hold(void *arg)
{
    holder_t *holder = arg;
    const uint8_t *data;

    holder->status = transfer_hold(holder->within->owner, holder->handle, 0, 10, &holder->pin, &data);
    return NULL;
}

static void *let_go(void *arg)
{
    holder_t *holder = arg;

    transfer_release(holder->within->owner, holder->pin);
    return NULL;
}

static void on_thread(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, fn, arg), 0);
    pthread_join(thread, NULL);
}

Test(within, what_another_thread_holds_is_released_on_the_owners_loop_when_it_lets_go)
{
    within_t within;
    loop_t *loop;
    int released = 0;

    shared_init(&within, &loop);
    holder_t holder = {.within = &within, .handle = publish(&within, 0, 10, &released)};
    on_thread(hold, &holder);
    cr_assert_eq(holder.status, STATUS_OK);
    cr_assert(transfer_unpublish(within.owner, holder.handle));
    cr_assert_eq(released, 0);
    on_thread(let_go, &holder);
    cr_assert_eq(released, 0, "not on that thread");
    loop_until(loop, released == 1);
    on_thread(hold, &holder);
    cr_assert_eq(holder.status, STATUS_NOT_FOUND);
    shared_end(&within, loop);
}

enum { ROUNDS = 20000 };

/* Holds whatever the newest handle is, while the owner publishes and unpublishes. */
typedef struct {
    transfer_owner_t *owner;
    _Atomic uint64_t hi, lo;
    atomic_bool stop;
    _Atomic uint64_t held;
} racer_t;

static void *race(void *arg)
{
    racer_t *racer = arg;

    while (!atomic_load(&racer->stop)) {
        transfer_handle_t handle = {.hi = atomic_load(&racer->hi), .lo = atomic_load(&racer->lo)};
        const uint8_t *data;
        uint32_t pin;
        if (transfer_hold(racer->owner, handle, 0, 10, &pin, &data) != STATUS_OK)
            continue;
        cr_assert_eq(data[0], data[9]);
        racer->held++;
        transfer_release(racer->owner, pin);
    }
    return NULL;
}

static void mark_free(void *ctx)
{
    *(int *)ctx = 0;
}

/* Bytes are written only while nobody holds them: what is held is of one piece, and the thread sanitizer has nothing to say. */
Test(within, threads_hold_what_is_published_and_unpublished_meanwhile)
{
    enum { PIECES = 8 };
    within_t within;
    loop_t *loop;
    racer_t racer = {0};
    pthread_t thread;
    int busy[PIECES] = {0};

    shared_init(&within, &loop);
    racer.owner = within.owner;
    cr_assert_eq(pthread_create(&thread, NULL, race, &racer), 0);
    for (int i = 0; i < ROUNDS || racer.held == 0; i++) {
        int piece = i % PIECES;
        transfer_handle_t handle;
        while (busy[piece])
            loop_run_once(loop, 0);
        memset(within.arena + piece * 10, i % 251, 10);
        busy[piece] = 1;
        cr_assert_eq(
            transfer_publish(within.memory, within.arena + piece * 10, 10, mark_free, &busy[piece], &handle),
            STATUS_OK);
        atomic_store(&racer.hi, handle.hi);
        atomic_store(&racer.lo, handle.lo);
        if (i % 16 == 0)
            sched_yield();
        cr_assert(transfer_unpublish(within.owner, handle));
    }
    atomic_store(&racer.stop, true);
    pthread_join(thread, NULL);
    for (int piece = 0; piece < PIECES; piece++)
        loop_until(loop, !busy[piece]);
    shared_end(&within, loop);
}

typedef struct {
    within_t *within;
    loop_t *loop;
    mailbox_t back;
    transfer_handover_t handover;
    bool over;
} giver_t;

static void on_over(transfer_handover_t *handover)
{
    CONTAINER_OF(handover, giver_t, handover)->over = true;
}

static void *give(void *arg)
{
    giver_t *giver = arg;
    void *token;

    cr_assert_eq(loop_create(&giver->loop, NULL), STATUS_OK);
    cr_assert_null(transfer_place(giver->handover.owner, &wanted, &token), "only on the owner's loop");
    cr_assert_eq(mailbox_init(&giver->back, giver->loop, transfer_handed_over, NULL, NULL), STATUS_OK);
    cr_assert_not(transfer_hand(&giver->handover, &giver->back));
    loop_until(giver->loop, giver->over);
    mailbox_dispose(&giver->back);
    loop_destroy(giver->loop);
    return NULL;
}

Test(within, results_are_handed_over_to_another_loop)
{
    within_t within;
    loop_t *loop;
    pthread_t thread;
    struct iovec piece = {(void *)(uintptr_t) "abc", 3};
    const transfer_result_t results[] = {{.task_id = 5, .status = STATUS_OK, .iov = &piece, .iov_count = 1},
                                         {.task_id = 6, .status = STATUS_INTERNAL, .text = "why"}};

    shared_init(&within, &loop);
    giver_t giver = {.within = &within,
                     .handover = {.owner = within.owner, .results = results, .count = 2, .done = on_over}};
    cr_assert_eq(pthread_create(&thread, NULL, give, &giver), 0);
    loop_until(loop, within.done == 2);
    cr_assert_str_eq(within.text, "why");
    cr_assert_arr_eq(within.got, "abc", 3);
    pthread_join(thread, NULL);
    cr_assert(giver.over);
    shared_end(&within, loop);
}
