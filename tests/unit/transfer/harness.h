/*
 * One loop with an owner and a pool over loopback, and a raw socket to say wrong things with.
 * Waiting is always for a condition, with a deadline that fails the test.
 */
#ifndef TEST_TRANSFER_HARNESS_H
#define TEST_TRANSFER_HARNESS_H

#include "../tls/pki.h"
#include "tls/context.h"
#include "transfer/transfer.h"
#include "transfer/wire.h"

#include <uv.h>

enum { ARENA_BYTES = 1 << 20, MAX_RECEIVED = 8192 };

/* What the receiver was told of one result. */
typedef struct {
    transfer_incoming_t header;
    char text[TRANSFER_TEXT_BYTES];
    uint8_t *buffer;
    int done;
    status_t status;
} received_t;

typedef struct {
    uv_loop_t loop;
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    transfer_pool_t *pool;
    transfer_peer_t *peer;
    uint8_t *arena;
    transfer_block_t *block; /* what the arena lies in */
    received_t received[MAX_RECEIVED];
    int received_count, done_count;
    bool discard; /* begin says so */
} rig_t;

/* How one request ended. */
typedef struct {
    int calls;
    status_t status;
} outcome_t;

void outcome_set(void *ctx, status_t status);
void count_release(void *ctx); /* ctx: int * */

/* How payloads are to go: FERMATA_TEST_TRANSPORT (tcp, shm, rdma), tcp without it. */
transfer_way_t rig_way(void);

/* What each side wants the other to prove: what a test has set here before it makes a rig, else by FERMATA_TEST_TRUST (secret, tls), else nothing. */
extern transfer_trust_t rig_owner_trust, rig_pool_trust;
bool rig_is_trusted(void);
/* A new certificate of that role, as an owner's (server) or a pool's context. */
tls_context_t *rig_tls(const pki_t *of, const char *name, const char *role, bool server);
transfer_secret_t *rig_secret(const char *text);

void rig_init(rig_t *rig, const transfer_limits_t *owner_limits, const transfer_limits_t *pool_limits);
/* Both, not yet connected. */
void rig_init_apart(rig_t *rig, const transfer_limits_t *owner_limits, const transfer_limits_t *pool_limits);
/* Only one of the two sides. */
void rig_init_owner(rig_t *rig);
void rig_init_pool(rig_t *rig, const char *address, const transfer_limits_t *limits);
/* Connects, and waits until payloads go that way. */
void rig_link(rig_t *rig);
void rig_stop_owner(rig_t *rig);
void rig_dispose(rig_t *rig);

/* Turns the loop until *value >= want; fails the test after 20 s. */
void rig_until(rig_t *rig, const int *value, int want);
/* Turns the loop until nothing more is ready now. */
void rig_settle(rig_t *rig);

/* Publishes arena[at .. at + len). */
transfer_handle_t rig_publish(rig_t *rig, size_t at, size_t len, int *released);

/* A raw connection to the owner, blocking reads with a time limit while the loop is turned. */
int raw_connect(rig_t *rig);
void raw_send(rig_t *rig, int fd, const void *data, size_t len);
/* Bytes read until len or the end of the connection. */
size_t raw_recv(rig_t *rig, int fd, void *data, size_t len);
/* The owner closes this connection. */
void raw_expect_end(rig_t *rig, int fd);
/* HELLO there and back. */
void raw_greet(rig_t *rig, int fd);

#endif
