#include "worker/control/done.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(done_list_t *done)
{
    uint32_t cap = done->cap ? done->cap * 2 : 64;

    if (done->count < done->cap)
        return true;
    if (cap > DONE_MAX)
        return false;
    Control__BatchDone *list = realloc(done->list, cap * sizeof(*list));
    if (!list)
        return false;
    done->list = list;
    Control__BatchDone **pointers = realloc(done->pointers, cap * sizeof(*pointers));
    if (!pointers)
        return false;
    done->pointers = pointers;
    done->cap = cap;
    return true;
}

/* Rare: most batches lose no row and have no reason. False: no memory. */
static bool copy_failures(Control__BatchDone *to, const run_report_t *report)
{
    size_t bytes = report->failed_count * sizeof(uint32_t);

    if (report->reason[0]) {
        char *reason = strdup(report->reason);
        if (!reason)
            return false;
        to->reason = reason;
    }
    if (bytes == 0)
        return true;
    to->failed_row = malloc(bytes);
    to->failed_status = malloc(bytes);
    if (!to->failed_row || !to->failed_status)
        return false;
    memcpy(to->failed_row, report->failed_row, bytes);
    memcpy(to->failed_status, report->failed_status, bytes);
    to->n_failed_row = to->n_failed_status = report->failed_count;
    return true;
}

bool done_add(done_list_t *done, const run_report_t *report)
{
    if (!reserve(done))
        return false;
    Control__BatchDone *to = &done->list[done->count++];
    control__batch_done__init(to);
    to->batch_id = report->batch_id;
    to->device = report->device;
    to->status = report->status;
    to->exec_ns = report->exec_ns;
    to->device_ns = report->device_ns;
    to->fetch_ns = report->fetch_ns;
    to->push_ns = report->push_ns;
    to->free_in_ns = report->free_in_ns;
    return copy_failures(to, report);
}

void done_put(done_list_t *done, Control__WorkerToScheduler *message)
{
    for (uint32_t i = 0; i < done->count; i++)
        done->pointers[i] = &done->list[i];
    message->n_done = done->count;
    message->done = done->pointers;
}

void done_clear(done_list_t *done)
{
    for (uint32_t i = 0; i < done->count; i++) {
        if (done->list[i].reason != (char *)protobuf_c_empty_string)
            free(done->list[i].reason);
        free(done->list[i].failed_row);
        free(done->list[i].failed_status);
    }
    done->count = 0;
}

void done_dispose(done_list_t *done)
{
    done_clear(done);
    free(done->list);
    free(done->pointers);
}
