#include "oip/classification.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "fixture.h"

Test(softmax, rows_sum_to_one)
{
    float scores[] = {1, 2, 3, 1000, 1001, -1000};
    oip_softmax_fp32(scores, 2, 3);
    cr_assert_float_eq(scores[0], 0.09003057F, 1e-6);
    cr_assert_float_eq(scores[2], 0.66524096F, 1e-6);
    cr_assert_float_eq(scores[3] + scores[4] + scores[5], 1, 1e-6, "large scores do not overflow");
    cr_assert_float_eq(scores[4], 0.7310586F, 1e-6);
    uint8_t odd[9];
    memcpy(odd + 1, (const float[]){0, 0}, 8);
    oip_softmax_fp32(odd + 1, 1, 2);
    memcpy(scores, odd + 1, 8);
    cr_assert_float_eq(scores[0], 0.5F, 1e-6, "at any alignment");
    float bad[] = {NAN, 1};
    oip_softmax_fp32(bad, 1, 2);
    cr_assert(isnan(bad[0]));
    oip_softmax_fp32(NULL, 0, 0);
}

/* The elements, joined by spaces. */
static const char *classify(oip_datatype_t type, const void *row, uint32_t classes, uint32_t k)
{
    static uint8_t out[4096];
    static char text[4096];
    size_t len = oip_classify_row(&fixture_pair, type, row, classes, k, out), offset = 0, used = 0;
    const uint8_t *element;
    uint32_t size;
    cr_assert_leq(len, oip_classify_row_bytes(&fixture_pair, k));
    while (oip_bytes_next(out, len, &offset, &element, &size))
        used += (size_t)sprintf(text + used, "%s%.*s", used ? " " : "", (int)size, (const char *)element);
    cr_assert_eq(offset, len);
    return text;
}

Test(classify, best_first)
{
    cr_assert_str_eq(classify(OIP_FP32, (const float[]){0.25F, 0.5F, -1, 0.125F}, 4, 3),
                     "0.500000:1:dog 0.250000:0:cat 0.125000:3:a:b");
    cr_assert_str_eq(classify(OIP_FP32, (const float[]){1, 1, 2, NAN}, 4, 9),
                     "2.000000:2 1.000000:0:cat 1.000000:1:dog nan:3:a:b");
    cr_assert_str_eq(classify(OIP_UINT8, (const uint8_t[]){3, 200}, 2, 1), "200:1:dog");
    cr_assert_str_eq(classify(OIP_INT8, (const int8_t[]){-3, -100}, 2, 1), "-3:0:cat");
    cr_assert_str_eq(classify(OIP_INT64, (const int64_t[]){1, 2, 3, 4, 5}, 5, 2), "5:4 4:3:a:b");
    cr_assert_str_eq(classify(OIP_UINT16, (const uint16_t[]){65535, 1}, 2, 1), "65535:0:cat");
    cr_assert_str_eq(classify(OIP_INT32, (const int32_t[]){-5, 5}, 2, 1), "5:1:dog");
    cr_assert_str_eq(classify(OIP_FP64, (const double[]){1e300, 5}, 2, 1), "1e+300:0:cat");
    cr_assert_str_eq(classify(OIP_FP32, (const float[]){3.4028235e38F}, 1, 1),
                     "340282346638528859811704183484516925440.000000:0:cat");
}

Test(classify, shapes)
{
    oip_shape_t row = {.rank = 1, .dims = {4}}, shape;
    uint32_t classes;
    err_t err;
    cr_assert_eq(oip_classify_shape(&fixture_pair, &fixture_outputs[0], &row, 3, 9, &shape, &classes, &err),
                 STATUS_OK);
    cr_assert(shape.rank == 2 && shape.dims[0] == 3 && shape.dims[1] == 4 && classes == 4);
    oip_model_spec_t single = fixture_pair;
    single.max_batch = 0;
    cr_assert_eq(oip_classify_shape(&single, &fixture_outputs[0], &row, 1, 2, &shape, &classes, &err),
                 STATUS_OK);
    cr_assert(shape.rank == 1 && shape.dims[0] == 2);
    cr_assert_eq(oip_classify_shape(&single, &fixture_outputs[0], &row, 1, 0, &shape, &classes, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(oip_classify_shape(&single, &fixture_outputs[0], &row, 1, 100000, &shape, &classes, &err),
                 STATUS_INVALID_ARGUMENT);
    oip_tensor_spec_t text = {.name = "t", .datatype = OIP_BYTES};
    cr_assert_eq(oip_classify_shape(&single, &text, &row, 1, 1, &shape, &classes, &err),
                 STATUS_INVALID_ARGUMENT);
    row.dims[0] = 0;
    cr_assert_eq(oip_classify_shape(&single, &fixture_outputs[0], &row, 1, 1, &shape, &classes, &err),
                 STATUS_INVALID_ARGUMENT);
}
