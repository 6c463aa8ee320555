/* An owner: what it owns, and its life. */
#include "transfer/block.h"
#include "transfer/doors.h"
#include "transfer/internal.h"
#include "transfer/owner/private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { REGIONS_DEFAULT = 65536 };

status_t transfer_owner_create(const transfer_owner_options_t *options, transfer_owner_t **out, err_t *err)
{
    transfer_owner_t *owner = calloc(1, sizeof(*owner));
    status_t status;

    if (!owner)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    owner->loop = options->loop;
    owner->instance_id = options->instance_id;
    owner->limits = limits_with_defaults(&options->limits);
    owner->choice = options->choice;
    owner->spin = options->spin;
    owner->trust = options->trust;
    owner->receiver = options->receiver;
    owner->ctx = options->ctx;
    places_init(&owner->places, owner->limits.max_connections);
    TAILQ_INIT(&owner->strangers);
    frame_pool_init(&owner->shared.frames);
    uint32_t regions = options->max_regions ? options->max_regions : REGIONS_DEFAULT;
    if (region_table_init(&owner->regions, regions) != STATUS_OK) {
        status = err_set(err, STATUS_NO_MEMORY, "out of memory for %u regions", regions);
        goto free_owner;
    }
    if (options->shared && owner_share(owner, options->shared, err) != STATUS_OK) {
        status = err->code;
        goto dispose_regions;
    }
    if (!options->address) {
        snprintf(owner->address, sizeof(owner->address), "this process");
        *out = owner;
        return STATUS_OK;
    }
    status = owner_listen(owner, options->address, err);
    if (status != STATUS_OK)
        goto dispose_regions;
    *out = owner;
    return STATUS_OK;

dispose_regions:
    owner_unshare(owner);
    region_table_dispose(&owner->regions);
free_owner:
    free(owner);
    return status;
}

void transfer_owner_destroy(transfer_owner_t *owner)
{
    if (!owner)
        return;
    owner_close_all(owner);
    owner_unshare(owner);
    region_table_dispose(&owner->regions);
    doors_close(&owner->doors);
    frame_pool_dispose(&owner->shared.frames);
    if (owner->handles == 0) /* it never listened */
        free(owner);
    else
        owner_stop_listening(owner);
}

const char *transfer_owner_address(const transfer_owner_t *owner)
{
    return owner->address;
}

uint64_t transfer_owner_instance(const transfer_owner_t *owner)
{
    return owner->instance_id;
}

void transfer_owner_stats(const transfer_owner_t *owner, transfer_stats_t *stats)
{
    *stats = owner->stats;
    stats->item_errors += atomic_load(&owner->item_errors);
}

/* ---- regions ---- */

struct transfer_memory {
    transfer_owner_t *owner;
    const uint8_t *base;
    size_t len_bytes;
};

status_t transfer_memory_register(transfer_owner_t *owner, void *base, size_t len_bytes,
                                  const transfer_block_t *block, transfer_memory_t **out, err_t *err)
{
    transfer_memory_t *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    *memory = (transfer_memory_t){.owner = owner, .base = base, .len_bytes = len_bytes};
    if (!owner->doors.directory) {
        const carrier_memory_t own = {.base = base, .len_bytes = len_bytes, .fd = -1};
        const carrier_memory_t arena = block ? block->memory : own;
        doors_open(&owner->doors, owner->loop, owner->choice, owner->spin,
                   owner->listening ? owner->address : NULL, &arena, owner->regions.capacity);
        region_table_lay_open(&owner->regions, owner->doors.directory, base, len_bytes);
    }
    *out = memory;
    return STATUS_OK;
}

void transfer_memory_unregister(transfer_memory_t *memory)
{
    free(memory);
}

status_t transfer_publish(transfer_memory_t *memory, const void *data, size_t len_bytes,
                          transfer_release_fn release, void *ctx, transfer_handle_t *handle)
{
    const uint8_t *from = data;

    if (from < memory->base || len_bytes > memory->len_bytes ||
        (size_t)(from - memory->base) > memory->len_bytes - len_bytes)
        return STATUS_INVALID_ARGUMENT;
    return region_publish(&memory->owner->regions, data, len_bytes, release, ctx, handle);
}

bool transfer_unpublish(transfer_owner_t *owner, transfer_handle_t handle)
{
    return region_unpublish(&owner->regions, handle);
}
