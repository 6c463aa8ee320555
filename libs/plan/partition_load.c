#include "plan/partition_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

status_t partition_load_init(partition_load_t *load, const partition_problem_t *problem, err_t *err)
{
    memset(load, 0, sizeof *load);
    load->problem = problem;
    double rate = 0, bytes = 0;
    for (uint32_t i = 0; i < problem->model_count; i++) {
        rate += problem->models[i].rate;
        bytes += problem->models[i].static_bytes;
    }
    load->share_mean = 1;
    for (uint32_t j = 0; problem->shares && j < problem->cluster_count; j++)
        load->share_mean += (problem->shares[j] - load->share_mean) / (j + 1);
    load->rate_mean = rate > 0 ? rate / problem->cluster_count : 1;
    load->static_mean = bytes > 0 ? bytes / problem->cluster_count : 1;
    load->cluster = malloc(problem->model_count * sizeof *load->cluster);
    load->place = malloc(problem->model_count * sizeof *load->place);
    load->load = calloc(problem->cluster_count, sizeof *load->load);
    if (!load->cluster || !load->place || !load->load) {
        partition_load_dispose(load);
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    }
    for (uint32_t i = 0; i < problem->model_count; i++)
        load->cluster[i] = PARTITION_NOWHERE;
    return STATUS_OK;
}

void partition_load_dispose(partition_load_t *load)
{
    for (uint32_t j = 0; load->load && j < load->problem->cluster_count; j++)
        free(load->load[j].members);
    free(load->load);
    free(load->place);
    free(load->cluster);
    load->load = NULL;
    load->place = load->cluster = NULL;
}

double partition_move_cost(const partition_problem_t *problem, uint32_t model, uint32_t cluster)
{
    if (!problem->current || problem->current[model] == PARTITION_NOWHERE ||
        problem->current[model] == cluster)
        return 0;
    return 2 * problem->models[model].move_cost; /* unloaded there, loaded here */
}

static bool make_room(cluster_load_t *entry)
{
    if (entry->count < entry->capacity)
        return true;
    uint32_t capacity = entry->capacity ? entry->capacity * 2 : 16;
    uint32_t *members = realloc(entry->members, capacity * sizeof *members);
    if (!members)
        return false;
    entry->members = members;
    entry->capacity = capacity;
    return true;
}

status_t partition_load_put(partition_load_t *load, uint32_t model, uint32_t cluster)
{
    cluster_load_t *entry = &load->load[cluster];
    if (!make_room(entry))
        return STATUS_NO_MEMORY;
    load->place[model] = entry->count;
    entry->members[entry->count++] = model;
    entry->rate += load->problem->models[model].rate;
    entry->static_bytes += load->problem->models[model].static_bytes;
    load->cluster[model] = cluster;
    load->cost += partition_move_cost(load->problem, model, cluster);
    return STATUS_OK;
}

void partition_load_take(partition_load_t *load, uint32_t model)
{
    uint32_t cluster = load->cluster[model];
    cluster_load_t *entry = &load->load[cluster];
    uint32_t last = entry->members[--entry->count];
    entry->members[load->place[model]] = last;
    load->place[last] = load->place[model];
    entry->rate -= load->problem->models[model].rate;
    entry->static_bytes -= load->problem->models[model].static_bytes;
    load->cluster[model] = PARTITION_NOWHERE;
    load->cost -= partition_move_cost(load->problem, model, cluster);
}

static double largest_dynamic(const partition_load_t *load, uint32_t cluster, uint32_t add, uint32_t without)
{
    const partition_model_t *models = load->problem->models;
    double largest = add == PARTITION_NOWHERE ? 0 : models[add].dynamic_bytes;
    const cluster_load_t *entry = &load->load[cluster];
    for (uint32_t k = 0; k < entry->count; k++) {
        if (entry->members[k] != without)
            largest = fmax(largest, models[entry->members[k]].dynamic_bytes);
    }
    return largest;
}

bool partition_load_fits(const partition_load_t *load, uint32_t cluster, uint32_t add, uint32_t without)
{
    const partition_problem_t *problem = load->problem;
    double rate = load->load[cluster].rate, bytes = load->load[cluster].static_bytes;
    if (add != PARTITION_NOWHERE) {
        rate += problem->models[add].rate;
        bytes += problem->models[add].static_bytes;
    }
    if (without != PARTITION_NOWHERE) {
        rate -= problem->models[without].rate;
        bytes -= problem->models[without].static_bytes;
    }
    if (problem->rate_max > 0 && rate > problem->rate_max)
        return false;
    return problem->memory_max <= 0 ||
           bytes + largest_dynamic(load, cluster, add, without) <= problem->memory_max;
}

double partition_load_due(const partition_load_t *load, uint32_t cluster)
{
    const double *shares = load->problem->shares;
    return shares ? load->rate_mean * shares[cluster] / load->share_mean : load->rate_mean;
}

double partition_load_energy(const partition_load_t *load, uint32_t cluster, double rate, double static_bytes)
{
    double r = rate / partition_load_due(load, cluster) - 1, s = static_bytes / load->static_mean - 1;
    return r * r + load->problem->memory_weight * s * s;
}
