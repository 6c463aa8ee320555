#include "exporter/data.h"

void exporter_data_init(exporter_data_t *data, metrics_t *metrics)
{
    *data = (exporter_data_t){
        .registered_bytes = metrics_series(metrics, METRIC_DATA_BUFFER_BYTES, "yes"),
        .refused_bytes = metrics_series(metrics, METRIC_DATA_BUFFER_BYTES, "no"),
        .item_errors = metrics_series(metrics, METRIC_DATA_ITEMS, "error", ""),
        .protocol_errors = metrics_series(metrics, METRIC_DATA_PROTOCOL_ERRORS),
        .connects = metrics_series(metrics, METRIC_DATA_CONNECTS),
        .fallbacks = metrics_series(metrics, METRIC_DATA_FALLBACKS),
        .asked_idle = metrics_series(metrics, METRIC_DATA_TOLD_TO_LEAVE, "idle"),
        .asked_crowded = metrics_series(metrics, METRIC_DATA_TOLD_TO_LEAVE, "crowded"),
    };
    for (uint32_t i = 0; i < TRANSFER_REFUSALS; i++)
        data->refused[i] =
            metrics_series(metrics, METRIC_DATA_REFUSED, transfer_refusal_name((transfer_refusal_t)i));
    for (uint32_t way = 0; way < TRANSFER_WAYS; way++) {
        const char *name = transfer_way_name((transfer_way_t)way);
        data->by[way].items = metrics_series(metrics, METRIC_DATA_ITEMS, "ok", name);
        data->by[way].item_bytes = metrics_series(metrics, METRIC_DATA_ITEM_BYTES, name);
        data->by[way].results = metrics_series(metrics, METRIC_DATA_RESULTS, name);
        data->by[way].result_bytes = metrics_series(metrics, METRIC_DATA_RESULT_BYTES, name);
        data->by[way].connections = metrics_series(metrics, METRIC_DATA_CONNECTIONS, name);
    }
}

void exporter_data_collect(exporter_data_t *data, const transfer_stats_t *stats)
{
    const transfer_stats_t *told = &data->told;

    for (uint32_t way = 0; way < TRANSFER_WAYS; way++) {
        const transfer_traffic_t *now = &stats->by[way], *then = &told->by[way];
        metrics_add(data->by[way].items, now->items - then->items);
        metrics_add(data->by[way].item_bytes, now->item_bytes - then->item_bytes);
        metrics_add(data->by[way].results, now->results - then->results);
        metrics_add(data->by[way].result_bytes, now->result_bytes - then->result_bytes);
        metrics_set(data->by[way].connections, now->connections);
    }
    metrics_set(data->registered_bytes, (double)stats->registered_bytes);
    metrics_set(data->refused_bytes, (double)stats->refused_bytes);
    for (uint32_t i = 0; i < TRANSFER_REFUSALS; i++)
        metrics_add(data->refused[i], stats->refused[i] - told->refused[i]);
    metrics_add(data->item_errors, stats->item_errors - told->item_errors);
    metrics_add(data->protocol_errors, stats->protocol_errors - told->protocol_errors);
    metrics_add(data->connects, stats->connects - told->connects);
    metrics_add(data->fallbacks, stats->fallbacks - told->fallbacks);
    metrics_add(data->asked_idle, stats->asked_idle - told->asked_idle);
    metrics_add(data->asked_crowded, stats->asked_crowded - told->asked_crowded);
    data->told = *stats;
}
