#include "oip/grpc_codec.h"

#include "open_inference.pb-c.h"

#include <criterion/criterion.h>
#include <math.h>

#include "fixture.h"

typedef Inference__ModelInferRequest__InferInputTensor input_message_t;

static oip_request_t request;
static fixture_memory_t memory;
static oip_allocator_t allocator;
static err_t err;

static void setup(void)
{
    memory = (fixture_memory_t){.left_bytes = 1 << 20};
    allocator = (oip_allocator_t){fixture_alloc, &memory};
    err = (err_t){0};
}

static void teardown(void)
{
    fixture_free(&memory);
}

TestSuite(grpc, .init = setup, .fini = teardown);

static status_t parse_bytes(const uint8_t *bytes, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);
    memcpy(exact, bytes, len);
    memory.blocks[memory.count++] = exact;
    return oip_grpc_parse(&request, exact, len, &allocator, &err);
}

static size_t packed_bytes;
static uint8_t packed[65536];

static status_t parse(const Inference__ModelInferRequest *message)
{
    packed_bytes = inference__model_infer_request__pack(message, packed);
    return parse_bytes(packed, packed_bytes);
}

Test(grpc, typed_contents_of_every_datatype)
{
    static protobuf_c_boolean bools[] = {1, 0};
    static int32_t ints[] = {-7, 8};
    static int64_t longs[] = {INT64_MIN, 8};
    static uint32_t uints[] = {7, 200};
    static uint64_t ulongs[] = {UINT64_MAX, 8};
    static float floats[] = {0.5F, -1};
    static double doubles[] = {0.5, -1};
    static ProtobufCBinaryData texts[] = {{2, (uint8_t *)"ab"}, {0, NULL}};
    static const struct {
        oip_datatype_t type;
        Inference__InferTensorContents contents;
        const char *wanted;
        size_t wanted_bytes;
    } cases[] = {
#define CASE(type, field, values, wanted, bytes)                                              \
    {type,                                                                                    \
     {PROTOBUF_C_MESSAGE_INIT(&inference__infer_tensor_contents__descriptor), .n_##field = 2, \
      .field = values},                                                                       \
     (const char *)(wanted),                                                                  \
     bytes}
        CASE(OIP_BOOL, bool_contents, bools, "\1\0", 2),
        CASE(OIP_INT8, int_contents, ints, "\xf9\x08", 2),
        CASE(OIP_INT16, int_contents, ints, "\xf9\xff\x08\0", 4),
        CASE(OIP_INT32, int_contents, ints, ints, 8),
        CASE(OIP_INT64, int64_contents, longs, longs, 16),
        CASE(OIP_UINT8, uint_contents, uints, "\x07\xc8", 2),
        CASE(OIP_UINT16, uint_contents, uints, "\x07\0\xc8\0", 4),
        CASE(OIP_UINT32, uint_contents, uints, uints, 8),
        CASE(OIP_UINT64, uint64_contents, ulongs, ulongs, 16),
        CASE(OIP_FP32, fp32_contents, floats, floats, 8),
        CASE(OIP_FP64, fp64_contents, doubles, doubles, 16),
        CASE(OIP_BYTES, bytes_contents, texts, "\2\0\0\0ab\0\0\0\0", 10),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Inference__ModelInferRequest message = INFERENCE__MODEL_INFER_REQUEST__INIT;
        input_message_t input = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT,
                        *inputs[] = {&input};
        int64_t dims[] = {1, 2};
        Inference__InferTensorContents contents = cases[i].contents;
        input.name = (char *)"x";
        input.datatype = (char *)(uintptr_t)oip_datatype_name(cases[i].type);
        input.n_shape = 2;
        input.shape = dims;
        input.contents = &contents;
        message.n_inputs = 1;
        message.inputs = inputs;
        cr_assert_eq(parse(&message), STATUS_OK, "%s: %s", input.datatype, err.text);
        cr_assert_eq(request.inputs[0].len_bytes, cases[i].wanted_bytes, "%s", input.datatype);
        cr_assert_eq(memcmp(request.inputs[0].data, cases[i].wanted, cases[i].wanted_bytes), 0, "%s",
                     input.datatype);
        oip_tensor_spec_t x = {.name = "x", .datatype = cases[i].type, .dims = {.rank = 1, .dims = {2}}};
        oip_model_spec_t spec = fixture_single(&x, 4);
        cr_assert_eq(oip_validate_request(&request, &spec, &err), STATUS_OK, "%s", err.text);
    }
}

