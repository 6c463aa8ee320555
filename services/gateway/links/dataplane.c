#include "gateway/links/dataplane.h"

#include "base/log.h"
#include "config/exposure.h"
#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dataplane {
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    char advertised[TRANSFER_ADDRESS_BYTES];
};

/* The address that this host uses towards the scheduler; workers that reach the scheduler will mostly reach it too. */
static bool local_host(const char *towards, char *host, size_t cap)
{
    struct sockaddr_storage remote, local;
    socklen_t len = sizeof local;
    if (!towards || address_parse(towards, &remote, NULL) != STATUS_OK)
        return false;
    int fd = socket(remote.ss_family, SOCK_DGRAM | SOCK_CLOEXEC,
                    0); /* sends nothing: connect only chooses the route */
    socklen_t remote_len =
        remote.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    bool found = fd >= 0 && connect(fd, (const struct sockaddr *)&remote, remote_len) == 0 &&
                 getsockname(fd, (struct sockaddr *)&local, &len) == 0;
    if (fd >= 0)
        close(fd);
    if (!found)
        return false;
    address_print(&local, host, cap);
    *strrchr(host, ':') = '\0';
    return true;
}

/* A gateway of several hosts whose workers cannot reach it answers nothing: better said at the start. */
static void warn_of_loopback(const dataplane_t *dataplane, const dataplane_options_t *options)
{
    if (options->listen && options->towards && exposure_is_address_of_this_host(dataplane->advertised) &&
        !exposure_is_address_of_this_host(options->towards))
        log_warn(
            "data_plane_of_this_host_only", LOG_STR("address", dataplane->advertised),
            LOG_STR("scheduler", options->towards),
            LOG_STR(
                "advice",
                "workers of other hosts need --data-address 0.0.0.0:8003, with --cluster-ca or --insecure"));
}

static void advertise(dataplane_t *dataplane, const dataplane_options_t *options)
{
    const char *real = transfer_owner_address(dataplane->owner), *wanted = options->advertise;
    const char *port = strrchr(real, ':') + 1;
    char host[TRANSFER_ADDRESS_BYTES - 8]; /* leaves room for the port */
    if (wanted && wanted[0]) {
        size_t len = strlen(wanted);
        bool any_port = len > 2 && strcmp(wanted + len - 2, ":0") == 0;
        snprintf(dataplane->advertised, sizeof dataplane->advertised, "%.*s%s",
                 (int)(any_port ? len - 1 : len), wanted, any_port ? port : "");
    } else if (strncmp(real, "0.0.0.0:", 8) == 0 || strncmp(real, "[::]:", 5) == 0) {
        if (!local_host(options->towards, host, sizeof host) && gethostname(host, sizeof host) != 0)
            snprintf(host, sizeof host, "127.0.0.1");
        host[sizeof host - 1] = '\0';
        snprintf(dataplane->advertised, sizeof dataplane->advertised, "%s:%s", host, port);
    } else {
        snprintf(dataplane->advertised, sizeof dataplane->advertised, "%s", real);
    }
}

status_t dataplane_create(const dataplane_options_t *options, dataplane_t **dataplane, err_t *err)
{
    dataplane_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the data plane");
    const transfer_owner_options_t owner = {.loop = loop_uv(options->loop),
                                            .shared = options->shared ? options->loop : NULL,
                                            .address = options->listen,
                                            .instance_id = options->instance_id,
                                            .choice = options->choice,
                                            .spin = options->spin,
                                            .trust = options->trust,
                                            .receiver = options->receiver,
                                            .ctx = options->ctx};
    status_t status = transfer_owner_create(&owner, &made->owner, err);
    if (status != STATUS_OK)
        goto free_dataplane;
    status = transfer_memory_register(made->owner, arena_base(options->arena),
                                      arena_total_bytes(options->arena), options->memory, &made->memory, err);
    if (status != STATUS_OK)
        goto destroy_owner;
    if (options->listen)
        advertise(made, options);
    else
        snprintf(made->advertised, sizeof made->advertised, "%s", transfer_owner_address(made->owner));
    warn_of_loopback(made, options);
    *dataplane = made;
    return STATUS_OK;

destroy_owner:
    transfer_owner_destroy(made->owner);
free_dataplane:
    free(made);
    return status;
}

void dataplane_destroy(dataplane_t *dataplane)
{
    if (!dataplane)
        return;
    transfer_owner_destroy(dataplane->owner);
    transfer_memory_unregister(dataplane->memory);
    free(dataplane);
}

transfer_owner_t *dataplane_owner(const dataplane_t *dataplane)
{
    return dataplane->owner;
}

const char *dataplane_address(const dataplane_t *dataplane)
{
    return transfer_owner_address(dataplane->owner);
}

void dataplane_stats(const dataplane_t *dataplane, transfer_stats_t *stats)
{
    transfer_owner_stats(dataplane->owner, stats);
}

const char *dataplane_advertised(const dataplane_t *dataplane)
{
    return dataplane->advertised;
}

status_t dataplane_publish(dataplane_t *dataplane, const void *data, size_t len_bytes,
                           transfer_release_fn release, void *ctx, transfer_handle_t *handle)
{
    return transfer_publish(dataplane->memory, data, len_bytes, release, ctx, handle);
}

void dataplane_unpublish(dataplane_t *dataplane, transfer_handle_t handle)
{
    transfer_unpublish(dataplane->owner, handle);
}
