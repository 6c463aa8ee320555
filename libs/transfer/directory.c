#include "transfer/directory.h"

status_t directory_find(const directory_entry_t *entry, transfer_handle_t handle, uint64_t offset,
                        uint64_t len_bytes, uint64_t arena_bytes, uint64_t *at)
{
    if (handle.hi == 0 || atomic_load_explicit(&entry->stamp, memory_order_acquire) != handle.hi)
        return STATUS_NOT_FOUND;
    uint64_t region_at = atomic_load_explicit(&entry->offset, memory_order_relaxed);
    if (region_at == DIRECTORY_ELSEWHERE)
        return STATUS_UNSUPPORTED;
    uint64_t region_bytes = atomic_load_explicit(&entry->len_bytes, memory_order_relaxed);
    if (region_at > arena_bytes || region_bytes > arena_bytes - region_at)
        return STATUS_NOT_FOUND;
    if (offset > region_bytes || len_bytes > region_bytes - offset)
        return STATUS_INVALID_ARGUMENT;
    *at = region_at + offset;
    return STATUS_OK;
}
