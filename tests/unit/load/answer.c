#include "load/answer.h"

#include "open_inference.pb-c.h"

#include <criterion/criterion.h>
#include <string.h>

Test(answer, rest_timing_is_found)
{
    static const char body[] =
        "{\"model_name\":\"m\",\"model_version\":\"1\",\"parameters\":{\"fermata_batch_size\":8,"
        "\"fermata_queue_us\": 1200,\"fermata_compute_us\":34},\"outputs\":[]}\x01\x02";
    timing_t timing;
    answer_timing(PROTOCOL_REST, (const uint8_t *)body, sizeof body - 1, &timing);
    cr_assert(timing.known);
    cr_assert_eq(timing.batch_size, 8);
    cr_assert_eq(timing.queue_us, 1200);
    cr_assert_eq(timing.compute_us, 34);
}

Test(answer, rest_without_timing_is_unknown)
{
    static const char *const bodies[] = {"{}", "", "{\"parameters\":{\"fermata_batch_size\":8}}",
                                         "{\"parameters\":{\"fermata_batch_size\":"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        timing_t timing;
        answer_timing(PROTOCOL_REST, (const uint8_t *)bodies[i], strlen(bodies[i]), &timing);
        cr_assert_not(timing.known, "%s", bodies[i]);
    }
}

/* A response with three parameters, a word and a float as outputs. */
static size_t pack_answer(uint8_t *out)
{
    static const char *const names[] = {"fermata_batch_size", "fermata_compute_us", "fermata_queue_us"};
    static uint8_t words[] = "\3\0\0\0yes";
    static float floats[] = {0.5f};
    Inference__InferParameter values[3];
    Inference__ModelInferResponse__ParametersEntry entries[3], *entry_list[3];
    Inference__ModelInferResponse__InferOutputTensor outputs[2], *output_list[] = {&outputs[0], &outputs[1]};
    Inference__ModelInferResponse response = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    ProtobufCBinaryData raw[] = {{.data = words, .len = 7},
                                 {.data = (uint8_t *)floats, .len = sizeof floats}};

    for (int i = 0; i < 3; i++) {
        inference__infer_parameter__init(&values[i]);
        values[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
        values[i].int64_param = 100 + i;
        inference__model_infer_response__parameters_entry__init(&entries[i]);
        entries[i].key = (char *)names[i];
        entries[i].value = &values[i];
        entry_list[i] = &entries[i];
    }
    for (int i = 0; i < 2; i++)
        inference__model_infer_response__infer_output_tensor__init(&outputs[i]);
    outputs[0].name = (char *)"label";
    outputs[0].datatype = (char *)"BYTES";
    outputs[1].name = (char *)"chance";
    outputs[1].datatype = (char *)"FP32";
    response.model_name = (char *)"m";
    response.parameters = entry_list;
    response.n_parameters = 3;
    response.outputs = output_list;
    response.n_outputs = 2;
    response.raw_output_contents = raw;
    response.n_raw_output_contents = 2;
    return inference__model_infer_response__pack(&response, out);
}

Test(answer, grpc_timing_is_found_in_any_order)
{
    uint8_t body[512];
    timing_t timing;
    answer_timing(PROTOCOL_GRPC, body, pack_answer(body), &timing);
    cr_assert(timing.known);
    cr_assert_eq(timing.batch_size, 100);
    cr_assert_eq(timing.compute_us, 101);
    cr_assert_eq(timing.queue_us, 102);
}

Test(answer, cut_off_grpc_is_never_read_past_its_end)
{
    uint8_t body[512];
    const size_t len = pack_answer(body);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *copy = malloc(cut + 1);
        timing_t timing;
        memcpy(copy, body, cut);
        copy = realloc(copy, cut ? cut : 1);
        answer_timing(PROTOCOL_GRPC, copy, cut, &timing);
        free(copy);
    }
}

Test(answer, outputs_as_json)
{
    uint8_t body[512];
    strbuf_t out;
    err_t err;
    strbuf_init(&out, 4096);
    cr_assert_eq(answer_outputs(PROTOCOL_GRPC, body, pack_answer(body), &out, &err), STATUS_OK);
    cr_assert_str_eq(out.data, "{\"label\":[\"yes\"],\"chance\":[0.5]}");
    strbuf_clear(&out);
    static const char rest[] = "{\"outputs\":[{\"name\":\"label\",\"data\":[\"0.9:7:7\"]}]}";
    cr_assert_eq(answer_outputs(PROTOCOL_REST, (const uint8_t *)rest, sizeof rest - 1, &out, &err),
                 STATUS_OK);
    cr_assert_str_eq(out.data, "{\"label\":[\"0.9:7:7\"]}");
    strbuf_clear(&out);
    cr_assert_neq(answer_outputs(PROTOCOL_REST, (const uint8_t *)"{", 1, &out, &err), STATUS_OK);
    cr_assert_neq(answer_outputs(PROTOCOL_GRPC, (const uint8_t *)"\xff", 1, &out, &err), STATUS_OK);
    strbuf_dispose(&out);
}
