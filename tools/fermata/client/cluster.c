/* fermata cluster: asks the scheduler about its cluster, and changes it while it serves. */
#include "fermata/command.h"

#include "admin.pb-c.h"
#include "base/figures.h"
#include "config/config.h"
#include "fermata/client/admin_call.h"
#include "fermata/client/message_json.h"
#include "inputs_land.h"
#include "screen/screen.h"
#include "screen/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    config_address_t scheduler;
    const char *subcluster, *api_key;
    tls_client_options_t tls;
    bool exit, json;
} cluster_options_t;

static const config_option_t options[] = {
    {"scheduler", CONFIG_ADDRESS, "Scheduler", "gRPC address of the scheduler.", .def = "127.0.0.1:9000",
     .offset = offsetof(cluster_options_t, scheduler)},
    {"api_key", CONFIG_STRING, "Scheduler", "Key to show to a `fermata serve` that wants one.",
     .metavar = "KEY", .offset = offsetof(cluster_options_t, api_key)},
    TLS_CLIENT_OPTIONS(cluster_options_t, "Scheduler"),
    {"subcluster", CONFIG_STRING, "What is meant", "policy: of this sub-cluster only.", .metavar = "NAME",
     .offset = offsetof(cluster_options_t, subcluster)},
    {"json", CONFIG_BOOL, "Output", "status: print one JSON document.",
     .offset = offsetof(cluster_options_t, json)},
    {"exit", CONFIG_BOOL, "What is meant", "drain: the worker ends once it has nothing left to do.",
     .offset = offsetof(cluster_options_t, exit)},
};

static const config_schema_t schema = {
    .program = "fermata cluster",
    .summary = "Shows what the scheduler sees, and changes it while it serves.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "status | policy NAME [KEY=VALUE...] |\n"
                   "                       drain WORKER | resume WORKER",
};

/* ---- status ---- */

enum { TABLE_MAX_BYTES = 16 << 20 };

/* An empty line and the table, of which no more is shown than a terminal has room for. */
static void print_table(table_t *table)
{
    strbuf_t out;
    strbuf_init(&out, TABLE_MAX_BYTES);
    strbuf_putc(&out, '\n');
    table_print(table, screen_room(stdout), &out);
    fputs(out.data, stdout);
    strbuf_dispose(&out);
    table_dispose(table);
}

static void print_subclusters(const Admin__GetStateResponse *state)
{
    static const table_column_t columns[] = {{"SUBCLUSTER", false}, {"CLASS", false},  {"POLICY", false},
                                             {"DEVICES", true},     {"SERVING", true}, {"DESIRED", true},
                                             {"BUSY", true},        {"BAD", true}};
    table_t table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < state->n_subclusters; i++) {
        const Admin__SubclusterState *sub = state->subclusters[i];
        table_cell(&table, "%s", sub->name);
        table_cell(&table, "%s", sub->device_class);
        table_cell(&table, "%s", sub->policy);
        table_cell(&table, "%u", sub->devices);
        table_cell(&table, "%u", sub->serving);
        table_cell(&table, "%u", sub->desired);
        table_cell(&table, "%.1f%%", 100 * sub->busy_fraction);
        table_cell(&table, "%.2f%%", 100 * sub->bad_rate);
        table_end_row(&table, "");
    }
    print_table(&table);
}

static void print_plan(const Admin__GetStateResponse *state)
{
    const Admin__PlanResponse *plan = state->plan;
    if (!plan)
        return;
    printf(
        "\nplan %llu %s: %u models to move, imbalance of load %.3f, as planned %.3f; %u on their way%s%s\n",
        (unsigned long long)plan->number, plan->apply ? "carried out" : "only shown", plan->moves,
        plan->imbalance_before, plan->imbalance_after, state->moving, plan->note[0] != '\0' ? "; " : "",
        plan->note);
    for (size_t i = 0; i < plan->n_models; i++)
        if (plan->models[i]->note[0] != '\0')
            printf("  left out: %s: %s\n", plan->models[i]->name, plan->models[i]->note);
}

/* "2 shm, 1 tcp"; "1 rdma into device memory" */
static void data_text(const Admin__WorkerState *worker, char *text, size_t cap)
{
    const struct {
        const char *name;
        uint32_t count;
    } ways[] = {{"rdma", worker->data_rdma}, {"shm", worker->data_shm}, {"tcp", worker->data_tcp}};
    size_t len = 0;

    snprintf(text, cap, "-");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].count > 0 && len < cap)
            len += (size_t)snprintf(text + len, cap - len, "%s%u %s", len > 0 ? ", " : "", ways[i].count,
                                    ways[i].name);
    if (worker->data_rdma > 0 && worker->inputs_land != LANDS_IN_HOST && len < cap)
        snprintf(text + len, cap - len, " into %s memory", landing_name(worker->inputs_land));
}

