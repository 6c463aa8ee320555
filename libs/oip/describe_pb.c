#include "open_inference.pb-c.h"

#include "oip/describe.h"
#include "repeated.h"

#include <stdlib.h>

/* protobuf-c takes texts as char * and only reads them. */
static char *text(const char *constant)
{
    return (char *)(uintptr_t)constant;
}

static status_t pack(strbuf_t *out, const ProtobufCMessage *message)
{
    size_t len_bytes = protobuf_c_message_get_packed_size(message);
    char *room = strbuf_reserve(out, len_bytes ? len_bytes : 1);
    if (!room)
        return strbuf_status(out, NULL);
    strbuf_commit(out, protobuf_c_message_pack(message, (uint8_t *)room));
    return STATUS_OK;
}

status_t oip_describe_server_pb(strbuf_t *out, const char *name, const char *version, bool regions)
{
    Inference__ServerMetadataResponse message = INFERENCE__SERVER_METADATA_RESPONSE__INIT;
    message.name = text(name);
    message.version = text(version);
    message.n_extensions = oip_extension_count - !regions;
    message.extensions = (char **)(uintptr_t)oip_extensions;
    return pack(out, &message.base);
}

typedef struct {
    Inference__ModelMetadataResponse__TensorMetadata messages[OIP_MAX_TENSORS];
    Inference__ModelMetadataResponse__TensorMetadata *pointers[OIP_MAX_TENSORS];
    oip_shape_t shapes[OIP_MAX_TENSORS];
} tensor_messages_t;

static void fill_tensors(tensor_messages_t *tensors, const oip_model_spec_t *spec,
                         const oip_tensor_spec_t *specs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        Inference__ModelMetadataResponse__TensorMetadata *message = &tensors->messages[i];
        inference__model_metadata_response__tensor_metadata__init(message);
        tensors->shapes[i] = oip_model_spec_public_shape(spec, &specs[i]);
        message->name = text(specs[i].name);
        message->datatype = text(oip_datatype_name(specs[i].datatype));
        message->n_shape = tensors->shapes[i].rank;
        message->shape = tensors->shapes[i].dims;
        tensors->pointers[i] = message;
    }
}

status_t oip_describe_model_pb(strbuf_t *out, const oip_model_spec_t *spec, const char *const *versions,
                               uint32_t version_count)
{
    Inference__ModelMetadataResponse message = INFERENCE__MODEL_METADATA_RESPONSE__INIT;
    if (spec->input_count > OIP_MAX_TENSORS || spec->output_count > OIP_MAX_TENSORS)
        return STATUS_INVALID_ARGUMENT;
    tensor_messages_t *inputs = malloc(2 * sizeof *inputs);
    if (!inputs)
        return STATUS_NO_MEMORY;
    tensor_messages_t *outputs = inputs + 1;
    fill_tensors(inputs, spec, spec->inputs, spec->input_count);
    fill_tensors(outputs, spec, spec->outputs, spec->output_count);
    message.name = text(spec->name);
    message.n_versions = version_count;
    message.versions = (char **)(uintptr_t)versions;
    message.platform = text(spec->platform);
    message.n_inputs = spec->input_count;
    message.inputs = inputs->pointers;
    message.n_outputs = spec->output_count;
    message.outputs = outputs->pointers;
    status_t status = pack(out, &message.base);
    free(inputs);
    return status;
}

typedef struct {
    Inference__ModelInput inputs[OIP_MAX_TENSORS];
    Inference__ModelInput *input_pointers[OIP_MAX_TENSORS];
    Inference__ModelOutput outputs[OIP_MAX_TENSORS];
    Inference__ModelOutput *output_pointers[OIP_MAX_TENSORS];
} config_messages_t;

