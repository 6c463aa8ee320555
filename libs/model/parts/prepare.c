/* Which batch sizes of a model are compiled when it is loaded, and which with the first batch that needs them. */
#include "base/clock.h"
#include "model/parts/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Compiling comes with a first batch where it takes at most this part of the SLO: nobody notices, and every compiled size
 * stays in memory, which is most of what a small model takes. */
enum { COMPILE_PART = 50 };

/* 1, 2, 4, 8, … and the largest are measured first, and are what lone requests and full batches run with. */
static bool is_between(uint32_t batch, uint32_t max_batch)
{
    return batch != max_batch && (batch & (batch - 1)) != 0;
}

/* A device that is not the host may have to be idle while something is compiled for it. */
static bool may_come_later(const model_t *model, const model_devices_t *devices, int64_t slowest_ns)
{
    return !devices->ops->describe && slowest_ns <= model_least_slo_ns(model) / COMPILE_PART;
}

static status_t prepare_timed(const engine_ops_t *ops, engine_model_t *model, uint32_t batch,
                              int64_t *slowest_ns, err_t *err)
{
    int64_t begin_ns = clock_now_ns();
    status_t status = ops->prepare(model, batch, err);
    int64_t took_ns = clock_now_ns() - begin_ns;

    *slowest_ns = took_ns > *slowest_ns ? took_ns : *slowest_ns;
    return status;
}

/* A size that comes later counts what the next larger one takes. */
static status_t prepare_on(model_t *model, const model_load_options_t *options, uint32_t device, err_t *err)
{
    const model_devices_t *devices = options->devices;
    uint32_t max_batch = model->info->max_batch, noted = 0;
    int64_t slowest_ns = 0;

    for (uint32_t b = 1; b <= max_batch; b++) {
        if (is_between(b, max_batch) && may_come_later(model, devices, slowest_ns))
            continue;
        if (atomic_load(options->stop))
            return err_set(err, STATUS_CANCELLED, "stopped");
        status_t status = prepare_timed(devices->ops, model->on_device[device], b, &slowest_ns, err);
        if (status != STATUS_OK)
            return status;
        while (device == 0 && noted < b)
            memory_note_batch(model, ++noted);
    }
    return STATUS_OK;
}

status_t model_prepare(model_t *model, const model_load_options_t *options, err_t *err)
{
    const model_devices_t *devices = options->devices;

    model->batch_bytes = calloc(model->info->max_batch + 1, sizeof(*model->batch_bytes));
    if (!model->batch_bytes)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < devices->count; i++) {
        status_t status = model->shapes ? shapes_prepare(model->shapes, devices->ops, model->on_device[i],
                                                         options->stop, err)
                                        : STATUS_OK;
        if (status == STATUS_OK)
            status = prepare_on(model, options, i, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}
