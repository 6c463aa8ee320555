#include "gateway/links/asks.h"
#include "control.pb-c.h"

#include <criterion/criterion.h>
#include <string.h>

static asks_t asks;
static int answered;
static err_t last;

static void on_done(void *ctx, const err_t *err)
{
    answered++;
    last = *err;
    if (ctx) /* asks again from within */
        cr_assert_eq(asks_add(&asks, true, "again", on_done, NULL, ctx, NULL), STATUS_OK);
}

Test(asks, each_is_sent_once_and_answered_once)
{
    Control__ModelRequest messages[ASKS_MAX], *list[ASKS_MAX];
    uint64_t first, second;
    cr_assert_eq(asks_add(&asks, true, "m", on_done, NULL, &first, NULL), STATUS_OK);
    cr_assert_eq(asks_add(&asks, false, "n", on_done, NULL, &second, NULL), STATUS_OK);
    cr_assert_eq(asks_take_unsent(&asks, messages, list), 2);
    cr_assert_eq(list[0]->action, CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD);
    cr_assert_str_eq(list[1]->name, "n");
    cr_assert_eq(asks_take_unsent(&asks, messages, list), 0);
    asks_answer(&asks, second, STATUS_NO_MEMORY, "w: 6 MiB are needed");
    cr_assert_eq(answered, 1);
    cr_assert_eq(last.code, STATUS_NO_MEMORY);
    cr_assert_str_eq(last.text, "failed to unload 'n', w: 6 MiB are needed");
    asks_answer(&asks, second, STATUS_OK, "");
    asks_answer(&asks, 0, STATUS_OK, "");
    asks_answer(&asks, 999, STATUS_OK, "");
    cr_assert_eq(answered, 1);
    asks_forget(&asks, first);
    asks_answer(&asks, first, STATUS_OK, "");
    cr_assert_eq(answered, 1, "nobody waits for it");
}

Test(asks, there_are_so_many_and_not_more)
{
    uint64_t id, again = 0;
    char name[ASK_NAME_BYTES + 1];
    err_t err;
    memset(name, 'x', sizeof name);
    name[ASK_NAME_BYTES] = '\0';
    cr_assert_eq(asks_add(&asks, true, name, on_done, NULL, &id, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(asks_add(&asks, true, "", on_done, NULL, &id, &err), STATUS_INVALID_ARGUMENT);
    for (int i = 0; i < ASKS_MAX; i++)
        cr_assert_eq(asks_add(&asks, true, "m", on_done, i == 3 ? &again : NULL, &id, NULL), STATUS_OK);
    cr_assert_eq(asks_add(&asks, true, "m", on_done, NULL, &id, &err), STATUS_UNAVAILABLE);
    asks_fail(&asks, "the scheduler went away");
    cr_assert_geq(answered, ASKS_MAX);
    cr_assert_eq(last.code, STATUS_UNAVAILABLE);
    cr_assert_neq(again, 0);
}