/* Our datatypes are numbered as DataType is. */
static void fill_config_tensors(config_messages_t *config, const oip_model_spec_t *spec)
{
    for (uint32_t i = 0; i < spec->input_count; i++) {
        inference__model_input__init(&config->inputs[i]);
        config->inputs[i].name = text(spec->inputs[i].name);
        config->inputs[i].data_type = (Inference__DataType)spec->inputs[i].datatype;
        config->inputs[i].n_dims = spec->inputs[i].dims.rank;
        config->inputs[i].dims = (int64_t *)(uintptr_t)spec->inputs[i].dims.dims;
        config->input_pointers[i] = &config->inputs[i];
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        inference__model_output__init(&config->outputs[i]);
        config->outputs[i].name = text(spec->outputs[i].name);
        config->outputs[i].data_type = (Inference__DataType)spec->outputs[i].datatype;
        config->outputs[i].n_dims = spec->outputs[i].dims.rank;
        config->outputs[i].dims = (int64_t *)(uintptr_t)spec->outputs[i].dims.dims;
        config->outputs[i].label_filename = text(i == 0 && spec->label_count > 0 ? "labels.txt" : "");
        config->output_pointers[i] = &config->outputs[i];
    }
}

status_t oip_describe_config_pb(strbuf_t *out, const oip_model_spec_t *spec)
{
    Inference__ModelConfigResponse response = INFERENCE__MODEL_CONFIG_RESPONSE__INIT;
    Inference__ModelConfig config = INFERENCE__MODEL_CONFIG__INIT;
    Inference__ModelVersionPolicy policy = INFERENCE__MODEL_VERSION_POLICY__INIT;
    Inference__ModelVersionPolicy__Latest latest = INFERENCE__MODEL_VERSION_POLICY__LATEST__INIT;
    Inference__ModelDynamicBatching batching = INFERENCE__MODEL_DYNAMIC_BATCHING__INIT;
    if (spec->input_count > OIP_MAX_TENSORS || spec->output_count > OIP_MAX_TENSORS)
        return STATUS_INVALID_ARGUMENT;
    config_messages_t *tensors = malloc(sizeof *tensors);
    if (!tensors)
        return STATUS_NO_MEMORY;
    fill_config_tensors(tensors, spec);
    latest.num_versions = 1;
    policy.policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST;
    policy.latest = &latest;
    config.name = text(spec->name);
    config.platform = text(spec->platform);
    config.backend = text("fermata");
    config.version_policy = &policy;
    config.max_batch_size = (int32_t)spec->max_batch;
    config.n_input = spec->input_count;
    config.input = tensors->input_pointers;
    config.n_output = spec->output_count;
    config.output = tensors->output_pointers;
    if (spec->max_batch > 0) {
        config.scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
        config.dynamic_batching = &batching;
    }
    response.config = &config;
    status_t status = pack(out, &response.base);
    free(tensors);
    return status;
}

/* ---- statistics ---- */

static Inference__StatisticDuration duration(oip_duration_t value)
{
    Inference__StatisticDuration message = INFERENCE__STATISTIC_DURATION__INIT;
    message.count = value.count;
    message.ns = value.ns;
    return message;
}

typedef struct {
    Inference__InferBatchStatistics message;
    Inference__StatisticDuration input, infer, output;
} batch_message_t;

typedef struct {
    Inference__ModelStatistics message;
    Inference__InferStatistics durations;
    Inference__StatisticDuration success, fail, queue, input, infer, output, hit, miss;
    batch_message_t *batches;
    Inference__InferBatchStatistics **batch_pointers;
} stats_message_t;

static void fill_batch(batch_message_t *to, const oip_batch_stats_t *from)
{
    inference__infer_batch_statistics__init(&to->message);
    to->input = duration(from->compute_input);
    to->infer = duration(from->compute_infer);
    to->output = duration(from->compute_output);
    to->message.batch_size = from->batch_size;
    to->message.compute_input = &to->input;
    to->message.compute_infer = &to->infer;
    to->message.compute_output = &to->output;
}

static void fill_durations(stats_message_t *to, const oip_model_stats_t *from)
{
    inference__infer_statistics__init(&to->durations);
    to->success = duration(from->success);
    to->fail = duration(from->fail);
    to->queue = duration(from->queue);
    to->input = duration(from->compute_input);
    to->infer = duration(from->compute_infer);
    to->output = duration(from->compute_output);
    to->hit = duration(from->cache_hit);
    to->miss = duration(from->cache_miss);
    to->durations.success = &to->success;
    to->durations.fail = &to->fail;
    to->durations.queue = &to->queue;
    to->durations.compute_input = &to->input;
    to->durations.compute_infer = &to->infer;
    to->durations.compute_output = &to->output;
    to->durations.cache_hit = &to->hit;
    to->durations.cache_miss = &to->miss;
}

