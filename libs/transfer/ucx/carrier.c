/*
 * RDMA by UCX: the owner's arena and directory are registered once, each seat has a window of its own; a link gets inputs straight into
 * the caller's buffers, which are registered once, too, and puts outputs into its window.
 *
 * Where there is no hardware, reads and writes go by messages of our own (ask.h) and not by UCX's emulation: that writes to
 * wherever a message says, and of UCX 1.13 it ends the owner's process when a reader is killed at a bad moment. `auto` takes hardware only.
 */
#include "transfer/carrier.h"

#include "transfer/ucx/client.h"
#include "transfer/ucx/door.h"
#include "transfer/ucx/jobs.h"
#include "transfer/ucx/link.h"
#include "transfer/ucx/memory.h"

const carrier_ops_t carrier_rdma = {
    .way = TRANSFER_BY_RDMA,
    .bit = 2,
    .name = "rdma",
    .memory_make = rdma_memory_make,
    .memory_free = rdma_memory_free,
    .door_open = rdma_door_open,
    .door_close = rdma_door_close,
    .seat_take = rdma_seat_take,
    .seat_give_up = rdma_seat_give_up,
    .seat_window = rdma_seat_window,
    .client_open = rdma_client_open,
    .client_close = rdma_client_close,
    .client_hello = rdma_client_hello,
    .link_open = rdma_link_open,
    .link_close = rdma_link_close,
    .get = rdma_get,
    .put = rdma_put,
    .cancel = rdma_cancel,
    .buffer_add = rdma_buffer_add,
    .buffer_drop = rdma_buffer_drop,
    .buffer_count = rdma_buffer_count,
    .reach = rdma_reach,
    .link_reaches = rdma_link_reaches,
    .registered = ucx_registered,
};
