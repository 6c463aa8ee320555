/* The control plane (control/control.h) on a virtual network: its world, its turn, its death and return. */
#ifndef VIRTUAL_SCHEDULER_H
#define VIRTUAL_SCHEDULER_H

#include "control/control.h"
#include "virtual/network.h"

typedef struct virtual_scheduler virtual_scheduler_t;

/* options: copied; epoch and scheduler_id are its own. INVALID_ARGUMENT as control_create. */
status_t virtual_scheduler_create(network_t *network, const control_options_t *options,
                                  virtual_scheduler_t **scheduler, err_t *err);
void virtual_scheduler_destroy(virtual_scheduler_t *scheduler); /* NULL is fine */

/* As a process that is killed and started again: links break, all that it knew is gone, and its epoch is a newer one. */
void virtual_scheduler_restart(virtual_scheduler_t *scheduler);

/* What peers connect to. */
const link_ops_t *virtual_scheduler_gateways(void);
const link_ops_t *virtual_scheduler_workers(void);

/* The machine itself; another one after a restart. Who calls what changes it calls virtual_scheduler_touch behind. */
control_t *virtual_scheduler_control(virtual_scheduler_t *scheduler);
void virtual_scheduler_touch(virtual_scheduler_t *scheduler);
uint64_t virtual_scheduler_epoch(const virtual_scheduler_t *scheduler);
/* Links that are open now, as it sees them. */
uint32_t virtual_scheduler_links(const virtual_scheduler_t *scheduler);

#endif
