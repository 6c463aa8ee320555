/*
 * Abacus's deployments: several services on one device, under overlap or one of FCFS, SJF, EDF.
 */
#include "mode.h"
#include "mode_trace.h"
#include "mode_train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The duration model errs by about 4 %: without it every other group would be a little late. */
#define MARGIN 0.05

/* Half of the tightest target is left for one that comes when a group has just begun. */
#define GROUP_PART 0.5

/* Less than half makes those in the group wait for more than it gains (docs/modes/measurements.md). */
#define LEAST_SAVING 0.5

/* Per pair of services, itself included: 4000 groups for two, 16000 for four. */
enum { SAMPLES = 1000, EPOCHS = 180, WAYS = 4 };

typedef struct {
    const mode_scenario_t *scenario;
    exec_t *exec;
    accel_t *device;
    prng_t prng;
    mode_tally_t tally;
    mode_trace_t trace;
    mode_trace_row_t parts[EXEC_PARTS_MAX]; /* of the group that runs, by the tag of the device */
    int64_t slo_ns[MODE_MODELS_MAX];
    double rate_rps, next_s;
    uint32_t sent, ended, queries, parts_left;
    uint64_t launch;
    int64_t now_ns;
    status_t status;
    err_t *err;
} services_t;

static void launch(services_t *services, const exec_action_t *action)
{
    services->parts_left = action->launch.count;
    services->launch = action->launch.launch;
    for (uint32_t i = 0; i < action->launch.count && services->status == STATUS_OK; i++) {
        const exec_part_t *part = &action->launch.parts[i];
        accel_op_t ops[MODE_OPS_MAX + 1] = {{.ns = (int64_t)(services->scenario->launch_us * 1e3)}};
        uint32_t count = 1;
        for (uint32_t op = part->from; op < part->to; op++)
            ops[count++] =
                mode_op(&services->scenario->models[part->model].ops[op], part->rows, part->length);
        services->status = accel_launch(services->device, part->stream, i, ops, count, services->err);
        services->parts[i] = (mode_trace_row_t){.stream = part->model,
                                                .stage = part->from,
                                                .batch = part->tag,
                                                .rows = part->rows,
                                                .start_ns = services->now_ns};
    }
}

static void sink(void *ctx, const exec_action_t *action)
{
    services_t *services = ctx;
    double at_s = (double)services->now_ns / 1e9;
    if (action->kind == EXEC_LAUNCH) {
        launch(services, action);
        return;
    }
    const exec_query_t *query = &action->done.queries[0];
    services->ended++;
    if (action->kind == EXEC_DROP)
        mode_tally_drop(&services->tally, at_s);
    else
        mode_tally_answer(&services->tally, at_s, (double)(services->now_ns - query->arrival_ns) / 1e6,
                          (double)services->slo_ns[query->model] / 1e6);
}

static status_t arrive(services_t *services)
{
    uint32_t model = (uint32_t)prng_below(&services->prng, services->scenario->model_count);
    const mode_model_t *of = &services->scenario->models[model];
    exec_query_t query = {.tag = services->sent++,
                          .model = model,
                          .rows = mode_draw_rows(of, &services->prng),
                          .length = mode_draw_length(of, &services->prng),
                          .arrival_ns = services->now_ns,
                          .deadline_ns = services->now_ns + services->slo_ns[model]};
    services->next_s += prng_exponential(&services->prng, 1 / services->rate_rps);
    return exec_submit(services->exec, services->now_ns, &query, 1, 0, services->err);
}

static status_t play(services_t *services)
{
    while (services->status == STATUS_OK && services->ended < services->queries) {
        uint64_t part;
        int64_t arrival =
            services->sent < services->queries ? (int64_t)llround(services->next_s * 1e9) : EXEC_NEVER;
        int64_t next = accel_next_ns(services->device);
        next = arrival < next ? arrival : next;
        if (next == EXEC_NEVER)
            return err_set(services->err, STATUS_INTERNAL, "nothing moves with %u queries unanswered",
                           services->queries - services->ended);
        services->now_ns = next;
        accel_advance(services->device, next);
        if (arrival <= next)
            services->status = arrive(services);
        while (accel_take_ended(services->device, &part)) {
            services->parts[part].end_ns = next;
            mode_trace_row(&services->trace, &services->parts[part]);
            if (--services->parts_left == 0)
                exec_finished(services->exec, next, services->launch);
        }
        exec_run(services->exec, next, sink, services);
    }
    return services->status;
}

