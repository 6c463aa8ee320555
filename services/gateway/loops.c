#include "gateway/loops.h"

#include "auth/usages.h"
#include "base/clock.h"
#include "exporter/data.h"
#include "exporter/exporter.h"
#include "gateway/models/stats.h"
#include "gateway/regions/regions.h"
#include "http/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

typedef struct member member_t;

/* What the thread of a member is asked to do, one thing at a time. */
typedef struct {
    loop_job_t job;
    member_t *member;
    status_t status;
    err_t err;
    atomic_bool done;
} order_t;

/* One gateway. The first has no thread. */
struct member {
    gateway_loops_t *loops;
    gateway_options_t options;
    char name[NAME_BYTES], advertised[TRANSFER_ADDRESS_BYTES];
    loop_t *loop;
    /* after its creation: of its own loop's thread, but for what any thread may ask */
    gateway_service_t *service;
    pthread_t thread;
    bool has_thread;
    atomic_bool ended;
    order_t order;
    loop_job_t stopped; /* tells the loop of who made them */
    loop_job_t reread;
    atomic_bool rereading; /* the job is on its way */
};

struct gateway_loops {
    loop_t *loop;
    const gateway_options_t *options;
    gateway_within_t within;
    metrics_t *metrics; /* its own; NULL: another's */
    stats_board_t board;
    tls_context_t *tls, *dialled, *shown; /* of all of them; NULL: plain */
    http_server_t *http;
    bool http_stopped;
    member_t *members;
    transfer_owner_t **owners;
    uint32_t count, made;
    uint32_t stopping; /* that have not stopped */
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
    metric_t *connections, *tasks, *arena_used, *arena_total, *preprocess_queue, *connected;
    metric_t *unfinished, *cut_full, *cut_slow;
    rpc_unfinished_stats_t told; /* to the counters of these */
    exporter_data_t data;
};

/* ------------------------------------------------------------------ metrics */

static void add_traffic(transfer_stats_t *sum, const transfer_stats_t *of)
{
    for (int way = 0; way < TRANSFER_WAYS; way++) {
        sum->by[way].items += of->by[way].items;
        sum->by[way].item_bytes += of->by[way].item_bytes;
        sum->by[way].results += of->by[way].results;
        sum->by[way].result_bytes += of->by[way].result_bytes;
        sum->by[way].connections += of->by[way].connections;
    }
    sum->item_errors += of->item_errors;
    sum->protocol_errors += of->protocol_errors;
    sum->connects += of->connects;
    sum->fallbacks += of->fallbacks;
    sum->asked_idle += of->asked_idle;
    sum->asked_crowded += of->asked_crowded;
    for (int i = 0; i < TRANSFER_REFUSALS; i++)
        sum->refused[i] += of->refused[i];
    sum->connections += of->connections;
}

/* All of them together; up and models: what holds for each. */
static void read_all(const gateway_loops_t *loops, gateway_readings_t *sum)
{
    *sum = (gateway_readings_t){.up = true, .models = UINT32_MAX};
    for (uint32_t i = 0; i < loops->made; i++) {
        gateway_readings_t one;
        gateway_service_read(loops->members[i].service, &one);
        sum->connections += one.connections;
        sum->requests += one.requests;
        sum->tasks += one.tasks;
        sum->preprocess_queue += one.preprocess_queue;
        sum->models = one.models < sum->models ? one.models : sum->models;
        sum->up &= one.up;
        sum->unfinished.bytes += one.unfinished.bytes;
        sum->unfinished.cut_full += one.unfinished.cut_full;
        sum->unfinished.cut_slow += one.unfinished.cut_slow;
        sum->arena.used_bytes += one.arena.used_bytes;
        sum->arena.total_bytes += one.arena.total_bytes;
        add_traffic(&sum->data, &one.data);
    }
}

