#include "sched/scatter.h"

#include "sched/sched.h"
#include "sched/within.h"

#include <math.h>
#include <string.h>

/* Batches that run right after one another tell more of each other than of what comes in ten seconds. */
static const double MEMORY_NS = 4e9;
/* Of what came before at least this much stays, however long ago: a guess is better than none. */
static const double KEPT_LEAST = 0.25;
/* A class goes by its own batches from about so many on. */
static const double OWN_WEIGHT = 6;
/* One batch that was far off (a page fault, a paused host) is taken for no farther than this many deviations. Those
 * that follow it may be twice as far, so that a real change is believed after some ten batches. */
static const double OUTLIER = 6, OUTLIER_LEAST = 0.1;
static const int64_t SETTLE_NS = 50000000; /* means and guards are worked out so often, */
static const double CHANGE_LEAST = 0.002;  /* and told if one of them differs by so much */
static const double Z_LEAST = 1, Z_MOST = 3.1;
static const double CLOSE_DEVIATIONS = 4;
/* The last batches are about so many. Their mean differs by more than chance where it does by so many of its deviations, and this much. */
static const double LAST_BATCHES = 16, LAST_ENOUGH = 10, CHANGED_SURELY = 6, CHANGED_LEAST = 0.02;
/* When it has done so for so long it does not come and go: then so much of what came before stays, batch by batch. */
static const int64_t CHANGED_NS = 3000000000;
static const double CHANGED_KEPT = 0.8;
static const double FACTOR_MOST = 64; /* of a profile: beyond, it is no profile of this model */

static double mean_of(const scatter_class_t *class)
{
    return class->weight > 0 ? class->took / class->weight : 1;
}

static double variance_of(const scatter_class_t *class)
{
    if (!(class->weight > 1))
        return 0;
    double mean = class->took / class->weight;
    double variance = class->took2 / class->weight - mean * mean;
    return variance > 0 ? variance * class->weight / (class->weight - 0.5) : 0;
}

static void rescale(scatter_class_t *class, double factor)
{
    class->took *= factor;
    class->took2 *= factor * factor;
    class->ran *= factor;
}

static void fade(scatter_class_t *class, double keep)
{
    class->weight *= keep;
    class->took *= keep;
    class->took2 *= keep;
    class->ran *= keep;
    class->ran_weight *= keep;
}

/* Returns what is kept of what came before. */
static double decay(scatter_class_t *class, int64_t now_ns)
{
    double passed_ns = now_ns > class->last_ns ? (double)(now_ns - class->last_ns) : 0;
    double keep = fmax(MEMORY_NS / (MEMORY_NS + passed_ns), KEPT_LEAST);
    class->last_ns = now_ns > class->last_ns ? now_ns : class->last_ns;
    fade(class, keep);
    return keep;
}

/* Likewise. */
static double add(scatter_class_t *class, int64_t now_ns, double took, double ran)
{
    double keep = decay(class, now_ns);
    class->weight += 1;
    class->took += took;
    class->took2 += took * took;
    if (ran > 0) {
        class->ran += ran;
        class->ran_weight += 1;
    }
    return keep;
}

/* What is believed of a measurement, given what was seen before: at first as much as the profile is off by once. */
static double believed(const scatter_class_t *class, double value)
{
    double least = class->weight < OWN_WEIGHT ? 1 : OUTLIER_LEAST;
    double mean = mean_of(class), far = fmax(OUTLIER * sqrt(variance_of(class)), least);
    return within(within(value, mean - far, mean + far), 0, FACTOR_MOST);
}

/* The z that a normal variable exceeds with this probability, up to 1/2 (Abramowitz and Stegun 26.2.22). */
static double normal_above(double p)
{
    double t = sqrt(-2 * log(p));
    return t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t);
}

/* Of those that are close to their deadlines. */
static double late_most(const scatter_t *scatter)
{
    double close = scatter->rows > 0 ? scatter->close / scatter->rows : 1;
    return SCATTER_LATE_MOST / fmax(close, SCATTER_LATE_MOST);
}

