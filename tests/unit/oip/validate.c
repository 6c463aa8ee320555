#include "oip/request.h"

#include <criterion/criterion.h>

#include "fixture.h"

static oip_request_t request;
static err_t err;
static uint8_t zeros[4096];

static void put_input(const char *name, oip_datatype_t type, oip_shape_t shape, size_t len_bytes)
{
    request.inputs[request.input_count++] =
        (oip_input_t){.name = name, .datatype = type, .shape = shape, .data = zeros, .len_bytes = len_bytes};
}

#define SHAPE(n, ...) ((oip_shape_t){.rank = (n), .dims = {__VA_ARGS__}})

static void assert_bad(const oip_model_spec_t *spec, const char *says)
{
    cr_assert_eq(oip_validate_request(&request, spec, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, says), "'%s' is not in '%s'", says, err.text);
    oip_request_init(&request);
}

Test(validate, rows_and_order)
{
    oip_request_init(&request);
    put_input("b", OIP_BYTES, SHAPE(2, 3, 2), 24);
    put_input("a", OIP_FP32, SHAPE(2, 3, 3), 36);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.rows == 3 && request.batched && request.inputs[0].spec_index == 1);
}

Test(validate, sizes_and_batches)
{
    oip_request_init(&request);
    put_input("a", OIP_FP32, SHAPE(2, 1, 3), 11);
    assert_bad(&fixture_pair, "input 'a' has 11 bytes, shape [1,3] of FP32 needs 12");
    put_input("a", OIP_FP32, SHAPE(2, 5, 3), 60);
    assert_bad(&fixture_pair, "batch of 5, 1 to 4");
    put_input("a", OIP_FP32, SHAPE(2, 0, 3), 0);
    assert_bad(&fixture_pair, "batch of 0");
    put_input("a", OIP_FP32, SHAPE(2, 2, 3), 24);
    put_input("b", OIP_BYTES, SHAPE(2, 1, 2), 8);
    assert_bad(&fixture_pair, "input 'b' has a batch of 1, input 'a' of 2");
    put_input("a", OIP_FP32, SHAPE(1, 3), 12);
    assert_bad(&fixture_pair, "shape [3], expected [-1,3]");
    put_input("a", OIP_FP32, SHAPE(2, 1, 3), 12);
    put_input("b", OIP_BYTES, SHAPE(2, 1, 2), 7);
    assert_bad(&fixture_pair, "broken BYTES");
    put_input("a", OIP_FP32, SHAPE(2, 1, 3), 12);
    put_input("b", OIP_BYTES, SHAPE(2, 1, 2), 12);
    assert_bad(&fixture_pair, "input 'b' has 3 elements");
    put_input("a", OIP_FP32, SHAPE(2, 1, 3), 12);
    request.inputs[0].data = NULL;
    assert_bad(&fixture_pair, "no data");
    assert_bad(&fixture_pair, "missing input 'a'");
}

