/*
 * A link of a pool to one owner (carrier.h).
 *
 * Each has a worker of UCX's own, so that to close it ends all that it has under way at once: nothing is written for a worker
 * that is gone. Links are made with UCX's handling of errors where its transports have that (RDMA, tcp); its shared memory has none,
 * and there the end of the TCP connection is what ends a link.
 */
#ifndef TRANSFER_UCX_LINK_H
#define TRANSFER_UCX_LINK_H

#include "transfer/carrier.h"

status_t rdma_link_open(carrier_client_t *client, const carrier_blob_t *answer, const carrier_watch_t *watch,
                        carrier_link_t **link, err_t *err);
void rdma_link_close(carrier_link_t *link);
bool rdma_link_reaches(const carrier_link_t *link, const void *bytes, size_t len_bytes);

#endif
