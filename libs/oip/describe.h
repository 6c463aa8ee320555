/*
 * What a server says about itself and its models: metadata, configuration, statistics, repository index,
 * as JSON for REST and as protobuf for gRPC. Cold paths; they allocate and free what they need.
 *
 * Each function appends one complete document to `out` and returns INVALID_ARGUMENT or NO_MEMORY on failure.
 */
#ifndef OIP_DESCRIBE_H
#define OIP_DESCRIBE_H

#include "base/strbuf.h"
#include "oip/model_spec.h"
#include "oip/region.h"

/* What we honour of Triton's list; clients look for "statistics", "binary_tensor_data", … The last, `system_shared_memory`, only where clients may
 * use that. */
extern const char *const oip_extensions[];
extern const uint32_t oip_extension_count;

typedef struct {
    uint64_t count, ns;
} oip_duration_t;

typedef struct {
    uint64_t batch_size;
    oip_duration_t compute_input, compute_infer, compute_output;
} oip_batch_stats_t;

typedef struct {
    const char *name, *version;
    uint64_t last_inference_ms; /* Unix time; 0 = never */
    uint64_t inference_count;   /* rows */
    uint64_t execution_count;   /* batches */
    oip_duration_t success, fail, queue, compute_input, compute_infer, compute_output, cache_hit, cache_miss;
    const oip_batch_stats_t *batches;
    uint32_t batch_count;
} oip_model_stats_t;

typedef struct {
    const char *name, *version;
    const char *state;  /* "READY", "UNAVAILABLE", "LOADING", "UNLOADING" */
    const char *reason; /* "" when there is none */
} oip_index_entry_t;

/* regions: system shared memory is served. */
status_t oip_describe_server_json(strbuf_t *out, const char *name, const char *version, bool regions);
/* versions: all that the server has of the model. */
status_t oip_describe_model_json(strbuf_t *out, const oip_model_spec_t *spec, const char *const *versions,
                                 uint32_t version_count);
status_t oip_describe_config_json(strbuf_t *out, const oip_model_spec_t *spec);
status_t oip_describe_stats_json(strbuf_t *out, const oip_model_stats_t *stats, uint32_t count);
status_t oip_describe_index_json(strbuf_t *out, const oip_index_entry_t *entries, uint32_t count);
status_t oip_describe_regions_json(strbuf_t *out, const oip_region_t *regions, uint32_t count);

status_t oip_describe_server_pb(strbuf_t *out, const char *name, const char *version, bool regions);
status_t oip_describe_model_pb(strbuf_t *out, const oip_model_spec_t *spec, const char *const *versions,
                               uint32_t version_count);
status_t oip_describe_config_pb(strbuf_t *out, const oip_model_spec_t *spec);
status_t oip_describe_stats_pb(strbuf_t *out, const oip_model_stats_t *stats, uint32_t count);
status_t oip_describe_index_pb(strbuf_t *out, const oip_index_entry_t *entries, uint32_t count);
status_t oip_describe_regions_pb(strbuf_t *out, const oip_region_t *regions, uint32_t count);

#endif
