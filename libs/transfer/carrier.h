/*
 * A carrier moves payloads past a connection's socket: through memory that both processes map (shm.c), or by RDMA
 * (ucx/). The TCP connection stays and rules: it greets, it tells of pushes and acknowledges them, what a carrier
 * cannot take goes through its stream, and its end is the end of the carrier's link.
 *
 *   owner (gateway)                                   pool (worker)
 *     door: one per owner and carrier                   client: one per pool and carrier
 *       lays open  the arena (read)
 *                  the directory of regions (read)
 *     seat: one per connection                          link: one per connection
 *       window: the peer's outputs land here (write)
 *
 * Attaching, after both HELLOs have said that both have the carrier:
 *
 *     pool:   client.hello -> ATTACH {carrier, blob} --->  owner: door.seat
 *     pool:   client.link  <- ATTACHED {carrier, blob} <-
 *
 * A FETCH needs nobody at the other end: the link looks the handle up in the directory, reads the bytes, and looks again.
 * The second look tells whether the region was still published when the last byte was read (the owner withdraws a region from the
 * directory before its memory is used anew), so that nothing needs to be pinned for a reader that may die. An item that
 * fails the first or the second look is STATUS_NOT_FOUND.
 *
 * A PUSH writes into the window, and then says so through the stream (WIRE_LANDED), where the owner copies it to where it belongs.
 *
 * Threads: all on the loop of the owner or the pool; no callback comes from within a call but link_close.
 */
#ifndef TRANSFER_CARRIER_H
#define TRANSFER_CARRIER_H

#include "transfer/directory.h"
#include "transfer/transfer.h"

#include <sys/queue.h>

enum {
    CARRIER_BLOB_BYTES = 4096,      /* what either side tells the other when a link is made */
    CARRIER_WINDOW_BYTES = 1 << 20, /* a batch's outputs; what is larger goes through the stream */
};

typedef struct {
    uint32_t len;
    uint8_t bytes[CARRIER_BLOB_BYTES];
} carrier_blob_t;

/* Memory that an owner lays open. */
typedef struct carrier_memory {
    void *base;
    size_t len_bytes;
    int fd;                            /* the file it is mapped from, -1: none (then shm cannot) */
    struct carrier_made *made;         /* what the carrier that made it knows of it, NULL: nothing */
    const struct carrier_ops *made_by; /* who frees it, NULL: it is a mapping like any other */
} carrier_memory_t;

/* ---- the owner's side; opaque, each carrier has its own ---- */

typedef struct carrier_door carrier_door_t;
typedef struct carrier_seat carrier_seat_t;

typedef struct {
    struct uv_loop_s *loop;
    const char *address; /* "host:port" that the owner listens on, NULL: any */
    carrier_memory_t arena, directory;
    bool spin; /* poll without pause instead of sleeping */
} carrier_door_options_t;

/* ---- the pool's side ---- */

typedef struct carrier_client carrier_client_t;
typedef struct carrier_link carrier_link_t;

/* A get or a put under way; the caller's, untouched by the caller until done. */
typedef struct carrier_job {
    /* Told once, when no memory of the job is written or read any more. Of a get: each item has its status, and status is
     * STATUS_OK unless the link broke. May start and cancel jobs and close the link. */
    void (*done)(struct carrier_job *job, status_t status);
    transfer_item_t *items;  /* of a get, */
    const struct iovec *iov; /* or of a put */
    uint32_t count;
    uint64_t max_item_bytes;
    uint64_t window_offset;         /* of a put: where its first byte goes; the rest right behind */
    TAILQ_ENTRY(carrier_job) entry; /* the carrier's, as all below */
    carrier_link_t *link;
    uint64_t inside[4];
    void *inside_ptr;
} carrier_job_t;

/* Of the buffers that a client was told of while it has, or had, links. */
typedef struct {
    uint64_t registered_bytes, refused_bytes;
} carrier_buffers_t;

