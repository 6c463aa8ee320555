#include "plan/nexus_pack.h"

#include "sched/squishy.h"

#include <math.h>
#include <stdlib.h>

static status_t check(const nexus_model_t *models, uint32_t model_count, uint32_t gpus_max, err_t *err)
{
    if (model_count == 0 || model_count > NEXUS_MODELS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "models: %u, not in 1..%d", model_count,
                       NEXUS_MODELS_MAX);
    if (gpus_max == 0 || gpus_max > NEXUS_GPUS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "GPUs: %u, not in 1..%d", gpus_max, NEXUS_GPUS_MAX);
    for (uint32_t i = 0; i < model_count; i++) {
        if (!isfinite(models[i].rate) || models[i].rate < 0 || models[i].slo_ns <= 0)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "model %u: its rate or SLO is negative or not finite", i);
        if (models[i].rate > 0 && models[i].slo_ns < 2 * profile_latency_ns(models[i].profile, 1))
            return err_set(err, STATUS_NOT_FOUND,
                           "model %u: its SLO is shorter than two batches of one, which is the worst case",
                           i);
    }
    return STATUS_OK;
}

static void fill(const nexus_model_t *models, uint32_t model_count, squishy_model_t *packed)
{
    for (uint32_t i = 0; i < model_count; i++) {
        const nexus_model_t *model = &models[i];
        uint32_t most = model->profile->max_batch;
        packed[i] = (squishy_model_t){
            .profile = model->rate > 0 ? model->profile : NULL,
            .limit = model->max_batch && model->max_batch < most ? model->max_batch : most,
            .rate = model->rate / 1e3,
            .slo = (double)model->slo_ns / 1e6,
            .node = UINT32_MAX,
        };
    }
}

static void add_shared(const squishy_model_t *packed, const squishy_node_t *nodes, uint32_t shared,
                       nexus_plan_t *plan)
{
    for (uint32_t n = 0; n < shared; n++) {
        plan->nodes[plan->node_count++] =
            (nexus_node_t){.gpus = 1, .duty_ms = nodes[n].duty, .occupancy = nodes[n].occupancy};
        for (uint32_t i = nodes[n].first; i != UINT32_MAX; i = packed[i].next)
            plan->places[plan->place_count++] = (nexus_place_t){
                .node = n, .model = i, .batch = packed[i].batch, .rate = packed[i].residual * 1e3};
    }
}

static void add_whole(const squishy_model_t *packed, uint32_t model_count, nexus_plan_t *plan)
{
    for (uint32_t i = 0; i < model_count; i++) {
        const squishy_model_t *model = &packed[i];
        if (!model->profile || model->whole == 0)
            continue;
        plan->places[plan->place_count++] = (nexus_place_t){.node = plan->node_count,
                                                            .model = i,
                                                            .batch = model->whole_batch,
                                                            .rate = model->whole_rate * 1e3};
        plan->nodes[plan->node_count++] =
            (nexus_node_t){.gpus = model->whole,
                           .duty_ms = (double)profile_latency_ns(model->profile, model->whole_batch) / 1e6,
                           .occupancy = 1};
    }
}

status_t nexus_pack(const nexus_model_t *models, uint32_t model_count, uint32_t gpus_max, nexus_plan_t *plan,
                    err_t *err)
{
    uint32_t shared = 0;
    status_t status = check(models, model_count, gpus_max, err);
    if (status != STATUS_OK)
        return status;
    squishy_model_t *packed = calloc(model_count, sizeof *packed);
    squishy_node_t *nodes = calloc(gpus_max, sizeof *nodes);
    nexus_plan_t made = {.places = calloc(2 * (size_t)model_count, sizeof *made.places),
                         .nodes = calloc((size_t)model_count + gpus_max, sizeof *made.nodes)};
    if (!packed || !nodes || !made.places || !made.nodes) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", model_count);
    } else {
        fill(models, model_count, packed);
        made.gpus = squishy_pack(packed, model_count, sizeof *packed, 1, nodes, gpus_max, &shared);
        if (made.gpus == UINT32_MAX)
            status = err_set(err, STATUS_NOT_FOUND, "more than %u GPUs are needed", gpus_max);
    }
    if (status == STATUS_OK) {
        add_shared(packed, nodes, shared, &made);
        add_whole(packed, model_count, &made);
        *plan = made;
    } else {
        nexus_plan_dispose(&made);
    }
    free(packed);
    free(nodes);
    return status;
}

void nexus_plan_dispose(nexus_plan_t *plan)
{
    free(plan->places);
    free(plan->nodes);
    plan->places = NULL;
    plan->nodes = NULL;
}
