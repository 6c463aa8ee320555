/*
 * Where published regions lie, for peers that read the owner's memory by themselves (carrier.h): an array of entries at a fixed
 * place, one per slot of the table of regions, written by the owner and read at any time from elsewhere.
 *
 * An entry says what a handle's first word stands for, not its second: who reads the directory can find bytes, and cannot
 * make up a handle with which to answer for others.
 *
 * Writer: fills offset and length in, then sets the stamp; takes the stamp away before the bytes may change.
 * Reader: looks (directory_find), reads the bytes, and looks again (directory_holds): only then are they what was published.
 */
#ifndef TRANSFER_DIRECTORY_H
#define TRANSFER_DIRECTORY_H

#include "transfer/transfer.h"

#include <stdatomic.h>

typedef struct {
    _Atomic uint64_t stamp;  /* `hi` of the handle, never 0; 0: nothing is published here */
    _Atomic uint64_t offset; /* in the arena */
    _Atomic uint64_t len_bytes;
    uint64_t reserved;
} directory_entry_t;
_Static_assert(sizeof(directory_entry_t) == 32, "what peers read");

/* As offset: published, but not in the memory that is laid open. */
#define DIRECTORY_ELSEWHERE UINT64_MAX

static inline uint32_t directory_slot(transfer_handle_t handle)
{
    return (uint32_t)handle.hi;
}

static inline void directory_enter(directory_entry_t *entry, transfer_handle_t handle, uint64_t offset,
                                   uint64_t len_bytes)
{
    atomic_store_explicit(&entry->offset, offset, memory_order_relaxed);
    atomic_store_explicit(&entry->len_bytes, len_bytes, memory_order_relaxed);
    atomic_store_explicit(&entry->stamp, handle.hi, memory_order_release);
}

/* The bytes may be changed after this. */
static inline void directory_withdraw(directory_entry_t *entry)
{
    atomic_store_explicit(&entry->stamp, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static inline bool directory_holds(const directory_entry_t *entry, transfer_handle_t handle)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->stamp, memory_order_relaxed) == handle.hi;
}

/* Of `entry` as it was read: where [offset, offset + len_bytes) of the region lies in an arena of so many bytes. NOT_FOUND,
 * INVALID_ARGUMENT: as region_pin; an entry that makes no sense is NOT_FOUND. UNSUPPORTED: it must be asked for through the
 * socket. */
status_t directory_find(const directory_entry_t *entry, transfer_handle_t handle, uint64_t offset,
                        uint64_t len_bytes, uint64_t arena_bytes, uint64_t *at);

#endif
