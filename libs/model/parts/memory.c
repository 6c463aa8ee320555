#include "model/parts/memory.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

static unsigned long long mib(uint64_t bytes)
{
    return (unsigned long long)((bytes + (1 << 20) - 1) >> 20);
}

/* Others may take and give at the same time. */
static status_t take_room(model_device_t *device, uint64_t limit, uint64_t bytes, const char *what,
                          err_t *err)
{
    uint64_t used = atomic_load(&device->used_bytes);

    do {
        if (limit != 0 && (used > limit || bytes > limit - used))
            return err_set(err, STATUS_NO_MEMORY, "%s %llu MiB on %s, where %llu of %llu MiB are in use",
                           what, mib(bytes), device->name, mib(used), mib(limit));
    } while (!atomic_compare_exchange_weak(&device->used_bytes, &used, used + bytes));
    return STATUS_OK;
}

static void give_room(const model_devices_t *devices, uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        atomic_fetch_sub(&devices->list[i].used_bytes, bytes);
}

/* On each device, or on none. */
static status_t take(const model_devices_t *devices, uint64_t bytes, const char *what, err_t *err)
{
    for (uint32_t i = 0; i < devices->count; i++) {
        status_t status = take_room(&devices->list[i], devices->memory_bytes, bytes, what, err);
        if (status != STATUS_OK) {
            give_room(devices, i, bytes);
            return status;
        }
    }
    return STATUS_OK;
}

static uint64_t file_bytes(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
}

static uint64_t folder_bytes(const char *dir)
{
    char path[PATH_MAX + 320];
    DIR *folder = opendir(dir);
    struct dirent *entry;
    uint64_t sum = 0;

    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (model_is_part(entry->d_name))
            sum += file_bytes(path);
    }
    if (folder)
        closedir(folder);
    return sum;
}

/* Emulated devices hold nothing of the files. */
static bool holds_files(const model_t *model, const model_devices_t *devices)
{
    return !model->bare && !devices->emulated;
}

status_t memory_take_files(model_t *model, const model_devices_t *devices, err_t *err)
{
    char dir[PATH_MAX + 32];

    if (!holds_files(model, devices))
        return STATUS_OK;
    snprintf(dir, sizeof(dir), "%s/%lld", model->dir, (long long)model->version);
    uint64_t bytes = model->file[0] ? file_bytes(model->file) : folder_bytes(dir);
    status_t status = take(devices, bytes, "its files alone need", err);
    if (status == STATUS_OK)
        model->taken_bytes = bytes;
    return status;
}

status_t memory_take_loading(model_t *model, const model_devices_t *devices, err_t *err)
{
    uint64_t bytes = model->loading_bytes;

    if (!holds_files(model, devices) || devices->ops->describe || bytes <= model->taken_bytes)
        return STATUS_OK;
    memory_give(model, devices);
    status_t status = take(devices, bytes, "loading it takes", err);
    if (status == STATUS_OK)
        model->taken_bytes = bytes;
    return status;
}

/* Tensors that vary count when they come: what the model may take for them is not known before. */
static uint64_t row_bytes(const engine_model_info_t *info)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < info->input_count; i++)
        sum += info->inputs[i].row_bytes;
    for (uint32_t i = 0; i < info->output_count; i++)
        sum += info->outputs[i].row_bytes;
    return sum;
}

void memory_note_batch(model_t *model, uint32_t batch)
{
    model->batch_bytes[batch] = model->info->memory_bytes + row_bytes(model->info) * batch;
}

/* In place of what its files have, so that a refusal tells what it needs in all. */
status_t memory_take(model_t *model, const model_devices_t *devices, err_t *err)
{
    uint64_t bytes = model->batch_bytes[model->info->max_batch];

    memory_give(model, devices);
    status_t status = take(devices, bytes, "it needs", err);
    if (status == STATUS_OK)
        model->taken_bytes = bytes;
    return status;
}

bool memory_is_ample(const model_t *model, const model_devices_t *devices)
{
    for (uint32_t i = 0; devices->memory_bytes && i < devices->count; i++)
        if (atomic_load(&devices->list[i].used_bytes) + model->taken_bytes > devices->memory_bytes)
            return false;
    return true;
}

status_t memory_take_more(model_t *model, const model_devices_t *devices, uint64_t bytes, const char *what,
                          err_t *err)
{
    status_t status = take(devices, bytes, what, err);

    if (status != STATUS_OK)
        return status;
    model->taken_bytes += bytes;
    for (uint32_t b = 1; b <= model->info->max_batch; b++)
        model->batch_bytes[b] += bytes;
    return STATUS_OK;
}

void memory_shrink(model_t *model, const model_devices_t *devices, uint64_t taken_bytes)
{
    uint64_t more = model->taken_bytes - taken_bytes;

    give_room(devices, devices->count, more);
    for (uint32_t b = 1; b <= model->info->max_batch; b++)
        model->batch_bytes[b] -= more;
    model->taken_bytes = taken_bytes;
}

void memory_give(model_t *model, const model_devices_t *devices)
{
    if (model->taken_bytes > 0)
        give_room(devices, devices->count, model->taken_bytes);
    model->taken_bytes = 0;
}