typedef struct {
    /* The link is ready (STATUS_OK), cannot be made (then it is to be closed), or has broken later on: told at most once each, a link
     * that breaks ends all its jobs with STATUS_UNAVAILABLE first. */
    void (*changed)(void *ctx, status_t status, const char *why);
    void *ctx;
    const char *local; /* this end of the connection, "host:port"; NULL: not known. Not kept */
} carrier_watch_t;

typedef struct carrier_ops {
    transfer_way_t way;
    uint32_t bit;     /* in HELLO */
    const char *name; /* as in metrics and logs */

    /* Memory of the kind that this carrier's peers reach on the shortest way; whole pages, maybe not zeroed; freed by memory_free. What is
     * laid open together is made `beside` the first of it (NULL: it is the first), for an owner that listens on this address. */
    status_t (*memory_make)(const char *address, const carrier_memory_t *beside, size_t len_bytes,
                            carrier_memory_t *memory, err_t *err);
    void (*memory_free)(carrier_memory_t *memory);

    /* STATUS_UNSUPPORTED: not on this machine, err says why. All memory is laid open until the door is closed. */
    status_t (*door_open)(const carrier_door_options_t *options, carrier_door_t **door, err_t *err);
    void (*door_close)(carrier_door_t *door); /* all its seats were given up */
    /* For the peer of one connection that has sent `hello`. `window` stays until seat_give_up; its bytes may change at any time. */
    status_t (*seat_take)(carrier_door_t *door, const carrier_blob_t *hello, carrier_blob_t *answer,
                          carrier_seat_t **seat, err_t *err);
    void (*seat_give_up)(carrier_seat_t *seat); /* the peer can no longer write to it, nor read */
    const uint8_t *(*seat_window)(const carrier_seat_t *seat); /* CARRIER_WINDOW_BYTES */

    status_t (*client_open)(struct uv_loop_s *loop, bool spin, carrier_client_t **client, err_t *err);
    void (*client_close)(
        carrier_client_t *client); /* all its links were closed; frees itself when the loop has run */
    void (*client_hello)(carrier_client_t *client, carrier_blob_t *hello);
    /* watch.changed tells when it is ready. An answer that makes no sense: INVALID_ARGUMENT. */
    status_t (*link_open)(carrier_client_t *client, const carrier_blob_t *answer,
                          const carrier_watch_t *watch, carrier_link_t **link, err_t *err);
    /* Ends all its jobs with STATUS_UNAVAILABLE, from within, and touches no memory of theirs any more. Nothing is told of the link
     * after that. */
    void (*link_close)(carrier_link_t *link);
    void (*get)(carrier_link_t *link, carrier_job_t *job);
    void (*put)(carrier_link_t *link, carrier_job_t *job);
    /* Memory that gets land in and puts come from, until it is dropped: registered once, in place of for each operation. One that cannot be
     * is used all the same (one log line). It overlaps no other. NULL (all five): nothing has to be registered. */
    void (*buffer_add)(carrier_client_t *client, transfer_place_t place, void *base, size_t len_bytes);
    void (*buffer_drop)(carrier_client_t *client,
                        void *base); /* no job of it is under way; freed after this */
    void (*buffer_count)(const carrier_client_t *client, carrier_buffers_t *buffers);
    transfer_reach_t (*reach)(const carrier_client_t *client);
    /* Gets can land in these bytes of a buffer, wherever that is. */
    bool (*link_reaches)(const carrier_link_t *link, const void *bytes, size_t len_bytes);
    /* True: done is not called, and no memory of the job is touched any more. False: it must be waited for. */
    bool (*cancel)(carrier_link_t *link, carrier_job_t *job);
    uint32_t (*registered)(void); /* regions registered in this process, for tests that look for leaks */
} carrier_ops_t;

extern const carrier_ops_t carrier_shm;
#ifdef FERMATA_RDMA
extern const carrier_ops_t carrier_rdma;
#endif

#endif
