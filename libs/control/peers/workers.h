/*
 * The stream of a worker: models, device states and ended batches in; ids, peers, commands and grants out. Its
 * devices leave with it, and the tasks of its batches are tried elsewhere.
 */
#ifndef CONTROL_PEERS_WORKERS_H
#define CONTROL_PEERS_WORKERS_H

#include "control/peers/registry.h"

/* NULL: the link is being closed, and nothing more is to be said of it. */
worker_t *worker_open(peers_t *peers, void *link, const char *address);
void worker_said(peers_t *peers, worker_t *worker, const Control__WorkerToScheduler *frame);
/* Its memory goes. */
void worker_closed(peers_t *peers, worker_t *worker, const char *code, const char *text);

/* No further grants, or again; leave: it ends once its batches have. */
void worker_drain(peers_t *peers, worker_t *worker, bool drain, bool leave);
/* What this turn has for each of them. */
void workers_flush(peers_t *peers);

#endif
