#include "worker/batch/run.h"

#include "worker/batch/run_execute.h"
#include "worker/batch/run_private.h"

#include <stdlib.h>

uint32_t run_under_way(const run_t *run)
{
    return run->under_way;
}

static status_t devices_init(run_t *run, err_t *err)
{
    uint32_t count = run->options.devices->count;

    run->devices = calloc(count, sizeof(*run->devices));
    if (!run->devices)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t d = 0; d < count; d++) {
        TAILQ_INIT(&run->devices[d].queue);
        turns_init(&run->devices[d].turns);
    }
    return STATUS_OK;
}

status_t run_create(const run_options_t *options, run_t **out, err_t *err)
{
    run_t *run = calloc(1, sizeof(*run));

    if (!run)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    run->options = *options;
    TAILQ_INIT(&run->free);
    run->late_start = metrics_series(options->metrics, METRIC_WORKER_LATE_START_SECONDS);
    run->silent = metrics_series(options->metrics, METRIC_WORKER_GATEWAY_BREAKERS, "open");
    run->heard_again = metrics_series(options->metrics, METRIC_WORKER_GATEWAY_BREAKERS, "closed");
    run->revoked_waiting = metrics_series(options->metrics, METRIC_WORKER_REVOCATIONS, "waiting");
    run->revoked_stopped = metrics_series(options->metrics, METRIC_WORKER_REVOCATIONS, "stopped");
    run->revoked_late = metrics_series(options->metrics, METRIC_WORKER_REVOCATIONS, "late");
    status_t status = devices_init(run, err);
    if (status != STATUS_OK)
        goto free_run;
    status = launcher_init(&run->launcher, options->loop, options->devices, err);
    if (status != STATUS_OK)
        goto free_devices;
    run_execute_init(run);
    *out = run;
    return STATUS_OK;

free_devices:
    free(run->devices);
free_run:
    free(run);
    return status;
}

void run_destroy(run_t *run)
{
    const model_devices_t *devices;
    batch_t *batch;

    if (!run)
        return;
    run->stopping = true;
    devices = run->options.devices;
    run_revoke_all(run);
    launcher_close(&run->launcher);
    for (uint32_t d = 0; d < devices->count; d++)
        devices->ops->flush(devices->list[d].engine);
    launcher_dispose(&run->launcher);
    peers_settle(run->options.peers);
    peers_disconnect(run->options.peers);
    while ((batch = TAILQ_FIRST(&run->free))) {
        TAILQ_REMOVE(&run->free, batch, link);
        batch_free_memory(batch);
    }
    run_execute_dispose(run);
    free(run->devices);
    free(run);
}
