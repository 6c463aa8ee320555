/* Two executors of one device that write down what they get; batches end when the test says so. */
#include "worker/batch/turns.h"

#include <criterion/criterion.h>
#include <string.h>

static char got[64];
static uint32_t room;

static void note_submit(executor_t *executor, batch_t *batch)
{
    size_t len = strlen(got);

    snprintf(got + len, sizeof(got) - len, "%c%llu ", executor->device ? 'B' : 'A',
             (unsigned long long)batch->id);
}

static bool has_room(const executor_t *executor, const batch_t *batch)
{
    (void)batch;
    return executor->batches < room;
}

static const model_t *refused;

static bool is_not_refused(const executor_t *executor, const batch_t *batch)
{
    (void)executor;
    return batch->model != refused;
}

static const executor_ops_t ops = {.submit = note_submit};
static const executor_ops_t narrow_ops = {.submit = note_submit, .takes = has_room};
static const executor_ops_t choosy_ops = {.submit = note_submit, .takes = is_not_refused};
static executor_t a = {.ops = &ops}, b = {.ops = &ops, .device = 1};
static batch_t batches[8];

static void begin(turns_t *turns)
{
    got[0] = '\0';
    a = (executor_t){.ops = &ops};
    b = (executor_t){.ops = &ops, .device = 1};
    turns_init(turns);
}

static void submit(turns_t *turns, uint64_t id, executor_t *executor)
{
    batches[id].id = id;
    batches[id].executor = executor;
    turns_submit(turns, &batches[id]);
}

Test(turns, an_executor_keeps_its_turn_until_another_waits)
{
    turns_t turns;

    begin(&turns);
    submit(&turns, 1, &a);
    submit(&turns, 2, &a);
    submit(&turns, 3, &b);
    submit(&turns, 4, &a);
    cr_assert_str_eq(got, "A1 A2 ");
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A2 ", "one of A's is still there");
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A2 B3 ");
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A2 B3 A4 ");
}

Test(turns, a_withdrawn_batch_makes_room_for_those_behind_it)
{
    turns_t turns;

    begin(&turns);
    submit(&turns, 1, &a);
    submit(&turns, 2, &b);
    submit(&turns, 3, &a);
    cr_assert(turns_withdraw(&turns, &batches[2]));
    cr_assert_not(turns_withdraw(&turns, &batches[2]));
    cr_assert_not(turns_withdraw(&turns, &batches[1]), "it was handed over");
    turns_advance(&turns);
    cr_assert_str_eq(got, "A1 A3 ");
}

Test(turns, an_executor_that_takes_no_more_holds_the_others_back)
{
    turns_t turns;

    begin(&turns);
    room = 1;
    a.ops = &narrow_ops;
    submit(&turns, 1, &a);
    submit(&turns, 2, &a);
    submit(&turns, 3, &b);
    cr_assert_str_eq(got, "A1 ");
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A2 ");
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A2 B3 ");
}

Test(turns, a_batch_that_is_not_taken_holds_back_those_of_its_model_and_of_other_executors_only)
{
    static model_t one, two;
    turns_t turns;

    begin(&turns);
    a.ops = &choosy_ops;
    for (uint32_t id = 1; id <= 6; id++)
        batches[id].model = id == 3 || id == 6 ? &two : &one;
    submit(&turns, 1, &a);
    refused = &one;
    submit(&turns, 2, &a);
    submit(&turns, 3, &a);
    cr_assert_str_eq(got, "A1 A3 ");
    submit(&turns, 4, &a);
    submit(&turns, 5, &b);
    submit(&turns, 6, &a);
    cr_assert_str_eq(got, "A1 A3 ", "B's turn comes before 6");
    refused = NULL;
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A3 A2 A4 ");
    for (int i = 0; i < 3; i++)
        turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A3 A2 A4 B5 ");
    turns_ended(&turns);
    cr_assert_str_eq(got, "A1 A3 A2 A4 B5 A6 ");
}
