/*
 * Shared by the files of libs/rpc only.
 *
 *   completion queue thread            mailbox             delivery thread (the loop, or the same thread)
 *   tag->done: note what happened  --- rpc_actor_t --->    actor->deliver: call back
 *   in the object, under its lock
 *
 * An object (call, stream, link, server) is an actor: its completion handlers change its state under its lock and
 * schedule it; `deliver` takes everything that was noted since and calls back without the lock. An object that waits
 * in the mailbox is not posted again, so that many events cost one hop.
 */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include "loop/mailbox.h"
#include "rpc/bytes.h"
#include "rpc/runtime.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <pthread.h>
#include <stdbool.h>

/* ThreadSanitizer does not see through libgrpc (it is not instrumented), so it is told that what happened before an
 * operation was started is visible to its completion. */
#if defined(__SANITIZE_THREAD__)
#define RPC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPC_TSAN 1
#endif
#endif
#ifdef RPC_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define rpc_hand_over(tag) __tsan_release(tag)
#define rpc_take_over(tag) __tsan_acquire(tag)
#else
#define rpc_hand_over(tag) ((void)(tag))
#define rpc_take_over(tag) ((void)(tag))
#endif

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* A rpc_bytes_t is a grpc_byte_buffer by another name, so that nothing is wrapped or allocated on the way. */
static inline grpc_byte_buffer *rpc_bytes_raw(rpc_bytes_t *bytes)
{
    return (grpc_byte_buffer *)(void *)bytes;
}
static inline rpc_bytes_t *rpc_bytes_of(grpc_byte_buffer *buffer)
{
    return (rpc_bytes_t *)(void *)buffer;
}

/* ---- Completion queues ---- */

typedef struct rpc_queue rpc_queue_t;

/* What an operation is started with: `done` runs on the queue's thread. */
typedef struct rpc_tag {
    void (*done)(struct rpc_tag *tag, bool ok);
} rpc_tag_t;

/* Runs `fire` on the queue's thread. One-shot. Few at a time: a list. */
typedef struct rpc_timer {
    struct rpc_timer *prev, *next;
    void (*fire)(struct rpc_timer *timer);
    int64_t at_ns;
    bool active;
} rpc_timer_t;

struct rpc_queue {
    rpc_runtime_t *runtime;
    grpc_completion_queue *cq;
    pthread_t thread;
    pthread_mutex_t lock; /* the timers */
    rpc_timer_t timers;   /* list head */
    grpc_call *poke;      /* never sent; an empty batch on it wakes the thread */
    rpc_tag_t poke_tag;
};

struct rpc_runtime {
    mailbox_t mailbox;
    bool direct;
    unsigned queue_count;
    atomic_uint next_queue;
    grpc_channel *lame;
    char name[11];
    rpc_queue_t queues[RPC_THREADS_MAX];
};

rpc_queue_t *rpc_runtime_pick(rpc_runtime_t *runtime); /* round robin */

/* Any thread. Starting an active timer moves it. stop: true when the timer will not fire; false when it was not
 * active, or is firing just now. */
void rpc_timer_start(rpc_queue_t *queue, rpc_timer_t *timer, int64_t at_ns);
bool rpc_timer_stop(rpc_queue_t *queue, rpc_timer_t *timer);

/* Starts ops; a refusal is a bug of ours, is logged and reported as false: then `done` will not come. */
bool rpc_start(grpc_call *call, const grpc_op *ops, size_t count, rpc_tag_t *tag);

/* ---- Actors ---- */

typedef struct rpc_actor {
    mailbox_node_t node;
    void (*deliver)(struct rpc_actor *actor);
    bool scheduled; /* under the object's lock */
} rpc_actor_t;

/* With the object's lock held: true when the caller must rpc_actor_post after unlocking. */
static inline bool rpc_actor_mark(rpc_actor_t *actor)
{
    bool first = !actor->scheduled;
    actor->scheduled = true;
    return first;
}

/* On the queue's thread, without any lock. deliver must clear `scheduled` under the lock first. */
void rpc_actor_post(rpc_runtime_t *runtime, rpc_actor_t *actor);

/* ---- Small things ---- */

/* Fills args for servers and clients; returns the count. */
enum { RPC_ARGS_MAX = 20 };
size_t rpc_limits_args(const rpc_limits_t *limits, bool server, grpc_arg args[RPC_ARGS_MAX]);
size_t rpc_send_queue_bytes(const rpc_limits_t *limits);

enum { RPC_PEER_BYTES = 64 };
void rpc_peer_text(grpc_call *call, char text[RPC_PEER_BYTES]);

/* As rpc_call_header. */
bool rpc_metadata_find(const grpc_metadata_array *metadata, const char *name, const char **value,
                       size_t *len_bytes);

/* Copies a status text of any length into a bounded NUL-terminated one. */
enum { RPC_TEXT_BYTES = 256 };
void rpc_slice_text(grpc_slice slice, char text[RPC_TEXT_BYTES]);
void rpc_copy_text(char text[RPC_TEXT_BYTES], const char *from); /* NULL = "" */

gpr_timespec rpc_deadline_after(int64_t timeout_ns);

#endif
