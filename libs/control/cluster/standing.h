/*
 * What a peer did lately, in rows that went well and ill, and whether it is believed: one for each model that a worker has, and one for each
 * of its devices. Who did as much ill as well is shunned: for a time, then tried with one batch after the other, on one device. A gateway has one, too: what
 * it says of workers is not believed while it fares worse with them than others do.
 *
 *                          tried STANDING_TRIALS times, nothing ill
 *              +----------------------------------------------------+
 *              v                                                    |
 *   TRUSTED --strike--> SHUNNED --its time is over--> TRIED --------+
 *                          ^                            |
 *                          +-----------strike-----------+   longer each time, STANDING_MOST_NS at most
 *
 * Pure: no clock, no allocation. Whom it is compared with is the caller's affair (models/placement.h, tasks/handed.h).
 */
#ifndef CONTROL_CLUSTER_STANDING_H
#define CONTROL_CLUSTER_STANDING_H

#include <stdbool.h>
#include <stdint.h>

enum { STANDING_TRIALS = 3, STANDING_PROVEN = 8 };

typedef enum { STANDING_TRUSTED, STANDING_SHUNNED, STANDING_TRIED } standing_state_t;

/* What it did ill. */
typedef enum {
    ILL_NOTHING,
    ILL_FAILED,  /* batches failed */
    ILL_ROWS,    /* rows that it reported failed or given up ran well at another worker */
    ILL_MISSED,  /* it reported rows done, and their gateways never got a result */
    ILL_UNSHOWN, /* the same of rows that were asked for, and ran well at another worker */
    ILL_LATE,    /* what it ran was reported when it was due no more */
    ILL_KINDS,
} ill_t;

typedef struct {
    standing_state_t state;
    ill_t worst;      /* of what it was struck for last; before that: what it did ill last */
    double well, ill; /* rows, of late */
    int64_t faded_ns;
    int64_t until_ns; /* SHUNNED: until then. TRIED: when the trial under way is judged; 0: none is */
    int64_t trial_ns; /* TRIED: when that began */
    int64_t struck_ns;
    int64_t late_ns;  /* when ILL_LATE was counted last */
    uint32_t strikes; /* in a row */
    uint32_t trials;  /* that went well */
    uint32_t proven;  /* rows that are known to have arrived, since it was new or results of it were missed */
} standing_t;

/* May be granted a batch. */
static inline bool standing_allows(const standing_t *standing)
{
    return standing->state == STANDING_TRUSTED ||
           (standing->state == STANDING_TRIED && standing->until_ns == 0);
}

/* What it reports is not taken for true yet. */
static inline bool standing_wants_proof(const standing_t *standing)
{
    return standing->proven < STANDING_PROVEN || standing->state != STANDING_TRUSTED;
}

/* A row that it reported well has arrived, which was not counted yet. */
void standing_prove(standing_t *standing, int64_t now_ns);
void standing_well(standing_t *standing, int64_t now_ns, uint32_t rows);
/* ILL_MISSED had been counted as well. Of ILL_LATE one row is counted in a quarter of a second: a host that stands still for a moment makes many
 * late, and is none to shun; one that is late all the time is found out in about a second. */
void standing_ill(standing_t *standing, int64_t now_ns, ill_t kind, uint32_t rows);
/* 0 to 1; 0 also where nothing is known. */
double standing_ill_part(const standing_t *standing);
/* There is enough to strike it, if its like do better. */
bool standing_is_suspect(const standing_t *standing);
/* So many others did at most half as badly in the mean; ill_parts: their standing_ill_part together. */
bool standing_is_outdone(const standing_t *standing, double ill_parts, uint32_t others);
/* For how long it is shunned now. */
int64_t standing_strike(standing_t *standing, int64_t now_ns);
/* Nobody else is there. */
void standing_pardon(standing_t *standing);
/* A batch was granted to it that ends, and is known to have arrived or not, by then. */
void standing_granted(standing_t *standing, int64_t now_ns, int64_t judged_ns);
/* True: standing_allows or the state has changed. */
bool standing_tick(standing_t *standing, int64_t now_ns);

const char *standing_state_name(standing_state_t state);
const char *ill_text(ill_t kind);  /* for people: "batches failed" */
const char *ill_label(ill_t kind); /* of metrics: "failed" */

#endif