static bool fill_stats(stats_message_t *to, const oip_model_stats_t *from)
{
    inference__model_statistics__init(&to->message);
    fill_durations(to, from);
    to->message.name = text(from->name);
    to->message.version = text(from->version);
    to->message.last_inference = from->last_inference_ms;
    to->message.inference_count = from->inference_count;
    to->message.execution_count = from->execution_count;
    to->message.inference_stats = &to->durations;
    if (from->batch_count == 0)
        return true;
    to->batches = calloc(from->batch_count, sizeof *to->batches);
    to->batch_pointers = calloc(from->batch_count, sizeof *to->batch_pointers);
    if (!to->batches || !to->batch_pointers)
        return false;
    for (uint32_t i = 0; i < from->batch_count; i++) {
        fill_batch(&to->batches[i], &from->batches[i]);
        to->batch_pointers[i] = &to->batches[i].message;
    }
    to->message.n_batch_stats = from->batch_count;
    to->message.batch_stats = to->batch_pointers;
    return true;
}

static void free_stats(stats_message_t *messages, uint32_t count)
{
    for (uint32_t i = 0; messages && i < count; i++) {
        free(messages[i].batches);
        free(messages[i].batch_pointers);
    }
    free(messages);
}

status_t oip_describe_stats_pb(strbuf_t *out, const oip_model_stats_t *stats, uint32_t count)
{
    Inference__ModelStatisticsResponse response = INFERENCE__MODEL_STATISTICS_RESPONSE__INIT;
    stats_message_t *messages = calloc(count + 1, sizeof *messages);
    Inference__ModelStatistics **pointers = calloc(count + 1, sizeof *pointers);
    status_t status = messages && pointers ? STATUS_OK : STATUS_NO_MEMORY;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        if (!fill_stats(&messages[i], &stats[i]))
            status = STATUS_NO_MEMORY;
        pointers[i] = &messages[i].message;
    }
    response.n_model_stats = count;
    response.model_stats = pointers;
    if (status == STATUS_OK)
        status = pack(out, &response.base);
    free_stats(messages, count);
    free(pointers);
    return status;
}

status_t oip_describe_index_pb(strbuf_t *out, const oip_index_entry_t *entries, uint32_t count)
{
    Inference__RepositoryIndexResponse response = INFERENCE__REPOSITORY_INDEX_RESPONSE__INIT;
    response.models =
        repeated_make(&inference__repository_index_response__model_index__descriptor, count, NULL);
    if (!response.models)
        return STATUS_NO_MEMORY;
    response.n_models = count;
    for (uint32_t i = 0; i < count; i++) {
        response.models[i]->name = text(entries[i].name);
        response.models[i]->version = text(entries[i].version);
        response.models[i]->state = text(entries[i].state);
        response.models[i]->reason = text(entries[i].reason);
    }
    status_t status = pack(out, &response.base);
    free(response.models);
    return status;
}

typedef Inference__SystemSharedMemoryStatusResponse__RegionStatus region_status_t;

status_t oip_describe_regions_pb(strbuf_t *out, const oip_region_t *regions, uint32_t count)
{
    Inference__SystemSharedMemoryStatusResponse response =
        INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__INIT;
    region_status_t **values = repeated_make(
        &inference__system_shared_memory_status_response__region_status__descriptor, count, NULL);
    response.regions = repeated_make(
        &inference__system_shared_memory_status_response__regions_entry__descriptor, count, NULL);
    status_t status = values && response.regions ? STATUS_OK : STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        values[i]->name = text(regions[i].name);
        values[i]->key = text(regions[i].key);
        values[i]->offset = regions[i].offset_bytes;
        values[i]->byte_size = regions[i].len_bytes;
        response.regions[i]->key = values[i]->name;
        response.regions[i]->value = values[i];
    }
    response.n_regions = count;
    if (status == STATUS_OK)
        status = pack(out, &response.base);
    free(response.regions);
    free(values);
    return status;
}
