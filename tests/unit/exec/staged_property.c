/*
 * Random schedules: whatever enters, joins and splits, every row passes every stage once, is read from where
 * it was written, and no row in a buffer is overwritten before it was read. The test keeps its own picture of
 * the buffers, from the actions alone.
 */
#include "base/prng.h"
#include "exec/staged.h"

#include <criterion/criterion.h>
#include <string.h>

enum { STAGES = 5, ROWS = 16, LAUNCHES = 64, QUERIES = 3000 };

typedef struct {
    uint64_t id; /* 0: none */
    uint32_t stage, start, rows, in_pair, out_pair;
    uint32_t held[EXEC_ROWS_MAX]; /* the rows it reads */
} running_t;

typedef struct {
    prng_t prng;
    exec_t *exec;
    int64_t now_ns;
    running_t running[LAUNCHES];
    uint32_t running_count;
    /* Which row (its number, or 0) lies where, waiting to be read. */
    uint32_t buffers[STAGES + 1][STAGED_PAIRS_MAX][EXEC_ROWS_MAX];
    uint32_t passed[QUERIES + 1];    /* stages that each row is through */
    uint32_t shape[QUERIES + 1];     /* of each row */
    uint32_t shapes;                 /* how many there are */
    uint32_t arrived[EXEC_ROWS_MAX]; /* rows of the launch at hand */
    uint64_t answered, submitted;
} play_t;

static staged_cost_t cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    (void)ctx, (void)stage;
    return (staged_cost_t){.ns = 1000 + 10 * rows * length, .busy_ns = 10 * rows * length};
}

/* A table that decides by chance, so that every order of operations comes up. */
static prng_t *chance;

static uint32_t chance_enter(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    uint32_t batches = 1 + (uint32_t)prng_below(chance, view->free_pairs);
    for (uint32_t i = 0; i < view->waiting_count; i++)
        group[i] = prng_below(chance, 4) ? (uint8_t)prng_below(chance, batches) : STAGED_LATER;
    *wake_ns = view->now_ns + 1;
    return batches;
}

static uint32_t chance_stretch(const staged_view_t *view)
{
    return prng_below(chance, 2) ? (uint32_t)prng_below(chance, view->waiting_count + 1) : 0;
}

/* Must be a function of what it is asked about: the core asks beforehand too. */
static uint32_t mixed_split(const staged_view_t *view)
{
    uint32_t mix = view->rows * 7 + view->stage * 3 + view->length;
    return mix % 3 == 0 ? 1 + mix % view->rows : 0;
}

static bool chance_start(const staged_view_t *view)
{
    cr_assert(view->beside_count > 0 && view->rows > 0, "asked about nothing");
    return prng_below(chance, 2);
}

/* The same for one batch whenever it is asked for: else two could wait for each other. */
static double mixed_rank(const staged_config_t *config, const staged_beside_t *batch)
{
    (void)config;
    return (batch->rows * 5 + batch->stage * 11 + batch->length * 3) % 7;
}

static const staged_schedule_t by_chance[] = {
    {"chance", chance_enter, chance_stretch, mixed_split, chance_start, NULL},
    {"chance, ranked", chance_enter, chance_stretch, mixed_split, chance_start, mixed_rank}};

/* Rows of a launch, and those that lie where it will write, are of one shape: a buffer is laid out for one
 * at a time. */
static void check_shapes(const play_t *play, const exec_action_t *action, const running_t *run)
{
    uint32_t shape = action->launch.queries[0].shape;
    for (uint32_t i = 0; i < run->rows; i++) {
        cr_assert_eq(action->launch.queries[i].shape, shape);
        cr_assert_eq(play->shape[run->held[i]], shape);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t lies = play->buffers[run->stage + 1][run->out_pair][i];
        cr_assert(!lies || play->shape[lies] == shape, "two shapes in one buffer behind stage %u",
                  run->stage);
    }
}

/* Rows enter border 0 with the launch that reads them there: the caller writes them, the core only says where. */
static void on_launch(play_t *play, const exec_action_t *action)
{
    const exec_part_t *part = &action->launch.parts[0];
    cr_assert(play->running_count < LAUNCHES);
    running_t *run = &play->running[play->running_count++];
    *run = (running_t){.id = action->launch.launch,
                       .stage = part->from,
                       .start = action->launch.start,
                       .rows = part->rows,
                       .in_pair = action->launch.in_pair,
                       .out_pair = action->launch.out_pair};
    for (uint32_t i = 0; i < part->rows; i++) {
        uint32_t *held = &play->buffers[part->from][run->in_pair][run->start + i];
        if (part->from == 0) {
            run->held[i] = (uint32_t)++play->submitted;
            play->shape[run->held[i]] = action->launch.queries[i].shape;
            continue;
        }
        cr_assert(*held != 0, "stage %u reads a row that nobody wrote", part->from);
        run->held[i] = *held;
    }
    check_shapes(play, action, run);
    for (uint32_t i = 0; i < play->running_count - 1; i++) {
        const running_t *other = &play->running[i];
        bool same_in = other->stage == run->stage + 1 && other->in_pair == run->out_pair;
        bool same_out = other->stage + 1 == run->stage && other->out_pair == run->in_pair;
        cr_assert(!same_in, "stage %u writes what another reads", run->stage);
        cr_assert(!same_out, "stage %u reads what another writes", run->stage);
    }
}

