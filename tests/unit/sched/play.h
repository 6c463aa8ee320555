/*
 * Plays a hand-made case through the core and writes the schedule down as text, one decision per line:
 *
 *     2.25 gpu1 R1-R4 until 11.25
 *     3.5 gpu1 R5 join until 12
 *     30.25 drop R35 expired
 *
 * Times are in units (milliseconds where it matters), requests are numbered from 1 per model, and each model has a
 * letter. Batches end exactly when predicted, and are reported done then, before anything is decided at that moment.
 */
#ifndef TESTS_UNIT_SCHED_PLAY_H
#define TESTS_UNIT_SCHED_PLAY_H

#include "sched/sched.h"

#include <stddef.h>

enum { PLAY_DONE_MAX = 8, PLAY_EVENTS_MAX = 4096, PLAY_TEXT_BYTES = 1 << 16, PLAY_MODELS_MAX = 16 };

typedef enum { PLAY_ARRIVAL, PLAY_DONE, PLAY_POLICY } play_kind_t;

typedef struct {
    int64_t at_ns;
    play_kind_t kind;
    uint32_t model;
    uint64_t tag, batch_id, together;
    int64_t deadline_ns;
    const char *policy, *params;
} play_event_t;

typedef struct {
    sched_t *sched;
    play_event_t events[PLAY_EVENTS_MAX];
    size_t count;
    int64_t now_ns;
    double slo[PLAY_MODELS_MAX];
    char letter[PLAY_MODELS_MAX];
    uint64_t next_tag[PLAY_MODELS_MAX];
    char text[PLAY_TEXT_BYTES];
    size_t text_len;
    size_t grants, drops;
} play_t;

/* gpus are numbered from 0 in the core and from 1 in the text. */
void play_start(play_t *play, const char *policy, const char *params, uint32_t gpus);
/* inflight: gpu_inflight_max. */
void play_start_inflight(play_t *play, const char *policy, const char *params, uint32_t gpus,
                         uint32_t inflight);
void play_stop(play_t *play);
void play_model(play_t *play, uint32_t model, char letter, double alpha, double beta, double slo);
/* A model with more to say than its line and SLO. */
void play_model_opts(play_t *play, uint32_t model, char letter, const profile_t *profile,
                     sched_model_opts_t opts);
void play_delays(play_t *play, double ctrl, double data);
/* count requests from `start` on, `gap` apart; numbers go on where the last call for this model ended. */
void play_arrive(play_t *play, uint32_t model, double start, double gap, unsigned count);
/* One that has its own budget. */
void play_arrive_slo(play_t *play, uint32_t model, double at, double slo);
void play_skip(play_t *play, uint32_t model, unsigned count);
void play_set_policy(play_t *play, double at, const char *policy, const char *params);
/* All up to and including this time; validates the core after each step. Returns the text so far. */
const char *play_until(play_t *play, double time);

int64_t play_ns(double units);

#endif
