/*
 * A hot path: some 50 loops to a run of a network. Nothing is allocated once a team has its size.
 *
 * Who writes what, by cache lines:
 *   post   caller, once a loop: which loop, its function                    read by all
 *   left   everyone, once a part
 *   turns  one to a line: who begins a part of this loop, the caller (opens) and one taker
 */
#include "engine/onednn/run/team.h"

#include "base/clock.h"
#include "base/log.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About what it takes to wake a thread on a virtual machine: whoever spins for longer had better slept. */
static const int64_t TEAM_SPIN_NS = 50 * NS_PER_US;

enum {
    LINE_BYTES = 64,
    ROUNDS_PER_LOOK = 64, /* at the clock: some µs */
    RETRY_NS = 100000000,
};

typedef void part_t(void *data);

/* Twice the number of a loop: its part may be begun; and one: it has been. */
typedef struct {
    _Alignas(LINE_BYTES) atomic_uint turn;
} turn_t;

typedef struct team team_t;

typedef struct {
    team_t *team;
    unsigned index; /* its own part: 1, 2, … */
    pthread_t thread;
} member_t;

/* Numbers of loops go round after 2^31 of them; no thread lingers over one for that long. */
struct team {
    /* post */
    atomic_uint loop;
    atomic_uint count; /* parts of it */
    part_t *part;      /* read by whoever has begun one, who so keeps the loop from ending */
    void *data;
    atomic_bool stopping;
    _Alignas(LINE_BYTES) atomic_uint sleepers; /* members that wait for a loop */
    _Alignas(LINE_BYTES) atomic_uint left;     /* parts of it not ended */
    atomic_uint caller_sleeps;
    _Alignas(LINE_BYTES) atomic_uint arrived; /* at the barrier */
    atomic_uint barriers;
    unsigned size;     /* with the caller */
    turn_t *turns;     /* size of them */
    member_t *members; /* [0] is the caller's, unused */
};

static _Thread_local struct {
    team_t *team;
    unsigned threads;      /* 0: 1 */
    unsigned index, count; /* inside a loop; count 0: outside */
    bool shared;           /* inside one that others run with it */
} own;

static _Atomic uint64_t loops;
static int64_t spin_rounds = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t team_key;

uint64_t team_loops(void)
{
    return atomic_load_explicit(&loops, memory_order_relaxed);
}

int64_t team_spin_rounds(const char *wait_policy, const char *spin_count)
{
    char *end;
    long long rounds = spin_count ? strtoll(spin_count, &end, 10) : -1;
    if (spin_count && end != spin_count && !*end && rounds >= 0)
        return rounds;
    if (spin_count && (!strcasecmp(spin_count, "infinity") || !strcasecmp(spin_count, "infinite")))
        return INT64_MAX;
    if (wait_policy && !strcasecmp(wait_policy, "passive"))
        return 0;
    return wait_policy && !strcasecmp(wait_policy, "active") ? INT64_MAX : -1;
}

/* ---- waiting ---- */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Until the word is another; false: it was not in time. */
static bool spin(atomic_uint *word, unsigned old)
{
    int64_t until_ns = spin_rounds < 0 ? clock_now_ns() + TEAM_SPIN_NS : 0;
    for (int64_t i = 0; spin_rounds < 0 || i < spin_rounds; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old)
            return true;
        relax();
        if (spin_rounds < 0 && i % ROUNDS_PER_LOOK == ROUNDS_PER_LOOK - 1 && clock_now_ns() > until_ns)
            return false;
    }
    return false;
}

