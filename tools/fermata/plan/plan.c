/* fermata plan partition | herd | nexus: offline planning from a list of models; show and apply are live.c's. */
#include "base/figures.h"
#include "config/config.h"
#include "fermata/command.h"
#include "fermata/plan/config.h"
#include "fermata/plan/input.h"
#include "fermata/plan/live.h"
#include "plan/herd.h"
#include "plan/nexus_pack.h"
#include "plan/partition.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *models, *config_out, *device_class;
    int64_t clusters, gpus, groups, group_gpus_max, gpu_memory, seed;
    double rate_max, memory_weight, cost_max, affinity_max, seconds;
    bool json;
} plan_options_t;

static const config_option_t options[] = {
    {.name = "models",
     .type = CONFIG_PATH,
     .group = "Input",
     .required = true,
     .metavar = "FILE",
     .help = "CSV or YAML: name, rate, memory, work_memory, alpha_ms, beta_ms, slo_ms, max_batch, cluster, "
             "move_cost.",
     .offset = offsetof(plan_options_t, models)},
    {.name = "gpus",
     .type = CONFIG_INT,
     .group = "Cluster",
     .help = "GPUs there are (herd, nexus).",
     .def = "8",
     .min = 1,
     .max = HERD_GPUS_MAX,
     .offset = offsetof(plan_options_t, gpus)},
    {.name = "gpu_memory",
     .type = CONFIG_BYTES,
     .group = "Cluster",
     .help = "Memory of a GPU for models (partition, herd); 0: no bound.",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(plan_options_t, gpu_memory)},
    {.name = "clusters",
     .type = CONFIG_INT,
     .group = "partition",
     .help = "Sub-clusters.",
     .def = "2",
     .min = 1,
     .max = PARTITION_CLUSTERS_MAX,
     .offset = offsetof(plan_options_t, clusters)},
    {.name = "rate_max",
     .type = CONFIG_DOUBLE,
     .group = "partition",
     .help = "Requests/s that a sub-cluster takes; 0: no bound.",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(plan_options_t, rate_max)},
    {.name = "memory_weight",
     .type = CONFIG_DOUBLE,
     .group = "partition",
     .help = "What an uneven spread of memory counts beside one of rate.",
     .def = "1",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(plan_options_t, memory_weight)},
    {.name = "cost_max",
     .type = CONFIG_DOUBLE,
     .group = "partition",
     .help = "What moving models may cost in all; -1: anything.",
     .def = "-1",
     .offset = offsetof(plan_options_t, cost_max)},
    {.name = "groups",
     .type = CONFIG_INT,
     .group = "herd",
     .help = "Serving groups at most.",
     .def = "4",
     .min = 1,
     .max = HERD_GROUPS_MAX,
     .offset = offsetof(plan_options_t, groups)},
    {.name = "group_gpus_max",
     .type = CONFIG_INT,
     .group = "herd",
     .help = "GPUs of a group at most; 0: no bound.",
     .def = "0",
     .min = 0,
     .max = HERD_GPUS_MAX,
     .offset = offsetof(plan_options_t, group_gpus_max)},
    {.name = "affinity_max",
     .type = CONFIG_DOUBLE,
     .group = "herd",
     .help = "Divergence K of two models in one group at most; 0: any.",
     .def = "0",
     .offset = offsetof(plan_options_t, affinity_max)},
    {.name = "seconds",
     .type = CONFIG_DOUBLE,
     .group = "Search",
     .help = "Time limit (partition, herd).",
     .def = "2",
     .min = 0,
     .max = 3600,
     .offset = offsetof(plan_options_t, seconds)},
    {.name = "seed",
     .type = CONFIG_INT,
     .group = "Search",
     .help = "Of the search (partition).",
     .def = "1",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(plan_options_t, seed)},
    {.name = "json",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Print one JSON document.",
     .offset = offsetof(plan_options_t, json)},
    {.name = "config_out",
     .type = CONFIG_PATH,
     .group = "Output",
     .metavar = "FILE",
     .help = "Write the plan as configuration of a scheduler: sub-clusters and placements (partition, herd).",
     .offset = offsetof(plan_options_t, config_out)},
    {.name = "device_class",
     .type = CONFIG_STRING,
     .group = "Output",
     .help = "Class of the devices in that configuration.",
     .def = "cuda",
     .offset = offsetof(plan_options_t, device_class)},
};

