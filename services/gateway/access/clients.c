#include "gateway/access/clients.h"

#include "auth/shares.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#define BUSY_PART .75 /* of what there is, taken up: from then on shares count */
enum { RETRY_SHARE_MS = 1000, USAGE_NAME_BYTES = 512 };

struct client {
    uint64_t id;
    uint32_t weight;
    uint32_t refs;     /* by requests, as their client or as their address */
    uint32_t requests; /* of which it is the client */
    uint64_t bytes;
    auth_usage_t *usage;      /* of an address; NULL: not limited */
    TAILQ_ENTRY(client) link; /* among the idle */
};

typedef struct {
    char *model;
    auth_limits_t limits;
    auth_usage_t *usage;
} model_limit_t;

struct clients {
    clients_options_t options;
    auth_limits_t address_limits;
    bool addresses_limited;
    model_limit_t *models;
    size_t model_count;
    uint64_t seed; /* of ids: nobody can choose where he lies */
    idmap_t by_id;
    pool_t pool;
    TAILQ_HEAD(, client) idle; /* longest idle first: kept for what they have used */
    uint32_t requests;         /* of all */
    uint64_t bytes, weights;   /* weights: of those who have requests */
};

/* ---- life ---- */

static auth_usage_t *usage_of(clients_t *clients, const char *kind, const char *name, size_t len)
{
    char text[USAGE_NAME_BYTES];
    uint8_t hash[AUTH_HASH_BYTES];
    int n = snprintf(text, sizeof text, "%s:%.*s", kind, (int)len, name);

    auth_key_hash(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, hash);
    return auth_usages_get(clients->options.usages, hash);
}

static status_t add_model_limit(clients_t *clients, const char *text, err_t *err)
{
    const char *colon = strrchr(text, ':');
    model_limit_t *limit = &clients->models[clients->model_count];

    if (!colon || colon == text)
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%.64s' is no limit of a model, as MODEL:rate=5", text);
    if (auth_limits_parse(&limit->limits, colon + 1, err) != STATUS_OK)
        return err->code;
    limit->model = strndup(text, (size_t)(colon - text));
    limit->usage = usage_of(clients, "model", text, (size_t)(colon - text));
    clients->model_count++;
    return limit->model && limit->usage ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for limits");
}

static status_t read_limits(clients_t *clients, err_t *err)
{
    const clients_options_t *options = &clients->options;
    status_t status = STATUS_OK;

    if (options->address_limits)
        status = auth_limits_parse(&clients->address_limits, options->address_limits, err);
    clients->addresses_limited =
        clients->address_limits.rate_per_s > 0 || clients->address_limits.concurrent > 0;
    clients->models = calloc(options->model_limits_len + 1, sizeof *clients->models);
    if (!clients->models)
        return err_set(err, STATUS_NO_MEMORY, "no memory for limits");
    for (size_t i = 0; i < options->model_limits_len && status == STATUS_OK; i++)
        status = add_model_limit(clients, options->model_limits[i], err);
    return status;
}

status_t clients_create(const clients_options_t *options, clients_t **clients, err_t *err)
{
    clients_t *made = calloc(1, sizeof *made);

    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for clients");
    made->options = *options;
    TAILQ_INIT(&made->idle);
    status_t status = getrandom(&made->seed, sizeof made->seed, 0) == sizeof made->seed
                          ? STATUS_OK
                          : err_set(err, STATUS_IO, "getrandom: %m");
    if (status == STATUS_OK)
        status = idmap_init(&made->by_id, CLIENTS_MAX, err);
    if (status == STATUS_OK)
        status = pool_init(&made->pool, sizeof(client_t), CLIENTS_MAX, err);
    if (status == STATUS_OK)
        status = read_limits(made, err);
    if (status != STATUS_OK) {
        clients_destroy(made);
        return status;
    }
    *clients = made;
    return STATUS_OK;
}

static void forget(clients_t *clients, client_t *client)
{
    TAILQ_REMOVE(&clients->idle, client, link);
    idmap_remove(&clients->by_id, client->id);
    if (client->usage)
        auth_usages_put(clients->options.usages, client->usage);
    pool_put(&clients->pool, client);
}

