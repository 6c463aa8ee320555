#include "oip/describe.h"

#include "open_inference.pb-c.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include "fixture.h"

static const char *const versions[] = {"1", "2"};
static const oip_batch_stats_t batches[] = {{.batch_size = 4, .compute_infer = {.count = 2, .ns = 300}}};
static const oip_model_stats_t stats = {.name = "pair",
                                        .version = "1",
                                        .last_inference_ms = 1700000000000,
                                        .inference_count = 8,
                                        .execution_count = 2,
                                        .success = {.count = 8, .ns = 1000},
                                        .batches = batches,
                                        .batch_count = 1};
static const oip_index_entry_t entries[] = {{"pair", "1", "READY", ""},
                                            {"bad", "1", "UNAVAILABLE", "no file"}};
static strbuf_t out;

static void setup(void)
{
    strbuf_init(&out, 1 << 20);
}

static void teardown(void)
{
    strbuf_dispose(&out);
}

TestSuite(describe, .init = setup, .fini = teardown);

static void assert_text(const char *wanted)
{
    cr_assert_str_eq(out.data, wanted);
    strbuf_clear(&out);
}

Test(describe, server)
{
    cr_assert_eq(oip_describe_server_json(&out, "fermata", "0.1.0", false), STATUS_OK);
    cr_assert(strstr(out.data, "\"statistics\""));
    cr_assert(strstr(out.data, "\"binary_tensor_data\"") && !strstr(out.data, "shared_memory"));
    strbuf_clear(&out);
    cr_assert_eq(oip_describe_server_json(&out, "fermata", "0.1.0", true), STATUS_OK);
    cr_assert(strstr(out.data, "\"system_shared_memory\""));
    strbuf_clear(&out);
    cr_assert_eq(oip_describe_server_pb(&out, "fermata", "0.1.0", false), STATUS_OK);
    Inference__ServerMetadataResponse *message =
        inference__server_metadata_response__unpack(NULL, out.len_bytes, (uint8_t *)out.data);
    cr_assert_str_eq(message->name, "fermata");
    cr_assert_eq(message->n_extensions, oip_extension_count - 1);
    inference__server_metadata_response__free_unpacked(message, NULL);
}

Test(describe, regions)
{
    static const oip_region_t regions[] = {{"a\"b", "/k", 8, INT64_MAX}, {"c", "k2", 0, 1}};
    cr_assert_eq(oip_describe_regions_json(&out, NULL, 0), STATUS_OK);
    assert_text("[]");
    cr_assert_eq(oip_describe_regions_json(&out, regions, 2), STATUS_OK);
    assert_text("[{\"name\":\"a\\\"b\",\"key\":\"/k\",\"offset\":8,\"byte_size\":9223372036854775807},"
                "{\"name\":\"c\",\"key\":\"k2\",\"offset\":0,\"byte_size\":1}]");
    cr_assert_eq(oip_describe_regions_pb(&out, regions, 2), STATUS_OK);
    Inference__SystemSharedMemoryStatusResponse *message =
        inference__system_shared_memory_status_response__unpack(NULL, out.len_bytes, (uint8_t *)out.data);
    cr_assert_eq(message->n_regions, 2);
    cr_assert_str_eq(message->regions[1]->key, "c");
    cr_assert_str_eq(message->regions[0]->value->key, "/k");
    cr_assert_eq(message->regions[0]->value->byte_size, INT64_MAX);
    inference__system_shared_memory_status_response__free_unpacked(message, NULL);
}

Test(describe, model)
{
    cr_assert_eq(oip_describe_model_json(&out, &fixture_pair, versions, 2), STATUS_OK);
    assert_text("{\"name\":\"pair\",\"versions\":[\"1\",\"2\"],\"platform\":\"onnx\",\"inputs\":["
                "{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[-1,3]},{\"name\":\"b\",\"datatype\":"
                "\"BYTES\",\"shape\":[-1,2]}],"
                "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[-1,4]},"
                "{\"name\":\"z\",\"datatype\":\"INT64\",\"shape\":[-1,1]}]}");
    cr_assert_eq(oip_describe_model_pb(&out, &fixture_pair, versions, 2), STATUS_OK);
    Inference__ModelMetadataResponse *message =
        inference__model_metadata_response__unpack(NULL, out.len_bytes, (uint8_t *)out.data);
    cr_assert(message->n_inputs == 2 && message->n_versions == 2);
    cr_assert(message->inputs[0]->shape[0] == -1 && message->inputs[0]->shape[1] == 3);
    cr_assert_str_eq(message->inputs[1]->datatype, "BYTES");
    inference__model_metadata_response__free_unpacked(message, NULL);
}

