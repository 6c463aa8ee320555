#include "base/clock.h"
#include "base/prng.h"
#include "oracles.h"

#include <math.h>
#include <stdlib.h>

status_t partition_random(const partition_problem_t *problem, partition_t *plan, err_t *err)
{
    status_t status = partition_check(problem, err);
    if (status != STATUS_OK)
        return status;
    partition_t best = {.objective = INFINITY}, draw = {0};
    best.cluster = malloc(problem->model_count * sizeof *best.cluster);
    draw.cluster = malloc(problem->model_count * sizeof *draw.cluster);
    if (!best.cluster || !draw.cluster) {
        partition_dispose(&best);
        partition_dispose(&draw);
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    }
    prng_t prng;
    prng_init(&prng, problem->seed);
    int64_t end_ns = clock_now_ns() + (int64_t)(problem->seconds * 1e9);
    do {
        for (uint32_t i = 0; i < problem->model_count; i++)
            draw.cluster[i] = (uint32_t)prng_below(&prng, problem->cluster_count);
        if (partition_evaluate(problem, &draw) && draw.objective < best.objective) {
            partition_t old = best;
            best = draw;
            draw.cluster = old.cluster;
        }
    } while (clock_now_ns() < end_ns);
    partition_dispose(&draw);
    if (isinf(best.objective)) {
        partition_dispose(&best);
        return err_set(err, STATUS_NOT_FOUND, "no random partition keeps all bounds");
    }
    *plan = best;
    return STATUS_OK;
}
