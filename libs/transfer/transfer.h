/*
 * The data plane: tensors move straight between a gateway's memory and a worker's batch buffers.
 *
 * Two roles. The OWNER (gateway) registers its arena, publishes regions of it under unguessable handles,
 * serves fetches from them and receives pushed results. The POOL (worker) holds one persistent connection to
 * each owner it was told of (a PEER), fetches many items with one request straight into the caller's buffers,
 * and pushes results straight from them. Nothing here knows of models, batches or budgets.
 *
 * Each pair of them has one TCP connection (the wire is described in docs/data-plane.md).
 *
 * Threads: an owner or a pool and all that hangs on it belong to the thread of its uv loop; every function is
 * called and every callback comes there. Use one pool for each loop. Callbacks may call any function of this
 * header but transfer_owner_destroy and transfer_pool_destroy.
 *
 * Trust: who a peer must be is said in trust.h; nothing that it says means anything before it has proved it, within limits.prove_ns, and
 * those who have not yet take no place from those who have. A peer can lose its own connection by what it sends, and nothing else. Every length is checked
 * against the limits before it is used; a handle that was never given out, was unpublished, or is asked for
 * more bytes than its region has is answered STATUS_NOT_FOUND or STATUS_INVALID_ARGUMENT for that item alone.
 *
 * Hot path: in steady state a fetch, a push and their serving allocate nothing.
 */
#ifndef TRANSFER_TRANSFER_H
#define TRANSFER_TRANSFER_H

#include "base/status.h"
#include "loop/mailbox.h"
#include "transfer/trust.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct uv_loop_s;

enum {
    TRANSFER_TEXT_BYTES = 256,    /* error text of a result, its NUL included */
    TRANSFER_ADDRESS_BYTES = 128, /* "host:port", "[v6]:port", its NUL included */
};

/*
 * Whether payloads may go past the connection's socket. Where they cannot, they go through it: one log line says why.
 *   AUTO  through shared memory where both sides are on one host, else by RDMA (when built with it, and with hardware), else through the socket
 *   TCP   through the socket only
 *   RDMA  by UCX, over whatever transports it finds, hardware or not
 */
typedef enum { TRANSFER_CHOOSE_AUTO, TRANSFER_CHOOSE_TCP, TRANSFER_CHOOSE_RDMA } transfer_choice_t;

extern const char *const transfer_choices[]; /* "auto", "tcp", "rdma", NULL */
/* UNSUPPORTED: this build has no RDMA. */
status_t transfer_choice_check(transfer_choice_t choice, err_t *err);

/* How payloads go. */
typedef enum { TRANSFER_BY_TCP, TRANSFER_BY_SHM, TRANSFER_BY_RDMA, TRANSFER_WAYS } transfer_way_t;

const char *transfer_way_name(transfer_way_t way); /* "tcp", "shm", "rdma" */

/* What both sides accept; the smaller of the two sides holds on a connection. 0 = the default. */
typedef struct {
    uint64_t max_item_bytes;  /* one item or one result payload; default 64 MiB */
    uint32_t max_items;       /* items of one fetch, results of one push; default 4096 */
    uint32_t max_connections; /* owner: for more, others are told to leave (places.h); default 1024 */
    uint32_t max_requests;    /* pool: fetches and pushes under way, all peers together; default 4096 */
    /* pool: asked for by TCP and not yet received, all peers together; default: adapts (pace.h), UINT64_MAX: no limit */
    uint64_t credit_bytes;
    /* owner: connections that have not proved themselves yet, beside the others; default 64 */
    uint32_t max_strangers;
    uint64_t prove_ns; /* how long they may take to; default 5 s */
    uint64_t stall_ns; /* a connection in the middle of a frame without progress; default 10 s */
    /* pool: a connection without requests is closed; owner: one without for twice as long is told to be; default 60 s */
    uint64_t idle_ns;
    /* pool: a way past the socket that broke is tried again after this; default 5 s */
    uint64_t link_again_ns;
} transfer_limits_t;

