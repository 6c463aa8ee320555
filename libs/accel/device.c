#include "accel/device.h"

#include <stdlib.h>

/* Tags of the accelerator: which flight, which part of it, and whether it is only what reads the inputs. */
enum { FLIGHTS_MAX = 256, PART_BITS = 4, READ = 1 << (PART_BITS - 1) };
_Static_assert((int)EXEC_PARTS_MAX <= (int)READ, "a part's number fits");

/* A launch that has not ended. */
typedef struct {
    uint64_t launch;
    uint32_t stream, left; /* parts that have not ended; 0: the place is free */
    bool stopped;
} flight_t;

struct accel_device {
    accel_device_config_t config;
    accel_t *accel;
    flight_t flights[FLIGHTS_MAX];
    accel_op_t ops[];
};

static status_t device_wait(void *ctx, int64_t until_ns, int64_t *now_ns, err_t *err)
{
    accel_device_t *device = ctx;
    int64_t next_ns = accel_next_ns(device->accel);
    next_ns = until_ns < next_ns ? until_ns : next_ns;
    if (next_ns == ACCEL_NEVER)
        return err_set(err, STATUS_INTERNAL, "nothing moves on the device, and nothing comes");
    accel_advance(device->accel, next_ns);
    *now_ns = next_ns;
    return STATUS_OK;
}

static bool device_take_end(void *ctx, driver_end_t *end)
{
    accel_device_t *device = ctx;
    uint64_t tag;
    while (accel_take_ended(device->accel, &tag)) {
        flight_t *flight = &device->flights[tag >> PART_BITS];
        end->launch = flight->launch;
        end->kind = tag & READ ? DRIVER_INPUTS_READ : flight->stopped ? DRIVER_STOPPED : DRIVER_FINISHED;
        if (tag & READ)
            return true;
        if (device->config.part_ended)
            device->config.part_ended(device->config.ctx, flight->launch, tag & (READ - 1), flight->stopped);
        if (--flight->left == 0)
            return true;
    }
    return false;
}

static flight_t *free_flight(accel_device_t *device)
{
    for (flight_t *flight = device->flights; flight < device->flights + FLIGHTS_MAX; flight++)
        if (flight->left == 0)
            return flight;
    return NULL;
}

static status_t launch_part(accel_device_t *device, const exec_part_t *part, uint64_t tag, err_t *err)
{
    uint32_t count = device->config.operators(device->config.ctx, part, device->ops), first = 0;
    status_t status = STATUS_OK;
    if (device->config.readers > 0 && count > device->config.readers) {
        first = device->config.readers;
        status = accel_launch(device->accel, part->stream, tag | READ, device->ops, first, err);
    }
    return status == STATUS_OK
               ? accel_launch(device->accel, part->stream, tag, device->ops + first, count - first, err)
               : status;
}

static status_t device_launch(void *ctx, const exec_action_t *action, err_t *err)
{
    accel_device_t *device = ctx;
    flight_t *flight = free_flight(device);
    if (!flight)
        return err_set(err, STATUS_UNAVAILABLE, "more than %d launches on a device", FLIGHTS_MAX);
    *flight = (flight_t){.launch = action->launch.launch,
                         .stream = action->launch.parts[0].stream,
                         .left = action->launch.count};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < action->launch.count && status == STATUS_OK; i++)
        status = launch_part(device, &action->launch.parts[i],
                             (uint64_t)(flight - device->flights) << PART_BITS | i, err);
    return status;
}

/* Of launches of one part: only those are stopped. */
static void device_stop(void *ctx, uint64_t launch)
{
    accel_device_t *device = ctx;
    uint32_t ran;
    for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
        flight_t *flight = &device->flights[i];
        if (flight->left > 0 && flight->launch == launch)
            flight->stopped = accel_stop(device->accel, flight->stream, (uint64_t)i << PART_BITS, &ran);
    }
}

const driver_device_ops_t accel_device_ops = {
    .wait = device_wait, .take_end = device_take_end, .launch = device_launch, .stop = device_stop};

accel_device_t *accel_device_create(const accel_device_config_t *config, err_t *err)
{
    accel_device_t *device = calloc(1, sizeof(*device) + config->ops_max * sizeof(device->ops[0]));
    if (!device) {
        err_set(err, STATUS_NO_MEMORY, "no memory for a device");
        return NULL;
    }
    device->config = *config;
    device->accel = accel_create(config->streams, config->ops_max, err);
    if (!device->accel) {
        free(device);
        return NULL;
    }
    return device;
}

void accel_device_destroy(accel_device_t *device)
{
    if (!device)
        return;
    accel_destroy(device->accel);
    free(device);
}

int64_t accel_device_next_ns(const accel_device_t *device)
{
    return accel_next_ns(device->accel);
}

double accel_device_busy_ns(const accel_device_t *device)
{
    return accel_busy_ns(device->accel);
}
