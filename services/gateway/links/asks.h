/*
 * Loads and unloads that clients asked for and the scheduler has not answered: a small table, one answer
 * each. Loop thread.
 */
#ifndef GATEWAY_ASKS_H
#define GATEWAY_ASKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ASKS_MAX = 64, /* each is people's work, not a client's loop */
    ASK_NAME_BYTES = 256,
};

/* err->code STATUS_OK: it is done. */
typedef void (*ask_done_fn)(void *ctx, const err_t *err);

typedef struct {
    uint64_t id; /* 0 = free */
    bool sent, load;
    char name[ASK_NAME_BYTES];
    ask_done_fn done;
    void *ctx;
} ask_t;

typedef struct {
    ask_t list[ASKS_MAX];
    uint64_t newest;
    uint32_t unsent;
} asks_t;

/* UNAVAILABLE: too many under way. INVALID_ARGUMENT: not a name. Else *id names it and done comes, unless forgotten. */
status_t asks_add(asks_t *asks, bool load, const char *name, ask_done_fn done, void *ctx, uint64_t *id,
                  err_t *err);
/* Nobody waits for it any more: done does not come. What was asked for is done all the same. */
void asks_forget(asks_t *asks, uint64_t id);
/* An id that is not in the table is passed over. */
void asks_answer(asks_t *asks, uint64_t id, status_t status, const char *reason);
/* All of them, as UNAVAILABLE. */
void asks_fail(asks_t *asks, const char *reason);

struct Control__ModelRequest;
/* Fills room for ASKS_MAX messages with those that have not been sent; they count as sent then. Returns how many. */
uint32_t asks_take_unsent(asks_t *asks, struct Control__ModelRequest *messages,
                          struct Control__ModelRequest **list);

#endif
