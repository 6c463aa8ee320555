#include "transfer/doors.h"

#include "base/log.h"
#include "base/shared_memory.h"
#ifdef FERMATA_RDMA
#include "transfer/ucx.h"
#endif

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void carriers_of(transfer_choice_t choice, const carrier_ops_t *carriers[TRANSFER_WAYS])
{
    uint32_t count = 0;

    memset(carriers, 0, TRANSFER_WAYS * sizeof(*carriers));
    if (choice == TRANSFER_CHOOSE_AUTO)
        carriers[count++] = &carrier_shm;
#ifdef FERMATA_RDMA
    if (choice == TRANSFER_CHOOSE_RDMA || (choice == TRANSFER_CHOOSE_AUTO && ucx_has_hardware()))
        carriers[count++] = &carrier_rdma;
#endif
}

static bool open_directory(doors_t *doors, uint32_t entries)
{
    void *base;
    err_t err;

    doors->directory_bytes = entries * sizeof(directory_entry_t);
    if (shared_memory_create("fermata-directory", doors->directory_bytes, &base, &doors->directory_fd,
                             &err) != STATUS_OK) {
        log_warn("data_carriers_closed", LOG_STR("reason", err.text));
        return false;
    }
    doors->directory = base;
    return true;
}

void doors_open(doors_t *doors, struct uv_loop_s *loop, transfer_choice_t choice, bool spin,
                const carrier_memory_t *arena, uint32_t entries)
{
    const carrier_ops_t *carriers[TRANSFER_WAYS];

    *doors = (doors_t){.directory_fd = -1};
    carriers_of(choice, carriers);
    if (!carriers[0] || !open_directory(doors, entries))
        return;
    carrier_door_options_t options = {.loop = loop, .arena = *arena, .spin = spin};
    options.directory = (carrier_memory_t){
        .base = doors->directory, .len_bytes = doors->directory_bytes, .fd = doors->directory_fd};
    for (uint32_t i = 0; i < TRANSFER_WAYS && carriers[i]; i++) {
        door_t *door = &doors->open[i];
        err_t err;
        if (carriers[i]->door_open(&options, &door->door, &err) == STATUS_OK)
            door->ops = carriers[i];
        else
            log_info("data_carrier_closed", LOG_STR("carrier", carriers[i]->name),
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
    if (doors->directory) {
        munmap(doors->directory, doors->directory_bytes);
        close(doors->directory_fd);
    }
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
