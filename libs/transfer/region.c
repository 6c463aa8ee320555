#include "transfer/region.h"

#include "loop/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

static const uint32_t PUBLISHED = UINT32_C(1) << 31;

status_t region_table_init(region_table_t *table, uint32_t capacity)
{
    *table = (region_table_t){.capacity = capacity, .free_head = REGION_NONE};
    table->slots = calloc(capacity, sizeof(region_t));
    return table->slots ? STATUS_OK : STATUS_NO_MEMORY;
}

void region_table_lay_open(region_table_t *table, directory_entry_t *directory, const void *base,
                           size_t len_bytes)
{
    table->directory = directory;
    table->base = base;
    table->len_bytes = len_bytes;
}

static void region_enter(const region_table_t *table, const region_t *region)
{
    uint64_t offset = DIRECTORY_ELSEWHERE;

    if (!table->directory)
        return;
    if (region->data >= table->base && region->data <= table->base + table->len_bytes)
        offset = (uint64_t)(region->data - table->base);
    directory_enter(&table->directory[region - table->slots], region->handle, offset, region->len_bytes);
}

static void region_withdraw(const region_table_t *table, const region_t *region)
{
    if (table->directory)
        directory_withdraw(&table->directory[region - table->slots]);
}

static void region_give_back(region_table_t *table, region_t *region)
{
    transfer_release_fn release = region->release;
    void *ctx = region->ctx;

    region->next_free = table->free_head;
    table->free_head = (uint32_t)(region - table->slots);
    if (release)
        release(ctx);
}

static void on_retired(void *arg, mailbox_node_t *first)
{
    mailbox_node_t *next;

    for (; first; first = next) {
        next = first->next;
        region_give_back(arg, CONTAINER_OF(first, region_t, node));
    }
}

status_t region_table_share(region_table_t *table, loop_t *loop, err_t *err)
{
    mailbox_t *retired = calloc(1, sizeof(*retired));

    if (!retired)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    status_t status = mailbox_init(retired, loop, on_retired, table, err);
    if (status == STATUS_OK)
        table->retired = retired;
    else
        free(retired);
    return status;
}

void region_table_dispose(region_table_t *table)
{
    if (table->retired)
        mailbox_dispose(table->retired);
    free(table->retired);
    for (uint32_t i = 0; i < table->used; i++) {
        if (!(atomic_exchange(&table->slots[i].hold, 0) & PUBLISHED))
            continue;
        region_withdraw(table, &table->slots[i]);
        region_give_back(table, &table->slots[i]);
    }
    free(table->slots);
    table->slots = NULL;
}

static bool random_word(region_table_t *table, uint64_t *word)
{
    if (table->random_left == 0) {
        ssize_t got;
        do
            got = getrandom(table->random, sizeof(table->random), 0);
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof(table->random))
            return false;
        table->random_left = REGION_RANDOM_WORDS;
    }
    *word = table->random[--table->random_left];
    table->random[table->random_left] = 0;
    return true;
}

static uint32_t take_slot(region_table_t *table)
{
    uint32_t index = table->free_head;

    if (index != REGION_NONE)
        table->free_head = table->slots[index].next_free;
    else if (table->used < table->capacity)
        index = table->used++;
    return index;
}

status_t region_publish(region_table_t *table, const void *data, size_t len_bytes,
                        transfer_release_fn release, void *ctx, transfer_handle_t *handle)
{
    uint64_t word;

    if (!random_word(table, &word))
        return STATUS_IO;
    uint32_t index = take_slot(table);
    if (index == REGION_NONE)
        return STATUS_NO_MEMORY;

    region_t *region = &table->slots[index];
    uint64_t generation = (region->handle.hi >> 32) + 1;
    region->handle = (transfer_handle_t){.hi = generation << 32 | index, .lo = word};
    region->data = data;
    region->len_bytes = len_bytes;
    region->release = release;
    region->ctx = ctx;
    atomic_store_explicit(&region->hold, PUBLISHED, memory_order_release);
    table->published++;
    region_enter(table, region);
    *handle = region->handle;
    return STATUS_OK;
}

/* Pins it, whichever use of the slot that is; NULL: it has none. */
static region_t *slot_pin(region_table_t *table, uint32_t index)
{
    if (index >= table->capacity)
        return NULL;
    region_t *region = &table->slots[index];
    uint32_t hold = atomic_load_explicit(&region->hold, memory_order_relaxed);
    do {
        if (!(hold & PUBLISHED))
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&region->hold, &hold, hold + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    return region;
}

bool region_unpublish(region_table_t *table, transfer_handle_t handle)
{
    uint32_t index = (uint32_t)handle.hi;

    if (index >= table->used)
        return false;
    region_t *region = &table->slots[index];
    bool equal = transfer_handle_equal(region->handle, handle);
    if (!(equal & ((atomic_load_explicit(&region->hold, memory_order_relaxed) & PUBLISHED) != 0)))
        return false;
    table->published--;
    region_withdraw(table, region);
    if (atomic_fetch_and_explicit(&region->hold, ~PUBLISHED, memory_order_acq_rel) == PUBLISHED)
        region_give_back(table, region);
    return true;
}

void region_unpin(region_table_t *table, uint32_t index)
{
    region_t *region = &table->slots[index];

    if (atomic_fetch_sub_explicit(&region->hold, 1, memory_order_acq_rel) != 1)
        return;
    if (table->retired && !loop_on_thread(table->retired->loop))
        mailbox_post(table->retired, &region->node);
    else
        region_give_back(table, region);
}

status_t region_pin(region_table_t *table, transfer_handle_t handle, uint64_t offset, uint64_t len_bytes,
                    uint32_t *index, const uint8_t **data)
{
    region_t *region = slot_pin(table, (uint32_t)handle.hi);
    status_t status = STATUS_OK;

    if (!region)
        return STATUS_NOT_FOUND;
    if (!transfer_handle_equal(region->handle, handle))
        status = STATUS_NOT_FOUND;
    else if (offset > region->len_bytes || len_bytes > region->len_bytes - offset)
        status = STATUS_INVALID_ARGUMENT;
    uint32_t at = (uint32_t)(region - table->slots);
    if (status != STATUS_OK) {
        region_unpin(table, at);
        return status;
    }
    *index = at;
    *data = region->data + offset;
    return STATUS_OK;
}