static double deviations(double late)
{
    return late < 0.5 ? within(normal_above(late), Z_LEAST, Z_MOST) : Z_LEAST;
}

/* From 1, where as few may be late as delays are longer than most, to 0, where as many may be as are longer than many. */
static double rare_of(double late)
{
    double least = 1 - SCHED_DELAYS_MOST, most = 1 - SCHED_DELAYS_MANY;
    return within(log(most / late) / log(most / least), 0, 1);
}

/* A class with few batches of its own goes by those of any size. */
static double mixed(const scatter_class_t *class, double own, double common)
{
    return (class->weight * own + OWN_WEIGHT * common) / (class->weight + OWN_WEIGHT);
}

static double class_took(const scatter_t *scatter, const scatter_class_t *class)
{
    return mixed(class, mean_of(class), mean_of(&scatter->all));
}

static double class_deviation(const scatter_t *scatter, const scatter_class_t *class)
{
    return sqrt(mixed(class, variance_of(class), variance_of(&scatter->all)));
}

static double ran_of(const scatter_class_t *class, double otherwise)
{
    return class->ran_weight > 0 ? class->ran / class->ran_weight : otherwise;
}

/* What differs from 1 by nothing that counts is 1, and costs nothing. */
static double clean(double factor)
{
    return fabs(factor - 1) < CHANGE_LEAST ? 1 : within(factor, 1 / FACTOR_MOST, FACTOR_MOST);
}

static bool differ(double a, double b)
{
    return fabs(a - b) > CHANGE_LEAST * b;
}

/* False: they differ by so little that they stay as they are. */
static bool settle(scatter_t *scatter)
{
    const scatter_class_t *all = &scatter->all;
    double late = late_most(scatter), z = deviations(late), ran = ran_of(all, 1);
    double means[SCATTER_CLASSES], guards[SCATTER_CLASSES];
    scatter->rare = rare_of(late);
    bool changed = scatter->guard == 0;
    for (uint32_t c = 0; c < SCATTER_CLASSES; c++) {
        const scatter_class_t *class = &scatter->classes[c];
        double mean = clean(mixed(class, ran_of(class, ran), ran));
        double guard = clean(class_took(scatter, class) + z * class_deviation(scatter, class));
        means[c] = mean;
        guards[c] = guard > mean ? guard : mean;
        changed |= differ(means[c], scatter->means[c]) || differ(guards[c], scatter->guards[c]);
    }
    if (!changed)
        return false;
    memcpy(scatter->means, means, sizeof means);
    memcpy(scatter->guards, guards, sizeof guards);
    scatter->mean = clean(ran);
    scatter->guard = fmax(clean(mean_of(all) + z * sqrt(variance_of(all))), scatter->mean);
    return true;
}

/* Whether batches take clearly more or less than was learned, and not only now and then. */
static bool has_changed(scatter_t *scatter, int64_t now_ns, double longer)
{
    double keep = 1 - 1 / LAST_BATCHES;
    scatter->last = scatter->last * keep + longer;
    scatter->last2 = scatter->last2 * keep + longer * longer;
    scatter->last_weight = scatter->last_weight * keep + 1;
    double mean = scatter->last / scatter->last_weight, square = scatter->last2 / scatter->last_weight;
    double doubt = sqrt(fmax(square - mean * mean, 0) / (2 * scatter->last_weight));
    if (scatter->last_weight < LAST_ENOUGH || fabs(mean) < fmax(CHANGED_SURELY * doubt, CHANGED_LEAST))
        scatter->changed_ns = 0;
    else if (scatter->changed_ns == 0)
        scatter->changed_ns = now_ns;
    return scatter->changed_ns != 0 && now_ns - scatter->changed_ns >= CHANGED_NS;
}

/* What came of a batch that was tried though the estimate said that it would be late. */
static void judge_try(scatter_t *scatter, const scatter_sample_t *sample)
{
    double guard = scatter->guards[scatter_class_of(sample->batch)];
    bool tried = scatter->try == SCATTER_TRY_UNDER_WAY;
    scatter->try = SCATTER_NO_TRY;
    if (tried && (double)sample->took_ns <= (1 + guard) / 2 * (double)sample->profile_ns)
        *scatter = (scatter_t){0};
    else if (!tried)
        scatter->vain = 0;
    else if (scatter->vain < SCATTER_VAIN_MOST)
        scatter->vain++;
}