/* What a region is known by to peers. 128 bits: slot index and generation, and 64 bits from getrandom. */
typedef struct {
    uint64_t hi, lo;
} transfer_handle_t;

/* In constant time, so that a guess learns nothing from how long its refusal took. */
static inline bool transfer_handle_equal(transfer_handle_t a, transfer_handle_t b)
{
    return ((a.hi ^ b.hi) | (a.lo ^ b.lo)) == 0;
}

/* What went one way. An owner does not see what peers read past its socket: those items only the pools count; one that was asked for in
 * parts it counts as many. */
typedef struct {
    uint64_t items, item_bytes;     /* fetched (pool) or served (owner) with STATUS_OK */
    uint64_t results, result_bytes; /* pushed (pool) or received (owner) */
    uint32_t connections;           /* now, that go this way */
} transfer_traffic_t;

/* Counted since creation. */
typedef struct {
    transfer_traffic_t by[TRANSFER_WAYS];
    uint64_t item_errors;     /* items answered with another status */
    uint64_t protocol_errors; /* connections closed for what the other side sent */
    uint64_t connects;        /* connections that came to be */
    uint64_t fallbacks;       /* connections that were to go past the socket and could not, or no longer */
    /* owner: peers that did not prove themselves; pool: owners that did not */
    uint64_t refused[TRANSFER_REFUSALS];
    uint64_t asked_idle, asked_crowded; /* owner: connections that were told to leave, and why */
    uint32_t connections; /* now, all ways; of an owner those that have proved themselves and said HELLO */
    /* pool, now: of buffers (transfer_buffer_add), what RDMA has registered, and what it could not */
    uint64_t registered_bytes, refused_bytes;
} transfer_stats_t;

transfer_traffic_t transfer_stats_sum(const transfer_stats_t *stats);

/* How a task was run, as the client may want to know it. */
typedef struct {
    uint32_t batch_size; /* rows of the batch this task was in */
    uint64_t queue_ns;   /* in the worker, from grant received to execution start, fetch not counted */
    uint64_t fetch_ns;   /* pulling the inputs of the batch */
    uint64_t exec_ns;    /* executing the batch */
} transfer_timing_t;

/* ---- owner ---- */

typedef struct transfer_owner transfer_owner_t;
typedef struct transfer_memory transfer_memory_t;

/* A result that a peer is pushing. Valid only during the callback. */
typedef struct {
    uint64_t task_id;
    transfer_handle_t handle; /* the input's: shows that the pusher was granted the task; to be checked */
    status_t status;          /* of the task; not STATUS_OK: text says why, and there is no payload */
    const char *text;         /* "" when there is none */
    uint64_t len_bytes;       /* of the payload */
    const void *made_at;      /* within the process: where the payload is now; else NULL */
    transfer_timing_t timing;
} transfer_incoming_t;

/* Results of tasks that are about to be run within the process: count of them, whose ids follow each other, of len_bytes each. */
typedef struct {
    uint64_t task_id; /* of the first */
    transfer_handle_t handle;
    uint32_t count;
    uint64_t len_bytes;
} transfer_wanted_t;

/* Where the payload of a result goes. buffer NULL = read it and throw it away. */
typedef struct {
    void *buffer; /* len_bytes of it; belongs to the transfer until `done` */
    void *token;  /* comes back in `done` */
} transfer_dest_t;

typedef struct {
    /* The header of a result has arrived; says where the payload goes (also called when len_bytes is 0). */
    transfer_dest_t (*begin)(void *ctx, const transfer_incoming_t *result);
    /* Once for each begin, discarded ones too. STATUS_OK: all payload bytes are in the buffer (for a task
     * that failed: there was none to come; `begin` told the task's status). STATUS_UNAVAILABLE: the
     * connection broke; the buffer is the caller's again and the result counts as never sent. */
    void (*done)(void *ctx, void *token, uint64_t task_id, status_t status);
    /* Of transfer_place; NULL: there is no such memory. vacate: nobody of the process writes there any more. */
    void *(*place)(void *ctx, const transfer_wanted_t *wanted, void **token);
    void (*vacate)(void *ctx, void *token, void *memory);
} transfer_receiver_t;