Test(validate, unbatched_and_variable)
{
    oip_tensor_spec_t x = {.name = "x", .datatype = OIP_UINT8, .dims = {.rank = 2, .dims = {-1, 2}}};
    oip_model_spec_t spec = fixture_single(&x, 0);
    oip_request_init(&request);
    put_input("x", OIP_UINT8, SHAPE(2, 7, 2), 14);
    cr_assert_eq(oip_validate_request(&request, &spec, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.rows == 1 && !request.batched);
    oip_request_init(&request);
    put_input("x", OIP_UINT8, SHAPE(2, -1, 2), 14);
    assert_bad(&spec, "shape");
    put_input("x", OIP_UINT8, SHAPE(2, INT64_MAX, 2), 14);
    assert_bad(&spec, "impossible shape");
}

/* A text without words before, and one without any. */
Test(validate, a_size_may_be_zero_but_not_everything_empty)
{
    const oip_axis_t axes[] = {{.name = "past", .size_max = 9}, {.name = "words", .size_max = 9}};
    oip_tensor_spec_t inputs[] = {
        {.name = "p", .datatype = OIP_UINT8, .dims = {.rank = 1, .dims = {-1}}, .axes = {1}},
        {.name = "x", .datatype = OIP_UINT8, .dims = {.rank = 1, .dims = {-1}}, .axes = {2}}};
    oip_model_spec_t spec = fixture_single(inputs, 4);
    spec.inputs = inputs;
    spec.input_count = 2;
    spec.axes = axes;
    spec.axis_count = 2;
    oip_request_init(&request);
    put_input("p", OIP_UINT8, SHAPE(2, 2, 0), 0);
    put_input("x", OIP_UINT8, SHAPE(2, 2, 3), 6);
    cr_assert_eq(oip_validate_request(&request, &spec, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.axis_sizes[0] == 0 && request.axis_sizes[1] == 3);
    oip_request_init(&request);
    put_input("p", OIP_UINT8, SHAPE(2, 2, 0), 0);
    put_input("x", OIP_UINT8, SHAPE(2, 2, 0), 0);
    assert_bad(&spec, "every input is empty, with past 0");
    put_input("p", OIP_UINT8, SHAPE(2, 1, 10), 10);
    put_input("x", OIP_UINT8, SHAPE(2, 1, 3), 3);
    assert_bad(&spec, "input 'p' has past 10, 0 to 9 are possible");
}

Test(validate, pictures)
{
    oip_request_init(&request);
    put_input("image", OIP_BYTES, SHAPE(2, 3, 1), 12);
    cr_assert_eq(oip_validate_request(&request, &fixture_picture, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.rows == 3 && request.inputs[0].picture);
    oip_request_init(&request);
    put_input("image", OIP_BYTES, SHAPE(1, 2), 8);
    cr_assert_eq(oip_validate_request(&request, &fixture_picture, &err), STATUS_OK, "%s", err.text);
    oip_request_init(&request);
    put_input("image", OIP_BYTES, SHAPE(2, 3, 2), 24);
    assert_bad(&fixture_picture, "expected [-1,1]");
    put_input("image", OIP_BYTES, SHAPE(1, 9), 36);
    assert_bad(&fixture_picture, "batch of 9, 1 to 8");
    put_input("image", OIP_UINT8, SHAPE(4, 1, 1, 2, 2), 4);
    assert_bad(&fixture_picture, "expected FP32");
    oip_model_spec_t single = fixture_picture;
    single.max_batch = 0;
    put_input("image", OIP_BYTES, SHAPE(1, 2), 8);
    assert_bad(&single, "expected [1,1]");
    put_input("image", OIP_BYTES, SHAPE(1, 1), 4);
    cr_assert_eq(oip_validate_request(&request, &single, &err), STATUS_OK, "%s", err.text);
    oip_request_init(&request);
    put_input("a", OIP_BYTES, SHAPE(1, 1), 4);
    assert_bad(&fixture_pair, "expected FP32");
}

Test(request, texts_are_bounded)
{
    char name[OIP_NAME_BYTES] = {0};
    memset(name, 'n', sizeof name - 1);
    oip_request_init(&request);
    int kept = 0;
    while (oip_request_keep(&request, name, sizeof name - 1))
        kept++;
    cr_assert_eq(kept, OIP_TEXT_BYTES / OIP_NAME_BYTES);
}

Test(validate, what_cannot_be_classified_is_refused)
{
    static const struct {
        oip_datatype_t type;
        uint32_t k;
        const char *says;
    } cases[] = {{OIP_FP16, 1, "is FP16, classification needs numbers"},
                 {OIP_BOOL, 1, "is BOOL, classification needs numbers"},
                 {OIP_FP32, 1025, "must be 1 to 1024"}};
    oip_tensor_spec_t input = {.name = "a", .datatype = OIP_FP32, .dims = {.rank = 1, .dims = {3}}};
    oip_model_spec_t spec = fixture_single(&input, 4);
    oip_tensor_spec_t output = spec.outputs[0];
    spec.outputs = &output;
    spec.output_count = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        oip_request_init(&request);
        output.datatype = cases[i].type;
        put_input("a", OIP_FP32, SHAPE(2, 1, 3), 12);
        request.requested_count = 1;
        request.requested[0] = (oip_requested_t){.name = output.name, .classification = cases[i].k};
        assert_bad(&spec, cases[i].says);
    }
}