void clients_destroy(clients_t *clients)
{
    if (!clients)
        return;
    while (!TAILQ_EMPTY(&clients->idle))
        forget(clients, TAILQ_FIRST(&clients->idle));
    for (size_t i = 0; i < clients->model_count; i++) {
        if (clients->models[i].usage)
            auth_usages_put(clients->options.usages, clients->models[i].usage);
        free(clients->models[i].model);
    }
    free(clients->models);
    idmap_dispose(&clients->by_id);
    pool_dispose(&clients->pool);
    free(clients);
}

/* ---- who ---- */

/* Of "1.2.3.4:5" what stands before the port, of "[1:2:3:4:5:6:7:8]:9" the first four groups. */
static size_t address_len(const char *peer)
{
    const char *end = strrchr(peer, ':');
    size_t len = end ? (size_t)(end - peer) : strlen(peer), groups = 0;

    if (peer[0] != '[')
        return len;
    for (size_t i = 0; i < len; i++) {
        if (peer[i] == ':' && (peer[i + 1] == ':' || ++groups == 4))
            return i;
    }
    return len;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    return h ^ h >> 29;
}

static uint64_t id_of_text(const clients_t *clients, const char *text, size_t len)
{
    uint64_t h = clients->seed;

    for (size_t i = 0; i < len; i++)
        h = mix(h + (uint8_t)text[i] + 1);
    return h;
}

/* NULL: there are too many. */
static client_t *add(clients_t *clients, uint64_t id)
{
    if (clients->by_id.len == CLIENTS_MAX && !TAILQ_EMPTY(&clients->idle))
        forget(clients, TAILQ_FIRST(&clients->idle));
    client_t *client = pool_get(&clients->pool);
    if (!client)
        return NULL;
    *client = (client_t){.id = id};
    idmap_put(&clients->by_id, id, client);
    TAILQ_INSERT_TAIL(&clients->idle, client, link);
    return client;
}

static client_t *take(clients_t *clients, uint64_t id)
{
    client_t *client = idmap_get(&clients->by_id, id);

    if (!client)
        client = add(clients, id);
    if (!client)
        return NULL;
    if (client->refs++ == 0)
        TAILQ_REMOVE(&clients->idle, client, link);
    return client;
}

static void put(clients_t *clients, client_t *client)
{
    if (--client->refs == 0)
        TAILQ_INSERT_TAIL(&clients->idle, client, link);
}

/* It shares in what there is, by weight. */
static void join(clients_t *clients, client_t *client, uint32_t weight)
{
    if (client->requests++ > 0)
        return;
    client->weight = weight ? weight : 1;
    clients->weights += client->weight;
}

static void part(clients_t *clients, client_t *client)
{
    if (--client->requests == 0)
        clients->weights -= client->weight;
    put(clients, client);
}

/* ---- what they may have ---- */

static status_t refuse(clients_t *clients, const char *reason, status_t status)
{
    metrics_add(metrics_series(clients->options.metrics, METRIC_GATEWAY_ADMISSION_REFUSED, reason), 1);
    return status;
}

/* Whether somebody who has `his` of `all` may have `more`, of `most` that there are. */
static bool is_in_share(const clients_t *clients, const client_t *client, double his, double more, double all,
                        double most)
{
    return all + more <= BUSY_PART * most || his == 0 ||
           his + more <= most * client->weight / (double)clients->weights;
}

static status_t enter_address(clients_t *clients, const char *peer, size_t len, client_hold_t *hold,
                              uint32_t *retry_after_ms, err_t *err)
{
    client_t *client = take(clients, id_of_text(clients, peer, len));

    hold->address_client = client;
    if (!client || !clients->addresses_limited)
        return STATUS_OK;
    if (!client->usage)
        client->usage = usage_of(clients, "address", peer, len);
    if (!client->usage)
        return STATUS_OK;
    status_t status = auth_usage_enter(client->usage, &clients->address_limits, "this address",
                                       clock_now_ns(), retry_after_ms, err);
    if (status != STATUS_OK)
        return refuse(clients, "address_limit", status);
    hold->address = client->usage;
    return STATUS_OK;
}

