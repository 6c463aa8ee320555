#include "exporter/data.h"

void exporter_data_init(exporter_data_t *data, metrics_t *metrics)
{
    *data = (exporter_data_t){
        .items = metrics_series(metrics, METRIC_DATA_ITEMS, "ok"),
        .item_errors = metrics_series(metrics, METRIC_DATA_ITEMS, "error"),
        .item_bytes = metrics_series(metrics, METRIC_DATA_ITEM_BYTES),
        .results = metrics_series(metrics, METRIC_DATA_RESULTS),
        .result_bytes = metrics_series(metrics, METRIC_DATA_RESULT_BYTES),
        .protocol_errors = metrics_series(metrics, METRIC_DATA_PROTOCOL_ERRORS),
        .connects = metrics_series(metrics, METRIC_DATA_CONNECTS),
        .connections = metrics_series(metrics, METRIC_DATA_CONNECTIONS),
    };
}

void exporter_data_collect(exporter_data_t *data, const transfer_stats_t *stats)
{
    const transfer_stats_t *told = &data->told;
    metrics_add(data->items, stats->items - told->items);
    metrics_add(data->item_errors, stats->item_errors - told->item_errors);
    metrics_add(data->item_bytes, stats->item_bytes - told->item_bytes);
    metrics_add(data->results, stats->results - told->results);
    metrics_add(data->result_bytes, stats->result_bytes - told->result_bytes);
    metrics_add(data->protocol_errors, stats->protocol_errors - told->protocol_errors);
    metrics_add(data->connects, stats->connects - told->connects);
    metrics_set(data->connections, stats->connections);
    data->told = *stats;
}