/* Two raw inputs of the pair model, an id, parameters and an output. */
typedef struct {
    Inference__ModelInferRequest message;
    input_message_t input[2], *inputs[2];
    ProtobufCBinaryData raw[2];
    Inference__InferParameter value[2];
    Inference__ModelInferRequest__ParametersEntry entry[2], *entries[2];
    Inference__ModelInferRequest__InferRequestedOutputTensor output, *outputs[1];
    Inference__ModelInferRequest__InferRequestedOutputTensor__ParametersEntry output_entry,
        *output_entries[1];
    Inference__InferParameter output_value;
    int64_t dims[2][2];
} pair_t;

static void pair_init(pair_t *pair)
{
    inference__model_infer_request__init(&pair->message);
    pair->dims[0][0] = pair->dims[1][0] = 1;
    pair->dims[0][1] = 3;
    pair->dims[1][1] = 2;
    for (int i = 0; i < 2; i++) {
        inference__model_infer_request__infer_input_tensor__init(&pair->input[i]);
        pair->input[i].name = (char *)(i ? "b" : "a");
        pair->input[i].datatype = (char *)(i ? "BYTES" : "FP32");
        pair->input[i].n_shape = 2;
        pair->input[i].shape = pair->dims[i];
        pair->inputs[i] = &pair->input[i];
        inference__infer_parameter__init(&pair->value[i]);
        inference__model_infer_request__parameters_entry__init(&pair->entry[i]);
        pair->entry[i].value = &pair->value[i];
        pair->entries[i] = &pair->entry[i];
    }
    pair->raw[0] = (ProtobufCBinaryData){12, (uint8_t *)"123456789012"};
    pair->raw[1] = (ProtobufCBinaryData){9, (uint8_t *)"\1\0\0\0x\0\0\0\0"};
    pair->entry[0].key = (char *)"timeout";
    pair->value[0].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    pair->value[0].int64_param = 2500;
    pair->entry[1].key = (char *)"fermata_timing";
    pair->value[1].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    pair->value[1].bool_param = 1;
    inference__model_infer_request__infer_requested_output_tensor__init(&pair->output);
    inference__model_infer_request__infer_requested_output_tensor__parameters_entry__init(
        &pair->output_entry);
    inference__infer_parameter__init(&pair->output_value);
    pair->output_entry.key = (char *)"classification";
    pair->output_entry.value = &pair->output_value;
    pair->output_value.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    pair->output_value.int64_param = 3;
    pair->output_entries[0] = &pair->output_entry;
    pair->output.name = (char *)"y";
    pair->output.n_parameters = 1;
    pair->output.parameters = pair->output_entries;
    pair->outputs[0] = &pair->output;
    pair->message.model_name = (char *)"pair";
    pair->message.model_version = (char *)"1";
    pair->message.id = (char *)"id7";
    pair->message.n_parameters = 2;
    pair->message.parameters = pair->entries;
    pair->message.n_inputs = 2;
    pair->message.inputs = pair->inputs;
    pair->message.n_outputs = 1;
    pair->message.outputs = pair->outputs;
    pair->message.n_raw_input_contents = 2;
    pair->message.raw_input_contents = pair->raw;
}

