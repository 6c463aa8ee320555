#include "oip/model_spec.h"

#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

Test(tensor, datatype_names_go_both_ways)
{
    for (int i = OIP_INVALID + 1; i < OIP_DATATYPE_COUNT; i++) {
        const char *name = oip_datatype_name((oip_datatype_t)i);
        cr_assert_eq(oip_datatype_parse(name, strlen(name)), (oip_datatype_t)i, "%s", name);
    }
    cr_assert_eq(oip_datatype_parse("FP3", 3), OIP_INVALID);
    cr_assert_eq(oip_datatype_parse("fp32", 4), OIP_INVALID);
    cr_assert_eq(oip_datatype_parse("INVALID", 7), OIP_INVALID);
    cr_assert_eq(oip_datatype_parse("", 0), OIP_INVALID);
    cr_assert_str_eq(oip_datatype_name((oip_datatype_t)99), "INVALID");
}

Test(tensor, sizes)
{
    cr_assert_eq(oip_datatype_bytes(OIP_BOOL), 1);
    cr_assert_eq(oip_datatype_bytes(OIP_BF16), 2);
    cr_assert_eq(oip_datatype_bytes(OIP_FP32), 4);
    cr_assert_eq(oip_datatype_bytes(OIP_UINT64), 8);
    cr_assert_eq(oip_datatype_bytes(OIP_BYTES), 0);
    cr_assert_str_eq(oip_datatype_config_name(OIP_BYTES), "TYPE_STRING");
}

Test(tensor, counts_are_checked_for_overflow)
{
    uint64_t count = 7;
    oip_shape_t shape = {.rank = 3, .dims = {2, 3, 4}};
    cr_assert(oip_shape_elements(&shape, &count));
    cr_assert_eq(count, 24);
    cr_assert(oip_shape_bytes(&shape, OIP_FP64, &count));
    cr_assert_eq(count, 192);
    shape.rank = 0;
    cr_assert(oip_shape_elements(&shape, &count));
    cr_assert_eq(count, 1);
    shape = (oip_shape_t){.rank = 2, .dims = {INT64_C(1) << 32, INT64_C(1) << 32}};
    cr_assert_not(oip_shape_elements(&shape, &count));
    shape = (oip_shape_t){.rank = 3, .dims = {0, INT64_C(1) << 32, INT64_C(1) << 32}};
    cr_assert_not(oip_shape_elements(&shape, &count), "a zero hides no overflow");
    shape = (oip_shape_t){.rank = 1, .dims = {INT64_MAX}};
    cr_assert(oip_shape_elements(&shape, &count));
    cr_assert_not(oip_shape_bytes(&shape, OIP_INT16, &count));
    shape.dims[0] = -1;
    cr_assert_not(oip_shape_elements(&shape, &count));
}

Test(tensor, matching_and_text)
{
    char text[OIP_SHAPE_TEXT_BYTES];
    oip_shape_t wanted = {.rank = 2, .dims = {-1, 3}}, got = {.rank = 2, .dims = {5, 3}};
    cr_assert(oip_shape_matches(&wanted, &got));
    cr_assert_str_eq(oip_shape_format(&wanted, text), "[-1,3]");
    got.dims[1] = 4;
    cr_assert_not(oip_shape_matches(&wanted, &got));
    got = (oip_shape_t){.rank = 3, .dims = {5, 3, 1}};
    cr_assert_not(oip_shape_matches(&wanted, &got));
    oip_shape_t longest = {.rank = 8};
    for (int i = 0; i < 8; i++)
        longest.dims[i] = INT64_MIN;
    cr_assert_eq(strlen(oip_shape_format(&longest, text)), 8 * 20 + 7 + 2);
}

Test(tensor, bytes_framing)
{
    const uint8_t two[] = {1, 0, 0, 0, 'x', 0, 0, 0, 0};
    const uint8_t *element;
    uint32_t size;
    size_t offset = 0;
    cr_assert_eq(oip_bytes_count(two, sizeof two), 2);
    cr_assert(oip_bytes_next(two, sizeof two, &offset, &element, &size));
    cr_assert(size == 1 && *element == 'x');
    cr_assert_eq(oip_bytes_count(two, sizeof two - 1), -1, "cut in a length");
    cr_assert_eq(oip_bytes_count(two, 4), -1, "cut in an element");
    const uint8_t lying[] = {0xff, 0xff, 0xff, 0xff, 'x'};
    cr_assert_eq(oip_bytes_count(lying, sizeof lying), -1);
    cr_assert_eq(oip_bytes_count(NULL, 0), 0);
}

Test(model_spec, public_shape_has_the_batch)
{
    oip_shape_t shape = oip_model_spec_public_shape(&fixture_pair, &fixture_pair_inputs[0]);
    cr_assert(shape.rank == 2 && shape.dims[0] == -1 && shape.dims[1] == 3);
    oip_model_spec_t single = fixture_pair;
    single.max_batch = 0;
    shape = oip_model_spec_public_shape(&single, &fixture_pair_inputs[0]);
    cr_assert(shape.rank == 1 && shape.dims[0] == 3);
}

static void assert_refused(const oip_model_spec_t *spec, const char *text)
{
    err_t err = {0};
    cr_assert_eq(oip_model_spec_check(spec, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, text), "'%s' is not in '%s'", text, err.text);
}

Test(model_spec, check)
{
    err_t err;
    cr_assert_eq(oip_model_spec_check(&fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_model_spec_check(&fixture_picture, &err), STATUS_OK, "%s", err.text);
    oip_tensor_spec_t x = {.name = "x", .datatype = OIP_FP32, .dims = {.rank = 2, .dims = {-1, 3}}};
    oip_model_spec_t spec = fixture_single(&x, 4);
    cr_assert_eq(oip_model_spec_check(&spec, &err), STATUS_OK, "%s", err.text);
    x.dims.dims[0] = -2;
    assert_refused(&spec, "-2");
    x.dims = (oip_shape_t){.rank = 8};
    assert_refused(&spec, "limit of 7");
    x.dims = (oip_shape_t){.rank = 2, .dims = {INT64_MAX, 4}};
    assert_refused(&spec, "larger than memory");
    x = (oip_tensor_spec_t){.name = "x", .datatype = OIP_INVALID};
    assert_refused(&spec, "datatype");
    x = (oip_tensor_spec_t){.name = "", .datatype = OIP_FP32};
    assert_refused(&spec, "without a name");
    spec.input_count = 0;
    assert_refused(&spec, "0 inputs");
    oip_tensor_spec_t twice[] = {fixture_pair_inputs[0], fixture_pair_inputs[0]};
    spec = fixture_pair;
    spec.inputs = twice;
    assert_refused(&spec, "twice");
    spec = fixture_pair;
    spec.softmax_output = 1;
    assert_refused(&spec, "FP32");
    spec.softmax_output = 2;
    assert_refused(&spec, "softmax");
    spec.softmax_output = -1;
    spec.picture_input = 2;
    assert_refused(&spec, "picture");
}