bool scatter_note(scatter_t *scatter, int64_t now_ns, const scatter_sample_t *sample)
{
    scatter_class_t *class = &scatter->classes[scatter_class_of(sample->batch)];
    bool doubted = scatter->try == SCATTER_TRY_WANTED;
    judge_try(scatter, sample);
    double took = believed(&scatter->all, (double)sample->took_ns / (double)sample->profile_ns);
    double ran = within((double)sample->ran_ns / (double)sample->profile_ns, 0, fmax(took, 1 / FACTOR_MOST));
    if (has_changed(scatter, now_ns, took - class_took(scatter, class))) {
        fade(class, CHANGED_KEPT);
        fade(&scatter->all, CHANGED_KEPT);
    }
    (void)add(class, now_ns, took, ran);
    double keep = add(&scatter->all, now_ns, took, ran);
    scatter->rows = scatter->rows * keep + sample->batch;
    scatter->close = scatter->close * keep + sample->close;
    if (scatter->guard > 0 && now_ns - scatter->settled_ns < SETTLE_NS)
        return doubted;
    scatter->settled_ns = now_ns;
    return settle(scatter) || doubted;
}

int64_t scatter_reach_ns(const scatter_t *scatter, uint32_t batch, int64_t profile_ns)
{
    const scatter_class_t *class = &scatter->classes[scatter_class_of(batch)];
    double later = fmax(class_took(scatter, class) - scatter_mean(scatter, batch), 0) +
                   CLOSE_DEVIATIONS * class_deviation(scatter, class);
    return (int64_t)(later * (double)profile_ns);
}

bool scatter_doubt(scatter_t *scatter, int64_t now_ns, int64_t old_ns)
{
    if (scatter->guard == 0)
        return true;
    int64_t last_ns = scatter->all.last_ns > scatter->tried_ns ? scatter->all.last_ns : scatter->tried_ns;
    int64_t wait_ns = SCATTER_OLD_NS << scatter->vain;
    if (now_ns - last_ns < (old_ns > wait_ns ? old_ns : wait_ns))
        return false;
    scatter->try = SCATTER_TRY_WANTED;
    scatter->tried_ns = now_ns;
    return true;
}

void scatter_build(const scatter_t *scatter, const profile_t *profile, profile_t *guarded)
{
    uint32_t len = profile->max_batch < PROFILE_TABLE_MAX ? profile->max_batch : PROFILE_TABLE_MAX;
    *guarded = *profile;
    guarded->table_len = len;
    guarded->alpha_ns = (int64_t)((double)profile->alpha_ns * scatter->guards[scatter_class_of(len)]);
    guarded->table_ns[0] = 0;
    for (uint32_t b = 1; b <= len; b++) {
        double guard = scatter->guards[scatter_class_of(b)];
        int64_t latency_ns = (int64_t)((double)profile_latency_ns(profile, b) * guard);
        int64_t before_ns = guarded->table_ns[b - 1];
        guarded->table_ns[b] = latency_ns > before_ns ? latency_ns : before_ns;
    }
}

void scatter_change_profile(scatter_t *scatter, const profile_t *from, const profile_t *to)
{
    for (uint32_t c = 0; c < SCATTER_CLASSES; c++) {
        uint32_t batch = UINT32_C(1) << c;
        double was_ns = (double)profile_latency_ns(from, batch),
               is_ns = (double)profile_latency_ns(to, batch);
        double factor = was_ns > 0 && is_ns > 0 ? was_ns / is_ns : 1;
        rescale(&scatter->classes[c], factor);
        if (c == 0)
            rescale(&scatter->all, factor);
    }
    scatter->last = scatter->last2 = scatter->last_weight = 0;
    scatter->changed_ns = 0;
    if (scatter->guard > 0)
        (void)settle(scatter);
}
