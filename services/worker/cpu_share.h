/*
 * How many threads the devices of a worker get on this host, and what the log says of it. Settled once, when the worker starts: a
 * profile is measured with that many. For engines that compute on the CPU.
 */
#ifndef WORKER_CPU_SHARE_H
#define WORKER_CPU_SHARE_H

#include "base/cpus.h"

/* Of each stream of so many devices; asked 0: as many as the usable CPUs have for each device, at least 1. */
uint32_t cpu_share_threads(const cpus_t *cpus, uint32_t asked, uint32_t devices);

/* How many CPUs are left for loading models beside threads that compute; 0: none but what those leave. */
uint32_t cpu_share_left(const cpus_t *cpus, uint64_t threads);

/* One line, `cpus`; and a warning each when they are fewer than threads, and when a quota's file could not be read. */
void cpu_share_tell(const cpus_t *cpus, uint32_t devices, uint32_t streams, uint32_t threads);

#endif