static void on_collect(void *arg)
{
    gateway_loops_t *loops = arg;
    gateway_readings_t all;
    read_all(loops, &all);
    metrics_set(loops->arena_used, (double)all.arena.used_bytes);
    metrics_set(loops->arena_total, (double)all.arena.total_bytes);
    metrics_set(loops->unfinished, (double)all.unfinished.bytes);
    metrics_add(loops->cut_full, all.unfinished.cut_full - loops->told.cut_full);
    metrics_add(loops->cut_slow, all.unfinished.cut_slow - loops->told.cut_slow);
    loops->told = all.unfinished;
    metrics_set(loops->tasks, (double)all.tasks);
    metrics_set(loops->connections, (double)all.connections);
    metrics_set(loops->preprocess_queue, (double)all.preprocess_queue);
    metrics_set(loops->connected, all.up);
    if (!loops->within.hub)
        exporter_data_collect(&loops->data, &all.data);
}

static status_t name_metrics(gateway_loops_t *loops, err_t *err)
{
    metrics_t *metrics = loops->within.metrics;
    loops->connections = metrics_series(metrics, METRIC_GATEWAY_CONNECTIONS, "rest");
    loops->tasks = metrics_series(metrics, METRIC_GATEWAY_TASKS_IN_FLIGHT);
    loops->unfinished = metrics_series(metrics, METRIC_GATEWAY_UNFINISHED_BYTES);
    loops->cut_full = metrics_series(metrics, METRIC_GATEWAY_UNFINISHED_CUT, "full");
    loops->cut_slow = metrics_series(metrics, METRIC_GATEWAY_UNFINISHED_CUT, "slow");
    loops->arena_used = metrics_series(metrics, METRIC_GATEWAY_ARENA_USED_BYTES);
    loops->arena_total = metrics_series(metrics, METRIC_GATEWAY_ARENA_BYTES);
    loops->preprocess_queue = metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_QUEUE);
    loops->connected = metrics_series(metrics, METRIC_GATEWAY_SCHEDULER_CONNECTED);
    if (!loops->within.hub)
        exporter_data_init(&loops->data, metrics);
    if (metrics_on_collect(metrics, on_collect, loops) != STATUS_OK)
        return err_set(err, STATUS_INTERNAL, "too many collectors");
    return STATUS_OK;
}

/* ------------------------------------------------------------------ a thread of its own */

static void *thread_main(void *arg)
{
    member_t *member = arg;
    order_t *order = &member->order;
    order->status = loop_create(&member->loop, &order->err);
    if (order->status == STATUS_OK)
        order->status = gateway_service_create(member->loop, &member->options, &member->loops->within,
                                               &member->service, &order->err);
    bool runs = order->status == STATUS_OK;
    atomic_store(&order->done, true);
    if (runs)
        loop_run(member->loop);
    gateway_service_destroy(member->service);
    if (member->loop)
        loop_destroy(member->loop);
    atomic_store(&member->ended, true);
    return NULL;
}

/* Meanwhile the loop turns: they may be asking something of it. */
static void await(const gateway_loops_t *loops, const atomic_bool *flag)
{
    while (!atomic_load(flag))
        loop_run_once(loops->loop, NS_PER_MS / 5);
}

static status_t start_thread(gateway_loops_t *loops, member_t *member, err_t *err)
{
    char name[16];
    int rc = pthread_create(&member->thread, NULL, thread_main, member);
    if (rc != 0)
        return err_set(err, STATUS_IO, "no thread for a gateway: %s", strerror(rc));
    member->has_thread = true;
    snprintf(name, sizeof name, "gateway-%u", (unsigned)(member - loops->members));
    pthread_setname_np(member->thread, name);
    await(loops, &member->order.done);
    if (member->order.status != STATUS_OK)
        *err = member->order.err;
    return member->order.status;
}

static void end_thread(const gateway_loops_t *loops, member_t *member)
{
    if (!member->has_thread)
        return;
    if (member->service)
        loop_stop(member->loop);
    await(loops, &member->ended);
    pthread_join(member->thread, NULL);
    member->service = NULL;
}

