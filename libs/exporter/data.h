/*
 * What the data plane counts, as metrics of the program that has an owner or a pool. Loop thread only.
 */
#ifndef EXPORTER_DATA_H
#define EXPORTER_DATA_H

#include "metrics/metrics.h"
#include "transfer/transfer.h"

typedef struct {
    struct {
        metric_t *items, *item_bytes, *results, *result_bytes, *connections;
    } by[TRANSFER_WAYS];
    metric_t *registered_bytes, *refused_bytes;
    metric_t *refused[TRANSFER_REFUSALS];
    metric_t *item_errors, *protocol_errors, *connects, *fallbacks, *asked_idle, *asked_crowded;
    transfer_stats_t told; /* what the series have had */
} exporter_data_t;

void exporter_data_init(exporter_data_t *data, metrics_t *metrics);

/* Before each exposition. stats: of transfer_owner_stats or transfer_pool_stats, of one owner or pool. */
void exporter_data_collect(exporter_data_t *data, const transfer_stats_t *stats);

#endif