static const config_schema_t schema = {
    .program = "fermata plan",
    .summary = "Plans a cluster: which models share which GPUs.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "partition | herd | nexus | show | apply",
    .epilog = "  partition   models over sub-clusters, rate and memory spread evenly (Symphony)\n"
              "  herd        models over groups of GPUs, so that each bears bursts (Shepherd)\n"
              "  nexus       models and batches onto single GPUs (Nexus)\n"
              "  show        what the running scheduler would do now (it has a --help, too)\n"
              "  apply       the same, done\n",
};

typedef status_t (*planner_fn)(const plan_options_t *o, const plan_input_t *input, json_t *out, err_t *err);

/* A JSON number; what is infinite is null, for JSON has no word for it. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *names_in(const plan_input_t *input, const uint32_t *where, uint32_t which)
{
    json_t *names = json_array();
    for (uint32_t i = 0; i < input->count; i++)
        if (where[i] == which)
            json_array_append_new(names, json_string(input->models[i].name));
    return names;
}

/* ---- partition ---- */

static json_t *partition_json(const plan_input_t *input, const partition_problem_t *problem,
                              const partition_t *plan)
{
    json_t *clusters = json_array();
    for (uint32_t j = 0; j < problem->cluster_count; j++) {
        double rate = 0, bytes = 0;
        for (uint32_t i = 0; i < input->count; i++) {
            rate += plan->cluster[i] == j ? problem->models[i].rate : 0;
            bytes += plan->cluster[i] == j ? problem->models[i].static_bytes : 0;
        }
        json_array_append_new(clusters,
                              json_pack("{s:i, s:f, s:f, s:o}", "cluster", (int)j, "rate", rate, "memory",
                                        bytes, "models", names_in(input, plan->cluster, j)));
    }
    return clusters;
}

static void fill_partition(const plan_input_t *input, partition_model_t *models, uint32_t *current)
{
    for (uint32_t i = 0; i < input->count; i++) {
        const plan_model_t *model = &input->models[i];
        models[i] = (partition_model_t){.rate = model->rate,
                                        .static_bytes = (double)model->memory_bytes,
                                        .dynamic_bytes = (double)model->work_bytes,
                                        .move_cost = model->move_cost};
        current[i] = model->cluster < 0 ? PARTITION_NOWHERE : (uint32_t)model->cluster;
    }
}

static status_t plan_partition(const plan_options_t *o, const plan_input_t *input, json_t *out, err_t *err)
{
    partition_model_t *models = calloc(input->count, sizeof *models);
    uint32_t *current = calloc(input->count, sizeof *current);
    partition_problem_t problem = {.models = models,
                                   .model_count = input->count,
                                   .cluster_count = (uint32_t)o->clusters,
                                   .rate_max = o->rate_max,
                                   .memory_max = (double)o->gpu_memory,
                                   .memory_weight = o->memory_weight,
                                   .current = current,
                                   .cost_max = o->cost_max < 0 ? INFINITY : o->cost_max,
                                   .seconds = o->seconds,
                                   .seed = (uint64_t)o->seed};
    partition_t plan;
    status_t status = STATUS_OK;
    if (models && current) {
        fill_partition(input, models, current);
        status = partition_solve(&problem, &plan, err);
    } else {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", input->count);
    }
    if (status == STATUS_OK) {
        json_object_set_new(out, "clusters", partition_json(input, &problem, &plan));
        json_object_set_new(out, "rate_imbalance", number(plan.rate_imbalance));
        json_object_set_new(out, "memory_imbalance", number(plan.memory_imbalance));
        json_object_set_new(out, "objective", number(plan.objective));
        json_object_set_new(out, "bound", number(plan.bound));
        json_object_set_new(out, "cost", number(plan.cost));
        json_object_set_new(out, "kept", json_boolean(plan.kept));
        partition_dispose(&plan);
    }
    free(current);
    free(models);
    return status;
}

/* ---- herd ---- */

