#include "transfer/block.h"

#include "base/log.h"
#include "transfer/carriers.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static status_t map_privately(size_t len_bytes, carrier_memory_t *memory, err_t *err)
{
    void *base =
        mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "no address space for %zu bytes", len_bytes);
    *memory = (carrier_memory_t){.base = base, .len_bytes = len_bytes, .fd = -1};
    return STATUS_OK;
}

status_t block_memory_make(transfer_choice_t choice, const char *address, const carrier_memory_t *beside,
                           size_t len_bytes, carrier_memory_t *memory, err_t *err)
{
    const carrier_ops_t *carriers[TRANSFER_WAYS];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (len_bytes == 0 || len_bytes > SIZE_MAX / 2)
        return err_set(err, STATUS_INVALID_ARGUMENT, "memory of %zu bytes", len_bytes);
    len_bytes = (len_bytes + page - 1) & ~(page - 1);
    carriers_of(choice, carriers);
    for (uint32_t i = 0; i < TRANSFER_WAYS && carriers[i]; i++) {
        err_t why;
        if (carriers[i]->memory_make(address, beside, len_bytes, memory, &why) == STATUS_OK)
            return STATUS_OK;
        log_info("data_memory_not_shared", LOG_STR("carrier", carriers[i]->name),
                 LOG_STR("reason", why.text));
    }
    return map_privately(len_bytes, memory, err);
}

void block_memory_free(carrier_memory_t *memory)
{
    if (memory->made_by)
        memory->made_by->memory_free(memory);
    else
        munmap(memory->base, memory->len_bytes);
}

status_t transfer_block_create(transfer_choice_t choice, const char *address, size_t len_bytes,
                               transfer_block_t **out, err_t *err)
{
    transfer_block_t *block = calloc(1, sizeof(*block));

    if (!block)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    status_t status = block_memory_make(choice, address, NULL, len_bytes, &block->memory, err);
    if (status == STATUS_OK)
        *out = block;
    else
        free(block);
    return status;
}

void transfer_block_destroy(transfer_block_t *block)
{
    if (!block)
        return;
    block_memory_free(&block->memory);
    free(block);
}

void *transfer_block_base(const transfer_block_t *block)
{
    return block->memory.base;
}

size_t transfer_block_bytes(const transfer_block_t *block)
{
    return block->memory.len_bytes;
}
