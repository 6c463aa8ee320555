/*
 * Abacus's deployments: several services on one device, under overlap or one of FCFS, SJF, EDF.
 */
#include "accel/device.h"
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
    driver_t driver;
    accel_device_t *device;
    prng_t prng;
    mode_tally_t tally;
    mode_trace_t trace;
    mode_trace_row_t parts[EXEC_PARTS_MAX]; /* of the group that runs, by its parts */
    int64_t slo_ns[MODE_MODELS_MAX];
    double rate_rps, next_s;
    uint32_t sent, ended, queries;
} services_t;

static uint32_t operators(void *ctx, const exec_part_t *part, accel_op_t *ops)
{
    const services_t *services = ctx;
    return mode_operators(services->scenario, part, ops);
}

static void trace_launch(services_t *services, const exec_action_t *action)
{
    for (uint32_t i = 0; i < action->launch.count; i++) {
        const exec_part_t *part = &action->launch.parts[i];
        services->parts[i] = (mode_trace_row_t){.stream = part->model,
                                                .stage = part->from,
                                                .batch = part->tag,
                                                .rows = part->rows,
                                                .start_ns = services->driver.now_ns};
    }
}

static void trace_end(void *ctx, uint64_t launch, uint32_t part, bool stopped)
{
    services_t *services = ctx;
    (void)launch;
    (void)stopped;
    services->parts[part].end_ns = services->driver.now_ns;
    mode_trace_row(&services->trace, &services->parts[part]);
}

static void act(void *ctx, const exec_action_t *action)
{
    services_t *services = ctx;
    int64_t now_ns = services->driver.now_ns;
    if (action->kind == EXEC_LAUNCH) {
        trace_launch(services, action);
        return;
    }
    const exec_query_t *query = &action->done.queries[0];
    services->ended++;
    if (action->kind == EXEC_DROP)
        mode_tally_drop(&services->tally, (double)now_ns / 1e9);
    else
        mode_tally_answer(&services->tally, (double)now_ns / 1e9, (double)(now_ns - query->arrival_ns) / 1e6,
                          (double)services->slo_ns[query->model] / 1e6);
}

static int64_t arrival_ns(const void *ctx)
{
    const services_t *services = ctx;
    return services->sent < services->queries ? (int64_t)llround(services->next_s * 1e9) : EXEC_NEVER;
}

static status_t arrive(void *ctx, int64_t now_ns, err_t *err)
{
    services_t *services = ctx;
    uint32_t model = (uint32_t)prng_below(&services->prng, services->scenario->model_count);
    const mode_model_t *of = &services->scenario->models[model];
    exec_query_t query = {.tag = services->sent++,
                          .model = model,
                          .rows = mode_draw_rows(of, &services->prng),
                          .length = mode_draw_length(of, &services->prng),
                          .arrival_ns = now_ns,
                          .deadline_ns = now_ns + services->slo_ns[model]};
    services->next_s += prng_exponential(&services->prng, 1 / services->rate_rps);
    return exec_submit(services->driver.exec, now_ns, &query, 1, 0, err);
}

static const driver_user_ops_t services_ops = {arrival_ns, arrive, act};

static status_t play(services_t *services)
{
    status_t status = STATUS_OK;
    while (status == STATUS_OK && services->ended < services->queries)
        status = driver_step(&services->driver, EXEC_NEVER);
    return status;
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
    services_t services = {.scenario = &scenario, .queries = options->queries};
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
    const accel_device_config_t device = {.streams = scenario.model_count,
                                          .ops_max = MODE_OPS_MAX + 1,
                                          .operators = operators,
                                          .part_ended = trace_end,
                                          .ctx = &services};
    exec_t *exec = make(&scenario, options, &predictor, err);
    services.device = exec ? accel_device_create(&device, err) : NULL;
    services.driver = (driver_t){.exec = exec,
                                 .on = &accel_device_ops,
                                 .device = services.device,
                                 .user = &services_ops,
                                 .ctx = &services,
                                 .wake_ns = EXEC_NEVER,
                                 .err = err};
    status = services.device ? mode_tally_init(&services.tally, options->queries, err) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = mode_trace_open(&services.trace, options->trace_path, err);
    if (status == STATUS_OK)
        status = play(&services);
    status = mode_trace_close(&services.trace, status, err);
    if (status == STATUS_OK) {
        mode_tally_close(&services.tally, result);
        result->rate_rps = services.rate_rps;
        result->utilization = accel_device_busy_ns(services.device) / (double)services.driver.now_ns;
        result->predictor_error = errors.mlp;
        result->linear_error = errors.linear;
    }
    mode_tally_dispose(&services.tally);
    accel_device_destroy(services.device);
    if (exec)
        exec_destroy(exec);
    return status;
}
