/* An owner, for those who reach it through a connection (owner.c) and within its process (within.c). */
#ifndef TRANSFER_OWNER_PRIVATE_H
#define TRANSFER_OWNER_PRIVATE_H

#include "base/acceptor.h"
#include "transfer/conn.h"
#include "transfer/doors.h"
#include "transfer/places.h"
#include "transfer/refusals.h"
#include "transfer/region.h"

TAILQ_HEAD(owner_conns, owner_conn);

struct transfer_owner {
    uv_poll_t listener; /* first of the two handles that keep the owner alive after destroy */
    uv_timer_t sweep;
    int handles;
    int fd;
    acceptor_t acceptor;
    bool listening;
    uv_loop_t *loop;
    uint64_t instance_id;
    transfer_limits_t limits;
    transfer_receiver_t receiver;
    void *ctx;
    region_table_t regions;
    transfer_choice_t choice;
    bool spin;
    doors_t doors;
    conn_shared_t shared;
    transfer_trust_t trust;
    places_t places;              /* of those whose peers have proved themselves and said HELLO */
    struct owner_conns strangers; /* the others, oldest first */
    uint32_t stranger_count;
    transfer_stats_t stats;
    char address[TRANSFER_ADDRESS_BYTES];
    struct loop *shared_loop;     /* NULL: nobody comes from another loop */
    mailbox_t handed;             /* from other loops */
    _Atomic uint64_t item_errors; /* of items that were taken within the process */
};

/* within.c: from now on it is reached from other loops; no more. */
status_t owner_share(transfer_owner_t *owner, struct loop *loop, err_t *err);
void owner_unshare(transfer_owner_t *owner);

#endif
