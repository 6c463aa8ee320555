#include "sim/device.h"

#include <math.h>
#include <stdlib.h>

/* Work left below this is rounding: an operator ends with the nanosecond. */
#define DEVICE_EPSILON_NS 1e-3 /* what device_next_ns takes off is less, so that time goes on */

typedef struct {
    double left_ns;
    double occupancy;
    uint64_t tag;
    bool last;      /* of its launch */
    uint32_t index; /* within its launch */
} device_slot_t;

typedef struct {
    device_slot_t *slots;
    uint32_t head, len;
} device_stream_t;

struct device {
    uint32_t stream_count, ops_max;
    double at_ns, busy_ns;
    device_stream_t *streams;
    uint64_t *ended; /* a ring of as many launches as there are operators */
    uint32_t ended_head, ended_len, ended_max;
};

device_t *device_create(uint32_t streams, uint32_t ops_max, err_t *err)
{
    device_t *device = streams && ops_max ? calloc(1, sizeof(*device)) : NULL;
    device_stream_t *list = device ? calloc(streams, sizeof(*list)) : NULL;
    uint64_t *ended = list ? calloc((size_t)streams * ops_max, sizeof(*ended)) : NULL;
    device_slot_t *slots = ended ? calloc((size_t)streams * ops_max, sizeof(*slots)) : NULL;
    if (!slots) {
        free(ended);
        free(list);
        free(device);
        err_set(err, STATUS_NO_MEMORY, "no memory for a device of %u streams of %u operators", streams,
                ops_max);
        return NULL;
    }
    *device = (device_t){.stream_count = streams, .ops_max = ops_max, .streams = list, .ended = ended};
    device->ended_max = streams * ops_max;
    for (uint32_t i = 0; i < streams; i++)
        list[i].slots = slots + (size_t)i * ops_max;
    return device;
}

void device_destroy(device_t *device)
{
    if (!device)
        return;
    free(device->streams[0].slots);
    free(device->streams);
    free(device->ended);
    free(device);
}

static device_slot_t *slot_at(const device_t *device, const device_stream_t *stream, uint32_t i)
{
    return &stream->slots[(stream->head + i) % device->ops_max];
}

static double slowdown(const device_t *device)
{
    double sum = 0;
    for (uint32_t i = 0; i < device->stream_count; i++)
        if (device->streams[i].len)
            sum += slot_at(device, &device->streams[i], 0)->occupancy;
    return sum > 1 ? sum : 1;
}

/* Takes the operators off that are through; several of no duration may end at once. */
static void retire(device_t *device)
{
    for (uint32_t i = 0; i < device->stream_count; i++) {
        device_stream_t *stream = &device->streams[i];
        while (stream->len && slot_at(device, stream, 0)->left_ns <= DEVICE_EPSILON_NS) {
            const device_slot_t *slot = slot_at(device, stream, 0);
            if (slot->last) {
                device->ended[(device->ended_head + device->ended_len) % device->ended_max] = slot->tag;
                device->ended_len++;
            }
            stream->head = (stream->head + 1) % device->ops_max;
            stream->len--;
        }
    }
}

void device_advance(device_t *device, int64_t now_ns)
{
    retire(device);
    while (device->at_ns < (double)now_ns) {
        double slow = slowdown(device), step = (double)now_ns - device->at_ns;
        bool any = false;
        for (uint32_t i = 0; i < device->stream_count; i++)
            if (device->streams[i].len) {
                step = fmin(step, slot_at(device, &device->streams[i], 0)->left_ns * slow);
                any = true;
            }
        for (uint32_t i = 0; i < device->stream_count && any; i++)
            if (device->streams[i].len) {
                device_slot_t *slot = slot_at(device, &device->streams[i], 0);
                slot->left_ns -= step / slow;
                device->busy_ns += step / slow * slot->occupancy;
            }
        device->at_ns += step;
        retire(device);
    }
}

status_t device_launch(device_t *device, uint32_t stream, uint64_t tag, const device_op_t *ops,
                       uint32_t count, err_t *err)
{
    if (stream >= device->stream_count || count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "no stream %u, or nothing to launch", stream);
    device_stream_t *into = &device->streams[stream];
    if (device->ops_max - into->len < count)
        return err_set(err, STATUS_UNAVAILABLE, "stream %u holds %u operators", stream, into->len);
    for (uint32_t i = 0; i < count; i++)
        *slot_at(device, into, into->len++) = (device_slot_t){.left_ns = (double)ops[i].ns,
                                                              .occupancy = ops[i].occupancy,
                                                              .tag = tag,
                                                              .last = i + 1 == count,
                                                              .index = i};
    return STATUS_OK;
}

bool device_stop(device_t *device, uint32_t stream, uint64_t tag, uint32_t stride)
{
    device_stream_t *at = &device->streams[stream];
    uint32_t first = 0, end = 0;
    while (first < at->len && slot_at(device, at, first)->tag != tag)
        first++;
    for (end = first; end < at->len && slot_at(device, at, end)->tag == tag; end++)
        if ((slot_at(device, at, end)->index + 1) % stride == 0)
            break;
    if (first == at->len || end == at->len || slot_at(device, at, end)->tag != tag ||
        slot_at(device, at, end)->last)
        return false;
    slot_at(device, at, end)->last = true;
    uint32_t to = end + 1, from = end + 1;
    for (; from < at->len; from++)
        if (slot_at(device, at, from)->tag != tag)
            *slot_at(device, at, to++) = *slot_at(device, at, from);
    at->len = to;
    return true;
}

int64_t device_next_ns(const device_t *device)
{
    if (device->ended_len)
        return (int64_t)ceil(device->at_ns);
    double slow = slowdown(device), next = INFINITY;
    for (uint32_t i = 0; i < device->stream_count; i++)
        if (device->streams[i].len)
            next = fmin(next, slot_at(device, &device->streams[i], 0)->left_ns * slow);
    return isinf(next) ? DEVICE_NEVER : (int64_t)ceil(device->at_ns + next - DEVICE_EPSILON_NS / 2);
}

bool device_take_ended(device_t *device, uint64_t *tag)
{
    if (device->ended_len == 0)
        return false;
    *tag = device->ended[device->ended_head];
    device->ended_head = (device->ended_head + 1) % device->ended_max;
    device->ended_len--;
    return true;
}

double device_busy_ns(const device_t *device)
{
    return device->busy_ns;
}