/* ------------------------------------------------------------------ listening */

static void open_there(void *arg)
{
    order_t *order = arg;
    order->status = gateway_service_open(order->member->service, &order->err);
    atomic_store(&order->done, true);
}

static status_t open_member(const gateway_loops_t *loops, member_t *member, err_t *err)
{
    if (!member->has_thread)
        return gateway_service_open(member->service, err);
    order_t *order = &member->order;
    atomic_store(&order->done, false);
    order->job = (loop_job_t){.fn = open_there, .arg = order};
    loop_post_job(member->loop, &order->job);
    await(loops, &order->done);
    status_t status = order->status;
    if (status != STATUS_OK)
        *err = order->err;
    order->status = STATUS_OK; /* it runs still */
    return status;
}

/* Who shares a port shares it with any process of this user; so it is bound alone first. */
static status_t is_free(const config_address_t *address, err_t *err)
{
    char text[CONFIG_ADDRESS_TEXT_BYTES];
    struct sockaddr_storage at;
    int on = 1;
    value_format_address_at(address, "127.0.0.1", text, sizeof text);
    status_t status = address_parse(text, &at, err);
    if (status != STATUS_OK)
        return status;
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, STATUS_IO, "cannot listen on %s: %s", text, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    socklen_t len = at.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (bind(fd, (const struct sockaddr *)&at, len) != 0)
        status = err_set(err, STATUS_IO, "cannot listen on %s: %s", text, strerror(errno));
    close(fd);
    return status;
}

/* That the first has found. */
static void take_port(config_address_t *address, const char *real)
{
    address->port = (uint16_t)atoi(strrchr(real, ':') + 1);
}

status_t gateway_loops_open(gateway_loops_t *loops, err_t *err)
{
    status_t status = STATUS_OK;
    if (loops->count > 1 && !loops->options->reuse_port)
        status = is_free(&loops->options->http_address, err);
    if (status == STATUS_OK && loops->count > 1)
        status = is_free(&loops->options->grpc_address, err);
    for (uint32_t i = 0; i < loops->count && status == STATUS_OK; i++) {
        member_t *member = &loops->members[i];
        if (i > 0) {
            take_port(&member->options.http_address, gateway_loops_http(loops));
            take_port(&member->options.grpc_address, gateway_loops_grpc(loops));
        }
        status = open_member(loops, member, err);
    }
    if (status == STATUS_OK && loops->metrics) {
        char text[CONFIG_ADDRESS_TEXT_BYTES];
        value_format_address_at(&loops->options->metrics_address, "127.0.0.1", text, sizeof text);
        status = exporter_create(loop_uv(loops->loop), text, loops->shown, loops->metrics, &loops->http, err);
    }
    return status == STATUS_OK ? name_metrics(loops, err) : status;
}

/* ------------------------------------------------------------------ reading again */

static void reread_there(void *arg)
{
    member_t *member = arg;
    atomic_store(&member->rereading, false);
    gateway_service_reread(member->service);
}

void gateway_loops_reread(gateway_loops_t *loops)
{
    tls_context_look(loops->tls);
    tls_context_look(loops->dialled);
    tls_context_look(loops->shown);
    gateway_service_reread(loops->members[0].service);
    for (uint32_t i = 1; i < loops->made; i++) {
        member_t *member = &loops->members[i];
        member->reread.fn = reread_there;
        member->reread.arg = member;
        if (!atomic_exchange(&member->rereading, true))
            loop_post_job(member->loop, &member->reread);
    }
}

/* ------------------------------------------------------------------ stopping */

static void on_one_stopped(gateway_loops_t *loops)
{
    if (--loops->stopping == 0)
        loops->on_stopped(loops->on_stopped_arg);
}

static void on_http_stopped(http_server_t *server, void *arg)
{
    (void)server;
    on_one_stopped(arg);
}

static void on_told_stopped(void *arg)
{
    on_one_stopped(((member_t *)arg)->loops);
}