Test(grpc, raw_contents_are_borrowed)
{
    pair_t pair;
    pair_init(&pair);
    cr_assert_eq(parse(&pair.message), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert_str_eq(request.model, "pair");
    cr_assert_str_eq(request.id, "id7");
    cr_assert(request.timeout_us == 2500 && request.wants_timing && request.requested[0].classification == 3);
    cr_assert(request.inputs[0].borrowed && memcmp(request.inputs[0].data, "123456789012", 12) == 0);
    const uint8_t *message = memory.blocks[memory.count - 1];
    cr_assert(request.inputs[0].data > message && request.inputs[0].data < message + packed_bytes);
    const char *model, *version;
    size_t model_len, version_len;
    cr_assert_eq(oip_grpc_peek_model(packed, packed_bytes, &model, &model_len, &version, &version_len),
                 STATUS_OK);
    cr_assert(model_len == 4 && memcmp(model, "pair", 4) == 0 && version_len == 1 && *version == '1');
}

static void assert_bad(const pair_t *pair, const char *says)
{
    status_t status = parse(&pair->message);
    if (status == STATUS_OK)
        status = oip_validate_request(&request, &fixture_pair, &err);
    cr_assert_eq(status, STATUS_INVALID_ARGUMENT, "%s", says);
    cr_assert(strstr(err.text, says), "'%s' is not in '%s'", says, err.text);
}

Test(grpc, bad_requests_name_the_field)
{
    pair_t pair;
    pair_init(&pair);
    pair.message.n_raw_input_contents = 1;
    assert_bad(&pair, "1 raw_input_contents for 2 inputs");
    pair.message.n_raw_input_contents = 0;
    assert_bad(&pair, "input 'a' has no data");
    pair_init(&pair);
    Inference__InferTensorContents contents = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
    float floats[] = {1, 2, 3};
    contents.n_fp32_contents = 3;
    contents.fp32_contents = floats;
    pair.input[0].contents = &contents;
    assert_bad(&pair, "typed contents and raw_input_contents");
    pair.message.n_raw_input_contents = 0;
    pair.input[0].datatype = (char *)"INT32";
    assert_bad(&pair, "input 'a' of INT32 must use int_contents");
    pair.input[0].datatype = (char *)"FP16";
    assert_bad(&pair, "no typed contents");
    pair.input[0].datatype = (char *)"FP32";
    contents.n_fp32_contents = 2;
    assert_bad(&pair, "input 'a' has 8 bytes");
    pair_init(&pair);
    pair.input[0].datatype = (char *)"NUMBER";
    assert_bad(&pair, "input 'a' has no valid datatype");
    pair_init(&pair);
    pair.input[0].name = (char *)"";
    assert_bad(&pair, "no name");
    pair_init(&pair);
    pair.dims[0][1] = -3;
    assert_bad(&pair, "-3");
    pair_init(&pair);
    pair.output.name = (char *)"w";
    assert_bad(&pair, "unknown output 'w'");
    pair_init(&pair);
    pair.value[0].int64_param = -1;
    assert_bad(&pair, "'timeout'");
    pair_init(&pair);
    pair.value[0].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
    pair.value[0].string_param = (char *)"soon";
    assert_bad(&pair, "'timeout'");
}

/* Parameters of a tensor that say where it lies. */
typedef struct {
    Inference__InferParameter region, size;
    Inference__ModelInferRequest__InferInputTensor__ParametersEntry entry[2], *entries[2];
} place_t;

static void place_init(place_t *place, input_message_t *input)
{
    inference__infer_parameter__init(&place->region);
    inference__infer_parameter__init(&place->size);
    place->region.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
    place->region.string_param = (char *)"r";
    place->size.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    place->size.int64_param = 12;
    for (int i = 0; i < 2; i++) {
        inference__model_infer_request__infer_input_tensor__parameters_entry__init(&place->entry[i]);
        place->entry[i].key = (char *)(i ? "shared_memory_byte_size" : "shared_memory_region");
        place->entry[i].value = i ? &place->size : &place->region;
        place->entries[i] = &place->entry[i];
    }
    input->n_parameters = 2;
    input->parameters = place->entries;
}

Test(grpc, raw_contents_are_of_those_that_are_not_in_shared_memory)
{
    pair_t pair;
    place_t place;
    pair_init(&pair);
    place_init(&place, &pair.input[0]);
    pair.raw[0] = pair.raw[1];
    pair.message.n_raw_input_contents = 1;
    cr_assert_eq(parse(&pair.message), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.in_memory && !request.inputs[0].data);
    cr_assert_str_eq(request.inputs[0].memory.region, "r");
    cr_assert(request.inputs[1].len_bytes == 9 && request.inputs[1].data[4] == 'x');
    pair.message.n_raw_input_contents = 2;
    assert_bad(&pair, "2 raw_input_contents for 1 inputs");
    pair.message.n_raw_input_contents = 0;
    assert_bad(&pair, "input 'b' has no data");
}

Test(grpc, places_in_shared_memory_are_whole)
{
    pair_t pair;
    place_t place;
    Inference__InferTensorContents contents = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
    float floats[] = {1, 2, 3};
    contents.n_fp32_contents = 3;
    contents.fp32_contents = floats;
    pair_init(&pair);
    place_init(&place, &pair.input[0]);
    pair.message.n_raw_input_contents = 1;
    pair.input[0].contents = &contents;
    assert_bad(&pair, "both contents and a region");
    pair.input[0].contents = NULL;
    place.size.int64_param = -12;
    assert_bad(&pair, "'shared_memory_byte_size' must be an integer of at least 0");
    place.size.int64_param = 0;
    assert_bad(&pair, "input 'a' needs a 'shared_memory_byte_size'");
    place.size.int64_param = 12;
    place.region.string_param = (char *)"";
    assert_bad(&pair, "'shared_memory_region' must be the name of a region");
    place.entry[0].key = (char *)"else";
    assert_bad(&pair, "no 'shared_memory_region'");
    pair_init(&pair);
    pair.output_entry.key = (char *)"shared_memory_offset";
    assert_bad(&pair, "output 'y' has a place in shared memory and no");
}

Test(grpc, ranges_of_narrow_integers)
{
    Inference__ModelInferRequest message = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__InferTensorContents contents = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
    input_message_t input = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT, *inputs[] = {&input};
    int32_t number = 128;
    uint32_t natural = 256;
    message.n_inputs = 1;
    message.inputs = inputs;
    input.name = (char *)"x";
    input.datatype = (char *)"INT8";
    input.contents = &contents;
    contents.n_int_contents = 1;
    contents.int_contents = &number;
    cr_assert_eq(parse(&message), STATUS_INVALID_ARGUMENT);
    number = -129;
    cr_assert_eq(parse(&message), STATUS_INVALID_ARGUMENT);
    number = -128;
    cr_assert_eq(parse(&message), STATUS_OK, "%s", err.text);
    contents.n_int_contents = 0;
    input.datatype = (char *)"UINT8";
    contents.n_uint_contents = 1;
    contents.uint_contents = &natural;
    cr_assert_eq(parse(&message), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "out of range for UINT8"));
    memory.left_bytes = 0;
    natural = 255;
    cr_assert_eq(parse(&message), STATUS_UNAVAILABLE);
}

