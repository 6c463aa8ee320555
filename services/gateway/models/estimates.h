/*
 * What the scheduler has told ahead of each model, in the catalogue's entries (sched/estimate.h): by an entry's estimate a session is judged before anything is
 * done for it. Loop thread.
 */
#ifndef GATEWAY_ESTIMATES_H
#define GATEWAY_ESTIMATES_H

#include "gateway/models/catalogue.h"

/* Of one message: 20 KiB. What finds no room goes with the next. */
enum { ESTIMATES_REFUSED_MAX = 1024 };

/* Tasks that were refused, by model (catalogue id) and priority. */
typedef struct {
    size_t count;
    uint32_t model[ESTIMATES_REFUSED_MAX], priority[ESTIMATES_REFUSED_MAX];
    uint32_t overload[ESTIMATES_REFUSED_MAX], backlog[ESTIMATES_REFUSED_MAX],
        infeasible[ESTIMATES_REFUSED_MAX];
} estimates_refused_t;

struct Control__Estimate;

/* In place of all that was told before. False: it makes no sense, and nothing changes. */
bool estimates_take(catalogue_t *catalogue, const struct Control__Estimate *message, int64_t now_ns);
/* The scheduler has gone. */
void estimates_forget(catalogue_t *catalogue);
/* What was refused since the last call. False: nothing. */
bool estimates_gather(catalogue_t *catalogue, estimates_refused_t *refused);

#endif
