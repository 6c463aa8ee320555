#include "transfer/ucx/door.h"

#include "base/log.h"
#include "transfer/ucx/ask.h"
#include "transfer/ucx/hardware.h"
#include "transfer/ucx/hello.h"
#include "transfer/ucx/memory.h"
#include "transfer/ucx/window.h"
#include "transfer/ucx/worker.h"

#include <stdlib.h>

/* The worker that peers reach. */
typedef struct {
    ucx_t ucx;
    carrier_door_t *door;
} listener_t;

struct carrier_door {
    listener_t *listener; /* NULL: it was stuck, and there is no other */
    struct uv_loop_s *loop;
    bool spin;
    ucx_context_t *context;
    carrier_memory_t arena, directory;
    ucx_memory_t arena_key, directory_key; /* of what was not made by UCX */
    answerer_t answerer;
    window_store_t windows;
};

struct carrier_seat {
    carrier_door_t *door;
    window_memory_t *window;
    ucx_memory_t key;
    asked_window_t asked;
};

/* ---- the worker ---- */

static bool listener_advance(void *ctx)
{
    (void)ctx;
    return false;
}

static void listener_freed(void *ctx)
{
    free(ctx);
}

static void listener_stuck(void *ctx);

static status_t door_listen(carrier_door_t *door, err_t *err)
{
    listener_t *listener = calloc(1, sizeof(*listener));

    if (!listener)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    listener->door = door;
    listener->ucx.advance = listener_advance;
    listener->ucx.stuck = listener_stuck;
    listener->ucx.freed = listener_freed;
    listener->ucx.ctx = listener;
    status_t status = ucx_open(&listener->ucx, door->context, door->loop, door->spin, err);
    if (status != STATUS_OK) {
        free(listener);
        return status;
    }
    if (!answerer_listen(&door->answerer, listener->ucx.worker)) {
        ucx_close(&listener->ucx);
        return err_set(err, STATUS_UNSUPPORTED, "UCX takes no messages");
    }
    door->listener = listener;
    return STATUS_OK;
}

/* Links that are made already go on past its queue; those that are made from now on find the new one. */
static void listener_stuck(void *ctx)
{
    listener_t *listener = ctx;
    carrier_door_t *door = listener->door;
    err_t err = {0};

    ucx_close(&listener->ucx);
    door->listener = NULL;
    door_listen(door, &err);
    log_warn("rdma_queue_stuck", LOG_STR("reason", "a peer went away within a message"),
             LOG_STR("by", door->listener ? "a new queue" : err.text));
}

/* ---- the door ---- */

static status_t door_open_context(carrier_door_t *door, const char *address, err_t *err)
{
    if (!door->arena.made)
        return ucx_context_open(address, &door->context, err);
    door->context = ucx_context_hold(door->arena.made->context);
    return STATUS_OK;
}

static const ucx_memory_t *key_of(const carrier_memory_t *memory, const ucx_memory_t *registered)
{
    return memory->made ? &memory->made->memory : registered;
}

static status_t door_register(const carrier_door_t *door, const carrier_memory_t *memory, ucx_memory_t *key,
                              err_t *err)
{
    return memory->made ? STATUS_OK : ucx_register(door->context, memory->base, memory->len_bytes, key, err);
}

void rdma_door_close(carrier_door_t *door)
{
    ucx_context_t *context = door->context;

    ucx_deregister(context, &door->arena_key);
    ucx_deregister(context, &door->directory_key);
    if (door->listener)
        ucx_close(&door->listener->ucx);
    answerer_dispose(&door->answerer);
    window_store_dispose(&door->windows);
    free(door);
    ucx_context_let_go(context);
}

status_t rdma_door_open(const carrier_door_options_t *options, carrier_door_t **out, err_t *err)
{
    carrier_door_t *door = calloc(1, sizeof(*door));

    if (!door)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    door->arena = options->arena;
    door->directory = options->directory;
    window_store_init(&door->windows);
    door->loop = options->loop;
    door->spin = options->spin;
    answerer_init(&door->answerer, &door->arena, &door->directory);
    status_t status = door_open_context(door, options->address, err);
    if (status != STATUS_OK) {
        free(door);
        return status;
    }
    status = door_listen(door, err);
    if (status == STATUS_OK)
        status = door_register(door, &door->arena, &door->arena_key, err);
    if (status == STATUS_OK)
        status = door_register(door, &door->directory, &door->directory_key, err);
    if (status != STATUS_OK) {
        rdma_door_close(door);
        return status;
    }
    if (!ucx_has_hardware())
        log_warn("rdma_without_hardware", LOG_STR("reason", "UCX emulates it, which is slower than tcp"));
    *out = door;
    return STATUS_OK;
}

static ucx_open_memory_t memory_open(const carrier_memory_t *memory, const ucx_memory_t *registered)
{
    const ucx_memory_t *key = key_of(memory, registered);

    return (ucx_open_memory_t){(uintptr_t)memory->base, memory->len_bytes, {key->rkey, key->rkey_bytes}};
}

static status_t seat_answer(const carrier_seat_t *seat, carrier_blob_t *blob, err_t *err)
{
    const carrier_door_t *door = seat->door;
    ucp_address_t *address;
    size_t address_bytes;

    ucs_status_t failed = ucp_worker_get_address(door->listener->ucx.worker, &address, &address_bytes);
    if (failed != UCS_OK)
        return err_set(err, STATUS_INTERNAL, "UCX has no address: %s", ucs_status_string(failed));
    const ucx_answer_t answer = {
        .address = {address, address_bytes},
        .arena = memory_open(&door->arena, &door->arena_key),
        .directory = memory_open(&door->directory, &door->directory_key),
        .window = {.base = (uintptr_t)seat->window->base, .key = {seat->key.rkey, seat->key.rkey_bytes}},
        .token = seat->asked.token};
    status_t status = ucx_answer_write(blob, &answer, err);
    ucp_worker_release_address(door->listener->ucx.worker, address);
    return status;
}

void rdma_seat_give_up(carrier_seat_t *seat)
{
    answerer_remove(&seat->door->answerer, &seat->asked);
    ucx_deregister(seat->door->context, &seat->key);
    window_retire(&seat->door->windows, seat->window);
    free(seat);
}

status_t rdma_seat_take(carrier_door_t *door, const carrier_blob_t *hello, carrier_blob_t *answer,
                        carrier_seat_t **out, err_t *err)
{
    status_t status = ucx_hello_check(hello, err);

    if (status == STATUS_OK && !door->listener)
        status = err_set(err, STATUS_UNAVAILABLE, "its queue of UCX is stuck");
    if (status != STATUS_OK)
        return status;
    carrier_seat_t *seat = calloc(1, sizeof(*seat));
    window_memory_t *window = window_make(&door->windows);
    if (!seat || !window) {
        if (window)
            window_retire(&door->windows, window);
        free(seat);
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    seat->door = door;
    seat->window = window;
    status = ucx_register(door->context, window->base, CARRIER_WINDOW_BYTES, &seat->key, err);
    if (status == STATUS_OK && !answerer_add(&door->answerer, &seat->asked, window->base))
        status = err_set(err, STATUS_INTERNAL, "no random numbers");
    if (status == STATUS_OK)
        status = seat_answer(seat, answer, err);
    if (status != STATUS_OK) {
        rdma_seat_give_up(seat);
        return status;
    }
    ucx_begin(&door->listener->ucx);
    *out = seat;
    return STATUS_OK;
}

const uint8_t *rdma_seat_window(const carrier_seat_t *seat)
{
    return seat->window->base;
}
