/*
 * Gateway, scheduler and worker on one loop; or, where it joins a cluster, gateway and worker. They are the very objects of the three programs; between them are links within the
 * process (link/link.h) and the gateway's arena, from which the worker takes inputs and to which it hands results.
 *
 *   client ─▶ gateway ─link─▶ scheduler ─link─▶ worker ─▶ engines' threads
 *                ◀────────── results ────────────┘
 *
 * Listens for REST, for gRPC, and for metrics and state, which are the scheduler's; for nobody else. In a cluster there is no state,
 * links are over gRPC, and the gateway's data plane listens for other workers; its own still takes inputs without it.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "loop/loop.h"
#include "serve/options.h"

typedef struct serve serve_t;

/* Listens when it returns; models are loaded from then on. options outlive it. */
status_t serve_create(loop_t *loop, const serve_options_t *options, serve_t **serve, err_t *err);
/* Answers what is under way, then ends; on_stopped comes on the loop. Also called when the last part ended by itself. */
void serve_on_stopped(serve_t *serve, void (*on_stopped)(void *arg), void *arg);
/* Looks for changes in the repository (worker/service.h), of keys and of certificates. */
void serve_reread(serve_t *serve);
/* Once; later calls do nothing. by: for people. */
void serve_stop(serve_t *serve, const char *by);
/* NULL is fine. */
void serve_destroy(serve_t *serve);

/* For the report. */
const struct served *serve_models(const serve_t *serve);
const char *serve_http(const serve_t *serve); /* "127.0.0.1:8000" */
const char *serve_grpc(const serve_t *serve);
const char *serve_metrics(const serve_t *serve);
bool serve_joins(const serve_t *serve);       /* a cluster */
const char *serve_keys(const serve_t *serve); /* the file of keys; NULL: none are wanted */

#endif