Test(grpc, unpacked_numbers_are_read_too)
{
    static const uint8_t message[] = {0x2a, 22,   0x0a, 1,    'x', 0x12, 5, 'I',  'N', 'T',  '3',
                                      '2',  0x18, 1,    0x18, 2,   0x2a, 4, 0x10, 5,   0x10, 6};
    uint8_t bytes[sizeof message + 2];
    memcpy(bytes, message, sizeof message);
    bytes[1] = sizeof message - 2;
    cr_assert_eq(parse_bytes(bytes, sizeof message), STATUS_OK, "%s", err.text);
    cr_assert(request.inputs[0].shape.rank == 2 && request.inputs[0].len_bytes == 8);
    cr_assert_eq(memcmp(request.inputs[0].data, (const int32_t[]){5, 6}, 8), 0);
}

Test(grpc, every_cut_and_flip_lives)
{
    pair_t pair;
    pair_init(&pair);
    parse(&pair.message);
    teardown();
    for (size_t len = 0; len < packed_bytes; len++) {
        setup();
        parse_bytes(packed, len);
        teardown();
    }
    for (size_t i = 0; i < packed_bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            setup();
            packed[i] ^= (uint8_t)(1 << bit);
            if (parse_bytes(packed, packed_bytes) == STATUS_OK)
                oip_validate_request(&request, &fixture_pair, &err);
            packed[i] ^= (uint8_t)(1 << bit);
            teardown();
        }
    }
    setup();
    static const uint8_t group[] = {0x0b, 0x0c}, zero[] = {0x00, 0x00},
                         endless[11] = {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    cr_assert_eq(parse_bytes(group, sizeof group), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse_bytes(zero, sizeof zero), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse_bytes(endless, sizeof endless), STATUS_INVALID_ARGUMENT);
}

