/*
 * Memory that other processes may map when they are handed its descriptor: a file without a name (memfd), which cannot be made
 * shorter by anybody, so that no access to the mapping can fault.
 *
 * Threads: free of state.
 */
#ifndef BASE_SHARED_MEMORY_H
#define BASE_SHARED_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Zeroed and mapped for writing; pages come with the first touch. `name` is for /proc/PID/maps. The caller unmaps *base and
 * closes *fd. STATUS_NO_MEMORY. */
status_t shared_memory_create(const char *name, size_t len_bytes, void **base, int *fd, err_t *err);

/* A second descriptor, with which the memory can only be read; -1: none could be opened. */
int shared_memory_reader(int fd);

/* Maps what somebody else handed over. INVALID_ARGUMENT: it is not such a file, or shorter than it was said to be. */
status_t shared_memory_map(int fd, size_t len_bytes, bool writable, void **base, err_t *err);

#endif
