/*
 * Every metric of every program, once: X(ID, name, kind, unit, labels, help).
 *
 * kind: COUNTER GAUGE HISTOGRAM. labels: comma-separated names, "" for none; a series gives its values in
 * this order. unit says what the program records and what is shown: NONE as it is; NS_AS_S nanoseconds in,
 * seconds out; NS_AS_US nanoseconds in, microseconds out (Triton's). Histograms of unit NS_AS_S have the
 * latency buckets, of NONE powers of two.
 */
#ifndef METRICS_NAMES_H
#define METRICS_NAMES_H

/* clang-format off */
#define METRICS_NAMES(X) \
    /* Every program */ \
    X(BUILD_INFO, "fermata_build_info", GAUGE, NONE, "service,version", "Always 1; the labels say what runs.") \
    X(START_TIME, "fermata_start_time_seconds", GAUGE, NONE, "", "Unix time at which the process started.") \
    X(RESIDENT_BYTES, "fermata_resident_memory_bytes", GAUGE, NONE, "", "Resident memory of the process.") \
    X(CONNECTIONS_TURNED_AWAY, "fermata_connections_without_descriptor_total", COUNTER, NONE, "", "Connections to the process that were closed at once because it, or the host, had no file descriptor left (not those of gRPC).") \
    X(LOG_LINES_LEFT_OUT, "fermata_log_lines_left_out_total", COUNTER, NONE, "", "Log lines of the process that were left out because their place in the program had written enough in that second.") \
    /* The data plane, on its gateway and worker sides */ \
    X(DATA_ITEMS, "fermata_data_items_total", COUNTER, NONE, "status,transport", "Inputs of tasks asked for by workers, by status (ok, error) and transport (tcp, shm, rdma). What a worker reads past the socket (shm, rdma) only it counts.") \
    X(DATA_ITEM_BYTES, "fermata_data_item_bytes_total", COUNTER, NONE, "transport", "Bytes of inputs served (gateway) or fetched (worker).") \
    X(DATA_RESULTS, "fermata_data_results_total", COUNTER, NONE, "transport", "Results received (gateway) or pushed (worker).") \
    X(DATA_RESULT_BYTES, "fermata_data_result_bytes_total", COUNTER, NONE, "transport", "Bytes of those results.") \
    X(DATA_PROTOCOL_ERRORS, "fermata_data_protocol_errors_total", COUNTER, NONE, "", "Connections closed for what the other side sent.") \
    X(DATA_CONNECTS, "fermata_data_connects_total", COUNTER, NONE, "", "Connections that came to be.") \
    X(DATA_REFUSED, "fermata_data_refused_total", COUNTER, NONE, "reason", "Connections closed because the other side did not prove who it is (tls, role, proof, no_proof, instance, timeout, crowded).") \
    X(DATA_TOLD_TO_LEAVE, "fermata_data_connections_told_to_leave_total", COUNTER, NONE, "why", "Connections that a gateway told to leave, which a worker does when it awaits nothing: nothing was done by them for two minutes (idle), or others needed the place (crowded).") \
    X(DATA_FALLBACKS, "fermata_data_fallbacks_total", COUNTER, NONE, "", "Times that a connection went on through its socket because another transport could not be had, or broke.") \
    X(DATA_BUFFER_BYTES, "fermata_data_buffer_bytes", GAUGE, NONE, "registered", "Bytes of batch buffers that RDMA was told of, by whether it could register them (yes, no).") \
    X(DATA_CONNECTIONS, "fermata_data_connections", GAUGE, NONE, "transport", "Connections open now, by how their payloads go.") \
    /* Gateway */ \
    X(GATEWAY_REQUESTS, "fermata_gateway_requests_total", COUNTER, NONE, "protocol,model,status", "Inference requests answered, by status.") \
    X(GATEWAY_REQUEST_SECONDS, "fermata_gateway_request_seconds", HISTOGRAM, NS_AS_S, "protocol,model", "Time from the request's last byte to the answer.") \
    X(GATEWAY_TASKS, "fermata_gateway_tasks_total", COUNTER, NONE, "model,status", "Tasks (batch rows) ended, by status.") \
    X(GATEWAY_TASKS_IN_FLIGHT, "fermata_gateway_tasks_in_flight", GAUGE, NONE, "", "Tasks submitted and not yet answered.") \
    X(GATEWAY_CONNECTIONS, "fermata_gateway_connections", GAUGE, NONE, "protocol", "Open client connections.") \
    X(GATEWAY_UNFINISHED_BYTES, "fermata_gateway_unfinished_bytes", GAUGE, NONE, "", "Bytes that came of gRPC messages that are not whole, and have not been for some time.") \
    X(GATEWAY_UNFINISHED_CUT, "fermata_gateway_unfinished_cut_total", COUNTER, NONE, "reason", "gRPC calls ended before their message was whole, by reason (full: too much of such is held; slow: the rest did not come).") \
    X(GATEWAY_BAD_REQUESTS, "fermata_gateway_bad_requests_total", COUNTER, NONE, "protocol,status", "Requests refused before a model was chosen.") \
    X(GATEWAY_ACCESS_REFUSED, "fermata_gateway_access_refused_total", COUNTER, NONE, "reason", "Requests refused for the key that they came with, by reason (no_key, unknown_key, expired, scope, limit).") \
    X(GATEWAY_ADMISSION_REFUSED, "fermata_gateway_admission_refused_total", COUNTER, NONE, "reason", "Requests refused for what their client or their model has had already, by reason (address_limit, model_limit; requests, memory, share: more than its share of what is full).") \
    X(GATEWAY_REFUSED_EARLY, "fermata_gateway_refused_early_total", COUNTER, NONE, "reason", "Requests answered by what the scheduler has told ahead, before their inputs were stored or a task was sent: for those of higher priority (overload), for what waits before them (backlog), or with less time than a row takes on an idle device (deadline).") \
    X(GATEWAY_PREPROCESS_SECONDS, "fermata_gateway_preprocess_seconds", HISTOGRAM, NS_AS_S, "model", "Decoding, resizing and normalising one picture.") \
    X(GATEWAY_PREPROCESS_QUEUE, "fermata_gateway_preprocess_queue", GAUGE, NONE, "", "Pictures waiting for a preprocessing thread.") \
    X(GATEWAY_PREPROCESS_UNWANTED, "fermata_gateway_preprocess_unwanted_total", COUNTER, NONE, "when", "Requests with pictures that were given up, or late, before any was decoded (waiting) or after (begun).") \
    X(GATEWAY_ARENA_USED_BYTES, "fermata_gateway_arena_used_bytes", GAUGE, NONE, "", "Bytes of the tensor arena in use.") \
    X(GATEWAY_ARENA_BYTES, "fermata_gateway_arena_bytes", GAUGE, NONE, "", "Size of the tensor arena.") \
    X(GATEWAY_REGIONS, "fermata_gateway_shared_memory_regions", GAUGE, NONE, "", "Regions of shared memory that clients have registered.") \
    X(GATEWAY_ARENA_REFUSALS, "fermata_gateway_arena_refusals_total", COUNTER, NONE, "", "Allocations that found the tensor arena full.") \
    X(GATEWAY_LATE_RESULTS, "fermata_gateway_late_results_total", COUNTER, NONE, "", "Results that came after their task had ended.") \
    X(GATEWAY_SCHEDULER_CONNECTED, "fermata_gateway_scheduler_connected", GAUGE, NONE, "", "1 while the stream to the scheduler is up.") \
    X(GATEWAY_RESUBMITTED, "fermata_gateway_resubmitted_tasks_total", COUNTER, NONE, "", "Tasks sent again to a new scheduler epoch.") \
    /* Scheduler */ \
    X(SCHED_TASKS, "fermata_scheduler_tasks_total", COUNTER, NONE, "model,outcome", "Tasks that left the queue: granted, dropped, cancelled, retried; or never came into it: infeasible, with a deadline that cannot be met on an idle device.") \
    X(SCHED_QUEUE, "fermata_scheduler_queue_tasks", GAUGE, NONE, "model", "Tasks waiting.") \
    X(SCHED_QUEUE_SECONDS, "fermata_scheduler_queue_seconds", HISTOGRAM, NS_AS_S, "model", "Time in the queue of the tasks that were granted.") \
    X(SCHED_BATCHES, "fermata_scheduler_batches_total", COUNTER, NONE, "model", "Batches granted.") \
    X(SCHED_BATCH_SIZE, "fermata_scheduler_batch_size", HISTOGRAM, NONE, "model", "Size of the granted batches.") \
    X(SCHED_STRETCHES, "fermata_scheduler_stretches_total", COUNTER, NONE, "model", "Batches granted to join one that runs.") \
    X(SCHED_STRIKES, "fermata_scheduler_strikes_total", COUNTER, NONE, "model,reason", "Times that a worker was taken out of a model's service for what it did: failed batches, rows that it failed and another ran well, missed results, and such as were not there when asked for.") \
    X(SCHED_DOUBTED, "fermata_scheduler_doubted_rows_total", COUNTER, NONE, "model,outcome", "Rows reported done by a worker that had yet to show that its results arrive: arrived, or tried_again elsewhere.") \
    X(SCHED_SHUNNED, "fermata_scheduler_shunned_workers", GAUGE, NONE, "model", "Workers that have the model and are not granted it for what they did, or only on trial.") \
    X(SCHED_REVOKED, "fermata_scheduler_revoked_batches_total", COUNTER, NONE, "model,outcome", "Running batches that were stopped for a larger one: stopped, or late, when they had ended before.") \
    X(SCHED_REVOKED_SECONDS, "fermata_scheduler_revoked_seconds", HISTOGRAM, NS_AS_S, "model", "How long batches had run that were stopped.") \
    X(SCHED_DECISION_SECONDS, "fermata_scheduler_decision_seconds", HISTOGRAM, NS_AS_S, "", "One turn of the scheduling core.") \
    X(SCHED_GATEWAYS, "fermata_scheduler_gateways", GAUGE, NONE, "", "Gateways connected.") \
    X(SCHED_WORKERS, "fermata_scheduler_workers", GAUGE, NONE, "", "Workers connected.") \
    X(SCHED_DEVICE_STRIKES, "fermata_scheduler_device_strikes_total", COUNTER, NONE, "subcluster", "Times that a device was taken out of service since batches fail on it that run on others of its worker.") \
    X(SCHED_DEVICES, "fermata_scheduler_devices", GAUGE, NONE, "subcluster,state", "Devices by state: free, busy.") \
    X(SCHED_EPOCH, "fermata_scheduler_epoch", GAUGE, NONE, "", "Epoch of this scheduler.") \
    X(SCHED_DELAY_SECONDS, "fermata_scheduler_delay_bound_seconds", GAUGE, NS_AS_S, "subcluster,path", "Bounds in use, as measured: ctrl and data (network), wake (timer lateness).") \
    X(SCHED_LATENCY_SCATTER, "fermata_scheduler_latency_scatter_ratio", GAUGE, NONE, "model,kind", "What batches take in parts of their profile, as measured: in the mean (mean), and at most but for the few that may be late (guard).") \
    X(DESIRED_GPUS, "fermata_desired_gpus", GAUGE, NONE, "subcluster", "Devices that the sub-cluster should have, by its bad rate and its idle time.") \
    X(SUBCLUSTER_BAD_RATE, "fermata_subcluster_bad_rate", GAUGE, NONE, "subcluster", "Part of the requests of the last window that were dropped or late.") \
    X(SUBCLUSTER_IDLE_FRACTION, "fermata_subcluster_idle_fraction", GAUGE, NONE, "subcluster", "Part of the devices' time in the last window that the load did not need: they ran nothing, or answered early because they were idle.") \
    X(SUBCLUSTER_MODELS, "fermata_subcluster_models", GAUGE, NONE, "subcluster", "Model versions that it serves.") \
    /* Worker */ \
    X(WORKER_BATCHES, "fermata_worker_batches_total", COUNTER, NONE, "model,status", "Batches run, by status.") \
    X(WORKER_TASKS, "fermata_worker_tasks_total", COUNTER, NONE, "model,status", "Tasks run, by status.") \
    X(WORKER_EXEC_SECONDS, "fermata_worker_exec_seconds", HISTOGRAM, NS_AS_S, "model", "Execution of one batch.") \
    X(WORKER_PROFILE_ERROR_SECONDS, "fermata_worker_profile_error_seconds", HISTOGRAM, NS_AS_S, "model", "How far the execution of one batch was from what its profile predicted, up or down.") \
    X(WORKER_LATE_BATCHES, "fermata_worker_late_batches_total", COUNTER, NONE, "model", "Batches whose execution took longer than planned; five of a hundred is what planning aims at.") \
    X(WORKER_FETCH_SECONDS, "fermata_worker_fetch_seconds", HISTOGRAM, NS_AS_S, "model", "Fetching the inputs of one batch.") \
    X(WORKER_IN_PLACE, "fermata_worker_in_place_batches_total", COUNTER, NONE, "model,of", "Batches whose inputs were read, or outputs written, where a gateway of the same process has them.") \
    X(WORKER_GATEWAY_BREAKERS, "fermata_worker_gateway_breakers_total", COUNTER, NONE, "to", "Gateways that are asked for no more inputs because they let fetches run out of time (open), and that have answered a probe since (closed).") \
    X(WORKER_PUSH_FAILURES, "fermata_worker_push_failures_total", COUNTER, NONE, "model", "Results that could not be handed to their gateway.") \
    X(WORKER_PUSH_SECONDS, "fermata_worker_push_seconds", HISTOGRAM, NS_AS_S, "model", "Pushing the outputs of one batch.") \
    X(WORKER_LATE_START_SECONDS, "fermata_worker_late_start_seconds", HISTOGRAM, NS_AS_S, "", "How long after its grant had come a batch started.") \
    X(WORKER_BUSY_SECONDS, "fermata_worker_device_busy_seconds_total", COUNTER, NS_AS_S, "device", "Time in which the device was running batches.") \
    X(WORKER_REVOCATIONS, "fermata_worker_revocations_total", COUNTER, NONE, "outcome", "Batches that the scheduler took back: before they began (waiting), at an exit point (stopped), or when they had ended (late).") \
    X(WORKER_STOPPED_SECONDS, "fermata_worker_stopped_seconds", HISTOGRAM, NS_AS_S, "model", "How long batches had run that were stopped at an exit point.") \
    X(WORKER_STRETCHES, "fermata_worker_stretches_total", COUNTER, NONE, "model,outcome", "Batches granted to join a running one, by whether they did: joined, alone.") \
    X(WORKER_STAGED_BATCHES, "fermata_worker_staged_batches_total", COUNTER, NONE, "model", "Batches that entered the stages of a model.") \
    X(WORKER_STAGED_BESIDE, "fermata_worker_staged_beside_batches_total", COUNTER, NONE, "model", "Batches that entered the stages of a model while others were in them.") \
    X(WORKER_STAGED_ROWS, "fermata_worker_staged_stretched_rows_total", COUNTER, NONE, "model", "Rows that joined a batch which was in the stages.") \
    X(WORKER_STAGED_PADDED, "fermata_worker_staged_padded_rows_total", COUNTER, NONE, "model", "Rows that the worker padded, to share a batch of the stages with longer ones or to a size for which these are prepared.") \
    X(WORKER_STAGED_SPLITS, "fermata_worker_staged_splits_total", COUNTER, NONE, "model", "Batches that went on from a stage in parts.") \
    X(WORKER_OVERLAP_GROUPS, "fermata_worker_overlap_groups_total", COUNTER, NONE, "device", "Groups of operators that were run.") \
    X(WORKER_OVERLAP_PARTS, "fermata_worker_overlap_parts_total", COUNTER, NONE, "device", "Parts of batches in those groups.") \
    X(WORKER_OVERLAP_BESIDE, "fermata_worker_overlap_shared_groups_total", COUNTER, NONE, "device", "Groups in which several models ran side by side.") \
    X(WORKER_OVERLAP_DROPPED, "fermata_worker_overlap_dropped_batches_total", COUNTER, NONE, "model", "Batches given up because their deadline could not be met any more.") \
    X(WORKER_MODE_REFUSALS, "fermata_worker_mode_refusals_total", COUNTER, NONE, "model,mode,reason", "Models that run whole instead of in the mode that was asked for, by why: engine, uncuttable, memory, predictor.") \
    X(WORKER_MODE_UNFIT, "fermata_worker_mode_unfit_batches_total", COUNTER, NONE, "model", "Batches that ran whole because their shape does not suit the mode of their model.") \
    X(WORKER_MODELS, "fermata_worker_models", GAUGE, NONE, "state", "Model versions by state.") \
    X(WORKER_MODEL_BYTES, "fermata_worker_model_bytes", GAUGE, NONE, "model,version,batch", "Memory of a loaded model on each device: weights, work space and buffers, with batches up to the size.") \
    X(WORKER_DEVICE_BYTES, "fermata_worker_device_memory_bytes", GAUGE, NONE, "device,kind", "Memory of a device: used by models, and limit.") \
    X(WORKER_SCHEDULER_CONNECTED, "fermata_worker_scheduler_connected", GAUGE, NONE, "", "1 while the stream to the scheduler is up.") \
    /* Triton's names, so that its dashboards work */ \
    X(NV_SUCCESS, "nv_inference_request_success", COUNTER, NONE, "model,version", "Number of successful inference requests, all batch sizes") \
    X(NV_FAILURE, "nv_inference_request_failure", COUNTER, NONE, "model,version", "Number of failed inference requests, all batch sizes") \
    X(NV_COUNT, "nv_inference_count", COUNTER, NONE, "model,version", "Number of inferences performed (does not include cached requests)") \
    X(NV_EXEC_COUNT, "nv_inference_exec_count", COUNTER, NONE, "model,version", "Number of model executions performed (does not include cached requests)") \
    X(NV_PENDING, "nv_inference_pending_request_count", GAUGE, NONE, "model,version", "Instantaneous number of pending requests awaiting execution per-model.") \
    X(NV_REQUEST_US, "nv_inference_request_duration_us", COUNTER, NS_AS_US, "model,version", "Cumulative inference request duration in microseconds (includes cached requests)") \
    X(NV_QUEUE_US, "nv_inference_queue_duration_us", COUNTER, NS_AS_US, "model,version", "Cumulative inference queuing duration in microseconds (includes cached requests)") \
    X(NV_INPUT_US, "nv_inference_compute_input_duration_us", COUNTER, NS_AS_US, "model,version", "Cumulative compute input duration in microseconds (does not include cached requests)") \
    X(NV_INFER_US, "nv_inference_compute_infer_duration_us", COUNTER, NS_AS_US, "model,version", "Cumulative compute inference duration in microseconds (does not include cached requests)") \
    X(NV_OUTPUT_US, "nv_inference_compute_output_duration_us", COUNTER, NS_AS_US, "model,version", "Cumulative inference compute output duration in microseconds (does not include cached requests)")
/* clang-format on */

#endif
