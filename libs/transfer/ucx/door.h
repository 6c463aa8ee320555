/* The owner's side (carrier.h): its arena and directory are registered once, and each seat has a window of its own. */
#ifndef TRANSFER_UCX_DOOR_H
#define TRANSFER_UCX_DOOR_H

#include "transfer/carrier.h"

status_t rdma_door_open(const carrier_door_options_t *options, carrier_door_t **door, err_t *err);
void rdma_door_close(carrier_door_t *door);
status_t rdma_seat_take(carrier_door_t *door, const carrier_blob_t *hello, carrier_blob_t *answer,
                        carrier_seat_t **seat, err_t *err);
void rdma_seat_give_up(carrier_seat_t *seat);
const uint8_t *rdma_seat_window(const carrier_seat_t *seat);

#endif