static void sink(void *ctx, const exec_action_t *action)
{
    play_t *play = ctx;
    if (action->kind == EXEC_LAUNCH)
        on_launch(play, action);
    else if (action->kind == EXEC_COMPLETE)
        play->answered += action->done.count;
}

static void end_one(play_t *play)
{
    uint32_t at = (uint32_t)prng_below(&play->prng, play->running_count);
    running_t run = play->running[at];
    play->running[at] = play->running[--play->running_count];
    for (uint32_t i = 0; i < run.rows; i++) {
        play->buffers[run.stage][run.in_pair][run.start + i] = 0;
        uint32_t *to = &play->buffers[run.stage + 1][run.out_pair][run.start + i];
        cr_assert(*to == 0, "stage %u overwrites a row that nobody has read", run.stage);
        cr_assert_eq(play->passed[run.held[i]], run.stage);
        play->passed[run.held[i]]++;
        *to = run.stage + 1 < STAGES ? run.held[i] : 0;
    }
    cr_assert(exec_finished(play->exec, play->now_ns, run.id));
    cr_assert(!exec_finished(play->exec, play->now_ns, run.id), "a launch ends once");
}

static void submit(play_t *play, uint32_t *tag)
{
    uint32_t count = 1 + (uint32_t)prng_below(&play->prng, 6);
    for (uint32_t i = 0; i < count && *tag < QUERIES; i++) {
        exec_query_t query = {.tag = ++*tag,
                              .rows = 1,
                              .length = 1 + (uint32_t)prng_below(&play->prng, 4),
                              .shape = (uint32_t)prng_below(&play->prng, play->shapes),
                              .arrival_ns = play->now_ns,
                              .deadline_ns = INT64_MAX};
        cr_assert_eq(exec_submit(play->exec, play->now_ns, &query, 1, 0, NULL), STATUS_OK);
    }
}

static void run(play_t *play)
{
    exec_run(play->exec, play->now_ns, sink, play);
    const char *fault = exec_validate(play->exec);
    cr_assert(fault == NULL, "%s", fault);
}

static void play_seed(uint64_t seed, const staged_schedule_t *schedule)
{
    static play_t play;
    uint32_t tag = 0;
    memset(&play, 0, sizeof(play));
    prng_init(&play.prng, seed);
    play.shapes = 1 + (uint32_t)(seed % 3);
    chance = &play.prng;
    staged_config_t config = {.stages = STAGES,
                              .pairs = 1 + (uint32_t)prng_below(&play.prng, STAGED_PAIRS_MAX),
                              .width = 1 + (uint32_t)prng_below(&play.prng, STAGED_WIDTH_MAX),
                              .streams = (uint32_t)prng_below(&play.prng, 4),
                              .rows_max = ROWS,
                              .queries_max = QUERIES,
                              .comp_wait_ns = 40,
                              .window_ns = 10,
                              .eager = true,
                              .cost = cost,
                              .schedule = schedule};
    config.new_pairs = 1 + (uint32_t)prng_below(&play.prng, config.pairs);
    play.exec = exec_create_staged(&config, NULL);
    cr_assert(play.exec != NULL);
    for (uint32_t idle = 0; play.answered < QUERIES; play.now_ns++) {
        if (tag < QUERIES && prng_below(&play.prng, 3) == 0)
            submit(&play, &tag);
        if (play.running_count && prng_below(&play.prng, 2))
            end_one(&play);
        run(&play);
        idle = play.running_count || tag < QUERIES ? 0 : idle + 1;
        cr_assert(idle < 1000, "seed %llu: rows are stuck", (unsigned long long)seed);
    }
    for (uint32_t i = 1; i <= QUERIES; i++)
        cr_assert_eq(play.passed[i], STAGES);
    exec_destroy(play.exec);
}

Test(staged_property, random_schedules_have_no_hazard)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        play_seed(seed, &by_chance[seed % 2]);
}

Test(staged_property, nor_have_the_policies)
{
    static const char *const names[] = {"input", "operator", "load", "combined"};
    for (size_t i = 0; i < 4; i++)
        for (uint64_t seed = 1; seed <= 15; seed++)
            play_seed(seed * 31 + i, staged_schedule_find(names[i]));
    cr_assert(staged_schedule_find("none") == NULL);
}