/* What one GPU carries: the largest batch that may both be missed and waited for, as in squishy packing. */
static status_t goodput(const plan_model_t *model, double *out, err_t *err)
{
    int64_t slo_ns = llround(model->slo_ms * 1e6);
    uint32_t batch = profile_largest_batch(&model->profile, slo_ns / 2);
    if (batch == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s: its SLO is shorter than two batches of one",
                       model->name);
    double latency_ns = (double)profile_latency_ns(&model->profile, batch);
    if (latency_ns <= 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s: alpha_ms and beta_ms are 0", model->name);
    *out = batch / latency_ns * 1e9;
    return STATUS_OK;
}

static json_t *groups_json(const plan_input_t *input, const herd_problem_t *problem, const herd_plan_t *plan)
{
    json_t *groups = json_array();
    for (uint32_t j = 0; j < problem->group_count; j++) {
        double need = 0, bytes = 0;
        for (uint32_t i = 0; i < input->count; i++) {
            need += plan->group[i] == j ? problem->models[i].rate / problem->models[i].goodput : 0;
            bytes += plan->group[i] == j ? problem->models[i].bytes : 0;
        }
        json_t *names = names_in(input, plan->group, j);
        if (json_array_size(names) == 0) {
            json_decref(names);
            continue;
        }
        json_array_append_new(groups, json_pack("{s:i, s:i, s:f, s:f, s:o}", "group", (int)j, "gpus",
                                                (int)plan->size[j], "gpus_needed", need, "memory", bytes,
                                                "models", names));
    }
    return groups;
}

static status_t plan_herd(const plan_options_t *o, const plan_input_t *input, json_t *out, err_t *err)
{
    herd_model_t *models = calloc(input->count, sizeof *models);
    status_t status =
        models ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", input->count);
    for (uint32_t i = 0; i < input->count && status == STATUS_OK; i++) {
        const plan_model_t *model = &input->models[i];
        models[i] = (herd_model_t){.rate = model->rate,
                                   .bytes = (double)model->memory_bytes,
                                   .alpha = model->alpha_ms,
                                   .beta = model->beta_ms};
        status = goodput(model, &models[i].goodput, err);
    }
    herd_problem_t problem = {.models = models,
                              .model_count = input->count,
                              .gpu_count = (uint32_t)o->gpus,
                              .group_count = (uint32_t)o->groups,
                              .group_gpus_max = (uint32_t)o->group_gpus_max,
                              .memory_bytes = (double)o->gpu_memory,
                              .affinity_max = o->affinity_max > 0 ? o->affinity_max : INFINITY,
                              .seconds = o->seconds};
    herd_plan_t plan;
    if (status == STATUS_OK)
        status = herd_search(&problem, &plan, err);
    if (status == STATUS_OK) {
        json_object_set_new(out, "groups", groups_json(input, &problem, &plan));
        json_object_set_new(out, "burst_tolerance", number(plan.tolerance));
        json_object_set_new(out, "bound", number(plan.bound));
        json_object_set_new(out, "optimal", json_boolean(plan.optimal));
        json_object_set_new(out, "load_most", number(plan.load_most));
        json_object_set_new(out, "affinity_sets", json_integer(plan.sets));
        herd_plan_dispose(&plan);
    }
    free(models);
    return status;
}

/* ---- nexus ---- */

static json_t *nodes_json(const plan_input_t *input, const nexus_plan_t *plan)
{
    json_t *nodes = json_array();
    uint32_t p = 0;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        json_t *models = json_array();
        for (; p < plan->place_count && plan->places[p].node == n; p++)
            json_array_append_new(
                models, json_pack("{s:s, s:i, s:f}", "model", input->models[plan->places[p].model].name,
                                  "batch", (int)plan->places[p].batch, "rate", plan->places[p].rate));
        json_array_append_new(nodes, json_pack("{s:i, s:i, s:f, s:f, s:o}", "node", (int)n, "gpus",
                                               (int)plan->nodes[n].gpus, "duty_ms", plan->nodes[n].duty_ms,
                                               "occupancy", plan->nodes[n].occupancy, "models", models));
    }
    return nodes;
}

