#include "transfer/doors.h"

#include "base/log.h"
#include "transfer/block.h"
#include "transfer/carriers.h"

#include <string.h>

static bool open_directory(doors_t *doors, transfer_choice_t choice, const char *address,
                           const carrier_memory_t *arena, uint32_t entries)
{
    const size_t bytes = entries * sizeof(directory_entry_t);
    err_t err;

    if (block_memory_make(choice, address, arena, bytes, &doors->memory, &err) != STATUS_OK) {
        log_warn("data_carriers_closed", LOG_STR("reason", err.text));
        return false;
    }
    doors->directory = doors->memory.base;
    if (doors->memory.made)
        memset(doors->directory, 0, bytes);
    doors->memory.len_bytes = bytes;
    return true;
}

void doors_open(doors_t *doors, struct uv_loop_s *loop, transfer_choice_t choice, bool spin,
                const char *address, const carrier_memory_t *arena, uint32_t entries)
{
    const carrier_ops_t *carriers[TRANSFER_WAYS];

    *doors = (doors_t){0};
    carriers_of(choice, carriers);
    if (!carriers[0] || !open_directory(doors, choice, address, arena, entries))
        return;
    carrier_door_options_t options = {
        .loop = loop, .address = address, .arena = *arena, .directory = doors->memory, .spin = spin};
    for (uint32_t i = 0; i < TRANSFER_WAYS && carriers[i]; i++) {
        door_t *door = &doors->open[i];
        err_t err;
        if (carriers[i]->door_open(&options, &door->door, &err) == STATUS_OK)
            door->ops = carriers[i];
        else
            log_info_limited("data_carrier_closed", LOG_STR("carrier", carriers[i]->name),
                             LOG_STR("reason", err.text));
    }
}

void doors_close(doors_t *doors)
{
    for (uint32_t i = 0; i < TRANSFER_WAYS; i++) {
        if (doors->open[i].ops)
            doors->open[i].ops->door_close(doors->open[i].door);
        doors->open[i].ops = NULL;
    }
    if (doors->directory)
        block_memory_free(&doors->memory);
    doors->directory = NULL;
}

uint64_t doors_bits(const doors_t *doors)
{
    uint64_t bits = 0;

    for (uint32_t i = 0; i < TRANSFER_WAYS; i++)
        bits |= doors->open[i].ops ? doors->open[i].ops->bit : 0;
    return bits;
}

status_t seat_take(doors_t *doors, uint64_t bit, const carrier_blob_t *hello, carrier_blob_t *answer,
                   seat_t *seat, err_t *err)
{
    for (uint32_t i = 0; i < TRANSFER_WAYS; i++) {
        door_t *door = &doors->open[i];
        if (!door->ops || door->ops->bit != bit)
            continue;
        status_t status = door->ops->seat_take(door->door, hello, answer, &seat->seat, err);
        if (status == STATUS_OK)
            seat->ops = door->ops;
        return status;
    }
    return err_set(err, STATUS_UNSUPPORTED, "this carrier is not open here");
}

void seat_give_up(seat_t *seat)
{
    if (seat->ops)
        seat->ops->seat_give_up(seat->seat);
    *seat = (seat_t){0};
}
