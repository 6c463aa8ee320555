#include "fermata/profile/overlap.h"

#include "base/clock.h"
#include "fermata/profile/overlap_service.h"
#include "model/measure/profiler_modes.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    FOLDS = 5,
    EPOCHS = 120,
    STEPS_MIN = 8000, /* of training, however few groups there are: fewer have not settled */
    SVR_EPOCHS = 20,
    RUNS = 9,  /* of one group: with a third of them the model is off by one per cent more */
    AGAIN = 8, /* every eighth group is measured once more, as many groups later */
    PREDICTIONS = 2000,
    TRAIN_MIN = 32
};

_Static_assert((int)MIX_SHAPES_MAX <= (int)TRAINER_CHOICES_MAX, "each shape is a length to draw");

typedef struct {
    const profile_overlap_how_t *how;
    const engine_ops_t *ops;
    engine_t *engine;
    overlap_service_t services[OVERLAP_MODELS_MAX];
    trainer_services_t drawn;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t under_way;
    status_t status;
    err_t err;
    profile_overlap_t *found; /* how much groups differ when they are measured again */
} lab_t;

/* ---- services ---- */

/* Sizes of batches and lengths of rows to draw from; an operator is a piece there. */
static status_t open_service(lab_t *lab, uint32_t i, err_t *err)
{
    overlap_service_t *s = &lab->services[i];
    const model_t *model = lab->how->models[i];
    *s = (overlap_service_t){
        .ops = lab->ops, .engine = lab->engine, .model = model->on_device[0], .mix = lab->how->mixes[i]};
    lab->drawn.model[i].row_count = 0;
    for (uint32_t rows = 1;
         rows <= model->info->max_batch && lab->drawn.model[i].row_count < TRAINER_CHOICES_MAX; rows *= 2)
        lab->drawn.model[i].rows[lab->drawn.model[i].row_count++] = rows;
    status_t status = overlap_service_open(s, lab->drawn.model[i].rows, lab->drawn.model[i].row_count, err);
    if (status != STATUS_OK)
        return err_prefix(err, "%.80s", model->name);
    lab->drawn.model[i].ops = s->pieces;
    lab->drawn.model[i].length_count = s->mix ? s->mix->count : 0;
    for (uint32_t shape = 0; s->mix && shape < s->mix->count; shape++) {
        lab->drawn.model[i].lengths[shape] = overlap_service_length(s, shape);
        lab->drawn.model[i].weights[shape] = profile_mix_share(s->mix, shape);
    }
    return STATUS_OK;
}

/* ---- measuring ---- */

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    lab_t *lab = job->arg;
    pthread_mutex_lock(&lab->mutex);
    if (status != STATUS_OK && lab->status == STATUS_OK) {
        lab->status = status;
        lab->err = *err;
    }
    lab->under_way--;
    pthread_cond_signal(&lab->changed);
    pthread_mutex_unlock(&lab->mutex);
}

static status_t run_jobs(lab_t *lab, engine_job_t *jobs, uint32_t count, int64_t *took_ns, err_t *err)
{
    int64_t begin_ns = clock_now_ns(), end_ns = begin_ns;
    lab->under_way = count;
    for (uint32_t i = 0; i < count; i++)
        lab->ops->submit(lab->engine, &jobs[i]);
    pthread_mutex_lock(&lab->mutex);
    while (lab->under_way)
        pthread_cond_wait(&lab->changed, &lab->mutex);
    status_t status = lab->status;
    if (status != STATUS_OK)
        *err = lab->err;
    pthread_mutex_unlock(&lab->mutex);
    for (uint32_t i = 0; i < count; i++)
        end_ns = jobs[i].finished_ns > end_ns ? jobs[i].finished_ns : end_ns;
    *took_ns = end_ns - begin_ns;
    return status;
}

static engine_job_t job_of(lab_t *lab, const exec_part_t *part, uint32_t from, uint32_t to)
{
    engine_job_t job = overlap_service_job(&lab->services[part->model], part, from, to);
    job.done = on_done;
    job.arg = lab;
    return job;
}

