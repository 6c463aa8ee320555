#include "sched/fluid.h"

#include <math.h>

enum { HALVINGS = 30 }; /* to 1e-9 of the first interval */
/* A half would be the square root of an economic order quantity, and one make launches cost alike whoever's they are. */
static const double RATE_POWER = 0.75;

double fluid_lead(const fluid_model_t *model, double early)
{
    return model->at_once ? model->slack : fmax(early * model->slack, model->lead);
}

double fluid_batch(const fluid_model_t *model, double early)
{
    double slack = model->slo - fluid_lead(model, early) - model->beta * model->guard;
    double batch =
        (1 + model->growth * (slack > 0 ? slack : 0)) / (1 + model->growth * model->alpha * model->guard);
    return batch < model->least ? model->least : batch > model->most ? model->most : batch;
}

double fluid_length(const fluid_model_t *model, double batch)
{
    return model->alpha * batch + model->beta;
}

double fluid_use(const fluid_model_t *model, double batch)
{
    double busy = model->busy_fixed + model->busy_row * batch;
    return model->rate * (model->alpha + model->beta / batch) * (busy > 0 && busy < 1 ? busy : 1);
}

/* fluid_state's use, without what else it works out. */
static double use_when(const fluid_models_t *models, double early)
{
    double use = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (model->rate > 0)
            use += fluid_use(model, fluid_batch(model, early));
    }
    return use;
}

fluid_state_t fluid_state(const fluid_models_t *models, double early)
{
    fluid_state_t state = {.slack = INFINITY};
    double squares = 0, lengths = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        double batch = fluid_batch(model, early), use = fluid_use(model, batch);
        state.use += use;
        state.launches += model->rate / batch;
        squares += use * use;
        lengths += use * fluid_length(model, batch);
        if (model->slack > 0)
            state.slack = fmin(state.slack, model->slack);
    }
    state.models = squares > 0 ? state.use * state.use / squares : 1;
    state.length = state.use > 0 ? lengths / state.use : 0;
    return state;
}

double fluid_use_alike(const fluid_models_t *models, double batch)
{
    double use = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (model->rate > 0)
            use += fluid_use(model, batch);
    }
    return use;
}

/* Not by halves: on GPUs that are shared larger batches keep more of them busy, from some size on. */
uint32_t fluid_smallest_batch(const fluid_models_t *models, double gpus)
{
    double most = 1;
    for (uint32_t i = 0; i < models->count; i++)
        if (fluid_model(models, i)->rate > 0)
            most = fmax(most, fluid_model(models, i)->most);
    uint32_t batch = 1;
    while (batch < most && fluid_use_alike(models, batch) > gpus)
        batch++;
    return batch;
}

double fluid_use_waited(const fluid_models_t *models, double waited)
{
    double use = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        double fits = 1 + (1 - waited) * model->slack / (model->alpha * model->guard);
        use += fluid_use(model, fmin(fluid_batch(model, 0), fits));
    }
    return use;
}

double fluid_bunch(const fluid_models_t *models)
{
    double rate = 0, more = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        rate += model->rate;
        more += model->rate * fmax(0, model->growth - FLUID_BUNCHED_BY_CHANCE * model->rate) * model->slack;
    }
    return rate > 0 ? 1 + more / rate : 1;
}

/* Of what was asked so many ms before one of the shortest slack. Of the models of that slack one is its own. */
static double rivals_within(const fluid_models_t *models, double slack, double ms)
{
    double rivals = 0, own = 1;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        double slacks = model->slack / slack;
        double ahead = fmax(0, fmin(2 - slacks, 1)) * (1 - exp(-model->rate * ms));
        rivals += ahead;
        if (slacks <= 1)
            own = fmin(own, ahead);
    }
    return fmax(0, rivals - own);
}

/* Who was asked before the last turn has had its own. From all that were asked within the slack down two rounds settle it. */
double fluid_rivals(const fluid_models_t *models, uint32_t gpus, const fluid_state_t *at)
{
    double turn = 1 / fluid_ends_when_full(at, gpus), before = rivals_within(models, at->slack, at->slack);
    for (int round = 0; round < 2; round++)
        before = rivals_within(models, at->slack, fmin(at->slack, turn * (1 + before) / 2));
    return before;
}

fluid_course_t fluid_course(const fluid_models_t *models, const fluid_state_t *at, double early)
{
    fluid_course_t course = {0};
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        double batch = fluid_batch(model, early), length = fluid_length(model, batch);
        double part = fluid_use(model, batch) / at->use, slacks = model->slack / at->slack;
        course.ends += part * fmin(1, at->slack / length);
        course.longer += part * fmin(1, slacks - 1) * fmax(0, 1 - at->slack / length);
    }
    return course;
}