typedef struct {
    struct uv_loop_s *loop;
    /* the same loop, if others of this process come from loops of their own; NULL: none does */
    struct loop *shared;
    /* "host:port" to listen on; port 0 = a free one; NULL: nobody but this process comes */
    const char *address;
    uint64_t instance_id; /* of this process; a peer that looks for another instance is turned away */
    uint32_t max_regions; /* published at once; default 65536 */
    transfer_choice_t choice;
    bool spin; /* RDMA: poll without pause; for hosts with cores to spare */
    transfer_limits_t limits;
    transfer_trust_t trust;
    transfer_receiver_t receiver;
    void *ctx; /* of the receiver */
} transfer_owner_options_t;

/* Listens from now on. STATUS_INVALID_ARGUMENT for an address that cannot be read, STATUS_IO when it cannot
 * be bound. */
status_t transfer_owner_create(const transfer_owner_options_t *options, transfer_owner_t **owner, err_t *err);

/* Closes all connections (done callbacks come now with STATUS_UNAVAILABLE), unpublishes all regions (release
 * callbacks come now), closes the listener. The loop must run once more for its handles to be freed. */
void transfer_owner_destroy(transfer_owner_t *owner);

/* The address really listened on, "127.0.0.1:8003", or "this process"; lives as long as the owner. */
const char *transfer_owner_address(const transfer_owner_t *owner);

uint64_t transfer_owner_instance(const transfer_owner_t *owner);

void transfer_owner_stats(const transfer_owner_t *owner, transfer_stats_t *stats);

/*
 * Memory for an owner's arena, of the kind that peers reach on the shortest way that the choice allows: AUTO a file without a name,
 * which workers of this host map; RDMA what UCX allocates, so that its shared memory can map it and hardware finds it registered; else,
 * and where that cannot be had (one log line says so), a mapping of the process's own.
 */
typedef struct transfer_block transfer_block_t;

/* For an owner that is to listen on this "host:port" (NULL: not known). len_bytes is rounded up to whole pages, which are touched on first
 * use where the kind allows it. NO_MEMORY. */
status_t transfer_block_create(transfer_choice_t choice, const char *address, size_t len_bytes,
                               transfer_block_t **block, err_t *err);
/* Every owner that it was registered with is destroyed. NULL is allowed. */
void transfer_block_destroy(transfer_block_t *block);
void *transfer_block_base(const transfer_block_t *block);
size_t transfer_block_bytes(const transfer_block_t *block);

/* Makes [base, base + len_bytes) publishable. The first memory of an owner is laid open to peers as its choice says: it is pinned
 * and registered for RDMA, and workers of this host map it if it is the whole of a block (NULL: it is none, and nobody can). Must
 * outlive the owner or be unregistered after all its regions were unpublished and released. */
status_t transfer_memory_register(transfer_owner_t *owner, void *base, size_t len_bytes,
                                  const transfer_block_t *block, transfer_memory_t **memory, err_t *err);
void transfer_memory_unregister(transfer_memory_t *memory);

/* Called exactly once, on the owner's loop, when a region is unpublished and no write from it is pending any more. */
typedef void (*transfer_release_fn)(void *ctx);

/* Gives [data, data + len_bytes), inside memory, a handle that peers may fetch from. The bytes must not
 * change until released. STATUS_NO_MEMORY: max_regions are published. STATUS_INVALID_ARGUMENT: not inside
 * memory. release may be NULL. */
status_t transfer_publish(transfer_memory_t *memory, const void *data, size_t len_bytes,
                          transfer_release_fn release, void *ctx, transfer_handle_t *handle);

/* The handle is dead when this returns; release comes now, or when the last pending write from it has ended.
 * A handle that is not published is ignored (false). */
