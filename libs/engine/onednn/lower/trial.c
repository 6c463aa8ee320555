#include "engine/onednn/lower/trial.h"

#include "base/clock.h"
#include "engine/onednn/run/team.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LEAST_ROUNDS = 2,
    MOST_ROUNDS = 5,
    ARGS = 5,
    LINE_BYTES = 64,
};

static const int64_t ENOUGH_NS = 10 * NS_PER_MS; /* no more rounds than the least behind this */
static const double NEEDED = 0.95;               /* of the time of the first way */
static const double HOPELESS = 1.5;              /* times the least so far: not tried again */

typedef struct {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[ARGS];
    void *data[ARGS]; /* NULL: another step's */
    int count;
    void *made;
    const char *weights;
    size_t weight_bytes;
} timed_step_t;

typedef struct {
    timed_step_t steps[TRIAL_MAX_STEPS];
    uint32_t count;
    double least_ns;
} timed_way_t;

static void *zeros(size_t len)
{
    void *data = aligned_alloc(LINE_BYTES, (len + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
    if (data)
        memset(data, 0, len);
    return data;
}

/* Of what it does not have there is no size. */
static bool add_arg(timed_step_t *step, int arg, const dnnl_memory_desc_t *md, void *at, dnnl_engine_t engine)
{
    size_t len = md ? dnnl_memory_desc_get_size(md) : 0;
    dnnl_memory_t memory;
    if (!len)
        return true;
    step->data[step->count] = at ? NULL : zeros(len);
    at = at ? at : step->data[step->count];
    if (!at || dnnl_memory_create(&memory, md, engine, at) != dnnl_success)
        return false;
    step->args[step->count++] = (dnnl_exec_arg_t){.arg = arg, .memory = memory};
    if (arg == DNNL_ARG_DST)
        step->made = at;
    if (arg == DNNL_ARG_WEIGHTS) {
        step->weights = at;
        step->weight_bytes = len;
    }
    return true;
}

static bool make_step(timed_step_t *step, const_dnnl_primitive_desc_t pd, void *before, dnnl_engine_t engine)
{
    return dnnl_primitive_create(&step->primitive, pd) == dnnl_success &&
           add_arg(step, DNNL_ARG_SRC, dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0), before,
                   engine) &&
           add_arg(step, DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), NULL,
                   engine) &&
           add_arg(step, DNNL_ARG_BIAS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1), NULL,
                   engine) &&
           add_arg(step, DNNL_ARG_DST, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0), NULL,
                   engine) &&
           add_arg(step, DNNL_ARG_SCRATCHPAD, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0),
                   NULL, engine);
}

static bool make_way(timed_way_t *way, const trial_way_t *of, dnnl_engine_t engine)
{
    void *before = NULL;
    while (way->count < of->count) {
        timed_step_t *step = &way->steps[way->count];
        if (!make_step(step, of->steps[way->count++], before, engine))
            return false;
        before = step->made;
    }
    return true;
}

static void dispose(timed_way_t *way)
{
    for (uint32_t s = 0; s < way->count; s++) {
        timed_step_t *step = &way->steps[s];
        for (int a = 0; a < step->count; a++)
            dnnl_memory_destroy(step->args[a].memory);
        for (int a = 0; a < ARGS; a++)
            free(step->data[a]);
        if (step->primitive)
            dnnl_primitive_destroy(step->primitive);
    }
}

/* Alone, a thread's own time tells more than the clock does beside other work. */
static int64_t now_ns(void)
{
    struct timespec own;
    if (omp_get_max_threads() > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own))
        return clock_now_ns();
    return own.tv_sec * NS_PER_S + own.tv_nsec;
}

/* The weights of a network are not in the cache when it comes to them: other layers' have been there since. Processors without AVX-512,
 * which have no choice to make so far, may not know how. */
#if defined(__x86_64__)
__attribute__((target("clflushopt"))) static void evict(const timed_step_t *step)
{
    for (size_t i = 0; i < step->weight_bytes && __builtin_cpu_supports("avx512bw"); i += LINE_BYTES)
        __builtin_ia32_clflushopt((void *)(uintptr_t)(step->weights + i));
    __builtin_ia32_sfence();
}
#else
static void evict(const timed_step_t *step)
{
    (void)step;
}
#endif

static bool run(timed_way_t *way, dnnl_stream_t stream)
{
    for (uint32_t s = 0; s < way->count; s++)
        evict(&way->steps[s]);
    int64_t begun_ns = now_ns();
    for (uint32_t s = 0; s < way->count; s++) {
        const timed_step_t *step = &way->steps[s];
        if (dnnl_primitive_execute(step->primitive, stream, step->count, step->args) != dnnl_success)
            return false;
    }
    if (dnnl_stream_wait(stream) != dnnl_success)
        return false;
    double took_ns = (double)(now_ns() - begun_ns);
    way->least_ns = way->least_ns == 0 || took_ns < way->least_ns ? took_ns : way->least_ns;
    return true;
}

static double least_of(const timed_way_t *ways, uint32_t count)
{
    double least_ns = ways[0].least_ns;
    for (uint32_t w = 1; w < count; w++)
        least_ns = ways[w].least_ns < least_ns ? ways[w].least_ns : least_ns;
    return least_ns;
}

static bool run_all(timed_way_t *ways, uint32_t count, dnnl_stream_t stream)
{
    int64_t until_ns = clock_now_ns() + ENOUGH_NS;
    for (int round = 0; round < LEAST_ROUNDS || (round < MOST_ROUNDS && clock_now_ns() < until_ns); round++) {
        double bound_ns = round ? HOPELESS * least_of(ways, count) : 0;
        for (uint32_t w = 0; w < count; w++)
            if ((!round || ways[w].least_ns <= bound_ns) && !run(&ways[w], stream))
                return false;
    }
    return true;
}

static uint32_t choose(const timed_way_t *ways, uint32_t count)
{
    uint32_t best = 0;
    double bound_ns = NEEDED * ways[0].least_ns;
    for (uint32_t w = 1; w < count; w++)
        if (ways[w].least_ns < bound_ns) {
            best = w;
            bound_ns = ways[w].least_ns;
        }
    return best;
}

uint32_t trial_fastest(const trial_way_t *ways, uint32_t count, dnnl_engine_t engine, dnnl_stream_t stream)
{
    timed_way_t *made = calloc(count, sizeof *made);
    bool ok = made;
    for (uint32_t w = 0; ok && w < count; w++)
        ok = make_way(&made[w], &ways[w], engine);
    uint32_t best = ok && run_all(made, count, stream) ? choose(made, count) : UINT32_MAX;
    for (uint32_t w = 0; made && w < count; w++)
        dispose(&made[w]);
    free(made);
    return best;
}
