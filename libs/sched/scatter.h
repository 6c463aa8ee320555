/*
 * How what batches really take lies around their profile: learned per model and class of batch sizes from what workers
 * measure, so that deadlines are judged with a quantile and plans are made with the mean.
 *
 *     profile l(b) ──┬─ · mean  ─▶ when a GPU is free, what a plan costs
 *                    └─ · guard ─▶ whether a deadline is met, until when a batch may be held   (mean + z deviations)
 *
 * A batch that is planned to end exactly at its deadline is late half of the time, so z is as far out as the part of a
 * model's requests that may be late at all: SCATTER_LATE_MOST (Symphony's goodput lets a model lose 1 %), shared out over
 * those rows that are held that close to their deadlines. Few are at low load: then a guard costs nothing and may
 * be exceeded often. All are in a tight model near its peak. What is counted on of the delays before a batch follows from the same part
 * (scatter_rare); a start later than that is in what is learned.
 *
 * Pure, O(1) per batch; what is learned halves in three seconds of work, and what came before a change that has lasted for some is given up
 * at once. A guard of exactly 1 means: batches take what the profile says, and nothing else is looked at.
 *
 * Where an estimate refuses what the profile alone would serve nothing runs, and nothing is measured anew. So one batch is tried now and then:
 *
 *   estimate --old, and refuses--> wanted: judged by the profile alone --granted--> under way: others are judged by the estimate again
 *      ^  ^                                                                            |         |
 *      |  +--- it took about as long: the next one is tried after twice the time ------+         |
 *      +------ learned anew <--- it took about what the profile says: all is forgotten ----------+
 *
 * One thread at a time; embedded in its owner, zero to start.
 */
#ifndef SCHED_SCATTER_H
#define SCHED_SCATTER_H

#include "profile/profile.h"

/* Sizes 1, 2-3, 4-7, …, 128 and more: what a launch costs scatters otherwise than what rows cost. */
enum { SCATTER_CLASSES = 8 };

/* Of the rows of a model that are held to their deadlines and lost by that. */
#define SCATTER_LATE_MOST 0.01
/* An estimate that refuses a request and is older is doubted. After each try in a row that was in vain it may be twice as old, so often. */
#define SCATTER_OLD_NS INT64_C(1000000000)
enum { SCATTER_VAIN_MOST = 3 };

typedef struct {
    double weight; /* batches, decaying */
    /* Sums of the time from the promised start to the end, in parts of the profile's, and of its square; */
    double took, took2;
    double ran, ran_weight; /* likewise from the real start */
    int64_t last_ns;
} scatter_class_t;

/* A batch that is judged by the profile alone, whatever was learned: there is none, one may be granted, or has been. */
typedef enum { SCATTER_NO_TRY, SCATTER_TRY_WANTED, SCATTER_TRY_UNDER_WAY } scatter_try_t;

typedef struct {
    scatter_class_t classes[SCATTER_CLASSES];
    scatter_class_t all; /* of any size: what a class with few batches goes by */
    double rows, close;  /* decaying: rows, and those whose deadlines lay close to the predicted end */
    double mean, guard;  /* over all sizes; 0: nothing was learned */
    double rare;         /* see scatter_rare */
    double means[SCATTER_CLASSES], guards[SCATTER_CLASSES];
    int64_t settled_ns; /* when these were worked out last */
    /* Of the last batches: by how much they took longer than was learned until then, in parts of the profile; the weight is below a
     * constant. */
    double last, last2, last_weight;
    int64_t changed_ns; /* since then that is more than chance; 0: it is not */
    scatter_try_t try;
    int64_t tried_ns; /* when it was wanted last */
    uint32_t vain;    /* tries in a row */
} scatter_t;

typedef struct {
    uint32_t batch;
    int64_t profile_ns; /* of such a batch, above 0 */
    int64_t took_ns;    /* from the start that the prediction counted on until it ended */
    int64_t ran_ns;     /* of it on the GPU; 0: not known */
    uint32_t close;     /* rows whose deadlines lie within scatter_reach_ns of the predicted end */
} scatter_sample_t;

/* True: means and guards have changed by more than nothing, or are doubted no more, and what was built from them is to be built again. */
bool scatter_note(scatter_t *scatter, int64_t now_ns, const scatter_sample_t *sample);

/* How far beyond the mean time on the GPU a batch may well end: late starts, and four deviations. */
int64_t scatter_reach_ns(const scatter_t *scatter, uint32_t batch, int64_t profile_ns);

/* The estimate refuses what the profile alone would serve. True: a try is wanted, since it is old, and older than old_ns; or there is none. */
bool scatter_doubt(scatter_t *scatter, int64_t now_ns, int64_t old_ns);

/* A batch was granted. True: it is the one that was wanted. */
static inline bool scatter_granted(scatter_t *scatter)
{
    bool wanted = scatter->try == SCATTER_TRY_WANTED;
    if (wanted)
        scatter->try = SCATTER_TRY_UNDER_WAY;
    return wanted;
}

/* Another profile in place of the one that it was learned of: the times stay what they were. */
void scatter_change_profile(scatter_t *scatter, const profile_t *from, const profile_t *to);

static inline uint32_t scatter_class_of(uint32_t batch)
{
    uint32_t class = 31 - (uint32_t)__builtin_clz(batch | 1);
    return class < SCATTER_CLASSES - 1 ? class : SCATTER_CLASSES - 1;
}

/* How much is counted on of what only few delays need (sched_delays_t): all of it where those held to their deadlines may hardly be late, or
 * nothing was learned; nothing where many may. How late batches begin is then in what is learned. */
static inline double scatter_rare(const scatter_t *scatter)
{
    return scatter->guard > 0 ? scatter->rare : 1;
}

/* What a batch takes in the mean, in parts of its profile. */
static inline double scatter_mean(const scatter_t *scatter, uint32_t batch)
{
    return scatter->guard > 0 ? scatter->means[scatter_class_of(batch)] : 1;
}

/* The profile of what batches take at most but for the few that may be late: never falling, as long as the profile. */
void scatter_build(const scatter_t *scatter, const profile_t *profile, profile_t *guarded);

#endif