static status_t plan_nexus(const plan_options_t *o, const plan_input_t *input, json_t *out, err_t *err)
{
    nexus_model_t *models = calloc(input->count, sizeof *models);
    if (!models)
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", input->count);
    for (uint32_t i = 0; i < input->count; i++)
        models[i] = (nexus_model_t){.profile = &input->models[i].profile,
                                    .rate = input->models[i].rate,
                                    .slo_ns = llround(input->models[i].slo_ms * 1e6)};
    nexus_plan_t plan;
    status_t status = nexus_pack(models, input->count, (uint32_t)o->gpus, &plan, err);
    if (status == STATUS_OK) {
        json_object_set_new(out, "nodes", nodes_json(input, &plan));
        json_object_set_new(out, "gpus", json_integer(plan.gpus));
        nexus_plan_dispose(&plan);
    }
    free(models);
    return status;
}

/* ---- Output: the table is made from the document, so that both say the same ---- */

static bool is_memory(const char *key)
{
    size_t len = strlen(key);
    return len >= 6 && strcmp(key + len - 6, "memory") == 0;
}

static void print_value(const char *key, const json_t *value)
{
    char text[FIGURES_BYTES];
    if (json_is_string(value))
        printf("%s", json_string_value(value));
    else if (json_is_integer(value))
        printf("%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        printf("%s",
               (is_memory(key) ? figures_bytes : figures_number)(json_real_value(value), text, sizeof text));
    else
        printf("%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "any");
}

static void print_models(json_t *models)
{
    size_t i;
    json_t *model;
    char rate[FIGURES_BYTES];
    json_array_foreach(models, i, model)
    {
        printf("%s", i ? ", " : "   ");
        if (json_is_string(model))
            printf("%s", json_string_value(model));
        else
            printf("%s x%lld (%s/s)", json_string_value(json_object_get(model, "model")),
                   (long long)json_integer_value(json_object_get(model, "batch")),
                   figures_number(json_real_value(json_object_get(model, "rate")), rate, sizeof rate));
    }
}

static void print_rows(json_t *rows)
{
    size_t i;
    json_t *row, *value;
    const char *key;
    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, value)
        {
            if (json_is_array(value))
                continue;
            printf("%s%s ",
                   strcmp(key, "cluster") == 0 || strcmp(key, "group") == 0 || strcmp(key, "node") == 0
                       ? ""
                       : "  ",
                   key);
            print_value(key, value);
        }
        print_models(json_object_get(row, "models"));
        putchar('\n');
    }
}

static void print_table(json_t *document)
{
    const char *key;
    json_t *value;
    json_object_foreach(document, key, value)
    {
        if (json_is_array(value)) {
            print_rows(value);
            continue;
        }
        printf("%s: ", key);
        print_value(key, value);
        putchar('\n');
    }
}

static planner_fn find_planner(const config_t *config)
{
    size_t len;
    const char *const *words = config_positionals(config, &len);
    if (len != 1)
        return NULL;
    if (strcmp(words[0], "partition") == 0)
        return plan_partition;
    if (strcmp(words[0], "herd") == 0)
        return plan_herd;
    return strcmp(words[0], "nexus") == 0 ? plan_nexus : NULL;
}

static status_t plan(const plan_options_t *o, planner_fn planner, err_t *err)
{
    plan_input_t input;
    status_t status = plan_input_read(o->models, &input, err);
    if (status != STATUS_OK)
        return status;
    json_t *document = json_object();
    status = planner(o, &input, document, err);
    if (status == STATUS_OK && o->config_out)
        status = plan_config_write(document, o->device_class, o->config_out, err);
    if (status == STATUS_OK && o->json) {
        json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else if (status == STATUS_OK) {
        print_table(document);
    }
    json_decref(document);
    plan_input_dispose(&input);
    return status;
}

static bool is_live(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "show") == 0 || strcmp(argv[i], "apply") == 0)
            return true;
    return false;
}

static int run(int argc, char **argv)
{
    if (is_live(argc, argv))
        return plan_live(argc, argv);
    plan_options_t o;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    planner_fn planner = find_planner(config);
    if (planner) {
        exit_code = config_exit(&schema, plan(&o, planner, &err), &err);
    } else {
        fprintf(stderr, "fermata plan: say `partition`, `herd`, `nexus`, `show` or `apply` (see --help)\n");
        exit_code = EXIT_CODE_USAGE;
    }
    config_destroy(config);
    return exit_code;
}

const command_t command_plan = {"plan", "plan which models share which GPUs", run};