Test(grpc, answer_is_what_protobuf_reads)
{
    static uint8_t large[2][6000];
    memset(large[0], 'a', 6000);
    memset(large[1], 'b', 6000);
    struct iovec big[] = {{large[0], 6000}, {large[1], 6000}}, small[] = {{(void *)"12345678", 8}};
    oip_response_t response = {.model = "m",
                               .version = "3",
                               .id = "id",
                               .output_count = 3,
                               .has_timing = true,
                               .batch_size = 5,
                               .queue_us = 300,
                               .compute_us = 70000};
    response.outputs[0] = (oip_output_t){.name = "y",
                                         .datatype = OIP_UINT8,
                                         .shape = {.rank = 2, .dims = {2, 6000}},
                                         .pieces = big,
                                         .piece_count = 2};
    response.outputs[1] = (oip_output_t){.name = "z",
                                         .datatype = OIP_INT64,
                                         .shape = {.rank = 1, .dims = {1}},
                                         .pieces = small,
                                         .piece_count = 1};
    response.outputs[2] =
        (oip_output_t){.name = "e", .datatype = OIP_FP32, .shape = {.rank = 1, .dims = {0}}};
    oip_reply_t reply;
    oip_reply_init(&reply, 1 << 16);
    cr_assert_eq(oip_grpc_write(&reply, &response, &err), STATUS_OK, "%s", err.text);
    uint8_t *bytes = malloc(reply.len_bytes);
    size_t len = 0;
    for (uint32_t i = 0; i < reply.iov_count; i++) {
        memcpy(bytes + len, reply.iov[i].iov_base, reply.iov[i].iov_len);
        len += reply.iov[i].iov_len;
    }
    cr_assert_eq(len, reply.len_bytes);
    Inference__ModelInferResponse *message = inference__model_infer_response__unpack(NULL, len, bytes);
    cr_assert_not_null(message);
    cr_assert_str_eq(message->model_name, "m");
    cr_assert_str_eq(message->id, "id");
    cr_assert_eq(message->n_parameters, 3);
    cr_assert_str_eq(message->parameters[2]->key, "fermata_compute_us");
    cr_assert_eq(message->parameters[2]->value->int64_param, 70000);
    cr_assert_eq(message->n_outputs, 3);
    cr_assert_str_eq(message->outputs[0]->datatype, "UINT8");
    cr_assert(message->outputs[0]->n_shape == 2 && message->outputs[0]->shape[1] == 6000);
    cr_assert_eq(message->n_raw_output_contents, 3);
    cr_assert_eq(message->raw_output_contents[0].len, 12000);
    cr_assert_eq(message->raw_output_contents[0].data[11999], 'b');
    cr_assert_eq(memcmp(message->raw_output_contents[1].data, "12345678", 8), 0);
    cr_assert_eq(message->raw_output_contents[2].len, 0);
    inference__model_infer_response__free_unpacked(message, NULL);
    free(bytes);
    oip_reply_dispose(&reply);
}

Test(grpc, an_output_in_shared_memory_keeps_its_place_among_the_raw_ones)
{
    struct iovec piece = {(void *)"12345678", 8};
    const oip_memory_t place = {"r", 0, 99};
    oip_response_t response = {.model = "m", .version = "3", .id = "", .output_count = 2};
    response.outputs[1] = (oip_output_t){.name = "z",
                                         .datatype = OIP_INT64,
                                         .shape = {.rank = 1, .dims = {1}},
                                         .pieces = &piece,
                                         .piece_count = 1};
    response.outputs[0] = response.outputs[1];
    response.outputs[0].name = "y";
    response.outputs[0].memory = &place;
    oip_reply_t reply;
    oip_reply_init(&reply, 1 << 16);
    cr_assert_eq(oip_grpc_write(&reply, &response, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(reply.iov_count, 1);
    Inference__ModelInferResponse *message =
        inference__model_infer_response__unpack(NULL, reply.len_bytes, reply.iov[0].iov_base);
    cr_assert_not_null(message);
    cr_assert_str_eq(message->outputs[0]->name, "y");
    cr_assert_eq(message->n_raw_output_contents, 2);
    cr_assert(message->raw_output_contents[0].len == 0 && message->raw_output_contents[1].len == 8);
    inference__model_infer_response__free_unpacked(message, NULL);
    oip_reply_dispose(&reply);
}
