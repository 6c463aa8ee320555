/*
 * A network without sockets, and the clock of everything on it: links carry packed messages with a delay, in order on each link
 * and in any order between two, and can break with what is under way. Same seed, same run, byte for byte.
 *
 *   connect ──▶ [delay] ──▶ opened      the server's end
 *   send    ──▶ [delay + jitter, behind what was sent before] ──▶ message
 *   end     ──▶ behind what was sent ──▶ closed, at both ends
 *   break   ──▶ what is under way is lost ──▶ closed, at each end after a delay of its own
 *
 * One thread. Out of memory ends the process: it is a test's.
 */
#ifndef VIRTUAL_NETWORK_H
#define VIRTUAL_NETWORK_H

#include "base/prng.h"
#include "base/status.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct network network_t;
typedef struct link link_t;

typedef struct {
    int64_t delay_ns, jitter_ns; /* a message takes the first, and up to the second more */
    uint64_t seed;
} network_options_t;

/* What an end hears; it may call back into the network. After `closed` the link is no more to it. */
typedef struct {
    void (*opened)(void *arg, link_t *link); /* the server's only */
    void (*message)(void *arg, link_t *link, const uint8_t *bytes, size_t len_bytes);
    void (*closed)(void *arg, link_t *link);
} link_ops_t;

/* Fires once. The owner's memory, until the network is destroyed. */
typedef struct {
    void (*fire)(void *arg);
    void *arg;
    int64_t due_ns; /* NETWORK_NEVER: it is not running */
} network_timer_t;

#define NETWORK_NEVER INT64_MAX

status_t network_create(const network_options_t *options, network_t **network, err_t *err);
/* Nobody hears of it. NULL is fine. */
void network_destroy(network_t *network);

/* Runs what happens up to then; the clock stands there afterwards. */
void network_run(network_t *network, int64_t until_ns);
int64_t network_now_ns(const network_t *network);
prng_t *network_prng(network_t *network);
/* A number that all messages so far, their times and their ways add up to. */
uint64_t network_digest(const network_t *network);

void network_timer_start(network_t *network, network_timer_t *timer,
                         int64_t at_ns); /* in place of when it was due */

/* The client's end is there at once, and may send. */
link_t *network_connect(network_t *network, const link_ops_t *client, void *client_arg,
                        const link_ops_t *server, void *server_arg);
/* Both: how many bytes it has. */
size_t link_to_server(link_t *link, const ProtobufCMessage *message);
size_t link_to_client(link_t *link, const ProtobufCMessage *message);
void link_end(link_t *link); /* by the server */
void link_break(link_t *link);
/* The client dies: it hears nothing any more, and the link breaks. */
void link_abandon(link_t *link);
/* The same of the server. */
void link_orphan(link_t *link);

/* What the server's end keeps of it. */
void link_set_peer(link_t *link, void *peer);
void *link_peer(const link_t *link);

#endif
