/* fermata-scheduler: options, signals, the ready line. */
#include "base/beside.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "config/exposure.h"
#include "loop/program.h"
#include "loop/spin.h"
#include "sched/sched.h"
#include "scheduler/scheduler.h"
#include "tls/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    config_address_t grpc_address, http_address;
    tls_cluster_options_t cluster;
    const char *policy, *policy_params;
    config_list_t subclusters, placements;
    int64_t autoscale_window_ns, plan_interval_ns, plan_limit_ns, plan_moves_max;
    const char *plan_solver;
    int64_t spin_ns, shards, tasks_max, models_max, devices_max, batch_max, device_inflight_max;
    int64_t ping_interval_ns, peer_timeout_ns, worker_grace_ns, initial_delay_ns;
    int log_level, log_format;
    bool insecure;
} settings_t;

static const config_option_t options[] = {
    {.name = "grpc_address",
     .type = CONFIG_ADDRESS,
     .group = "Listening",
     .help = "Address of the control and admin protocols.",
     .def = "127.0.0.1:9000",
     .offset = offsetof(settings_t, grpc_address)},
    {.name = "http_address",
     .type = CONFIG_ADDRESS,
     .group = "Listening",
     .help = "Address of metrics, health and state.",
     .def = "127.0.0.1:9001",
     .offset = offsetof(settings_t, http_address)},
    TLS_CLUSTER_OPTIONS(settings_t),
    CONFIG_INSECURE_OPTION(settings_t),
    {.name = "policy",
     .type = CONFIG_STRING,
     .group = "Scheduling",
     .help = "Batching policy.",
     .def = "fermata",
     .offset = offsetof(settings_t, policy)},
    {.name = "policy_params",
     .type = CONFIG_STRING,
     .group = "Scheduling",
     .help = "Parameters of the policy: key=value,key=value.",
     .offset = offsetof(settings_t, policy_params)},
    {.name = "spin",
     .type = CONFIG_DURATION,
     .group = "Scheduling",
     .help = "Under traffic, watch for news so long after the last before sleeping; for hosts with CPUs to "
             "spare. 0: never.",
     .def = "0",
     .max = LOOP_SPIN_MAX_NS,
     .offset = offsetof(settings_t, spin_ns)},
    {.name = "shards",
     .type = CONFIG_INT,
     .group = "Scheduling",
     .help =
         "Threads that decide, for each sub-cluster, beside one that matches; 0: the event loop's own, "
         "which policies nexus and shepherd, devices in mode staged or overlap, and stopping batches need.",
     .def = "0",
     .min = 0,
     .max = 64,
     .offset = offsetof(settings_t, shards)},
    {.name = "subclusters",
     .type = CONFIG_LIST,
     .group = "Sub-clusters",
     .help = "A sub-cluster of a class of devices. Devices come to those of their class in proportion to the "
             "shares; a class "
             "without any gets one of its name.",
     .metavar = "NAME=CLASS[:SHARE[:POLICY]]",
     .offset = offsetof(settings_t, subclusters)},
    {.name = "placements",
     .type = CONFIG_LIST,
     .group = "Sub-clusters",
     .help = "Where a model is served as long as it can be.",
     .metavar = "MODEL=SUBCLUSTER",
     .offset = offsetof(settings_t, placements)},
    {.name = "autoscale_window",
     .type = CONFIG_DURATION,
     .group = "Sub-clusters",
     .help = "Time over which the number of devices that is needed is judged.",
     .def = "5s",
     .min = 100 * NS_PER_MS,
     .max = 3600 * NS_PER_S,
     .offset = offsetof(settings_t, autoscale_window_ns)},
    {.name = "plan_interval",
     .type = CONFIG_DURATION,
     .group = "Sub-clusters",
     .help = "Time between two plans of which sub-cluster serves which model; 0: only when asked.",
     .def = "5m",
     .max = 24 * 3600 * NS_PER_S,
     .offset = offsetof(settings_t, plan_interval_ns)},
    {.name = "plan_limit",
     .type = CONFIG_DURATION,
     .group = "Sub-clusters",
     .help = "Time that making a plan may take.",
     .def = "2s",
     .min = 10 * NS_PER_MS,
     .max = 600 * NS_PER_S,
     .offset = offsetof(settings_t, plan_limit_ns)},
    {.name = "plan_solver",
     .type = CONFIG_STRING,
     .group = "Sub-clusters",
     .help = "Program that runs CBC on a plan, after the search; beside: fermata-plan-solver, where this "
             "program lies; none: the search "
             "alone.",
     .metavar = "FILE",
     .def = "beside",
     .offset = offsetof(settings_t, plan_solver)},
    {.name = "plan_moves_max",
     .type = CONFIG_INT,
     .group = "Sub-clusters",
     .help = "Models that one plan may move.",
     .def = "16",
     .min = 1,
     .max = 1 << 16,
     .offset = offsetof(settings_t, plan_moves_max)},
    {.name = "device_inflight_max",
     .type = CONFIG_INT,
     .group = "Scheduling",
     .help = "Batches granted to a device and not yet done; one that runs several at a time gets up to 4.",
     .def = "2",
     .min = 1,
     .max = 16,
     .offset = offsetof(settings_t, device_inflight_max)},
    {.name = "worker_grace",
     .type = CONFIG_DURATION,
     .group = "Scheduling",
     .help = "How long the tasks of a model wait when its last worker has gone.",
     .def = "500ms",
     .max = 60 * NS_PER_S,
     .offset = offsetof(settings_t, worker_grace_ns)},
    {.name = "initial_delay",
     .type = CONFIG_DURATION,
     .group = "Scheduling",
     .help = "Bound of the network delay until it has been measured.",
     .def = "1ms",
     .max = NS_PER_S,
     .offset = offsetof(settings_t, initial_delay_ns)},
    {.name = "ping_interval",
     .type = CONFIG_DURATION,
     .group = "Peers",
     .help = "Pause between pings of each gateway and worker.",
     .def = "100ms",
     .min = NS_PER_MS,
     .max = 60 * NS_PER_S,
     .offset = offsetof(settings_t, ping_interval_ns)},
    {.name = "peer_timeout",
     .type = CONFIG_DURATION,
     .group = "Peers",
     .help = "Silence after which a gateway or worker counts as lost.",
     .def = "3s",
     .min = 10 * NS_PER_MS,
     .max = 600 * NS_PER_S,
     .offset = offsetof(settings_t, peer_timeout_ns)},
    {.name = "tasks_max",
     .type = CONFIG_INT,
     .group = "Limits",
     .help = "Tasks queued and in flight together.",
     .def = "65536",
     .min = 1,
     .max = 1 << 24,
     .offset = offsetof(settings_t, tasks_max)},
    {.name = "models_max",
     .type = CONFIG_INT,
     .group = "Limits",
     .help = "Model versions seen since the start.",
     .def = "1024",
     .min = 1,
     .max = (1 << 16) - 256, /* what a core takes, less the shapes of models that vary */
     .offset = offsetof(settings_t, models_max)},
    {.name = "devices_max",
     .type = CONFIG_INT,
     .group = "Limits",
     .help = "Devices of all workers together.",
     .def = "1024",
     .min = 1,
     .max = 1 << 16,
     .offset = offsetof(settings_t, devices_max)},
    {.name = "batch_max",
     .type = CONFIG_INT,
     .group = "Limits",
     .help = "Largest batch, whatever a model allows.",
     .def = "256",
     .min = 1,
     .max = 4096,
     .offset = offsetof(settings_t, batch_max)},
    CONFIG_LOG_OPTIONS(settings_t),
};

