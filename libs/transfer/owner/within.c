/* The data plane within a process: inputs are read where they lie, results are made, or copied to, where they are answered from. A hot path:
 * nothing is allocated. */
#include "loop/loop.h"
#include "transfer/owner/private.h"

#include <stdatomic.h>
#include <string.h>

status_t transfer_hold(transfer_owner_t *owner, transfer_handle_t handle, uint64_t offset, uint64_t len_bytes,
                       uint32_t *pin, const uint8_t **data)
{
    status_t status = region_pin(&owner->regions, handle, offset, len_bytes, pin, data);

    if (status != STATUS_OK)
        atomic_fetch_add(&owner->item_errors, 1);
    return status;
}

void transfer_release(transfer_owner_t *owner, uint32_t pin)
{
    region_unpin(&owner->regions, pin);
}

static status_t take_item(transfer_owner_t *owner, const transfer_item_t *item)
{
    const uint8_t *data;
    uint32_t pin;
    status_t status = transfer_hold(owner, item->handle, item->offset, item->len_bytes, &pin, &data);

    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < item->iov_count; i++) {
        memcpy(item->iov[i].iov_base, data, item->iov[i].iov_len);
        data += item->iov[i].iov_len;
    }
    transfer_release(owner, pin);
    return STATUS_OK;
}

void transfer_take(transfer_owner_t *owner, transfer_item_t *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        items[i].status = take_item(owner, &items[i]);
}

/* ---- results ---- */

static void hand_result(transfer_owner_t *owner, const transfer_result_t *result)
{
    transfer_incoming_t incoming = {.task_id = result->task_id,
                                    .handle = result->handle,
                                    .status = result->status,
                                    .text = result->text ? result->text : "",
                                    .made_at = result->iov_count > 0 ? result->iov[0].iov_base : NULL,
                                    .timing = result->timing};

    for (uint32_t i = 0; i < result->iov_count; i++)
        incoming.len_bytes += result->iov[i].iov_len;
    transfer_dest_t dest = owner->receiver.begin(owner->ctx, &incoming);
    uint8_t *to = dest.buffer != incoming.made_at ? dest.buffer : NULL;
    for (uint32_t i = 0; to && i < result->iov_count; i++) {
        memcpy(to, result->iov[i].iov_base, result->iov[i].iov_len);
        to += result->iov[i].iov_len;
    }
    owner->receiver.done(owner->ctx, dest.token, result->task_id, STATUS_OK);
}

static void take_results(const transfer_handover_t *handover)
{
    for (uint32_t i = 0; i < handover->count; i++)
        hand_result(handover->owner, &handover->results[i]);
}

/* Who waits for several of them is woken once. */
static void on_handed(void *arg, mailbox_node_t *first)
{
    mailbox_node_t *next;

    (void)arg;
    for (; first; first = next) {
        transfer_handover_t *handover = CONTAINER_OF(first, transfer_handover_t, node);
        next = first->next;
        take_results(handover);
        mailbox_post(handover->back, &handover->node);
    }
}

void transfer_handed_over(void *arg, mailbox_node_t *first)
{
    mailbox_node_t *next;

    (void)arg;
    for (; first; first = next) {
        transfer_handover_t *handover = CONTAINER_OF(first, transfer_handover_t, node);
        next = first->next;
        handover->done(handover);
    }
}

bool transfer_hand(transfer_handover_t *handover, mailbox_t *back)
{
    transfer_owner_t *owner = handover->owner;

    if (!owner->shared_loop || loop_on_thread(owner->shared_loop)) {
        take_results(handover);
        return true;
    }
    handover->back = back;
    mailbox_post(&owner->handed, &handover->node);
    return false;
}

void *transfer_place(transfer_owner_t *owner, const transfer_wanted_t *wanted, void **token)
{
    bool here = !owner->shared_loop || loop_on_thread(owner->shared_loop);

    return here && owner->receiver.place ? owner->receiver.place(owner->ctx, wanted, token) : NULL;
}

void transfer_vacate(transfer_owner_t *owner, void *token, void *memory)
{
    owner->receiver.vacate(owner->ctx, token, memory);
}

status_t owner_share(transfer_owner_t *owner, loop_t *loop, err_t *err)
{
    status_t status = mailbox_init(&owner->handed, loop, on_handed, owner, err);

    if (status != STATUS_OK)
        return status;
    owner->shared_loop = loop;
    return region_table_share(&owner->regions, loop, err);
}

void owner_unshare(transfer_owner_t *owner)
{
    if (owner->shared_loop)
        mailbox_dispose(&owner->handed);
    owner->shared_loop = NULL;
}
