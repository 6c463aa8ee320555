/*
 * The fluid view of a cluster: what batches and GPU time the measured rates lead to, if nothing ever waited. All in
 * milliseconds and requests per millisecond. For slow loops, not for the fast path.
 */
#ifndef SCHED_FLUID_H
#define SCHED_FLUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    double rate; /* requests/ms */
    /* Requests/ms that waiting brings: the rate; more where they come in bunches, less where clients wait for answers. */
    double growth;
    double least;       /* no batch is taken to be smaller: what comes together anyway, at least 1 */
    double slo;         /* what is left of it for waiting and running */
    double slack;       /* of it, when a request runs alone and at once; at least 0 */
    double lead;        /* ms before frontrun by which it starts at least, at most the slack */
    bool at_once;       /* it starts as soon as a request is there, whenever the others do */
    double alpha, beta; /* of the mean latency, inputs' fetching included */
    /* Deadlines are judged with a latency so many times as long, at least 1 (sched/scatter.h). */
    double guard;
    double most; /* largest batch that the SLO allows, at least 1 */
    double busy_fixed,
        busy_row; /* a batch of b keeps the part fixed + row * b of a GPU busy, at most all; both 0: all */
} fluid_model_t;

/*
 * Mean batch if it starts `early` of its model's slack before frontrun (0: at frontrun, 1: at once): all that arrives in
 * what is left of the first request's slack comes with it. At least 1. In parts of the slack, since a model that
 * can wait long gives up little by starting a few milliseconds early, and one that cannot, most of its batch.
 */
double fluid_batch(const fluid_model_t *model, double early);

/* How long before frontrun it starts then, ms. */
double fluid_lead(const fluid_model_t *model, double early);

/* How long a batch of this size takes, ms. */
double fluid_length(const fluid_model_t *model, double batch);

/* GPUs that are busy in the mean when batches have this size. */
double fluid_use(const fluid_model_t *model, double batch);

/* The models are `count` structures that begin with a fluid_model_t, `stride` bytes apart; those of rate 0 cost
 * nothing. */
typedef struct {
    void *first;
    uint32_t count;
    uint32_t stride;
} fluid_models_t;

static inline fluid_model_t *fluid_model(const fluid_models_t *models, uint32_t index)
{
    return (fluid_model_t *)(void *)((char *)models->first + (size_t)index * models->stride);
}

typedef struct {
    double use;      /* GPUs */
    double launches; /* batches/ms of all models */
    double models;   /* that contend, by their use: one that has it all is 1, n alike are n */
    double length;   /* of the batch that a GPU is found to run, in the mean, ms */
    double slack;    /* the shortest of a model that can be served at all, INFINITY: there is none */
} fluid_state_t;

/* All models when each starts so early. */
fluid_state_t fluid_state(const fluid_models_t *models, double early);

/* GPUs that are busy when the batches of all models have this size. */
double fluid_use_alike(const fluid_models_t *models, double batch);

/* The smallest such size by which at most `gpus` are busy; the largest that any model can have if none is. */
uint32_t fluid_smallest_batch(const fluid_models_t *models, double gpus);

/* GPUs that are busy when no batch becomes larger than what still fits where its head has waited for so much of its slack, 0 to 1. */
double fluid_use_waited(const fluid_models_t *models, double waited);

/* What comes at random is found to bunch so much: growth over rate. */
#define FLUID_BUNCHED_BY_CHANCE 1.1

/* Requests that come together in the mean, over all of them: each with as many as follow within its model's slack more than by chance. 1: none. */
double fluid_bunch(const fluid_models_t *models);
/* From so many on they come in bunches. */
#define FLUID_BUNCH_LEAST 1.25

/* Batches/ms that end while all of them are busy. */
static inline double fluid_ends_when_full(const fluid_state_t *at, uint32_t gpus)
{
    return at->launches * gpus / at->use;
}

/* What a GPU is found to run, somewhere in its course, while all are busy. */
typedef struct {
    /* Chance that it ends within the shortest slack. */
    double ends;
    /* That it does not, and is of models that can wait twice as long, or in part of those between. */
    double longer;
} fluid_course_t;

/* When each starts so early, which leads to that state. */
fluid_course_t fluid_course(const fluid_models_t *models, const fluid_state_t *at, double early);

/* Batches of other models that are expected to go before one of the shortest slack. Each that can wait no longer has one if a request
 * of it came before, in half of the time in which all of them have their turns, and in part each that can wait up to twice as long. */
double fluid_rivals(const fluid_models_t *models, uint32_t gpus, const fluid_state_t *at);

/* How early all may start so that their use is at most `gpus`. */
double fluid_early(const fluid_models_t *models, double gpus);

/* The price of a launch by which `gpus` are busy in all, when each model starts as soon as its batch is large enough for
 * it. INFINITY if all may start at once. Requests of a batch wait for batch/rate, in parts of the slack, and its launch keeps a
 * GPU from others for beta, beta/2 of which those that come then wait for: as with economic order quantities the two are
 * least together where the batch goes with beta·sqrt(rate·slack). The power of the rate is taken a little larger (fluid.c). */
double fluid_price(const fluid_models_t *models, double gpus);
/* The batch that is large enough for it; not rounded. */
double fluid_batch_for(const fluid_model_t *model, double price);

/*
 * Whether the requests of each model find a GPU within their slack, though all others are in their way: one of those batches that
 * can wait longer has just begun, each model that cannot has one before them, and others after it as its use of the GPUs goes, as far as
 * they are due before. That is the demand bound of earliest deadlines first without preemption (Jeffay, Stanat and Martel, RTSS 1991,
 * Theorem 4.1). GPUs take them as one that is so many times as fast, except for the batch that has begun; or, if that is less, in rounds, of
 * which the last need not be waited for: while the one that has begun runs each GPU begins another. Models of at most the slack `bold`, ms,
 * find none that has (0: whatever the slack).
 */
bool fluid_all_have_turns(const fluid_models_t *models, uint32_t gpus, double early, double bold);

/* Scales all rates so that the use at frontrun is `gpus`. */
void fluid_scale_to(const fluid_models_t *models, double gpus);

/* Probability that all of them are busy when `load` GPUs' worth of work comes to them that does not wait (Erlang B). */
double fluid_erlang_b(uint32_t gpus, double load);
/* Probability that a request must wait when `load` GPUs' worth of work comes to `gpus` GPUs (Erlang C). */
double fluid_erlang_c(uint32_t gpus, double load);
/* Likewise when what comes varies `peakedness` times as much as a Poisson stream (Hayward: as many times fewer GPUs). */
double fluid_erlang_c_peaked(uint32_t gpus, double load, double peakedness);
/* Probability that of so many events, each of this chance, fewer than `least` happen; between whole numbers it is taken to be straight. */
double fluid_fewer(uint32_t of, double chance, double least);

#endif
