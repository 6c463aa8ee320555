#include "oip/describe.h"

#include <jansson.h>

const char *const oip_extensions[] = {
    "classification",      "model_configuration", "schedule_policy",  "binary_tensor_data",
    "parameters",          "statistics",          "model_repository", "model_repository(unload_dependents)",
    "system_shared_memory"};
const uint32_t oip_extension_count = sizeof oip_extensions / sizeof oip_extensions[0];

static int append_text(const char *text, size_t len, void *user)
{
    strbuf_append(user, text, len);
    return 0;
}

/* Takes the document. NULL anywhere while it was built ends here as NO_MEMORY or, for bytes that are no UTF-8, as
 * INVALID_ARGUMENT: jansson does not tell them apart, and names were checked long before. */
static status_t finish(strbuf_t *out, json_t *document)
{
    if (!document)
        return STATUS_NO_MEMORY;
    json_dump_callback(document, append_text, out, JSON_COMPACT);
    json_decref(document);
    return strbuf_status(out, NULL);
}

/* json_array_append_new on either NULL fails, and a failed list is no list. */
static void append(json_t **list, json_t *item)
{
    if (json_array_append_new(*list, item) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

static json_t *text_list(const char *const *texts, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        append(&list, json_string(texts[i]));
    return list;
}

static json_t *dims_list(const oip_shape_t *shape)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < shape->rank; i++)
        append(&list, json_integer(shape->dims[i]));
    return list;
}

status_t oip_describe_server_json(strbuf_t *out, const char *name, const char *version, bool regions)
{
    return finish(out, json_pack("{s:s, s:s, s:o}", "name", name, "version", version, "extensions",
                                 text_list(oip_extensions, oip_extension_count - !regions)));
}

static json_t *tensor_metadata(const oip_model_spec_t *spec, const oip_tensor_spec_t *tensors, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        oip_shape_t shape = oip_model_spec_public_shape(spec, &tensors[i]);
        append(&list, json_pack("{s:s, s:s, s:o}", "name", tensors[i].name, "datatype",
                                oip_datatype_name(tensors[i].datatype), "shape", dims_list(&shape)));
    }
    return list;
}

status_t oip_describe_model_json(strbuf_t *out, const oip_model_spec_t *spec, const char *const *versions,
                                 uint32_t version_count)
{
    return finish(out, json_pack("{s:s, s:o, s:s, s:o, s:o}", "name", spec->name, "versions",
                                 text_list(versions, version_count), "platform", spec->platform, "inputs",
                                 tensor_metadata(spec, spec->inputs, spec->input_count), "outputs",
                                 tensor_metadata(spec, spec->outputs, spec->output_count)));
}

static json_t *config_inputs(const oip_model_spec_t *spec)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < spec->input_count; i++) {
        const oip_tensor_spec_t *tensor = &spec->inputs[i];
        append(&list, json_pack("{s:s, s:s, s:s, s:o, s:b, s:b, s:b}", "name", tensor->name, "data_type",
                                oip_datatype_config_name(tensor->datatype), "format", "FORMAT_NONE", "dims",
                                dims_list(&tensor->dims), "is_shape_tensor", 0, "allow_ragged_batch", 0,
                                "optional", 0));
    }
    return list;
}

static json_t *config_outputs(const oip_model_spec_t *spec)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < spec->output_count; i++) {
        const oip_tensor_spec_t *tensor = &spec->outputs[i];
        append(&list, json_pack("{s:s, s:s, s:o, s:s, s:b}", "name", tensor->name, "data_type",
                                oip_datatype_config_name(tensor->datatype), "dims", dims_list(&tensor->dims),
                                "label_filename", i == 0 && spec->label_count > 0 ? "labels.txt" : "",
                                "is_shape_tensor", 0));
    }
    return list;
}

status_t oip_describe_config_json(strbuf_t *out, const oip_model_spec_t *spec)
{
    json_t *config =
        json_pack("{s:s, s:s, s:s, s:{s:{s:i}}, s:I, s:o, s:o, s:[], s:[], s:[], s:{}, s:{s:b}}", "name",
                  spec->name, "platform", spec->platform, "backend", "fermata", "version_policy", "latest",
                  "num_versions", 1, "max_batch_size", (json_int_t)spec->max_batch, "input",
                  config_inputs(spec), "output", config_outputs(spec), "batch_input", "batch_output",
                  "instance_group", "parameters", "model_transaction_policy", "decoupled", 0);
    if (spec->max_batch > 0 && config)
        json_object_set_new(config, "dynamic_batching",
                            json_pack("{s:[], s:i, s:b}", "preferred_batch_size",
                                      "max_queue_delay_microseconds", 0, "preserve_ordering", 0));
    return finish(out, config);
}

static json_t *duration(oip_duration_t value)
{
    return json_pack("{s:I, s:I}", "count", (json_int_t)value.count, "ns", (json_int_t)value.ns);
}

static json_t *batch_list(const oip_model_stats_t *stats)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < stats->batch_count; i++) {
        const oip_batch_stats_t *batch = &stats->batches[i];
        append(&list,
               json_pack("{s:I, s:o, s:o, s:o}", "batch_size", (json_int_t)batch->batch_size, "compute_input",
                         duration(batch->compute_input), "compute_infer", duration(batch->compute_infer),
                         "compute_output", duration(batch->compute_output)));
    }
    return list;
}

static json_t *model_stats(const oip_model_stats_t *stats)
{
    json_t *durations =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "success", duration(stats->success), "fail",
                  duration(stats->fail), "queue", duration(stats->queue), "compute_input",
                  duration(stats->compute_input), "compute_infer", duration(stats->compute_infer),
                  "compute_output", duration(stats->compute_output), "cache_hit", duration(stats->cache_hit),
                  "cache_miss", duration(stats->cache_miss));
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:[]}", "name", stats->name, "version",
                     stats->version, "last_inference", (json_int_t)stats->last_inference_ms,
                     "inference_count", (json_int_t)stats->inference_count, "execution_count",
                     (json_int_t)stats->execution_count, "inference_stats", durations, "batch_stats",
                     batch_list(stats), "memory_usage");
}

status_t oip_describe_stats_json(strbuf_t *out, const oip_model_stats_t *stats, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        append(&list, model_stats(&stats[i]));
    return finish(out, json_pack("{s:o}", "model_stats", list));
}

status_t oip_describe_index_json(strbuf_t *out, const oip_index_entry_t *entries, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *entry = json_pack("{s:s, s:s, s:s}", "name", entries[i].name, "version", entries[i].version,
                                  "state", entries[i].state);
        if (entry && entries[i].reason[0])
            json_object_set_new(entry, "reason", json_string(entries[i].reason));
        append(&list, entry);
    }
    return finish(out, list);
}

status_t oip_describe_regions_json(strbuf_t *out, const oip_region_t *regions, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        append(&list,
               json_pack("{s:s, s:s, s:I, s:I}", "name", regions[i].name, "key", regions[i].key, "offset",
                         (json_int_t)regions[i].offset_bytes, "byte_size", (json_int_t)regions[i].len_bytes));
    return finish(out, list);
}