static void print_workers(const Admin__GetStateResponse *state)
{
    static const table_column_t columns[] = {{"WORKER", false},
                                             {"STATE", false},
                                             {"DEVICES", true},
                                             {"BATCHES", true},
                                             {"DATA FROM GATEWAYS", false}};
    table_t table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < state->n_workers; i++) {
        const Admin__WorkerState *worker = state->workers[i];
        char data[96];
        data_text(worker, data, sizeof data);
        table_cell(&table, "%s", worker->name);
        table_cell(&table, "%s", worker->draining ? "draining" : "serving");
        table_cell(&table, "%zu", worker->n_devices);
        table_cell(&table, "%llu", (unsigned long long)worker->batches);
        table_cell(&table, "%s", data);
        table_end_row(&table, "");
    }
    print_table(&table);
}

static void add_model(const Admin__ModelState *model, table_t *table)
{
    char figure[FIGURES_BYTES];
    table_cell(table, "%s", model->name);
    table_cell(table, "%lld", (long long)model->version);
    table_cell(table, "%s", model->ready ? "ready" : "not ready");
    table_cell(table, "%u", model->workers);
    table_cell(table, "%s", figures_bytes((double)model->memory_bytes, figure, sizeof figure));
    table_cell(table, "%s", figures_time((double)model->slo_ns / 1e9, figure, sizeof figure));
    table_cell(table, "%llu", (unsigned long long)model->queued);
    table_cell(table, "%llu", (unsigned long long)model->done);
    table_cell(table, "%llu", (unsigned long long)model->dropped);
    table_cell(table, "%s", model->subcluster);
    table_end_row(table, model->ready ? "" : model->reason);
}

static void print_models(const Admin__GetStateResponse *state)
{
    static const table_column_t columns[] = {
        {"MODEL", false}, {"VERSION", true}, {"STATE", false}, {"WORKERS", true}, {"MEMORY", true},
        {"SLO", true},    {"QUEUED", true},  {"DONE", true},   {"DROPPED", true}, {"SUBCLUSTER", false}};
    table_t table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < state->n_models; i++)
        add_model(state->models[i], &table);
    print_table(&table);
}

/* Nothing where everybody is believed. */
static void print_doubts(const Admin__GetStateResponse *state)
{
    static const table_column_t columns[] = {{"NOT BELIEVED", false},
                                             {"MODEL OR DEVICE", false},
                                             {"STATE", false},
                                             {"STRIKES", true},
                                             {"FOR", true}};
    table_t table;
    if (state->n_doubts == 0)
        return;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < state->n_doubts; i++) {
        const Admin__Doubt *doubt = state->doubts[i];
        char left[FIGURES_BYTES];
        table_cell(&table, "%s", doubt->peer);
        table_cell(&table, "%s", doubt->model[0] ? doubt->model : doubt->device);
        table_cell(&table, "%s", doubt->state);
        table_cell(&table, "%u", doubt->strikes);
        table_cell(&table, "%s",
                   doubt->for_ns > 0 ? figures_time((double)doubt->for_ns / 1e9, left, sizeof left) : "");
        table_end_row(&table, doubt->reason);
    }
    print_table(&table);
}

static status_t print_json(const Admin__GetStateResponse *state, err_t *err)
{
    json_t *document = message_json(&state->base);
    status_t status = STATUS_OK;
    if (!document || json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0)
        status = err_set(err, STATUS_IO, "cannot write the state");
    putchar('\n');
    json_decref(document);
    return status;
}

static status_t show_status(admin_call_t *call, bool json)
{
    Admin__GetStateRequest request = ADMIN__GET_STATE_REQUEST__INIT;
    call->type = &admin__get_state_response__descriptor;
    status_t status = admin_call(call, "GetState", &request.base);
    if (status != STATUS_OK)
        return status;
    const Admin__GetStateResponse *state = (const Admin__GetStateResponse *)call->answer;
    if (json)
        return print_json(state, call->err);
    char up[FIGURES_BYTES];
    printf("policy %s (of", state->policy);
    for (size_t i = 0; i < state->n_policies; i++)
        printf(" %s", state->policies[i]);
    printf(")\nup %s, %zu gateway%s\n", figures_time(ceil((double)state->uptime_ns / 1e9), up, sizeof up),
           state->n_gateways, state->n_gateways == 1 ? "" : "s");
    print_subclusters(state);
    print_plan(state);
    print_workers(state);
    print_models(state);
    print_doubts(state);
    return STATUS_OK;
}

