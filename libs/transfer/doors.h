/* The carriers that an owner offers: which are open, and the directory that their readers look into. */
#ifndef TRANSFER_DOORS_H
#define TRANSFER_DOORS_H

#include "transfer/carrier.h"

typedef struct {
    const carrier_ops_t *ops; /* NULL: there is none */
    carrier_door_t *door;
} door_t;

typedef struct {
    door_t open[TRANSFER_WAYS];
    carrier_memory_t memory;      /* of the directory */
    directory_entry_t *directory; /* NULL: nothing is laid open */
} doors_t;

/* One for a peer. */
typedef struct {
    const carrier_ops_t *ops; /* NULL: none was taken */
    carrier_seat_t *seat;
} seat_t;

/* Opens what `choice` allows and this host has, for this memory and a directory of so many entries, of an
 * owner that listens on this address. What
 * cannot be opened is logged and left out. */
void doors_open(doors_t *doors, struct uv_loop_s *loop, transfer_choice_t choice, bool spin,
                const char *address, const carrier_memory_t *arena, uint32_t entries);
void doors_close(doors_t *doors); /* all seats were given up */

/* The bits for HELLO. */
uint64_t doors_bits(const doors_t *doors);

/* A peer attaches to the carrier of this bit. */
status_t seat_take(doors_t *doors, uint64_t bit, const carrier_blob_t *hello, carrier_blob_t *answer,
                   seat_t *seat, err_t *err);
void seat_give_up(seat_t *seat);

#endif
