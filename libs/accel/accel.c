#include "accel/accel.h"

#include <math.h>
#include <stdlib.h>

/* Work left below this is rounding: an operator ends with the nanosecond. */
#define ACCEL_EPSILON_NS 1e-3 /* what accel_next_ns takes off is less, so that time goes on */

typedef struct {
    double left_ns;
    double occupancy;
    uint64_t tag;
    bool last; /* of its launch */
    bool exit;
    uint32_t index; /* within its launch */
} accel_slot_t;

typedef struct {
    accel_slot_t *slots;
    uint32_t head, len;
} accel_stream_t;

struct accel {
    uint32_t stream_count, ops_max;
    int64_t at_ns; /* now, to the nanosecond below: a double of hours would lose what an operator has left */
    double fraction_ns; /* and what is above it */
    double busy_ns;
    accel_stream_t *streams;
    uint64_t *ended; /* a ring of as many launches as there are operators */
    uint32_t ended_head, ended_len, ended_max;
};

accel_t *accel_create(uint32_t streams, uint32_t ops_max, err_t *err)
{
    accel_t *device = streams && ops_max ? calloc(1, sizeof(*device)) : NULL;
    accel_stream_t *list = device ? calloc(streams, sizeof(*list)) : NULL;
    uint64_t *ended = list ? calloc((size_t)streams * ops_max, sizeof(*ended)) : NULL;
    accel_slot_t *slots = ended ? calloc((size_t)streams * ops_max, sizeof(*slots)) : NULL;
    if (!slots) {
        free(ended);
        free(list);
        free(device);
        err_set(err, STATUS_NO_MEMORY, "no memory for a device of %u streams of %u operators", streams,
                ops_max);
        return NULL;
    }
    *device = (accel_t){.stream_count = streams, .ops_max = ops_max, .streams = list, .ended = ended};
    device->ended_max = streams * ops_max;
    for (uint32_t i = 0; i < streams; i++)
        list[i].slots = slots + (size_t)i * ops_max;
    return device;
}

void accel_destroy(accel_t *device)
{
    if (!device)
        return;
    free(device->streams[0].slots);
    free(device->streams);
    free(device->ended);
    free(device);
}

static accel_slot_t *slot_at(const accel_t *device, const accel_stream_t *stream, uint32_t i)
{
    return &stream->slots[(stream->head + i) % device->ops_max];
}

static double slowdown(const accel_t *device)
{
    double sum = 0;
    for (uint32_t i = 0; i < device->stream_count; i++)
        if (device->streams[i].len)
            sum += slot_at(device, &device->streams[i], 0)->occupancy;
    return sum > 1 ? sum : 1;
}

/* Takes the operators off that are through; several of no duration may end at once. */
static void retire(accel_t *device)
{
    for (uint32_t i = 0; i < device->stream_count; i++) {
        accel_stream_t *stream = &device->streams[i];
        while (stream->len && slot_at(device, stream, 0)->left_ns <= ACCEL_EPSILON_NS) {
            const accel_slot_t *slot = slot_at(device, stream, 0);
            if (slot->last) {
                device->ended[(device->ended_head + device->ended_len) % device->ended_max] = slot->tag;
                device->ended_len++;
            }
            stream->head = (stream->head + 1) % device->ops_max;
            stream->len--;
        }
    }
}

static void move_on(accel_t *device, double step_ns)
{
    double whole = floor(device->fraction_ns + step_ns);
    device->at_ns += (int64_t)whole;
    device->fraction_ns += step_ns - whole;
}

void accel_advance(accel_t *device, int64_t now_ns)
{
    retire(device);
    while (device->at_ns < now_ns) {
        double slow = slowdown(device), all = (double)(now_ns - device->at_ns) - device->fraction_ns;
        double step = all;
        for (uint32_t i = 0; i < device->stream_count; i++)
            if (device->streams[i].len)
                step = fmin(step, slot_at(device, &device->streams[i], 0)->left_ns * slow);
        for (uint32_t i = 0; i < device->stream_count; i++)
            if (device->streams[i].len) {
                accel_slot_t *slot = slot_at(device, &device->streams[i], 0);
                slot->left_ns -= step / slow;
                device->busy_ns += step / slow * slot->occupancy;
            }
        if (step < all) {
            move_on(device, step);
        } else {
            device->at_ns = now_ns;
            device->fraction_ns = 0;
        }
        retire(device);
    }
}

status_t accel_launch(accel_t *device, uint32_t stream, uint64_t tag, const accel_op_t *ops, uint32_t count,
                      err_t *err)
{
    if (stream >= device->stream_count || count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "no stream %u, or nothing to launch", stream);
    accel_stream_t *into = &device->streams[stream];
    if (device->ops_max - into->len < count)
        return err_set(err, STATUS_UNAVAILABLE, "stream %u holds %u operators", stream, into->len);
    for (uint32_t i = 0; i < count; i++)
        *slot_at(device, into, into->len++) = (accel_slot_t){.left_ns = (double)ops[i].ns,
                                                             .occupancy = ops[i].occupancy,
                                                             .tag = tag,
                                                             .last = i + 1 == count,
                                                             .exit = ops[i].exit,
                                                             .index = i};
    return STATUS_OK;
}

bool accel_stop(accel_t *device, uint32_t stream, uint64_t tag, uint32_t *ops)
{
    accel_stream_t *at = &device->streams[stream];
    uint32_t first = 0, end = 0;
    while (first < at->len && slot_at(device, at, first)->tag != tag)
        first++;
    for (end = first; end < at->len && slot_at(device, at, end)->tag == tag; end++)
        if (slot_at(device, at, end)->exit)
            break;
    if (end == at->len || slot_at(device, at, end)->tag != tag || slot_at(device, at, end)->last)
        return false;
    slot_at(device, at, end)->last = true;
    *ops = slot_at(device, at, end)->index + 1;
    uint32_t to = end + 1;
    for (uint32_t from = end + 1; from < at->len; from++)
        if (slot_at(device, at, from)->tag != tag)
            *slot_at(device, at, to++) = *slot_at(device, at, from);
    at->len = to;
    return true;
}

int64_t accel_now_ns(const accel_t *device)
{
    return device->at_ns;
}

int64_t accel_next_ns(const accel_t *device)
{
    if (device->ended_len)
        return device->at_ns + (device->fraction_ns > 0);
    double slow = slowdown(device), next = INFINITY;
    for (uint32_t i = 0; i < device->stream_count; i++)
        if (device->streams[i].len)
            next = fmin(next, slot_at(device, &device->streams[i], 0)->left_ns * slow);
    return isinf(next) ? ACCEL_NEVER
                       : device->at_ns + (int64_t)ceil(device->fraction_ns + next - ACCEL_EPSILON_NS / 2);
}

bool accel_take_ended(accel_t *device, uint64_t *tag)
{
    if (device->ended_len == 0)
        return false;
    *tag = device->ended[device->ended_head];
    device->ended_head = (device->ended_head + 1) % device->ended_max;
    device->ended_len--;
    return true;
}

double accel_busy_ns(const accel_t *device)
{
    return device->busy_ns;
}
