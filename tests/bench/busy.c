/*
 * fermata-busy [--threads N] [--part P] [--slice-ms S] [--seconds T]
 *
 * Other work on the host, for benchmarks: N threads (default 2), each of which computes for a part P (default 0.4) of the
 * time in slices of S ms (default 20) in the mean, by the wall clock, and sleeps in between. Nothing is pinned, and slices begin
 * when they like (seeded), as those of programs do that know nothing of each other. Ends after T seconds (default 10).
 */
#include "base/clock.h"
#include "base/prng.h"

#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 256 };

typedef struct {
    unsigned threads;
    double part, slice_ms, seconds;
} options_t;

typedef struct {
    const options_t *options;
    prng_t prng;
    int64_t end_ns;
} busy_t;

static void nap(int64_t ns)
{
    struct timespec ts = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&ts, NULL);
}

/* As much time as it was given, however much of that it got: what a busy neighbour lacks it does not ask for later. */
static void *busy_main(void *arg)
{
    busy_t *busy = arg;
    const options_t *o = busy->options;
    volatile double x = 1;
    for (int64_t now_ns; (now_ns = clock_now_ns()) < busy->end_ns;) {
        double slice_ns = o->slice_ms * 1e6 * (0.5 + prng_uniform(&busy->prng));
        int64_t until_ns = now_ns + (int64_t)(slice_ns * o->part);
        while (clock_now_ns() < until_ns)
            for (int i = 0; i < 1000; i++)
                x = x * 1.0000001 + 1e-9;
        if (o->part < 1)
            nap((int64_t)(slice_ns * (1 - o->part)));
    }
    return NULL;
}

static bool parse(int argc, char **argv, options_t *o)
{
    static const struct option options[] = {
        {"threads", required_argument, NULL, 't'},
        {"part", required_argument, NULL, 'p'},
        {"slice-ms", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    *o = (options_t){.threads = 2, .part = 0.4, .slice_ms = 20, .seconds = 10};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 't':
            o->threads = (unsigned)atoi(optarg);
            break;
        case 'p':
            o->part = atof(optarg);
            break;
        case 'l':
            o->slice_ms = atof(optarg);
            break;
        case 's':
            o->seconds = atof(optarg);
            break;
        default:
            return false;
        }
    }
    return o->threads >= 1 && o->threads <= THREADS_MAX && o->part > 0 && o->part <= 1 && o->slice_ms > 0;
}

int main(int argc, char **argv)
{
    static busy_t busy[THREADS_MAX];
    static pthread_t threads[THREADS_MAX];
    options_t o;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: fermata-busy [--threads N] [--part 0..1] [--slice-ms S] [--seconds T]\n");
        return 2;
    }
    int64_t end_ns = clock_now_ns() + (int64_t)(o.seconds * 1e9);
    for (unsigned i = 0; i < o.threads; i++) {
        busy[i] = (busy_t){.options = &o, .end_ns = end_ns};
        prng_init_stream(&busy[i].prng, 1, i);
        if (pthread_create(&threads[i], NULL, busy_main, &busy[i])) {
            fprintf(stderr, "fermata-busy: cannot start thread %u\n", i + 1);
            return 1;
        }
    }
    for (unsigned i = 0; i < o.threads; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