/* On the member's loop. */
static void on_member_stopped(void *arg)
{
    member_t *member = arg;
    member->stopped = (loop_job_t){.fn = on_told_stopped, .arg = member};
    loop_post_job(member->loops->loop, &member->stopped);
}

static void stop_there(void *arg)
{
    member_t *member = arg;
    gateway_service_stop(member->service, on_member_stopped, member);
}

void gateway_loops_stop(gateway_loops_t *loops, void (*on_stopped)(void *arg), void *arg)
{
    if (loops->on_stopped)
        return;
    loops->on_stopped = on_stopped;
    loops->on_stopped_arg = arg;
    loops->stopping = loops->made + (loops->http ? 1 : 0);
    if (loops->http)
        http_server_stop(loops->http, 100, on_http_stopped, loops);
    for (uint32_t i = 0; i < loops->made; i++) {
        member_t *member = &loops->members[i];
        member->order.job = (loop_job_t){.fn = stop_there, .arg = member};
        loop_post_job(member->loop, &member->order.job);
    }
}

void gateway_loops_destroy(gateway_loops_t *loops)
{
    if (!loops)
        return;
    for (uint32_t i = loops->members ? loops->count : 0; i-- > 0;)
        end_thread(loops, &loops->members[i]);
    if (loops->members)
        gateway_service_destroy(loops->members[0].service);
    http_server_destroy(loops->http);
    regions_destroy(loops->within.regions);
    metrics_destroy(loops->metrics);
    stats_board_dispose(&loops->board);
    auth_usages_destroy(loops->within.usages);
    tls_context_destroy(loops->tls);
    tls_context_destroy(loops->dialled);
    tls_context_destroy(loops->shown);
    transfer_trust_close(&loops->within.trust);
    free(loops->owners);
    free(loops->members);
    free(loops);
}

/* ------------------------------------------------------------------ starting */

/* At least 1. */
static int64_t part(int64_t of_all, uint32_t count)
{
    return (of_all + count - 1) / count;
}

static void shift_port(config_address_t *address, uint32_t by)
{
    if (address->port != 0)
        address->port = (uint16_t)(address->port + by);
}

/* "host:port" with the port counted up; port 0 stays: it is the one that was found. */
static void shift_advertised(member_t *member, uint32_t by)
{
    const char *address = member->options.advertise_data_address;
    const char *colon = address ? strrchr(address, ':') : NULL;
    int port = colon ? atoi(colon + 1) : 0;
    if (port == 0)
        return;
    snprintf(member->advertised, sizeof member->advertised, "%.*s:%u", (int)(colon - address), address,
             (unsigned)port + by);
    member->options.advertise_data_address = member->advertised;
}

static void set_options(gateway_loops_t *loops, uint32_t i)
{
    member_t *member = &loops->members[i];
    gateway_options_t *options = &member->options;
    *options = *loops->options;
    if (loops->count == 1)
        return;
    options->arena_bytes = part(options->arena_bytes, loops->count);
    options->max_requests = part(options->max_requests, loops->count);
    options->max_connections = part(options->max_connections, loops->count);
    options->preprocess_threads = part(options->preprocess_threads, loops->count);
    if (i == 0)
        return;
    shift_port(&options->data_address, i);
    shift_advertised(member, i);
    if (options->name)
        snprintf(member->name, sizeof member->name, "%s.%u", options->name, i);
    else
        snprintf(member->name, sizeof member->name, "gateway.%u/%d", i, (int)getpid());
    options->name = member->name;
}

static status_t make_member(gateway_loops_t *loops, uint32_t i, err_t *err)
{
    member_t *member = &loops->members[i];
    member->loops = loops;
    member->order.member = member;
    set_options(loops, i);
    status_t status;
    if (i == 0) {
        member->loop = loops->loop;
        status = gateway_service_create(loops->loop, &member->options, &loops->within, &member->service, err);
    } else {
        status = start_thread(loops, member, err);
    }
    if (status != STATUS_OK)
        return status;
    loops->owners[i] = gateway_service_owner(member->service);
    loops->made++;
    return STATUS_OK;
}

