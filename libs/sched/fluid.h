/*
 * The fluid view of a cluster: what batches and GPU time the measured rates lead to, if nothing ever waited. All in
 * milliseconds and requests per millisecond. For slow loops, not for the fast path.
 */
#ifndef SCHED_FLUID_H
#define SCHED_FLUID_H

#include <stdint.h>

typedef struct {
    double rate;   /* requests/ms */
    double growth; /* of them that waiting brings: the rate, or less where clients wait for their answers */
    double least;  /* no batch is taken to be smaller: what comes together anyway, at least 1 */
    double slo;    /* what is left of it for waiting and running */
    double alpha, beta; /* of the latency, inputs' fetching included */
    double most;        /* largest batch that the SLO allows, at least 1 */
    double busy_fixed,
        busy_row; /* a batch of b keeps the part fixed + row * b of a GPU busy, at most all; both 0: all */
} fluid_model_t;

/* Mean batch if the GPU starts `margin` ms before frontrun: all that arrives in what is left of the first request's
 * slack comes with it. At least 1. */
double fluid_batch(const fluid_model_t *model, double margin);

/* GPUs that are busy in the mean when batches have this size. */
double fluid_use(const fluid_model_t *model, double batch);

/* The models are `count` structures that begin with a fluid_model_t, `stride` bytes apart; those of rate 0 cost
 * nothing. */
typedef struct {
    void *first;
    uint32_t count;
    uint32_t stride;
} fluid_models_t;

double fluid_use_at_margin(const fluid_models_t *models, double margin);

/* The largest common margin whose use is at most `gpus`; `most` if even that fits. */
double fluid_margin(const fluid_models_t *models, double gpus, double most);

/* The largest launch cost per model (beta·rate/batch, in GPUs) that may be paid with `gpus` in all, when each model
 * starts as soon as its batch makes that cost small enough. INFINITY if all may start at once. */
double fluid_price(const fluid_models_t *models, double gpus);

/* Scales all rates so that the use at margin 0 is `gpus`. */
void fluid_scale_to(const fluid_models_t *models, double gpus);

/* Probability that a request must wait when `load` GPUs' worth of work comes to `gpus` GPUs (Erlang C). */
double fluid_erlang_c(uint32_t gpus, double load);

#endif