static const config_schema_t schema = {
    .program = "fermata-scheduler",
    .summary = "Turns the tasks of the gateways into batches on the workers' devices.",
    .options = options,
    .options_len = sizeof options / sizeof options[0],
};

typedef struct {
    loop_program_t around;
    scheduler_t *scheduler;
    tls_context_t *tls; /* NULL: plain */
} process_t;

static void on_stopped(void *arg)
{
    process_t *process = arg;
    loop_stop(process->around.loop);
}

static void on_signal(void *arg, int signum)
{
    process_t *process = arg;
    log_info("stopping", LOG_I64("signal", signum));
    scheduler_stop(process->scheduler, on_stopped, process);
}

static void on_hangup(void *arg, int signum)
{
    const process_t *process = arg;
    tls_context_look(process->tls);
    log_info("read_again", LOG_I64("signal", signum));
}

static void say_ready(const scheduler_t *scheduler)
{
    printf("ready {\"service\":\"scheduler\",\"grpc\":\"%s\",\"http\":\"%s\",\"pid\":%ld}\n",
           scheduler_grpc_address(scheduler), scheduler_http_address(scheduler), (long)getpid());
    (void)fflush(stdout);
}

static status_t run_loop(process_t *process, const scheduler_options_t *how, err_t *err)
{
    status_t status = scheduler_create(process->around.loop, how, &process->scheduler, err);
    if (status != STATUS_OK)
        return status;
    say_ready(process->scheduler);
    loop_program_ready(&process->around);
    log_info("ready", LOG_STR("grpc", scheduler_grpc_address(process->scheduler)),
             LOG_STR("http", scheduler_http_address(process->scheduler)),
             LOG_STR("policy", how->control.policy));
    loop_run(process->around.loop);
    scheduler_destroy(process->scheduler);
    return STATUS_OK;
}