bool transfer_unpublish(transfer_owner_t *owner, transfer_handle_t handle);

/* ---- pool ---- */

typedef struct transfer_pool transfer_pool_t;
typedef struct transfer_peer transfer_peer_t;

typedef struct {
    struct uv_loop_s *loop;
    transfer_choice_t choice;
    bool spin; /* RDMA: poll without pause; for hosts with cores to spare */
    transfer_limits_t limits;
    transfer_trust_t trust;
} transfer_pool_options_t;

status_t transfer_pool_create(const transfer_pool_options_t *options, transfer_pool_t **pool, err_t *err);

/* Fails all requests (done callbacks come now with STATUS_UNAVAILABLE), closes all peers. The loop must run
 * once more. */
void transfer_pool_destroy(transfer_pool_t *pool);

void transfer_pool_stats(const transfer_pool_t *pool, transfer_stats_t *stats);

typedef enum { TRANSFER_IN_HOST, TRANSFER_IN_DEVICE } transfer_place_t; /* a device: CUDA */

/*
 * Memory that fetches land in and pushes come from, again and again: what has to be registered for RDMA is registered once, and not for
 * each request. What is not added, or cannot be registered (ulimit -l; one log line says so), is used all the same, but for a device's
 * (transfer_fetch_to_device). It overlaps no other; a base that was not added is ignored when it is dropped.
 */
void transfer_buffer_add(transfer_pool_t *pool, transfer_place_t place, void *base, size_t len_bytes);
/* Before it is freed; no request of it is under way. The end of the pool drops them all. */
void transfer_buffer_drop(transfer_pool_t *pool, void *base);

/* A peer: the owner with this instance id (0 = any) at this "host:port". Does not block: the connection is
 * made, and a name resolved, at the first request or by transfer_peer_connect; it is closed when idle and
 * made again at need. STATUS_INVALID_ARGUMENT: the address has no host or no port. */
status_t transfer_peer_open(transfer_pool_t *pool, const char *address, uint64_t instance_id,
                            transfer_peer_t **peer, err_t *err);

/* Starts connecting now, so that the first request finds the connection made. */
void transfer_peer_connect(transfer_peer_t *peer);

/* Fails its requests (done callbacks come now, STATUS_UNAVAILABLE) and frees it. */
void transfer_peer_close(transfer_peer_t *peer);

/* A request under way; 0 = none. Stale ones are recognised. */
typedef uint64_t transfer_request_t;

/* One item of a fetch. `handle`, `offset`, `len_bytes`, `iov` are the caller's; `status` is set before done. */
typedef struct {
    transfer_handle_t handle;
    uint64_t offset;         /* in the region */
    uint64_t len_bytes;      /* must equal the sum of the iov lengths */
    const struct iovec *iov; /* where the bytes go, in order; not modified */
    uint32_t iov_count;
    status_t status; /* STATUS_OK: all bytes are there. Otherwise the iov's content is undefined. */
} transfer_item_t;

/* status is STATUS_OK when the owner answered all items (each has its own status), otherwise why it did not:
 * UNAVAILABLE (no connection, or it broke), DEADLINE_EXCEEDED, CANCELLED. Items that were not answered then
 * carry it too. */
typedef void (*transfer_done_fn)(void *ctx, status_t status);

/*
 * Fetches count items. items, and all their iovs, must stay untouched until done. timeout_ns 0 = none.
 *
 * STATUS_OK: done comes exactly once, never from within this call. Any other status: done never comes.
 * INVALID_ARGUMENT (no items, lengths that do not agree), TOO_LARGE (over the limits), NO_MEMORY
 * (max_requests under way), UNAVAILABLE (the last connect failed and the back-off, at most 1 s, has not
 * passed).
 */
status_t transfer_fetch(transfer_peer_t *peer, transfer_item_t *items, uint32_t count, uint64_t timeout_ns,
                        transfer_done_fn done, void *ctx, transfer_request_t *request);