/* Keeps the models named in "a+b", in the order of the file. */
static status_t deploy(mode_scenario_t *scenario, const char *names, err_t *err)
{
    char list[256];
    bool wanted[MODE_MODELS_MAX] = {false};
    char *save = NULL;
    snprintf(list, sizeof(list), "%s", names);
    for (char *name = strtok_r(list, "+", &save); name; name = strtok_r(NULL, "+", &save)) {
        uint32_t at = 0;
        while (at < scenario->model_count && strcmp(scenario->models[at].name, name) != 0)
            at++;
        if (at == scenario->model_count || wanted[at])
            return err_set(err, STATUS_INVALID_ARGUMENT, "--scenario: no service %.60s, or twice, in %.100s",
                           name, names);
        wanted[at] = true;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < scenario->model_count; i++)
        if (wanted[i]) {
            if (kept != i)
                scenario->models[kept] = scenario->models[i];
            kept++;
        }
    scenario->model_count = kept;
    return kept ? STATUS_OK : err_set(err, STATUS_INVALID_ARGUMENT, "--scenario: no service is named");
}

static exec_t *make(const mode_scenario_t *scenario, const mode_options_t *options, predictor_t *predictor,
                    err_t *err)
{
    const char *mode = options->mode;
    uint32_t queries = options->queries;
    overlap_config_t config = {.models = scenario->model_count,
                               .ways = WAYS,
                               .predict = predictor_predict,
                               .predict_ctx = predictor,
                               .margin = MARGIN,
                               .drop_predicted = options->drop_predicted,
                               .triage = strcmp(mode, "overlap") == 0};
    config.group_part = config.triage ? GROUP_PART : 0;
    config.least_saving = config.triage ? LEAST_SAVING : 0;
    config.queries_max = queries < OVERLAP_QUERIES_MAX ? queries : OVERLAP_QUERIES_MAX;
    config.order = strcmp(mode, "fcfs") == 0  ? OVERLAP_FCFS
                   : strcmp(mode, "sjf") == 0 ? OVERLAP_SJF
                   : strcmp(mode, "edf") == 0 ? OVERLAP_EDF
                                              : OVERLAP_ABACUS;
    for (uint32_t i = 0; i < scenario->model_count; i++)
        config.ops[i] = scenario->models[i].op_count;
    return exec_create_overlap(&config, err);
}

status_t mode_run_services(const mode_options_t *options, mode_result_t *result, err_t *err)
{
    static const double rates[] = {[MODE_LOW] = 25, [MODE_MEDIUM] = 50, [MODE_HIGH] = 75, [MODE_PEAK] = 100};
    static mode_scenario_t scenario;
    static predictor_t predictor;
    mode_errors_t errors = {0};
    services_t services = {.scenario = &scenario, .err = err, .queries = options->queries};
    services.rate_rps = options->rate_rps > 0 ? options->rate_rps : rates[options->load];
    prng_init(&services.prng, options->seed);
    status_t status = mode_scenario_read(&scenario, options->directory, "abacus", NULL, err);
    if (status == STATUS_OK)
        status = deploy(&scenario, options->services, err);
    bool predicts =
        options->drop_predicted || (strcmp(options->mode, "fcfs") != 0 && strcmp(options->mode, "edf") != 0);
    /* Who drops by prediction does it by the same duration model as overlap. */
    bool limited = options->drop_predicted || strcmp(options->mode, "overlap") == 0;
    if (status == STATUS_OK && predicts)
        status = mode_train(&scenario, limited, SAMPLES * scenario.model_count * scenario.model_count, EPOCHS,
                            options->seed, &predictor, &errors, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < scenario.model_count; i++)
        services.slo_ns[i] = 2 * mode_cost(&scenario.models[i], 0, scenario.models[i].op_count, 32, 64).ns;
    services.exec = make(&scenario, options, &predictor, err);
    services.device = services.exec ? accel_create(scenario.model_count, MODE_OPS_MAX + 1, err) : NULL;
    status = services.device ? mode_tally_init(&services.tally, options->queries, err) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = mode_trace_open(&services.trace, options->trace_path, err);
    if (status == STATUS_OK)
        status = play(&services);
    status = mode_trace_close(&services.trace, status, err);
    if (status == STATUS_OK) {
        mode_tally_close(&services.tally, result);
        result->rate_rps = services.rate_rps;
        result->utilization = accel_busy_ns(services.device) / (double)services.now_ns;
        result->predictor_error = errors.mlp;
        result->linear_error = errors.linear;
    }
    mode_tally_dispose(&services.tally);
    accel_destroy(services.device);
    if (services.exec)
        exec_destroy(services.exec);
    return status;
}