/* NULL: none. */
static const char *find_solver(const char *named, char *path, size_t bytes)
{
    if (strcmp(named, "none") == 0)
        return NULL;
    if (strcmp(named, "beside") != 0)
        return named;
    if (!beside_program("fermata-plan-solver", path, bytes))
        return NULL;
    if (access(path, X_OK) == 0)
        return path;
    log_info("no_plan_solver", LOG_STR("path", path));
    return NULL;
}

static status_t run(const settings_t *settings, err_t *err)
{
    char grpc[CONFIG_ADDRESS_TEXT_BYTES], http[CONFIG_ADDRESS_TEXT_BYTES];
    char solver[4096];
    scheduler_options_t how;
    scheduler_options_init(&how);
    how.grpc_address = value_format_address_at(&settings->grpc_address, "127.0.0.1", grpc, sizeof grpc);
    how.http_address = value_format_address_at(&settings->http_address, "127.0.0.1", http, sizeof http);
    how.control.policy = settings->policy;
    how.control.policy_params = settings->policy_params;
    how.control.subclusters = settings->subclusters.items;
    how.control.subcluster_count = (uint32_t)settings->subclusters.len;
    how.control.placements = settings->placements.items;
    how.control.placement_count = (uint32_t)settings->placements.len;
    how.shards = (uint32_t)settings->shards;
    how.control.autoscale_window_ns = settings->autoscale_window_ns;
    how.control.plan_interval_ns = settings->plan_interval_ns;
    how.control.plan_limit_ns = settings->plan_limit_ns;
    how.control.plan_solver = find_solver(settings->plan_solver, solver, sizeof solver);
    how.control.plan_moves_max = (uint32_t)settings->plan_moves_max;
    how.control.tasks_max = (uint32_t)settings->tasks_max;
    how.control.models_max = (uint32_t)settings->models_max;
    how.control.devices_max = (uint32_t)settings->devices_max;
    how.control.batch_max = (uint32_t)settings->batch_max;
    how.control.device_inflight_max = (uint32_t)settings->device_inflight_max;
    how.control.ping_interval_ns = settings->ping_interval_ns;
    how.control.peer_timeout_ns = settings->peer_timeout_ns;
    how.control.worker_grace_ns = settings->worker_grace_ns;
    how.control.initial_delay_ns = settings->initial_delay_ns;
    process_t process = {0};
    status_t status = tls_cluster_serve(&settings->cluster, NULL, &how.tls, err);
    process.tls = how.tls;
    if (status == STATUS_OK)
        status = loop_program_open(&process.around, on_signal, &process, err);
    if (status == STATUS_OK) {
        loop_program_on_hangup(&process.around, on_hangup);
        loop_set_spin(process.around.loop, settings->spin_ns);
        status = run_loop(&process, &how, err);
    }
    loop_program_close(&process.around);
    tls_context_destroy(how.tls);
    return status;
}

static status_t check(const settings_t *settings, err_t *err)
{
    const exposure_listener_t listeners[] = {{"--grpc-address", &settings->grpc_address, EXPOSURE_SERVICES},
                                             {"--http-address", &settings->http_address, EXPOSURE_SERVICES}};
    const exposure_guards_t guards = {.cluster = settings->cluster.ca, .insecure = settings->insecure};
    return exposure_check(listeners, sizeof listeners / sizeof *listeners, &guards, err);
}

int main(int argc, char **argv)
{
    settings_t settings;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &settings, &config, &exit_code))
        return exit_code;
    log_init("scheduler", (log_level_t)settings.log_level, (log_format_t)settings.log_format);
    err_t err = {0};
    if (check(&settings, &err) != STATUS_OK)
        return config_misused(&schema, config, &err);
    status_t status = run(&settings, &err);
    config_destroy(config);
    return config_exit(&schema, status, &err);
}
