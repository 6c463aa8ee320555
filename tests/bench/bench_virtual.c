/* How many requests the virtual cluster simulates in a second of this machine, control plane and all. */
#include "base/clock.h"
#include "sim/arrivals.h"
#include "virtual/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MODELS = 8, GATEWAYS = 4, WORKERS = 8, DEVICES = 8 };

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const virtual_request_t *)a)->at_ns, y = ((const virtual_request_t *)b)->at_ns;

    return (x > y) - (x < y);
}

/* Poisson, the same rate for each model, dealt to the gateways in turn. */
static uint64_t make_requests(virtual_request_t *requests, uint64_t room, double rate_rps, double seconds)
{
    uint64_t count = 0;

    for (uint32_t m = 0; m < MODELS; m++) {
        arrivals_t arrivals;
        arrivals_init(&arrivals, &(arrivals_spec_t){.kind = ARRIVALS_POISSON}, 1, m);
        for (double at_s; count < room && (at_s = arrivals_next_s(&arrivals, rate_rps / MODELS)) < seconds;
             count++)
            requests[count] = (virtual_request_t){.at_ns = (int64_t)(at_s * 1e9) + NS_PER_S,
                                                  .gateway = (uint32_t)(count % GATEWAYS),
                                                  .model = m,
                                                  .budget_ns = 100 * NS_PER_MS};
    }
    qsort(requests, count, sizeof(*requests), by_time);
    return count;
}

int main(void)
{
    static const char *const names[MODELS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const double rate_rps = 100000, seconds = 5;
    uint64_t room = (uint64_t)(rate_rps * seconds * 1.1);
    virtual_request_t *requests = malloc(room * sizeof(*requests));
    virtual_model_t models[MODELS];
    virtual_cluster_t *cluster;
    err_t err = {0};

    if (!requests)
        return 1;
    uint64_t count = make_requests(requests, room, rate_rps, seconds);
    for (uint32_t m = 0; m < MODELS; m++) {
        models[m] = (virtual_model_t){.name = names[m], .slo_ns = 100 * NS_PER_MS};
        (void)profile_from_line(&models[m].profile, 200 * NS_PER_US, 5 * NS_PER_MS, 256, NULL);
    }
    virtual_cluster_options_t options = {
        .network = {.delay_ns = 100 * NS_PER_US, .jitter_ns = 100 * NS_PER_US, .seed = 1},
        .gateways = GATEWAYS,
        .workers = WORKERS,
        .devices = DEVICES,
        .models = models,
        .model_count = MODELS,
        .fetch_ns = 200 * NS_PER_US};
    control_options_init(&options.control);
    int64_t begin_ns = cpu_ns();
    if (virtual_cluster_create(&options, requests, count, NULL, 0, &cluster, &err) != STATUS_OK) {
        fprintf(stderr, "bench_virtual: %s\n", err.text);
        return 1;
    }
    virtual_cluster_run(cluster, (int64_t)((seconds + 2) * 1e9));
    double took_s = (double)(cpu_ns() - begin_ns) / 1e9;
    const virtual_tally_t *tally = virtual_cluster_tally(cluster);
    printf("%llu requests in %.2f s of CPU: %.0f requests/s, %.1f a batch, %.2f %% in time%s%s\n",
           (unsigned long long)count, took_s, (double)count / took_s,
           (double)tally->rows / (double)tally->batches, 100 * (double)tally->ends[TASK_GOOD] / (double)count,
           tally->violation ? "; " : "", tally->violation ? tally->violation : "");
    virtual_cluster_destroy(cluster);
    free(requests);
    return 0;
}