static void futex_sleep(atomic_uint *word, unsigned old)
{
    (void)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count)
{
    (void)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* ---- a loop ---- */

static bool begin(team_t *team, unsigned loop, unsigned index)
{
    unsigned open = loop * 2;
    return atomic_compare_exchange_strong(&team->turns[index].turn, &open, loop * 2 + 1);
}

/* Its own part first, whose data are likely in its cache; then what nobody has begun. */
static void run_parts(team_t *team, unsigned loop, unsigned index)
{
    unsigned count = atomic_load_explicit(&team->count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        unsigned part = (index + i) % count;
        if (!begin(team, loop, part))
            continue;
        own.index = part;
        own.count = atomic_load_explicit(&team->count, memory_order_relaxed);
        own.shared = true;
        team->part(team->data);
        own.shared = false;
        own.count = 0;
        if (atomic_fetch_sub(&team->left, 1) == 1 && atomic_load(&team->caller_sleeps))
            futex_wake(&team->left, 1);
    }
}

static void *member_main(void *arg)
{
    member_t *member = arg;
    team_t *team = member->team;
    unsigned seen = 0;
    own.team = team;
    while (!atomic_load(&team->stopping)) {
        unsigned loop = atomic_load(&team->loop);
        if (loop != seen) {
            run_parts(team, loop, member->index);
            seen = loop;
        } else if (!spin(&team->loop, seen)) {
            atomic_fetch_add(&team->sleepers, 1);
            futex_sleep(&team->loop, seen);
            atomic_fetch_sub(&team->sleepers, 1);
        }
    }
    return NULL;
}

static void post(team_t *team, part_t *part, void *data, unsigned count)
{
    unsigned loop = atomic_load_explicit(&team->loop, memory_order_relaxed) + 1;
    team->part = part;
    team->data = data;
    atomic_store_explicit(&team->count, count, memory_order_relaxed);
    atomic_store_explicit(&team->left, count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        atomic_store_explicit(&team->turns[i].turn, loop * 2, memory_order_release);
    atomic_store(&team->loop, loop);
    if (atomic_load(&team->sleepers))
        futex_wake(&team->loop, (int)count - 1);
}

static void wait_for_the_rest(team_t *team)
{
    unsigned left;
    while ((left = atomic_load(&team->left)) > 0) {
        if (spin(&team->left, left))
            continue;
        atomic_store(&team->caller_sleeps, 1);
        left = atomic_load(&team->left);
        if (left > 0)
            futex_sleep(&team->left, left);
        atomic_store(&team->caller_sleeps, 0);
    }
}

/* ---- a team ---- */

static void team_destroy(void *arg)
{
    team_t *team = arg;
    atomic_store(&team->stopping, true);
    atomic_fetch_add(&team->loop, 1);
    futex_wake(&team->loop, INT_MAX);
    for (unsigned i = 1; i < team->size; i++)
        pthread_join(team->members[i].thread, NULL);
    free(team->members);
    free(team->turns);
    free(team);
}

static void init_once(void)
{
    spin_rounds = team_spin_rounds(getenv("OMP_WAIT_POLICY"), getenv("GOMP_SPINCOUNT"));
    pthread_key_create(&team_key, team_destroy);
}

static team_t *team_alloc(unsigned size)
{
    team_t *team = aligned_alloc(LINE_BYTES, sizeof *team);
    turn_t *turns = aligned_alloc(LINE_BYTES, size * sizeof *turns);
    member_t *members = calloc(size, sizeof *members);
    if (!team || !turns || !members) {
        free(team);
        free(turns);
        free(members);
        return NULL;
    }
    memset(team, 0, sizeof *team);
    memset(turns, 0, size * sizeof *turns);
    team->turns = turns;
    team->members = members;
    return team;
}

static bool team_start_member(team_t *team)
{
    member_t *member = &team->members[team->size];
    *member = (member_t){.team = team, .index = team->size};
    if (pthread_create(&member->thread, NULL, member_main, member))
        return false;
    team->size++;
    return true;
}

/* What is compiled for so many threads is wrong with fewer, and oneDNN has no way to say that it failed: it waits. */
static void wait_for_resources(bool *told)
{
    struct timespec retry = {.tv_nsec = RETRY_NS};
    if (!*told)
        log_error("no_compute_threads", LOG_STR("reason", "the host gives no memory or threads; waiting"));
    *told = true;
    nanosleep(&retry, NULL);
}

static team_t *team_of(unsigned size)
{
    bool told = false;
    if (own.team && own.team->size >= size)
        return own.team;
    pthread_once(&once, init_once);
    if (own.team)
        team_destroy(own.team);
    while (!(own.team = team_alloc(size)))
        wait_for_resources(&told);
    pthread_setspecific(team_key, own.team);
    for (own.team->size = 1; own.team->size < size;)
        if (!team_start_member(own.team))
            wait_for_resources(&told);
    return own.team;
}

/* ---- what oneDNN calls ---- */

void GOMP_parallel(part_t *part, void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);

/* The whole loop on the calling thread, as OpenMP does with one inside another. */
static void run_alone(part_t *part, void *data)
{
    unsigned index = own.index, count = own.count;
    own.index = 0;
    own.count = 1;
    part(data);
    own.index = index;
    own.count = count;
}

void GOMP_parallel(part_t *part, void *data, unsigned threads, unsigned flags)
{
    unsigned count = threads ? threads : (unsigned)omp_get_max_threads();
    (void)flags;
    if (count == 1 || own.count) {
        run_alone(part, data);
        return;
    }
    team_t *team = team_of(count);
    atomic_fetch_add_explicit(&loops, 1, memory_order_relaxed);
    post(team, part, data, count);
    run_parts(team, atomic_load_explicit(&team->loop, memory_order_relaxed), 0);
    wait_for_the_rest(team);
}

/* Every part of the loop is or will be under way on a thread of its own. */
void GOMP_barrier(void)
{
    team_t *team = own.team;
    if (!own.shared || own.count < 2)
        return;
    unsigned before = atomic_load(&team->barriers);
    if (atomic_fetch_add(&team->arrived, 1) + 1 == own.count) {
        atomic_store(&team->arrived, 0);
        atomic_fetch_add(&team->barriers, 1);
        futex_wake(&team->barriers, INT_MAX);
        return;
    }
    while (atomic_load(&team->barriers) == before)
        if (!spin(&team->barriers, before))
            futex_sleep(&team->barriers, before);
}

void omp_set_num_threads(int threads)
{
    own.threads = threads > 0 ? (unsigned)threads : 0;
}

int omp_get_max_threads(void)
{
    return own.threads ? (int)own.threads : 1;
}

int omp_get_num_threads(void)
{
    return own.count ? (int)own.count : 1;
}

int omp_get_thread_num(void)
{
    return own.count ? (int)own.index : 0;
}

int omp_in_parallel(void)
{
    return own.shared;
}
