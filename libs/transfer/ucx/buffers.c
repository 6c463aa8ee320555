#include "transfer/ucx/buffers.h"

#include "base/log.h"
#include "transfer/ucx/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void refuse(buffers_t *buffers, const char *why)
{
    if (!buffers->told)
        log_warn("data_buffers_not_registered", LOG_STR("reason", why),
                 LOG_STR("instead", "each request registers what it needs"));
    buffers->told = true;
}

static void buffer_register(buffers_t *buffers, buffer_t *buffer, uint32_t at)
{
    ucp_mem_h handle;
    err_t err;

    if (ucx_map(buffers->contexts[at], buffer->place, buffer->base, buffer->len_bytes, &handle, &err) ==
        STATUS_OK) {
        buffer->handles[at] = handle;
        return;
    }
    buffer->refused = true;
    refuse(buffers, err.text);
}

static void buffer_deregister(const buffers_t *buffers, const buffer_t *buffer)
{
    for (uint32_t at = 0; at < BUFFER_CONTEXTS_MAX; at++) {
        if (buffer->handles[at])
            ucx_unmap(buffers->contexts[at], buffer->handles[at]);
    }
}

/* The first whose base is above. */
static uint32_t buffers_above(const buffers_t *buffers, const void *bytes)
{
    uint32_t low = 0, high = buffers->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (buffers->list[middle].base <= (const uint8_t *)bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool buffers_grow(buffers_t *buffers)
{
    uint32_t cap = buffers->cap ? buffers->cap * 2 : 16;

    if (buffers->count < buffers->cap)
        return true;
    buffer_t *list = realloc(buffers->list, cap * sizeof(*list));
    if (!list)
        return false;
    buffers->list = list;
    buffers->cap = cap;
    return true;
}

void buffers_add(buffers_t *buffers, transfer_place_t place, void *base, size_t len_bytes)
{
    uint32_t index = buffers_above(buffers, base);

    if (!buffers_grow(buffers)) {
        refuse(buffers, "out of memory");
        return;
    }
    buffer_t *buffer = &buffers->list[index];
    assert(index == 0 || buffer[-1].base + buffer[-1].len_bytes <= (uint8_t *)base);
    memmove(buffer + 1, buffer, (buffers->count++ - index) * sizeof(*buffer));
    *buffer = (buffer_t){.base = base, .len_bytes = len_bytes, .place = place};
    for (uint32_t at = 0; at < BUFFER_CONTEXTS_MAX; at++) {
        if (buffers->contexts[at])
            buffer_register(buffers, buffer, at);
    }
}

void buffers_drop(buffers_t *buffers, void *base)
{
    uint32_t above = buffers_above(buffers, base);
    buffer_t *buffer = &buffers->list[above] - 1;

    if (above == 0 || buffer->base != base)
        return;
    buffer_deregister(buffers, buffer);
    memmove(buffer, buffer + 1, (buffers->count-- - above) * sizeof(*buffer));
}

void buffers_dispose(buffers_t *buffers)
{
    for (uint32_t i = 0; i < buffers->count; i++)
        buffer_deregister(buffers, &buffers->list[i]);
    free(buffers->list);
    *buffers = (buffers_t){0};
}

void buffers_use(buffers_t *buffers, uint32_t at, const ucx_context_t *context)
{
    if (buffers->contexts[at])
        return;
    buffers->contexts[at] = context;
    for (uint32_t i = 0; i < buffers->count; i++)
        buffer_register(buffers, &buffers->list[i], at);
}

ucp_mem_h buffers_find(const buffers_t *buffers, uint32_t at, const void *bytes, size_t len)
{
    uint32_t above = buffers_above(buffers, bytes);

    if (above == 0)
        return NULL;
    const buffer_t *buffer = &buffers->list[above - 1];
    size_t from = (size_t)((const uint8_t *)bytes - buffer->base);
    return from <= buffer->len_bytes && len <= buffer->len_bytes - from ? buffer->handles[at] : NULL;
}

carrier_buffers_t buffers_count(const buffers_t *buffers)
{
    carrier_buffers_t sum = {0};

    for (uint32_t i = 0; i < buffers->count; i++) {
        const buffer_t *buffer = &buffers->list[i];
        bool registered = false;
        for (uint32_t at = 0; at < BUFFER_CONTEXTS_MAX; at++)
            registered = registered || buffer->handles[at];
        if (buffer->refused)
            sum.refused_bytes += buffer->len_bytes;
        else if (registered)
            sum.registered_bytes += buffer->len_bytes;
    }
    return sum;
}