/* Clients, the scheduler, who reads metrics, and workers. */
static status_t open_tls(gateway_loops_t *loops, err_t *err)
{
    const gateway_options_t *options = loops->options;
    status_t status = tls_server_open(&options->tls, &loops->tls, err);
    if (status == STATUS_OK)
        status = tls_cluster_dial(&options->cluster, "scheduler", NULL, &loops->dialled, err);
    if (status == STATUS_OK)
        status = tls_cluster_serve(&options->cluster, NULL, &loops->shown, err);
    if (status == STATUS_OK)
        status =
            transfer_trust_open(&options->cluster, options->cluster_secret, true, &loops->within.trust, err);
    loops->within.tls = loops->tls;
    loops->within.dialled = loops->dialled;
    return status;
}

static status_t start(gateway_loops_t *loops, err_t *err)
{
    loops->members = calloc(loops->count, sizeof *loops->members);
    loops->owners = calloc(loops->count, sizeof *loops->owners);
    if (!loops->members || !loops->owners)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the gateways");
    if (!loops->within.metrics)
        loops->within.metrics = loops->metrics = metrics_create("gateway", err);
    if (!loops->within.metrics)
        return err->code;
    status_t status = auth_usages_create(&loops->within.usages, err);
    if (status == STATUS_OK && loops->options->client_shared_memory)
        status = regions_create(loops->within.metrics, &loops->within.regions, err);
    if (status == STATUS_OK)
        status = open_tls(loops, err);
    for (uint32_t i = 0; i < loops->count && status == STATUS_OK; i++)
        status = make_member(loops, i, err);
    return status;
}

status_t gateway_loops_create(loop_t *loop, const gateway_options_t *options, const gateway_within_t *within,
                              gateway_loops_t **out, err_t *err)
{
    gateway_loops_t *loops = calloc(1, sizeof *loops);
    if (!loops)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the gateways");
    loops->loop = loop;
    loops->options = options;
    loops->count = (uint32_t)options->gateway_threads;
    if (within)
        loops->within = *within;
    loops->within.others = loops->count > 1;
    stats_board_init(&loops->board);
    loops->within.board = loops->count > 1 ? &loops->board : NULL;
    status_t status = start(loops, err);
    if (status != STATUS_OK) {
        gateway_loops_destroy(loops);
        return status;
    }
    *out = loops;
    return STATUS_OK;
}

/* ------------------------------------------------------------------ from outside */

uint32_t gateway_loops_count(const gateway_loops_t *loops)
{
    return loops->count;
}

transfer_owner_t *const *gateway_loops_owners(const gateway_loops_t *loops)
{
    return loops->owners;
}

const char *gateway_loops_http(const gateway_loops_t *loops)
{
    return gateway_service_http(loops->members[0].service);
}

const char *gateway_loops_grpc(const gateway_loops_t *loops)
{
    return gateway_service_grpc(loops->members[0].service);
}

uint32_t gateway_loops_models(const gateway_loops_t *loops)
{
    gateway_readings_t all;
    read_all(loops, &all);
    return all.models;
}

uint32_t gateway_loops_waiting(const gateway_loops_t *loops)
{
    gateway_readings_t all;
    read_all(loops, &all);
    return (uint32_t)all.requests;
}

void gateway_loops_print_ready(const gateway_loops_t *loops)
{
    const gateway_service_t *first = loops->members[0].service;
    printf(
        "ready {\"service\":\"gateway\",\"http\":\"%s\",\"grpc\":\"%s\",\"metrics\":\"%s\",\"data\":\"%s\","
        "\"pid\":%d}\n",
        gateway_service_http(first), gateway_service_grpc(first), http_server_address(loops->http),
        gateway_service_data(first), (int)getpid());
    fflush(stdout);
}
