/*
 * What the loader forbids itself. Each step holds for all threads of the process and cannot be taken back.
 *
 *   confine_start    before anything is read: it dies with its parent, leaves no core, opens few files, and is the first to
 *                    go when the host runs out of memory
 *   confine_memory   once its engines are open: what it may take from then on; it writes no file any more
 *   confine_calls    no sockets, no other programs or processes, nothing that changes files
 */
#ifndef LOADER_CONFINE_H
#define LOADER_CONFINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* CANCELLED: the parent has gone already. cpu_ns: of all its threads together. */
status_t confine_start(pid_t parent, int64_t cpu_ns, err_t *err);

/* Writable private memory, on top of what it has now. Nothing under a sanitizer, whose own memory is terabytes of it. */
status_t confine_memory(uint64_t budget_bytes, err_t *err);

/* A forbidden call ends the process by SIGSYS; one that would change a file fails as on a read-only file system. False: this kernel has no such
 * filters. */
bool confine_calls(void);

#endif