/* ---- policy ---- */

enum { POLICY_OPTIONS_MAX = 32, POLICY_KEY_BYTES = 64 };

static status_t set_policy(admin_call_t *call, const char *const *words, size_t len, const char *subcluster)
{
    static char keys[POLICY_OPTIONS_MAX][POLICY_KEY_BYTES];
    Admin__SetPolicyRequest__OptionsEntry entries[POLICY_OPTIONS_MAX], *list[POLICY_OPTIONS_MAX];
    Admin__SetPolicyRequest request = ADMIN__SET_POLICY_REQUEST__INIT;
    if (len - 1 > POLICY_OPTIONS_MAX)
        return err_set(call->err, STATUS_INVALID_ARGUMENT, "more than %d options", POLICY_OPTIONS_MAX);
    for (size_t i = 1; i < len; i++) {
        const char *equals = strchr(words[i], '=');
        if (!equals || equals == words[i] || equals - words[i] >= POLICY_KEY_BYTES)
            return err_set(call->err, STATUS_INVALID_ARGUMENT, "\"%.80s\" is not KEY=VALUE", words[i]);
        admin__set_policy_request__options_entry__init(&entries[i - 1]);
        memcpy(keys[i - 1], words[i], (size_t)(equals - words[i]));
        entries[i - 1].key = keys[i - 1];
        entries[i - 1].value = (char *)(uintptr_t)(equals + 1);
        list[i - 1] = &entries[i - 1];
    }
    request.policy = (char *)(uintptr_t)words[0];
    request.subcluster = (char *)(uintptr_t)subcluster;
    request.options = list;
    request.n_options = len - 1;
    call->type = &admin__set_policy_response__descriptor;
    status_t status = admin_call(call, "SetPolicy", &request.base);
    if (status == STATUS_OK)
        printf("policy %s (was %s)%s%s\n", words[0],
               ((const Admin__SetPolicyResponse *)call->answer)->previous,
               subcluster[0] != '\0' ? " in " : "", subcluster);
    return status;
}

/* ---- drain, resume ---- */

static status_t drain(admin_call_t *call, const char *worker, bool resume, bool leave)
{
    Admin__DrainWorkerRequest request = ADMIN__DRAIN_WORKER_REQUEST__INIT;
    request.name = (char *)(uintptr_t)worker;
    request.resume = resume;
    request.exit = leave;
    call->type = &admin__drain_worker_response__descriptor;
    status_t status = admin_call(call, "DrainWorker", &request.base);
    if (status == STATUS_OK && resume)
        printf("%s serves again\n", worker);
    else if (status == STATUS_OK)
        printf("%s is draining%s, %u batches still to be done\n", worker, leave ? " and will end" : "",
               ((const Admin__DrainWorkerResponse *)call->answer)->inflight_batches);
    return status;
}

static int run(int argc, char **argv)
{
    cluster_options_t o;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    admin_call_t call = {.api_key = o.api_key, .tls = o.tls, .err = &err};
    value_format_address(&o.scheduler, call.scheduler, sizeof call.scheduler);
    size_t len;
    const char *const *words = config_positionals(config, &len);
    const char *verb = len > 0 ? words[0] : "";
    if (len == 1 && strcmp(verb, "status") == 0) {
        exit_code = config_exit(&schema, show_status(&call, o.json), &err);
    } else if (len >= 2 && strcmp(verb, "policy") == 0) {
        exit_code = config_exit(
            &schema, set_policy(&call, words + 1, len - 1, o.subcluster ? o.subcluster : ""), &err);
    } else if (len == 2 && (strcmp(verb, "drain") == 0 || strcmp(verb, "resume") == 0)) {
        exit_code = config_exit(&schema, drain(&call, words[1], verb[0] == 'r', o.exit), &err);
    } else {
        fprintf(
            stderr,
            "fermata cluster: say `status`, `policy NAME`, `drain WORKER` or `resume WORKER` (see --help)\n");
        exit_code = EXIT_CODE_USAGE;
    }
    pb_arena_dispose(&call.arena);
    config_destroy(config);
    return exit_code;
}

const command_t command_cluster = {"cluster", "show the scheduler's cluster, set its policy, drain workers",
                                   run};
