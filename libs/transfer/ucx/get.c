#include "transfer/ucx/get.h"

#include "transfer/ucx/operation.h"

void get_look_again(carrier_job_t *job)
{
    scratch_t *scratch = job->inside_ptr;

    for (uint32_t i = 0; i < job->count; i++) {
        uint64_t at = (uint64_t)directory_slot(job->items[i].handle) * sizeof(directory_entry_t);
        if (job->items[i].status == STATUS_OK)
            operation_get(job, &job->link->directory, at, &scratch->entries[i], sizeof(directory_entry_t));
    }
}

void get_begin(carrier_job_t *job)
{
    uint64_t slots = job->link->directory.len_bytes / sizeof(directory_entry_t);

    for (uint32_t i = 0; i < job->count; i++) {
        transfer_item_t *item = &job->items[i];
        item->status = item->len_bytes > job->max_item_bytes   ? STATUS_TOO_LARGE
                       : directory_slot(item->handle) >= slots ? STATUS_NOT_FOUND
                                                               : STATUS_OK;
    }
    get_look_again(job);
}

void get_bytes(carrier_job_t *job)
{
    const scratch_t *scratch = job->inside_ptr;

    for (uint32_t i = 0; i < job->count; i++) {
        transfer_item_t *item = &job->items[i];
        uint64_t at = 0;
        if (item->status == STATUS_OK)
            item->status = directory_find(&scratch->entries[i], item->handle, item->offset, item->len_bytes,
                                          job->link->arena.len_bytes, &at);
        for (uint32_t k = 0; item->status == STATUS_OK && k < item->iov_count; k++) {
            operation_get(job, &job->link->arena, at, item->iov[k].iov_base, item->iov[k].iov_len);
            at += item->iov[k].iov_len;
        }
    }
}

void get_judge(const carrier_job_t *job)
{
    const scratch_t *scratch = job->inside_ptr;

    for (uint32_t i = 0; i < job->count; i++) {
        transfer_item_t *item = &job->items[i];
        if (item->status == STATUS_OK && !directory_holds(&scratch->entries[i], item->handle))
            item->status = STATUS_NOT_FOUND;
    }
}
