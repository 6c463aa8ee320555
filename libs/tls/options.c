#include "tls/options.h"

#include <stddef.h>

status_t tls_server_open(const tls_server_options_t *options, tls_context_t **context, err_t *err)
{
    *context = NULL;
    if (!options->cert && !options->key && !options->client_ca)
        return STATUS_OK;
    const tls_config_t config = {
        .server = true, .cert = options->cert, .key = options->key, .ca = options->client_ca};
    return tls_context_create(&config, context, err);
}

static bool any(const tls_cluster_options_t *options)
{
    return options->ca || options->cert || options->key;
}

static status_t check_cluster(const tls_cluster_options_t *options, err_t *err)
{
    const char *missing = !options->ca ? "--cluster-ca" : !options->cert ? "--cluster-cert" : "--cluster-key";
    if (options->ca && options->cert && options->key)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "--cluster-ca, --cluster-cert and --cluster-key go together: %s is missing", missing);
}

status_t tls_cluster_serve(const tls_cluster_options_t *options, const char *protocol,
                           tls_context_t **context, err_t *err)
{
    *context = NULL;
    if (!any(options))
        return STATUS_OK;
    const tls_config_t config = {
        .server = true, .cert = options->cert, .key = options->key, .ca = options->ca, .protocol = protocol};
    status_t status = check_cluster(options, err);
    return status == STATUS_OK ? tls_context_create(&config, context, err) : status;
}

status_t tls_cluster_dial(const tls_cluster_options_t *options, const char *server_role, const char *protocol,
                          tls_context_t **context, err_t *err)
{
    *context = NULL;
    if (!any(options))
        return STATUS_OK;
    const tls_config_t config = {.cert = options->cert,
                                 .key = options->key,
                                 .ca = options->ca,
                                 .server_role = server_role,
                                 .protocol = protocol};
    status_t status = check_cluster(options, err);
    return status == STATUS_OK ? tls_context_create(&config, context, err) : status;
}

status_t tls_client_open(const tls_client_options_t *options, const char *server_role, bool wanted,
                         tls_context_t **context, err_t *err)
{
    *context = NULL;
    if (!options->ca && !options->cert && !options->key && !wanted)
        return STATUS_OK;
    const tls_config_t config = {
        .cert = options->cert, .key = options->key, .ca = options->ca, .server_role = server_role};
    return tls_context_create(&config, context, err);
}
