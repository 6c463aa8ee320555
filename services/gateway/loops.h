/*
 * The gateways of a process: one on the loop of who makes them, the others each on a loop and thread of its own (--gateway-threads). Each is a
 * gateway in itself, with sessions, a part of the arena and a link to the scheduler; they listen at the same ports, where the kernel
 * spreads connections over them, and are one in metrics.
 *
 *   clients ─▶ port ┬─▶ gateway 0 ─ on the loop of who made it ─┐
 *                   ├─▶ gateway 1 ─ thread "gateway-1" ─────────┼─ links ─▶ scheduler
 *                   └─▶ …                                       ┘
 *
 * Called on the loop that made them.
 */
#ifndef GATEWAY_LOOPS_H
#define GATEWAY_LOOPS_H

#include "gateway/service.h"

typedef struct gateway_loops gateway_loops_t;

/* As gateway_service_create, for all of them. options and what within names outlive it; within NULL: by themselves, with metrics that listen. */
status_t gateway_loops_create(loop_t *loop, const gateway_options_t *options, const gateway_within_t *within,
                              gateway_loops_t **loops, err_t *err);
/* Listens when it returns. STATUS_IO: a port is taken, also by others who would share it. */
status_t gateway_loops_open(gateway_loops_t *loops, err_t *err);
/* Looks for changes of the files of keys, certificates and authorities, now on this loop and soon on the others. */
void gateway_loops_reread(gateway_loops_t *loops);
/* All answer what is under way; on_stopped comes once, on the loop. Then, or without, destroy. Later calls do nothing. */
void gateway_loops_stop(gateway_loops_t *loops, void (*on_stopped)(void *arg), void *arg);
/* Turns the loop until the threads have ended. Whoever was given their owners is gone. NULL is fine. */
void gateway_loops_destroy(gateway_loops_t *loops);

uint32_t gateway_loops_count(const gateway_loops_t *loops);
/* Whom a worker of this process fetches from and pushes to, one for each loop. */
struct transfer_owner *const *gateway_loops_owners(const gateway_loops_t *loops);
const char *gateway_loops_http(const gateway_loops_t *loops); /* "127.0.0.1:8000" */
const char *gateway_loops_grpc(const gateway_loops_t *loops);
/* Versions of models that the scheduler has told all of them of. */
uint32_t gateway_loops_models(const gateway_loops_t *loops);
/* Requests under way. */
uint32_t gateway_loops_waiting(const gateway_loops_t *loops);
/* Tells whoever started the program that it listens, and where. */
void gateway_loops_print_ready(const gateway_loops_t *loops);

#endif
