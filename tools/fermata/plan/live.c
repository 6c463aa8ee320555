/* fermata plan show | apply: the running cluster's own plan, made by its scheduler from what it measures. */
#include "fermata/plan/live.h"

#include "admin.pb-c.h"
#include "config/config.h"
#include "fermata/client/admin_call.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    config_address_t scheduler;
    tls_client_options_t tls;
} live_options_t;

static const config_option_t options[] = {
    {"scheduler", CONFIG_ADDRESS, "Scheduler", "gRPC address of the scheduler.", .def = "127.0.0.1:9000",
     .offset = offsetof(live_options_t, scheduler)},
    TLS_CLIENT_OPTIONS(live_options_t, "Scheduler"),
};

static const config_schema_t schema = {
    .program = "fermata plan",
    .summary = "Plans the running cluster: which sub-cluster serves which model.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "show | apply",
    .epilog = "  show    what the scheduler would do now, by the load that it measures\n"
              "  apply   the same, and begins to do it: load there, serve there, unload here\n",
};

static void print_plan(const Admin__PlanResponse *plan)
{
    printf("%-24s %-8s %8s  %-24s %-24s\n", "MODEL", "VERSION", "LOAD", "FROM", "TO");
    for (size_t i = 0; i < plan->n_models; i++) {
        const Admin__PlannedModel *model = plan->models[i];
        const char *from = model->from[0] != '\0' ? model->from : "-";
        const char *to = model->to[0] == '\0'                  ? "-"
                         : strcmp(model->to, model->from) == 0 ? "stays"
                                                               : model->to;
        printf("%-24s %-8lld %8.3f  %-24s %-24s%s\n", model->name, (long long)model->version, model->load,
               from, to, model->note);
    }
    printf("\nimbalance of load %.3f, as planned %.3f; %u models %s move; %.1f ms\n", plan->imbalance_before,
           plan->imbalance_after, plan->moves, plan->apply ? "begin to" : "would",
           (double)plan->solve_ns / 1e6);
    if (plan->note[0] != '\0')
        printf("%s\n", plan->note);
}

static status_t ask(admin_call_t *call, bool apply)
{
    Admin__PlanRequest request = ADMIN__PLAN_REQUEST__INIT;
    request.apply = apply;
    call->type = &admin__plan_response__descriptor;
    status_t status = admin_call(call, "Plan", &request.base);
    if (status == STATUS_OK)
        print_plan((const Admin__PlanResponse *)call->answer);
    return status;
}

int plan_live(int argc, char **argv)
{
    live_options_t o;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    admin_call_t call = {.tls = o.tls, .err = &err};
    size_t len;
    const char *const *words = config_positionals(config, &len);
    value_format_address(&o.scheduler, call.scheduler, sizeof call.scheduler);
    bool apply = len == 1 && strcmp(words[0], "apply") == 0;
    if (apply || (len == 1 && strcmp(words[0], "show") == 0)) {
        exit_code = config_exit(&schema, ask(&call, apply), &err);
        pb_arena_dispose(&call.arena);
    } else {
        fprintf(stderr,
                "fermata plan: `show` and `apply` take no further words (see fermata plan show --help)\n");
        exit_code = EXIT_CODE_USAGE;
    }
    config_destroy(config);
    return exit_code;
}