/* What can be written to past the sockets of this pool. */
typedef struct {
    bool rdma;     /* UCX, over whatever it finds */
    bool hardware; /* there is some for RDMA */
    bool device;   /* UCX says that it takes memory of CUDA */
} transfer_reach_t;

transfer_reach_t transfer_pool_reach(const transfer_pool_t *pool);

/* Now, fetches from this peer can land in these bytes of a buffer that was added. */
bool transfer_lands(const transfer_peer_t *peer, const void *bytes, size_t len_bytes);

/* As transfer_fetch, into memory that only RDMA can write to. UNAVAILABLE, at once or later, where that cannot be had or no longer: the
 * caller fetches into memory of the host instead. */
status_t transfer_fetch_to_device(transfer_peer_t *peer, transfer_item_t *items, uint32_t count,
                                  uint64_t timeout_ns, transfer_done_fn done, void *ctx,
                                  transfer_request_t *request);

/* One result of a push. */
typedef struct {
    uint64_t task_id;
    transfer_handle_t handle; /* the one the task's input was fetched with */
    status_t status;          /* not STATUS_OK: text says why, iov must be empty */
    const char *text;         /* NULL = none; cut to TRANSFER_TEXT_BYTES - 1 */
    transfer_timing_t timing;
    const struct iovec *iov; /* payload, in order */
    uint32_t iov_count;
} transfer_result_t;

/* Pushes count results; results, texts and payloads must stay untouched until done. done comes when the owner
 * has acknowledged all of them (STATUS_OK). Returns as transfer_fetch does. */
status_t transfer_push(transfer_peer_t *peer, const transfer_result_t *results, uint32_t count,
                       uint64_t timeout_ns, transfer_done_fn done, void *ctx, transfer_request_t *request);

/* Gives a request up: done comes from within this call with STATUS_CANCELLED and after it no buffer is
 * touched. False, and nothing happens: it ended already, or it is a push whose bytes are partly sent, or a device
 * reads or writes its memory (it will end by itself). */
bool transfer_cancel(transfer_pool_t *pool, transfer_request_t request);

/* ---- within a process: the owner itself is asked, from its own loop or, if it is shared, from another ---- */

/* Any thread. The bytes stay where they are, and as they are, until transfer_release; only published is over before. Not OK: as
 * transfer_fetch says of the item. */
status_t transfer_hold(transfer_owner_t *owner, transfer_handle_t handle, uint64_t offset, uint64_t len_bytes,
                       uint32_t *pin, const uint8_t **data);
void transfer_release(transfer_owner_t *owner, uint32_t pin);

/* Any thread. As transfer_fetch, at once: the items are copied, or their status says why not. */
void transfer_take(transfer_owner_t *owner, transfer_item_t *items, uint32_t count);

/* Results on their way to an owner. results, their texts and payloads must stay untouched until done, which comes on the loop of back. */
typedef struct transfer_handover {
    mailbox_node_t node; /* the two loops' */
    transfer_owner_t *owner;
    const transfer_result_t *results;
    uint32_t count;
    void (*done)(struct transfer_handover *handover);
    mailbox_t *back; /* set by transfer_hand */
} transfer_handover_t;

/* A mailbox whose arg does not matter, on the loop of who hands over: it calls done. */
void transfer_handed_over(void *arg, mailbox_node_t *first);

/* As transfer_push: the receiver's begin and done are called for each result. True: it is over now, done does not come. False: the owner is
 * on another loop; done is to come, through back. */
bool transfer_hand(transfer_handover_t *handover, mailbox_t *back);

/* On the owner's loop; elsewhere there is none. Memory that those results may be written to, one behind the other, so that handing them over
 * copies nothing. NULL: there is none. What is there is nothing until it is handed over as any result. Whatever becomes of the tasks it stays
 * until transfer_vacate, on the same loop, once, when nobody writes there any more. */
void *transfer_place(transfer_owner_t *owner, const transfer_wanted_t *wanted, void **token);
void transfer_vacate(transfer_owner_t *owner, void *token, void *memory);

#endif
