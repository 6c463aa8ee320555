#include "gateway/links/asks.h"

#include "control.pb-c.h"

#include <string.h>

static ask_t *find(asks_t *asks, uint64_t id)
{
    for (uint32_t i = 0; i < ASKS_MAX; i++)
        if (asks->list[i].id == id)
            return &asks->list[i];
    return NULL;
}

status_t asks_add(asks_t *asks, bool load, const char *name, ask_done_fn done, void *ctx, uint64_t *id,
                  err_t *err)
{
    ask_t *ask = find(asks, 0);
    size_t len = strlen(name);
    if (len == 0 || len >= ASK_NAME_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a model's name has 1 to %d bytes", ASK_NAME_BYTES - 1);
    if (!ask)
        return err_set(err, STATUS_UNAVAILABLE, "%d loads and unloads are under way already", ASKS_MAX);
    *ask = (ask_t){.id = ++asks->newest, .load = load, .done = done, .ctx = ctx};
    memcpy(ask->name, name, len + 1);
    asks->unsent++;
    *id = ask->id;
    return STATUS_OK;
}

void asks_forget(asks_t *asks, uint64_t id)
{
    ask_t *ask = find(asks, id);
    if (ask)
        ask->done = NULL;
}

static void end(asks_t *asks, ask_t *ask, const err_t *err)
{
    ask_t ended = *ask;
    asks->unsent -= !ask->sent;
    ask->id = 0; /* free before done, which may ask again */
    if (ended.done)
        ended.done(ended.ctx, err);
}

void asks_answer(asks_t *asks, uint64_t id, status_t status, const char *reason)
{
    ask_t *ask = id ? find(asks, id) : NULL;
    err_t err = {0};
    if (!ask)
        return;
    if (status != STATUS_OK)
        err_set(&err, status, "failed to %s '%.100s', %s", ask->load ? "load" : "unload", ask->name,
                reason[0] ? reason : status_name(status));
    end(asks, ask, &err);
}

void asks_fail(asks_t *asks, const char *reason)
{
    for (uint32_t i = 0; i < ASKS_MAX; i++)
        asks_answer(asks, asks->list[i].id, STATUS_UNAVAILABLE, reason);
}

uint32_t asks_take_unsent(asks_t *asks, Control__ModelRequest *messages, Control__ModelRequest **list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ASKS_MAX && asks->unsent > 0; i++) {
        ask_t *ask = &asks->list[i];
        if (ask->id == 0 || ask->sent)
            continue;
        ask->sent = true;
        asks->unsent--;
        control__model_request__init(&messages[count]);
        messages[count].id = ask->id;
        messages[count].action =
            ask->load ? CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD : CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD;
        messages[count].name = ask->name;
        list[count] = &messages[count];
        count++;
    }
    return count;
}
