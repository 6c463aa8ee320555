#include "fermata/up/child_words.h"

static const char *const loopback = "127.0.0.1";

const char *role_name(role_t role)
{
    static const char *const names[ROLES] = {"gateway", "worker", "scheduler"};
    return names[role];
}

/* Only the first of a kind has the well-known port. */
static void add_address(words_t *words, const char *flag, const char *before, const char *host, int64_t port,
                        uint32_t index)
{
    words_add(words, "--%s", flag);
    if (before)
        words_add(words, "%s", before);
    else
        words_add(words, "%s:%d", host, index == 0 ? (int)port : 0);
}

static void add_pair(words_t *words, const char *flag, const char *value)
{
    if (!value)
        return;
    words_add(words, "--%s", flag);
    words_add(words, "%s", value);
}

static void add_count(words_t *words, const char *flag, int64_t n)
{
    if (n == 0)
        return;
    words_add(words, "--%s", flag);
    words_add(words, "%lld", (long long)n);
}

static void add_gateway(words_t *words, const up_options_t *o, uint32_t index, const addresses_t *before)
{
    add_address(words, "http-address", before->http, o->host, o->http, index);
    add_address(words, "grpc-address", before->grpc, o->host, o->grpc, index);
    add_address(words, "metrics-address", before->metrics, o->host, o->metrics, index);
    add_address(words, "data-address", before->data, loopback, o->data, index);
    add_pair(words, "keys", o->keys);
    if (o->insecure)
        words_add(words, "--insecure");
}

static void add_scheduler(words_t *words, const up_options_t *o, const addresses_t *before)
{
    add_address(words, "grpc-address", before->grpc, loopback, o->scheduler_grpc, 0);
    add_address(words, "http-address", before->http, loopback, o->scheduler_http, 0);
    add_pair(words, "policy", o->policy);
}

static void add_worker(words_t *words, const up_options_t *o, uint32_t index, const addresses_t *before)
{
    add_pair(words, "models", o->models);
    add_pair(words, "engine", up_engine_name(o));
    add_pair(words, "mode", o->mode ? up_mode_name(o) : NULL);
    add_pair(words, "overlap-plan", o->overlap_plan);
    add_count(words, "devices", o->gpus);
    add_count(words, "threads", o->threads);
    add_pair(words, "profile", o->profile);
    add_address(words, "metrics-address", before->metrics, loopback, o->worker_metrics, index);
}

static void add_file(words_t *words, const char *flag, const up_options_t *o, const char *name,
                     const char *kind)
{
    words_add(words, "--%s", flag);
    words_add(words, "%s/%s.%s", o->tls_dir, name, kind);
}

static void add_tls(words_t *words, const up_options_t *o, role_t role)
{
    if (!o->tls)
        return;
    add_file(words, "cluster-ca", o, "ca", "crt");
    add_file(words, "cluster-cert", o, role_name(role), "crt");
    add_file(words, "cluster-key", o, role_name(role), "key");
    if (role != ROLE_GATEWAY)
        return;
    add_file(words, "tls-cert", o, role_name(role), "crt");
    add_file(words, "tls-key", o, role_name(role), "key");
}

static void add_common(words_t *words, const up_options_t *o, role_t role)
{
    const char *const configs[ROLES] = {o->gateway_config, o->worker_config, o->scheduler_config};
    const config_list_t *const flags[ROLES] = {&o->gateway_flags, &o->worker_flags, &o->scheduler_flags};
    add_pair(words, "log-level", config_log_levels[o->log_level]);
    add_pair(words, "log-format", config_log_formats[o->log_format]);
    add_pair(words, "config", configs[role]);
    for (size_t i = 0; i < flags[role]->len; i++)
        words_add(words, "%s", flags[role]->items[i]);
}

void up_words(words_t *words, const up_options_t *o, const char *bin_dir, role_t role, uint32_t index,
              const char *scheduler, const addresses_t *before)
{
    words_add(words, "%s/fermata-%s", bin_dir, role_name(role));
    if (role == ROLE_SCHEDULER) {
        add_scheduler(words, o, before);
    } else {
        add_pair(words, "scheduler", scheduler);
        words_add(words, "--name");
        words_add(words, "%s-%u", role_name(role), index);
    }
    if (role == ROLE_GATEWAY)
        add_gateway(words, o, index, before);
    if (role == ROLE_WORKER)
        add_worker(words, o, index, before);
    add_tls(words, o, role);
    add_common(words, o, role);
}