status_t clients_enter(clients_t *clients, const keyring_holder_t *holder, const char *peer,
                       client_hold_t *hold, uint32_t *retry_after_ms, err_t *err)
{
    if (!clients)
        return STATUS_OK;
    clients->requests++;
    hold->entered = true;
    if (!holder || clients->addresses_limited) {
        status_t status = enter_address(clients, peer, address_len(peer), hold, retry_after_ms, err);
        if (status != STATUS_OK)
            return status;
    }
    client_t *client = hold->address_client;
    if (holder) /* which stays where it is as long as anybody has it */
        client = take(clients, mix(clients->seed ^ (uintptr_t)holder));
    else
        hold->address_client = NULL;
    hold->client = client;
    if (client)
        join(clients, client, holder ? keyring_key(holder)->limits.weight : 1);
    if (!client || is_in_share(clients, client, client->requests - 1, 1, clients->requests - 1,
                               clients->options.requests_max))
        return STATUS_OK;
    *retry_after_ms = RETRY_SHARE_MS;
    err_set(err, STATUS_UNAVAILABLE,
            "the gateway is full, and this client has its share of the requests under way");
    return refuse(clients, "requests", STATUS_UNAVAILABLE);
}

static status_t enter_limit(clients_t *clients, const model_entry_t *model, client_hold_t *hold,
                            uint32_t *retry_after_ms, err_t *err)
{
    for (size_t i = 0; i < clients->model_count; i++) {
        const model_limit_t *limit = &clients->models[i];
        if (strcmp(limit->model, model->spec.name) != 0)
            continue;
        if (auth_usage_enter(limit->usage, &limit->limits, "this model", clock_now_ns(), retry_after_ms,
                             err) != STATUS_OK) {
            err->code = STATUS_UNAVAILABLE; /* all clients together, not this one */
            return refuse(clients, "model_limit", STATUS_UNAVAILABLE);
        }
        hold->model = limit->usage;
        break;
    }
    return STATUS_OK;
}

status_t clients_enter_model(clients_t *clients, model_entry_t *model, client_hold_t *hold,
                             uint32_t *retry_after_ms, err_t *err)
{
    if (!clients)
        return STATUS_OK;
    const client_t *client = hold->client;
    if (model->shares && client &&
        !shares_ask(model->shares, client->id, client->weight, clock_now_ns(), retry_after_ms)) {
        err_set(err, STATUS_UNAVAILABLE, "overloaded: this client asks for more than its share of model '%s'",
                model->spec.name);
        return refuse(clients, "share", STATUS_UNAVAILABLE);
    }
    return enter_limit(clients, model, hold, retry_after_ms, err);
}

uint64_t clients_id(const client_hold_t *hold)
{
    return hold->client ? hold->client->id : 0;
}

bool clients_take_memory(clients_t *clients, client_hold_t *hold, size_t len_bytes)
{
    if (!clients)
        return true;
    if (hold->client && !is_in_share(clients, hold->client, (double)hold->client->bytes, (double)len_bytes,
                                     (double)clients->bytes, (double)clients->options.memory_bytes)) {
        refuse(clients, "memory", STATUS_UNAVAILABLE);
        return false;
    }
    hold->bytes += len_bytes;
    clients->bytes += len_bytes;
    if (hold->client)
        hold->client->bytes += len_bytes;
    return true;
}

void clients_answered(client_hold_t *hold)
{
    if (hold->address)
        auth_usage_leave(hold->address);
    if (hold->model)
        auth_usage_leave(hold->model);
    hold->address = hold->model = NULL;
}

void clients_leave(clients_t *clients, client_hold_t *hold)
{
    if (!clients || !hold->entered)
        return;
    clients_answered(hold);
    clients->requests--;
    clients->bytes -= hold->bytes;
    if (hold->client) {
        hold->client->bytes -= hold->bytes;
        part(clients, hold->client);
    }
    if (hold->address_client)
        put(clients, hold->address_client);
    *hold = (client_hold_t){0};
}

void clients_ended(clients_t *clients, const client_hold_t *hold, model_entry_t *model, bool served)
{
    if (!clients || !hold->client)
        return;
    if (!model->shares && !served)
        model->shares = shares_create(clock_now_ns());
    if (model->shares)
        shares_ended(model->shares, hold->client->id, served, clock_now_ns());
}
