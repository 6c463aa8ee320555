/*
 * Who may have how much of what a model can serve while those lose who ask for less than their share: weighted max-min shares. Whoever
 * asks for no more than his share is never held; what he leaves goes to the others. A client by himself, or clients of whom none asks for less
 * than his share, are never held: what is too much is the scheduler's to choose, and it chooses better. Pure; one thread; one of these for
 * a model at a gateway's loop.
 *
 * Nobody says what the model can serve: it is what was answered in time while some of those below their share was given up for want of
 * time. Each tenth of a second in which they lost more than a hundredth makes it that, less a little, but never less than half of what was served
 * before anybody was held; each other one raises it, by half a percent at first.
 *
 *   asked for  A ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆    the level: where what lies below it sums up to what can be served
 *              B ▆▆                ╶─────
 *              C ▆▆▆               A may begin as much as the level says, B and C all they ask for
 */
#ifndef AUTH_SHARES_H
#define AUTH_SHARES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct shares shares_t;

enum { SHARES_CLIENTS = 256 }; /* that are told apart; any others have one share together */

shares_t *shares_create(int64_t now_ns); /* NULL: no memory */
void shares_destroy(shares_t *shares);   /* NULL is fine */

/* A client asks for one inference. False: it has had its share; the next may begin after *retry_after_ms. weight ≥ 1. */
bool shares_ask(shares_t *shares, uint64_t client, uint32_t weight, int64_t now_ns, uint32_t *retry_after_ms);

/* One that was let begin has been answered in time (served), or was given up because the model had too much to do. */
void shares_ended(shares_t *shares, uint64_t client, bool served, int64_t now_ns);

#endif
