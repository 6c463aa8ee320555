#include "load/payload.h"

#include "open_inference.pb-c.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char metadata[] = "{\"name\":\"m\",\"versions\":[\"1\"],\"platform\":\"p\",\"inputs\":["
                               "{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,2,3]},{\"name\":"
                               "\"words\",\"datatype\":\"BYTES\",\"shape\":[-1,1]}],"
                               "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[-1,10]}]}";

static model_t model;
static payloads_t payloads;
static err_t err;

static void read_model(void)
{
    snprintf(model.name, sizeof model.name, "m");
    cr_assert_eq(model_parse_json(&model, metadata, sizeof metadata - 1, &err), STATUS_OK, "%s", err.text);
}

static void drop_payloads(void)
{
    payloads_dispose(&payloads);
}

TestSuite(payload, .init = read_model, .fini = drop_payloads);

static const payload_options_t rest = {
    .protocol = PROTOCOL_REST, .rows = 4, .timeout_us = 25000, .classes = 2};
static const payload_options_t grpc = {
    .protocol = PROTOCOL_GRPC, .rows = 4, .timeout_us = 25000, .classes = 2};

Test(payload, rest_body_is_json_and_the_raw_tensors)
{
    prng_t prng;
    prng_init(&prng, 3);
    cr_assert_eq(payloads_add_tensors(&payloads, &model, &rest, 2, &prng, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(payloads.count, 2);
    const payload_t *item = &payloads.items[0];
    unsigned long json_bytes = strtoul(item->headers + strlen("Inference-Header-Content-Length: "), NULL, 10);
    json_t *root = json_loadb((const char *)item->bytes, json_bytes, 0, NULL);
    cr_assert_not_null(root, "%.*s", (int)json_bytes, (const char *)item->bytes);
    json_t *inputs = json_object_get(root, "inputs"), *x = json_array_get(inputs, 0),
           *shape = json_object_get(x, "shape");
    cr_assert_eq(json_array_size(inputs), 2);
    cr_assert_eq(json_integer_value(json_array_get(shape, 0)), 4);
    json_int_t sum = 0;
    for (size_t i = 0; i < 2; i++)
        sum += json_integer_value(
            json_object_get(json_object_get(json_array_get(inputs, i), "parameters"), "binary_data_size"));
    cr_assert_eq((size_t)sum + json_bytes, item->len_bytes);
    cr_assert_eq(json_integer_value(json_object_get(json_object_get(root, "parameters"), "timeout")), 25000);
    cr_assert_neq(memcmp(payloads.items[0].bytes, payloads.items[1].bytes, item->len_bytes), 0);
    json_decref(root);
}

Test(payload, grpc_body_is_a_model_infer_request)
{
    prng_t prng;
    prng_init(&prng, 3);
    cr_assert_eq(payloads_add_tensors(&payloads, &model, &grpc, 1, &prng, &err), STATUS_OK, "%s", err.text);
    Inference__ModelInferRequest *request =
        inference__model_infer_request__unpack(NULL, payloads.items[0].len_bytes, payloads.items[0].bytes);
    cr_assert_not_null(request);
    cr_assert_str_eq(request->model_name, "m");
    cr_assert_eq(request->n_inputs, 2);
    cr_assert_str_eq(request->inputs[1]->datatype, "BYTES");
    cr_assert_eq(request->n_raw_input_contents, 2);
    cr_assert_eq(request->raw_input_contents[0].len, 4 * 2 * 3 * 4);
    cr_assert_eq(oip_bytes_count(request->raw_input_contents[1].data, request->raw_input_contents[1].len), 4);
    cr_assert_eq(request->n_parameters, 2);
    cr_assert_str_eq(request->outputs[0]->parameters[0]->key, "classification");
    inference__model_infer_request__free_unpacked(request, NULL);
}

Test(payload, inputs_in_a_region_are_not_sent)
{
    static const char wanted[] =
        "{\"shared_memory_region\":\"r\",\"shared_memory_offset\":96,\"shared_memory_byte_size\":48}";
    payload_options_t options = rest;
    prng_t prng;
    prng_init(&prng, 3);
    options.region = "r";
    cr_assert_eq(payloads_add_tensors(&payloads, &model, &options, 1, &prng, &err), STATUS_OK, "%s",
                 err.text);
    options.protocol = PROTOCOL_GRPC;
    cr_assert_eq(payloads_add_tensors(&payloads, &model, &options, 1, &prng, &err), STATUS_OK, "%s",
                 err.text);
    const payload_t *item = &payloads.items[0];
    cr_assert_eq(strtoul(item->headers + strlen("Inference-Header-Content-Length: "), NULL, 10),
                 item->len_bytes);
    cr_assert(memmem(item->bytes, item->len_bytes, wanted, sizeof wanted - 1), "%.*s", (int)item->len_bytes,
              (const char *)item->bytes);
    Inference__ModelInferRequest *request =
        inference__model_infer_request__unpack(NULL, payloads.items[1].len_bytes, payloads.items[1].bytes);
    cr_assert_not_null(request);
    cr_assert_eq(request->n_raw_input_contents, 0);
    cr_assert_eq(request->inputs[1]->n_parameters, 3);
    cr_assert_str_eq(request->inputs[1]->parameters[0]->value->string_param, "r");
    cr_assert_eq(request->inputs[1]->parameters[1]->value->int64_param, 96);
    cr_assert_eq(request->inputs[1]->parameters[2]->value->int64_param, 48);
    inference__model_infer_request__free_unpacked(request, NULL);
}

Test(payload, same_seed_same_bytes)
{
    payloads_t again = {0};
    prng_t a, b;
    prng_init(&a, 9);
    prng_init(&b, 9);
    payloads_add_tensors(&payloads, &model, &rest, 1, &a, &err);
    payloads_add_tensors(&again, &model, &rest, 1, &b, &err);
    cr_assert_eq(payloads.items[0].len_bytes, again.items[0].len_bytes);
    cr_assert_arr_eq(payloads.items[0].bytes, again.items[0].bytes, again.items[0].len_bytes);
    payloads_dispose(&again);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(payload, pictures_go_by_name_into_a_bytes_element)
{
    char folder[] = "/tmp/fermata-load-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    write_file(folder, "b.png", "picture b");
    write_file(folder, "a.JPG", "a");
    write_file(folder, "notes.txt", "no picture");
    payload_options_t options = {.protocol = PROTOCOL_GRPC, .rows = 2, .picture_input = "x"};
    cr_assert_eq(payloads_add_pictures(&payloads, &model, &options, folder, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(payloads.count, 2);
    cr_assert_str_eq(payloads.items[0].label, "a.JPG");
    Inference__ModelInferRequest *request =
        inference__model_infer_request__unpack(NULL, payloads.items[1].len_bytes, payloads.items[1].bytes);
    cr_assert_str_eq(request->inputs[0]->datatype, "BYTES");
    cr_assert_eq(request->inputs[0]->shape[0], 2);
    cr_assert_eq(request->raw_input_contents[0].len, 2 * (4 + strlen("picture b")));
    cr_assert_eq(memcmp(request->raw_input_contents[0].data + 4, "picture b", 9), 0);
    inference__model_infer_request__free_unpacked(request, NULL);
}

Test(payload, picture_mistakes_are_named)
{
    char folder[] = "/tmp/fermata-load-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    payload_options_t options = {.protocol = PROTOCOL_REST, .rows = 1};
    cr_assert_eq(payloads_add_pictures(&payloads, &model, &options, folder, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(err.text, "--picture-input"), "%s", err.text);
    options.picture_input = "z";
    cr_assert_eq(payloads_add_pictures(&payloads, &model, &options, folder, &err), STATUS_NOT_FOUND);
    options.picture_input = "x";
    cr_assert_eq(payloads_add_pictures(&payloads, &model, &options, folder, &err), STATUS_NOT_FOUND);
    cr_assert_not_null(strstr(err.text, "no picture"), "%s", err.text);
    cr_assert_eq(payloads_add_pictures(&payloads, &model, &options, "/nonexistent", &err), STATUS_IO);
    rmdir(folder);
}

Test(payload, broken_metadata_is_refused)
{
    static const char *const broken[] = {
        "{",
        "{\"inputs\":[{\"name\":\"x\"}]}",
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP33\",\"shape\":[1]}]}",
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,1,1,1,1,1,1,1,1]}]}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        model_t copy = model;
        cr_assert_neq(model_parse_json(&copy, broken[i], strlen(broken[i]), &err), STATUS_OK, "%s",
                      broken[i]);
        cr_assert_eq(copy.input_count, model.input_count, "untouched on failure");
    }
    model_t copy = model;
    cr_assert_neq(model_parse_pb(&copy, "\xff\xff", 2, &err), STATUS_OK);
}