Test(describe, config)
{
    cr_assert_eq(oip_describe_config_json(&out, &fixture_pair), STATUS_OK);
    json_t *config = json_loads(out.data, 0, NULL);
    cr_assert_not_null(config, "%s", out.data);
    cr_assert_eq(json_integer_value(json_object_get(config, "max_batch_size")), 4);
    json_t *input = json_array_get(json_object_get(config, "input"), 1);
    cr_assert_str_eq(json_string_value(json_object_get(input, "data_type")), "TYPE_STRING");
    cr_assert_eq(json_array_size(json_object_get(input, "dims")), 1);
    cr_assert_not_null(json_object_get(config, "dynamic_batching"));
    json_decref(config);
    strbuf_clear(&out);
    oip_model_spec_t single = fixture_pair;
    single.max_batch = 0;
    cr_assert_eq(oip_describe_config_json(&out, &single), STATUS_OK);
    cr_assert_not(strstr(out.data, "dynamic_batching"));
    strbuf_clear(&out);
    cr_assert_eq(oip_describe_config_pb(&out, &fixture_pair), STATUS_OK);
    Inference__ModelConfigResponse *message =
        inference__model_config_response__unpack(NULL, out.len_bytes, (uint8_t *)out.data);
    cr_assert_eq(message->config->max_batch_size, 4);
    cr_assert_eq(message->config->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_STRING);
    cr_assert_str_eq(message->config->output[0]->label_filename, "labels.txt");
    inference__model_config_response__free_unpacked(message, NULL);
}

Test(describe, statistics)
{
    cr_assert_eq(oip_describe_stats_json(&out, &stats, 1), STATUS_OK);
    static const char *const members[] = {"success",       "fail",           "queue",     "compute_input",
                                          "compute_infer", "compute_output", "cache_hit", "cache_miss"};
    json_t *document = json_loads(out.data, 0, NULL);
    json_t *model = json_array_get(json_object_get(document, "model_stats"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(model, "version")), "1");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        json_t *duration = json_object_get(json_object_get(model, "inference_stats"), members[i]);
        cr_assert(json_is_integer(json_object_get(duration, "count")), "%s", members[i]);
        cr_assert(json_is_integer(json_object_get(duration, "ns")), "%s", members[i]);
    }
    json_decref(document);
    strbuf_clear(&out);
    cr_assert_eq(oip_describe_stats_pb(&out, &stats, 1), STATUS_OK);
    Inference__ModelStatisticsResponse *message =
        inference__model_statistics_response__unpack(NULL, out.len_bytes, (uint8_t *)out.data);
    cr_assert_eq(message->model_stats[0]->inference_count, 8);
    cr_assert_eq(message->model_stats[0]->inference_stats->success->ns, 1000);
    cr_assert_eq(message->model_stats[0]->batch_stats[0]->compute_infer->ns, 300);
    inference__model_statistics_response__free_unpacked(message, NULL);
}

Test(describe, index)
{
    cr_assert_eq(oip_describe_index_json(&out, entries, 2), STATUS_OK);
    assert_text("[{\"name\":\"pair\",\"version\":\"1\",\"state\":\"READY\"},"
                "{\"name\":\"bad\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":\"no file\"}]");
    cr_assert_eq(oip_describe_index_pb(&out, entries, 2), STATUS_OK);
    Inference__RepositoryIndexResponse *message =
        inference__repository_index_response__unpack(NULL, out.len_bytes, (uint8_t *)out.data);
    cr_assert_str_eq(message->models[1]->reason, "no file");
    inference__repository_index_response__free_unpacked(message, NULL);
    strbuf_clear(&out);
    cr_assert_eq(oip_describe_index_json(&out, NULL, 0), STATUS_OK);
    assert_text("[]");
}

Test(describe, a_full_buffer_is_an_error)
{
    strbuf_t tiny;
    strbuf_init(&tiny, 10);
    cr_assert_eq(oip_describe_model_json(&tiny, &fixture_pair, versions, 2), STATUS_TOO_LARGE);
    strbuf_clear(&tiny);
    cr_assert_eq(oip_describe_model_pb(&tiny, &fixture_pair, versions, 2), STATUS_TOO_LARGE);
    strbuf_dispose(&tiny);
}

Test(describe, more_tensors_than_there_may_be_are_refused)
{
    oip_model_spec_t wide = fixture_pair;
    wide.input_count = OIP_MAX_TENSORS + 1;
    cr_expect_eq(oip_describe_model_pb(&out, &wide, NULL, 0), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(oip_describe_config_pb(&out, &wide), STATUS_INVALID_ARGUMENT);
    wide = fixture_pair;
    wide.output_count = OIP_MAX_TENSORS + 1;
    cr_expect_eq(oip_describe_model_pb(&out, &wide, NULL, 0), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(oip_describe_config_pb(&out, &wide), STATUS_INVALID_ARGUMENT);
}
