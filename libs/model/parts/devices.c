#include "model/parts/devices.h"
#include "base/cpus.h"
#include "base/log.h"
#include "model/parts/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CPUS_MAX = 256 };

static void cpu_model_name(char *text, size_t len)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(text, len, "CPU");
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, len, "%.60s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

/* In a container, its limit; UINT64_MAX when there is none. */
static uint64_t cgroup_memory_bytes(void)
{
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    unsigned long long bytes;
    bool limited = file && fscanf(file, "%llu", &bytes) == 1;

    if (file)
        fclose(file);
    return limited ? bytes : UINT64_MAX;
}

static uint64_t host_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    uint64_t host = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
             limit = cgroup_memory_bytes();

    return limit < host ? limit : host;
}

/* Devices on the CPU share the memory of the host; others have their own, which the engine tells. */
static uint64_t device_memory_bytes(const model_devices_t *devices, const engine_config_t *config,
                                    uint32_t count)
{
    if (config->memory_limit_bytes)
        return config->memory_limit_bytes;
    return devices->ops->describe ? 0 : host_memory_bytes() / count;
}

bool model_engine_is_cpu(const char *engine)
{
    for (size_t i = 0; model_cpu_engines[i]; i++)
        if (strcmp(engine, model_cpu_engines[i]) == 0)
            return true;
    return false;
}

/* Serving goes on with those that are here. */
static void tell_missing(void)
{
    const engine_ops_t *ops;
    err_t why;

    for (size_t i = 0; model_cpu_engines[i]; i++)
        if (engine_find(model_cpu_engines[i], &ops, &why) != STATUS_OK)
            log_info("engine_not_here", LOG_STR("engine", model_cpu_engines[i]), LOG_ERR(&why));
}

/* A profile holds for one kind of GPU. */
static void describe_device(model_devices_t *devices, const engine_t *engine)
{
    uint64_t memory_bytes;

    if (!devices->ops->describe)
        return;
    const char *name = devices->ops->describe(engine, &memory_bytes);
    snprintf(devices->identity, sizeof(devices->identity), "%s; %.100s", devices->ops->name, name);
    devices->memory_bytes = memory_bytes;
}

static void name_devices(model_devices_t *devices, const char *engine, const engine_config_t *config)
{
    char cpu[64];
    bool has_providers = config->providers && config->providers[0];

    devices->kind = model_engine_is_cpu(engine) ? "cpu" : devices->ops->name;
    devices->device_class = devices->kind;
    cpu_model_name(cpu, sizeof(cpu));
    if (model_engine_is_cpu(engine))
        snprintf(devices->identity, sizeof(devices->identity), "%s; %s; %u threads%s%s", engine, cpu,
                 config->threads ? config->threads : 1, has_providers ? "; " : "",
                 has_providers ? config->providers : "");
    else
        snprintf(devices->identity, sizeof(devices->identity), "%s", engine);
    devices->emulated = strcmp(engine, "emulated") == 0;
}

/* Neighbouring devices get neighbouring CPUs, of those on which this process may run; more devices than CPUs share them. */
static void pin_device(engine_config_t *config, int cpus[CPUS_MAX])
{
    int allowed[CPUS_MAX];
    uint32_t count = cpus_allowed(allowed, CPUS_MAX);
    uint32_t threads = (config->threads ? config->threads : 1) * (config->streams ? config->streams : 1);

    config->cpus = cpus;
    config->cpu_count = count == 0 ? 0 : threads < CPUS_MAX ? threads : CPUS_MAX;
    for (uint32_t i = 0; i < config->cpu_count; i++)
        cpus[i] = allowed[(config->index * threads + i) % count];
}

/* What there is none of, and why, only the engine knows: it says so when one is to be opened. */
static status_t no_device(const engine_ops_t *ops, const char *engine, const engine_config_t *config,
                          err_t *err)
{
    engine_config_t first = *config;
    engine_t *opened;

    first.index = 0;
    if (ops->open(&first, &opened, err) != STATUS_OK)
        return err_prefix(err, "engine %s", engine);
    ops->close(opened); /* it has come this moment */
    return err_set(err, STATUS_UNAVAILABLE, "engine %s: its device was not there", engine);
}

status_t model_devices_open(model_devices_t *devices, const char *engine, uint32_t count,
                            const engine_config_t *config, bool pin, metrics_t *metrics, err_t *err)
{
    *devices = (model_devices_t){0};
    if (engine_find(engine, &devices->ops, err) != STATUS_OK)
        return err->code;
    uint32_t here = devices->ops->device_count();
    if (here == 0)
        return no_device(devices->ops, engine, config, err);
    if (count == 0)
        count = here == UINT32_MAX ? 1 : here;
    if (count > here || count > MODEL_DEVICES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "engine %s: %u devices asked for, %u here", engine,
                       count, here < MODEL_DEVICES_MAX ? here : MODEL_DEVICES_MAX);
    devices->list = calloc(count, sizeof(*devices->list));
    if (!devices->list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u devices", count);
    name_devices(devices, engine, config);
    if (devices->ops->choice)
        tell_missing();
    devices->streams = config->streams ? config->streams : 1;
    devices->memory_bytes = device_memory_bytes(devices, config, count);
    for (; devices->count < count; devices->count++) {
        model_device_t *device = &devices->list[devices->count];
        engine_config_t own = *config;
        int cpus[CPUS_MAX];
        own.index = devices->count;
        if (pin)
            pin_device(&own, cpus);
        snprintf(device->name, sizeof(device->name), "%s%u", devices->kind, devices->count);
        device->busy = metrics_series(metrics, METRIC_WORKER_BUSY_SECONDS, device->name);
        if (devices->ops->open(&own, &device->engine, err) != STATUS_OK) {
            err_prefix(err, "device %s", device->name);
            model_devices_close(devices);
            return err->code;
        }
        if (devices->count == 0)
            describe_device(devices, device->engine);
    }
    return STATUS_OK;
}

void model_borders_free(const model_devices_t *devices, engine_border_t **borders, uint32_t count)
{
    for (uint32_t i = 0; borders && i < count; i++) {
        if (borders[i])
            devices->ops->border_destroy(borders[i]);
    }
    free(borders);
}

void model_devices_close(model_devices_t *devices)
{
    for (uint32_t i = 0; i < devices->count; i++)
        devices->ops->close(devices->list[i].engine);
    free(devices->list);
    devices->list = NULL;
    devices->count = 0;
}