/* What a query that goes on in the group has left in its border: real numbers, for some take longer than others. */
static status_t run_up_to(lab_t *lab, const exec_part_t *part, err_t *err)
{
    int64_t took_ns;
    if (part->from == 0)
        return STATUS_OK;
    engine_job_t job = job_of(lab, part, 0, part->from);
    job.target = lab->services[part->model].source;
    return run_jobs(lab, &job, 1, &took_ns, err);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of some runs. */
static status_t measure_group(lab_t *lab, const overlap_group_t *group, int64_t *median_ns, err_t *err)
{
    engine_job_t jobs[EXEC_PARTS_MAX];
    int64_t took_ns[1 + RUNS]; /* the first one builds what is not there */
    status_t status = STATUS_OK;
    /* What serves runs the same groups again and again; the first run of one tells nothing of that. */
    for (uint32_t i = 0; status == STATUS_OK && i < group->count; i++)
        status = overlap_service_prepare(&lab->services[group->parts[i].model], &group->parts[i], err);
    for (uint32_t i = 0; status == STATUS_OK && i < group->count; i++)
        status = run_up_to(lab, &group->parts[i], err);
    for (uint32_t run = 0; status == STATUS_OK && run <= RUNS; run++) {
        for (uint32_t i = 0; i < group->count; i++)
            jobs[i] = job_of(lab, &group->parts[i], group->parts[i].from, group->parts[i].to);
        status = run_jobs(lab, jobs, group->count, &took_ns[run], err);
    }
    if (status != STATUS_OK)
        return status;
    qsort(took_ns + 1, RUNS, sizeof(took_ns[0]), by_size);
    *median_ns = took_ns[1 + RUNS / 2];
    return STATUS_OK;
}

static uint32_t pair_of(uint32_t a, uint32_t b)
{
    return 1U << a | 1U << b;
}

static void note_again(profile_overlap_t *found, uint32_t members, int64_t first_ns, int64_t again_ns)
{
    double off = first_ns > 0 ? fabs((double)(again_ns - first_ns)) / (double)first_ns : 0;
    found->all.again_groups++;
    found->all.again += off;
    for (uint32_t p = 0; p < found->pair_count; p++)
        if (members == pair_of(found->pairs[p].a, found->pairs[p].b)) {
            found->pairs[p].error.again_groups++;
            found->pairs[p].error.again += off;
        }
}

/* The first of every AGAIN groups is measured again behind the last of them: the noise of the machine. */
static status_t measure_all(lab_t *lab, const predictor_t *shape, trainer_sample_t *samples, prng_t *prng,
                            err_t *err)
{
    overlap_group_t first = {.count = 0};
    int64_t first_ns = 0, ns;
    for (uint32_t i = 0; i < lab->how->samples; i++) {
        overlap_group_t group = trainer_draw_group(&lab->drawn, prng);
        status_t status = measure_group(lab, &group, &ns, err);
        if (status == STATUS_OK)
            samples[i] = trainer_sample(shape, &group, ns);
        if (i % AGAIN == 0) {
            first = group;
            first_ns = ns;
        } else if (i % AGAIN == AGAIN - 1 && status == STATUS_OK) {
            status = measure_group(lab, &first, &ns, err);
            if (status == STATUS_OK)
                note_again(lab->found, samples[i + 1 - AGAIN].members, first_ns, ns);
        }
        if (status == STATUS_OK && atomic_load(lab->how->stop))
            status = err_set(err, STATUS_CANCELLED, "stopped");
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* Each piece alone, with the largest batch of the longest rows: what the places of operators are counted by. */
static status_t measure_pieces(lab_t *lab, predictor_t *predictor, uint32_t service, err_t *err)
{
    const overlap_service_t *s = &lab->services[service];
    uint32_t ops = s->pieces > 1 ? s->op_count : 0;
    profiler_t profiler = {.ops = lab->ops,
                           .engine = lab->engine,
                           .model = s->model,
                           .stop = lab->how->stop,
                           .axes = s->mix ? s->mix->axes : NULL,
                           .axis_sizes = s->mix ? profile_mix_largest(s->mix) : NULL};
    int64_t *op_ns = calloc(ops + s->pieces + 1, sizeof(*op_ns)), *piece_ns = op_ns + ops;
    if (!op_ns)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    status_t status = ops ? profiler_operators(&profiler, s->info->max_batch, ops, op_ns, err) : STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && ops && i < s->pieces; i++)
        for (uint32_t op = s->at[i]; op < (i + 1 < s->pieces ? s->at[i + 1] : ops); op++)
            piece_ns[i] += op_ns[op];
    if (status == STATUS_OK && ops)
        predictor_set_times(predictor, service, piece_ns);
    free(op_ns);
    return status;
}

/* ---- training ---- */

static void add_error(profile_overlap_error_t *error, const predictor_t *mlp, const trainer_line_t lines[2],
                      const trainer_sample_t *sample)
{
    error->groups++;
    error->mlp += trainer_error(mlp, sample, 1);
    error->linear += trainer_line_error(&lines[0], sample, 1);
    error->svr += trainer_line_error(&lines[1], sample, 1);
}

static void divide(profile_overlap_error_t *error)
{
    double groups = error->groups ? error->groups : 1;
    error->mlp /= groups;
    error->linear /= groups;
    error->svr /= groups;
    error->again /= error->again_groups ? error->again_groups : 1;
}

static void list_pairs(uint32_t models, profile_overlap_t *found)
{
    for (uint32_t a = 0; a < models; a++)
        for (uint32_t b = a + 1; b < models; b++) {
            found->pairs[found->pair_count].a = a;
            found->pairs[found->pair_count++].b = b;
        }
}

/* A step takes 32 groups. */
static uint32_t epochs_for(uint32_t count)
{
    uint32_t least = STEPS_MIN / (count / TRAIN_MIN);
    return least > EPOCHS ? least : EPOCHS;
}

/* Trains on all folds but one and counts that one: rest is where the others are put together. */
static void judge_fold(trainer_t *trainer, predictor_t *mlp, const trainer_sample_t *samples, uint32_t count,
                       uint32_t fold, trainer_sample_t *rest, prng_t *prng, profile_overlap_t *found)
{
    trainer_line_t lines[2];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (i % FOLDS != fold)
            rest[kept++] = samples[i];
    trainer_fit(trainer, mlp, rest, kept, epochs_for(kept), prng);
    trainer_fit_linear(&lines[0], rest, kept, mlp->width[0]);
    trainer_fit_svr(&lines[1], rest, kept, mlp->width[0], SVR_EPOCHS, prng);
    for (uint32_t i = fold; i < count; i += FOLDS) {
        add_error(&found->all, mlp, lines, &samples[i]);
        for (uint32_t p = 0; p < found->pair_count; p++)
            if (samples[i].members == pair_of(found->pairs[p].a, found->pairs[p].b))
                add_error(&found->pairs[p].error, mlp, lines, &samples[i]);
    }
}

static status_t train(const profile_overlap_how_t *how, predictor_t *predictor,
                      const trainer_sample_t *samples, prng_t *prng, profile_overlap_t *found, err_t *err)
{
    trainer_t *trainer = malloc(sizeof(*trainer));
    predictor_t *fold = malloc(sizeof(*fold));
    trainer_sample_t *rest = calloc(how->samples, sizeof(*rest));
    status_t status = trainer && fold && rest ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; status == STATUS_OK && i < FOLDS; i++) {
        *fold = *predictor;
        judge_fold(trainer, fold, samples, how->samples, i, rest, prng, found);
    }
    if (status == STATUS_OK)
        trainer_fit(trainer, predictor, samples, how->samples, epochs_for(how->samples), prng);
    divide(&found->all);
    for (uint32_t p = 0; p < found->pair_count; p++)
        divide(&found->pairs[p].error);
    free(trainer);
    free(fold);
    free(rest);
    return status;
}

static int64_t time_prediction(predictor_t *predictor, trainer_services_t *services, uint32_t ways,
                               prng_t *prng)
{
    overlap_group_t groups[OVERLAP_WAYS_MAX];
    int64_t ns[OVERLAP_WAYS_MAX];
    for (uint32_t i = 0; i < ways; i++)
        groups[i] = trainer_draw_group(services, prng);
    int64_t begin_ns = clock_now_ns();
    for (uint32_t i = 0; i < PREDICTIONS; i++)
        predictor_predict(predictor, groups, ways, ns);
    return (clock_now_ns() - begin_ns) / PREDICTIONS;
}

static uint32_t longest_of(const overlap_service_t *s)
{
    return overlap_service_length(s, s->mix ? s->mix->count - 1 : 0);
}

static status_t measure_and_train(lab_t *lab, predictor_t *predictor, profile_overlap_t *found, err_t *err)
{
    const profile_overlap_how_t *how = lab->how;
    uint32_t pieces[OVERLAP_MODELS_MAX], rows_max = 1;
    prng_t prng;
    for (uint32_t i = 0; i < how->count; i++) {
        pieces[i] = lab->services[i].pieces;
        rows_max = how->models[i]->info->max_batch > rows_max ? how->models[i]->info->max_batch : rows_max;
    }
    memset(predictor, 0, sizeof(*predictor));
    predictor_init(predictor, how->count, pieces, rows_max, 1);
    for (uint32_t i = 0; i < how->count; i++)
        predictor_set_length(predictor, i, longest_of(&lab->services[i]));
    list_pairs(how->count, found);
    prng_init(&prng, how->seed);
    trainer_sample_t *samples = calloc(how->samples, sizeof(*samples));
    status_t status =
        samples ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for %u groups", how->samples);
    for (uint32_t i = 0; status == STATUS_OK && i < how->count; i++)
        status = measure_pieces(lab, predictor, i, err);
    if (status == STATUS_OK)
        status = measure_all(lab, predictor, samples, &prng, err);
    if (status == STATUS_OK)
        status = train(how, predictor, samples, &prng, found, err);
    if (status == STATUS_OK) {
        found->predict_ns = time_prediction(predictor, &lab->drawn, 1, &prng);
        found->predict4_ns = time_prediction(predictor, &lab->drawn, 4, &prng);
    }
    free(samples);
    return status;
}

status_t profile_overlap(const profile_overlap_how_t *how, predictor_t *predictor, profile_overlap_t *found,
                         err_t *err)
{
    if (how->samples < TRAIN_MIN * FOLDS / (FOLDS - 1))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u groups are too few to learn from", how->samples);
    lab_t *lab = calloc(1, sizeof(*lab));
    status_t status = STATUS_OK;
    if (!lab)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    *found = (profile_overlap_t){0};
    lab->how = how;
    lab->found = found;
    lab->ops = how->devices->ops;
    lab->engine = how->devices->list[0].engine;
    lab->drawn.models = how->count;
    lab->drawn.limited = true; /* as in a worker */
    pthread_mutex_init(&lab->mutex, NULL);
    pthread_cond_init(&lab->changed, NULL);
    for (uint32_t i = 0; status == STATUS_OK && i < how->count; i++)
        status = open_service(lab, i, err);
    if (status == STATUS_OK)
        status = measure_and_train(lab, predictor, found, err);
    for (uint32_t i = 0; i < how->count; i++)
        overlap_service_close(&lab->services[i]);
    pthread_cond_destroy(&lab->changed);
    pthread_mutex_destroy(&lab->mutex);
    free(lab);
    return status;
}

/* ---- reports ---- */

/* What the duration model should at most be off by on a CPU; a GPU's times repeat better. */
static const double WANTED_ERROR = 0.08;

double profile_overlap_least(const profile_overlap_error_t *error)
{
    return error->again / sqrt(2); /* the difference of two times varies as both together do */
}

static void print_error(const char *name, const profile_overlap_error_t *error, FILE *out)
{
    fprintf(out, "%-40s %7u %7.1f %% %7.1f %% %7.1f %% ", name, error->groups, 100 * error->mlp,
            100 * error->linear, 100 * error->svr);
    if (error->again_groups)
        fprintf(out, "%7.1f %% %7.1f %%\n", 100 * error->again, 100 * profile_overlap_least(error));
    else
        fprintf(out, "%9s %9s\n", "-", "-");
}

void profile_overlap_table(const profile_overlap_how_t *how, const profile_overlap_t *found, FILE *out)
{
    char name[2 * MODEL_NAME_BYTES + 2];
    fprintf(out, "%-40s %7s %9s %9s %9s %9s %9s\n", "error, cross-validated", "groups", "MLP", "linear",
            "SVM", "repeated", "least");
    for (uint32_t p = 0; p < found->pair_count; p++) {
        snprintf(name, sizeof(name), "%s+%s", how->models[found->pairs[p].a]->name,
                 how->models[found->pairs[p].b]->name);
        print_error(name, &found->pairs[p].error, out);
    }
    print_error("all, also of one model", &found->all, out);
    fprintf(out,
            "repeated: how far off the same group is when it is measured again a little later (%u groups)\n"
            "least: about what a perfect model would be off by; both times of a repeated group err\n"
            "a prediction takes %.1f us, four at once %.1f us\n",
            found->all.again_groups, (double)found->predict_ns / 1e3, (double)found->predict4_ns / 1e3);
    if (found->all.mlp > WANTED_ERROR)
        fprintf(
            out,
            "The duration model is off by more than %.0f %%: groups will end late or be put off for nothing. "
            "More of them (--groups, here %u; 2000 is a good number) on an idle machine make it better.\n",
            100 * WANTED_ERROR, found->all.groups);
}

static json_t *error_json(const profile_overlap_error_t *error)
{
    bool repeated = error->again_groups > 0;
    return json_pack("{s:i, s:f, s:f, s:f, s:i, s:o, s:o}", "groups", (int)error->groups, "mlp", error->mlp,
                     "linear", error->linear, "svm", error->svr, "repeated_groups", (int)error->again_groups,
                     "repeated", repeated ? json_real(error->again) : json_null(), "least",
                     repeated ? json_real(profile_overlap_least(error)) : json_null());
}

json_t *profile_overlap_json(const profile_overlap_how_t *how, const profile_overlap_t *found)
{
    json_t *pairs = json_array();
    for (uint32_t p = 0; p < found->pair_count; p++)
        json_array_append_new(pairs,
                              json_pack("{s:[s,s], s:o}", "models", how->models[found->pairs[p].a]->name,
                                        how->models[found->pairs[p].b]->name, "error",
                                        error_json(&found->pairs[p].error)));
    return json_pack("{s:o, s:o, s:I, s:I}", "pairs", pairs, "all", error_json(&found->all), "predict_ns",
                     (json_int_t)found->predict_ns, "predict4_ns", (json_int_t)found->predict4_ns);
}