double fluid_early(const fluid_models_t *models, double gpus)
{
    if (use_when(models, 1) <= gpus)
        return 1;
    double low = 0, high = 1;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (use_when(models, middle) <= gpus)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Models whose slack is about the same. In ms. */
typedef struct {
    double slack, shortest; /* the least slack, the shortest batch */
    double longest;         /* of these and of all that can wait longer */
    double models, batches; /* how many, and one batch of each */
    double use, use_slack;  /* GPUs, and the sum of use times slack */
} turn_class_t;

enum { TURN_CLASSES = 64, CLASSES_PER_OCTAVE = 2, FIRST_OCTAVE = -10 }; /* from a microsecond to an hour */

static turn_class_t *turn_class(turn_class_t *classes, double slack)
{
    double at = CLASSES_PER_OCTAVE * (log2(slack) - FIRST_OCTAVE);
    return &classes[(uint32_t)fmin(fmax(at, 0), TURN_CLASSES - 1)];
}

static void turn_classes(const fluid_models_t *models, double early, turn_class_t *classes)
{
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        double batch = fluid_batch(model, early), use = fluid_use(model, batch);
        double takes = fluid_length(model, batch);
        turn_class_t *of = turn_class(classes, model->slack);
        bool first = !(of->batches > 0);
        of->slack = first ? model->slack : fmin(of->slack, model->slack);
        of->shortest = first ? takes : fmin(of->shortest, takes);
        of->longest = fmax(of->longest, takes);
        of->models++;
        of->batches += takes;
        of->use += use;
        of->use_slack += use * model->slack;
    }
    for (uint32_t c = TURN_CLASSES - 1; c-- > 0;)
        classes[c].longest = fmax(classes[c].longest, classes[c + 1].longest);
}

bool fluid_all_have_turns(const fluid_models_t *models, uint32_t gpus, double early, double bold)
{
    turn_class_t classes[TURN_CLASSES] = {0};
    double ahead = 0, batches = 0, shortest = INFINITY, use = 0, use_slack = 0; /* of who goes before */
    turn_classes(models, early, classes);
    for (uint32_t c = 0; c < TURN_CLASSES; c++) {
        const turn_class_t *of = &classes[c];
        if (!(of->batches > 0))
            continue;
        ahead += of->models;
        batches += of->batches;
        shortest = fmin(shortest, of->shortest);
        double again = use * of->slack - use_slack, begun = of->slack > bold ? of->longest : 0;
        double rounds = floor((ahead - 1 + again / shortest) / gpus);
        if (begun + fmin((batches - of->shortest + again) / gpus, rounds * classes[0].longest) > of->slack)
            return false;
        use += of->use;
        use_slack += of->use_slack;
    }
    return true;
}

static double launch_worth(const fluid_model_t *model)
{
    return model->beta * pow(model->rate, RATE_POWER) * sqrt(model->slack);
}

double fluid_batch_for(const fluid_model_t *model, double price)
{
    return launch_worth(model) / price;
}

static double use_at_price(const fluid_models_t *models, double price)
{
    double use = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        const fluid_model_t *model = fluid_model(models, i);
        if (!(model->rate > 0))
            continue;
        double most = fluid_batch(model, 0), batch = fluid_batch_for(model, price);
        use += fluid_use(model, batch < model->least ? model->least : batch > most ? most : batch);
    }
    return use;
}

double fluid_price(const fluid_models_t *models, double gpus)
{
    double dearest = 0; /* at this price all batches are of one */
    for (uint32_t i = 0; i < models->count; i++)
        dearest = fmax(dearest, launch_worth(fluid_model(models, i)));
    if (!(dearest > 0) || use_at_price(models, dearest) <= gpus)
        return INFINITY;
    double low = 0, high = dearest;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (use_at_price(models, middle) <= gpus)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void fluid_scale_to(const fluid_models_t *models, double gpus)
{
    double low = 0, high = 1;
    for (int i = 0; i < HALVINGS; i++) {
        double use = 0, middle = (low + high) / 2;
        for (uint32_t m = 0; m < models->count; m++) {
            fluid_model_t scaled = *fluid_model(models, m);
            scaled.rate *= middle;
            scaled.growth *= middle;
            if (scaled.rate > 0)
                use += fluid_use(&scaled, fluid_batch(&scaled, 0));
        }
        if (use <= gpus)
            low = middle;
        else
            high = middle;
    }
    for (uint32_t m = 0; m < models->count; m++) {
        fluid_model(models, m)->rate *= low;
        fluid_model(models, m)->growth *= low;
    }
}

double fluid_erlang_b(uint32_t gpus, double load)
{
    double blocked = 1;
    for (uint32_t g = 1; g <= gpus; g++)
        blocked = load * blocked / (g + load * blocked);
    return blocked;
}

double fluid_erlang_c(uint32_t gpus, double load)
{
    if (gpus == 0 || load >= gpus)
        return 1;
    double blocked = fluid_erlang_b(gpus, load);
    return blocked / (1 - load / gpus * (1 - blocked));
}

/* Between whole numbers of GPUs its logarithm is taken to be straight. */
double fluid_erlang_c_peaked(uint32_t gpus, double load, double peakedness)
{
    double fewer = gpus / peakedness, left = load / peakedness;
    if (load >= gpus)
        return 1;
    uint32_t whole = (uint32_t)fewer;
    double above = fluid_erlang_c(whole + 1, left), below = fluid_erlang_c(whole, left);
    return above > 0 ? exp(log(below) + (log(above) - log(below)) * (fewer - whole)) : 0;
}

double fluid_fewer(uint32_t of, double chance, double least)
{
    if (chance >= 1)
        return fmax(0, fmin(least - of, 1));
    double fewer = 0, as_many = pow(1 - chance, of);
    for (uint32_t n = 0; n <= of && n < least; n++) {
        fewer += as_many * fmin(1, least - n);
        as_many *= (double)(of - n) / (n + 1) * chance / (1 - chance);
    }
    return fmin(fewer, 1);
}
