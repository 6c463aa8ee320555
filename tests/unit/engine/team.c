#include "engine/onednn/run/team.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

void GOMP_parallel(void (*part)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);

enum { PARTS_MAX = 64, LOOPS = 20000, BARRIER_LOOPS = 500, CALLERS = 4 };

typedef struct {
    atomic_uint runs[PARTS_MAX];
    atomic_uint wrong;
    unsigned count;
    atomic_uint before, after; /* the barrier */
} seen_t;

static void note(void *data)
{
    seen_t *seen = data;
    unsigned index = (unsigned)omp_get_thread_num();
    if ((unsigned)omp_get_num_threads() != seen->count || index >= seen->count || !omp_in_parallel())
        atomic_fetch_add(&seen->wrong, 1);
    else
        atomic_fetch_add(&seen->runs[index], 1);
}

static void expect_each_once(unsigned count)
{
    seen_t seen = {.count = count};
    GOMP_parallel(note, &seen, count, 0);
    cr_assert_eq(seen.wrong, 0);
    for (unsigned i = 0; i < PARTS_MAX; i++)
        cr_assert_eq(seen.runs[i], i < count, "part %u of %u ran %u times", i, count, seen.runs[i]);
}

/* So oneDNN calls these and not libgomp's. */
Test(team, the_loader_finds_these_functions_first)
{
    Dl_info here, there;
    cr_assert_gt(dnnl_engine_get_count(dnnl_cpu), 0); /* it is linked, else nobody asks */
    void *found = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    cr_assert_not_null(found);
    cr_assert(dladdr(found, &there) && dladdr((void *)(uintptr_t)team_loops, &here));
    cr_expect_eq(here.dli_fbase, there.dli_fbase, "from %s", there.dli_fname);
}

Test(team, every_part_of_a_loop_runs_once)
{
    uint64_t before = team_loops();
    for (unsigned i = 0; i < LOOPS; i++)
        expect_each_once(2 + i % 3);
    for (unsigned count = 2; count <= PARTS_MAX; count++)
        expect_each_once(count);
    for (unsigned count = PARTS_MAX; count >= 2; count--)
        expect_each_once(count);
    cr_expect_eq(team_loops() - before, LOOPS + 2 * (PARTS_MAX - 1));
}

static void meet(void *data)
{
    seen_t *seen = data;
    for (unsigned round = 1; round <= 3; round++) {
        atomic_fetch_add(&seen->before, 1);
        GOMP_barrier();
        if (atomic_load(&seen->before) < round * seen->count)
            atomic_fetch_add(&seen->wrong, 1);
        GOMP_barrier();
        if (atomic_load(&seen->before) != round * seen->count)
            atomic_fetch_add(&seen->wrong, 1);
        GOMP_barrier();
    }
    atomic_fetch_add(&seen->after, 1);
}

/* Also of fewer parts than the team has threads. */
Test(team, parts_wait_for_each_other_at_a_barrier)
{
    for (unsigned i = 0; i < BARRIER_LOOPS; i++) {
        seen_t seen = {.count = 2 + (BARRIER_LOOPS - i) % 7};
        GOMP_parallel(meet, &seen, seen.count, 0);
        cr_assert_eq(seen.wrong, 0);
        cr_assert_eq(seen.after, seen.count);
    }
}

static void note_alone(void *data)
{
    seen_t *seen = data;
    if (omp_get_num_threads() != 1 || omp_get_thread_num() != 0)
        atomic_fetch_add(&seen->wrong, 1);
    GOMP_barrier();
    atomic_fetch_add(&seen->after, 1);
}

static void nest(void *data)
{
    seen_t *seen = data;
    int index = omp_get_thread_num();
    GOMP_parallel(note_alone, seen, 3, 0);
    if (omp_get_thread_num() != index || omp_get_num_threads() != 2 || !omp_in_parallel())
        atomic_fetch_add(&seen->wrong, 1);
}

Test(team, a_loop_inside_a_loop_runs_on_the_thread_that_came_to_it)
{
    seen_t seen = {0};
    GOMP_parallel(nest, &seen, 2, 0);
    cr_expect_eq(seen.wrong, 0);
    cr_expect_eq(seen.after, 2);
}

Test(team, one_part_needs_no_team)
{
    seen_t seen = {0};
    uint64_t before = team_loops();
    GOMP_parallel(note_alone, &seen, 1, 0);
    GOMP_parallel(note_alone, &seen, 0, 0); /* as many as are set: none */
    cr_expect_eq(seen.after, 2);
    cr_expect_eq(seen.wrong, 0);
    cr_expect_eq(team_loops(), before);
    cr_expect_eq(omp_in_parallel(), 0);
    cr_expect_eq(omp_get_num_threads(), 1);
    cr_expect_eq(omp_get_thread_num(), 0);
}

Test(team, threads_are_set_for_the_thread_that_sets_them)
{
    cr_expect_eq(omp_get_max_threads(), 1);
    omp_set_num_threads(3);
    cr_expect_eq(omp_get_max_threads(), 3);
    seen_t seen = {.count = 3};
    GOMP_parallel(note, &seen, 0, 0);
    cr_expect_eq(seen.wrong, 0);
    cr_expect_eq(seen.runs[2], 1);
    omp_set_num_threads(0);
    cr_expect_eq(omp_get_max_threads(), 1);
}

static void *call(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < LOOPS / 10; i++)
        expect_each_once(2 + i % 2);
    return NULL;
}

/* Each has a team, which ends with it. */
Test(team, callers_do_not_meet)
{
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, call, NULL), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

/* What a late thread costs: with one CPU for all, whoever is on it does all parts instead of spinning for the others. */
Test(team, a_thread_without_a_cpu_is_not_waited_for)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    cr_assert_eq(sched_setaffinity(0, sizeof set, &set), 0);
    for (unsigned i = 0; i < LOOPS / 10; i++)
        expect_each_once(4);
}

Test(team, variables_of_openmp_are_heeded)
{
    static const struct {
        const char *policy, *count;
        int64_t rounds;
    } cases[] = {
        {NULL, NULL, -1},
        {"passive", NULL, 0},
        {"PASSIVE", NULL, 0},
        {"active", NULL, INT64_MAX},
        {"", NULL, -1},
        {"lazy", NULL, -1},
        {NULL, "0", 0},
        {NULL, "1000", 1000},
        {"active", "0", 0},
        {"passive", "30", 30},
        {NULL, "-1", -1},
        {NULL, "", -1},
        {NULL, "12 ", -1},
        {NULL, "many", -1},
        {NULL, "infinity", INT64_MAX},
        {"passive", "many", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(team_spin_rounds(cases[i].policy, cases[i].count), cases[i].rounds, "case %zu", i);
}
