/*
 * The gateway's side of the data plane: the arena is registered once, sessions publish parts of it, and what
 * workers push is led to the session that waits for it. Loop thread only.
 */
#ifndef GATEWAY_DATAPLANE_H
#define GATEWAY_DATAPLANE_H

#include "base/arena.h"
#include "loop/loop.h"
#include "transfer/transfer.h"

typedef struct dataplane dataplane_t;

typedef struct {
    loop_t *loop;
    const char *listen;    /* "127.0.0.1:8003"; NULL: workers are in this process */
    const char *advertise; /* what workers are told; NULL or "" = what is listened on */
    /* when that is a wildcard: the address of this host on the way to here ("host:port") */
    const char *towards;
    uint64_t instance_id;
    arena_t *arena;
    const transfer_block_t *memory; /* what it lies in; NULL: memory that no worker reads by itself */
    transfer_choice_t choice;
    bool spin;
    transfer_trust_t trust;
    bool shared; /* the worker of this process is on another loop */
    transfer_receiver_t receiver;
    void *ctx; /* of the receiver */
} dataplane_options_t;

status_t dataplane_create(const dataplane_options_t *options, dataplane_t **dataplane, err_t *err);
/* Ends all transfers from within; the loop must run once more. NULL is fine. */
void dataplane_destroy(dataplane_t *dataplane);

transfer_owner_t *dataplane_owner(const dataplane_t *dataplane);
const char *dataplane_address(const dataplane_t *dataplane);
void dataplane_stats(const dataplane_t *dataplane, transfer_stats_t *stats);
/* What to tell workers: never a wildcard address. */
const char *dataplane_advertised(const dataplane_t *dataplane);

status_t dataplane_publish(dataplane_t *dataplane, const void *data, size_t len_bytes,
                           transfer_release_fn release, void *ctx, transfer_handle_t *handle);
void dataplane_unpublish(dataplane_t *dataplane, transfer_handle_t handle);

#endif
