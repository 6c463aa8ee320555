#include "gateway/sessions/postprocess.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const oip_tensor_spec_t outputs[] = {
    {.name = "scores", .datatype = OIP_FP32, .dims = {.rank = 1, .dims = {3}}},
    {.name = "text", .datatype = OIP_BYTES, .dims = {.rank = 1, .dims = {1}}},
};
static const char *const labels[] = {"a", "b", "c"};
static oip_model_spec_t spec;
static oip_request_t request;
static oip_response_t response;
static float rows[2][3];
static struct iovec pieces[2];
static uint8_t memory[8192];
static size_t memory_left;
static oip_allocator_t allocator;
static err_t err;

static void *take(void *self, size_t len_bytes)
{
    (void)self;
    return len_bytes > memory_left ? NULL : memory;
}

static void setup(void)
{
    spec = (oip_model_spec_t){.name = "m",
                              .max_batch = 4,
                              .output_count = 2,
                              .outputs = outputs,
                              .labels = labels,
                              .label_count = 3,
                              .picture_input = -1,
                              .softmax_output = 0};
    memcpy(rows, (const float[2][3]){{1, 2, 3}, {3, 0, 1}}, sizeof rows);
    pieces[0] = (struct iovec){rows[0], sizeof rows[0]};
    pieces[1] = (struct iovec){rows[1], sizeof rows[1]};
    oip_request_init(&request);
    request.rows = 2;
    response = (oip_response_t){.output_count = 1};
    response.outputs[0] = (oip_output_t){.name = "scores",
                                         .datatype = OIP_FP32,
                                         .shape = {.rank = 2, .dims = {2, 3}},
                                         .pieces = pieces,
                                         .piece_count = 2};
    memory_left = sizeof memory;
    allocator = (oip_allocator_t){take, NULL};
}

TestSuite(postprocess, .init = setup);

static void ask(uint32_t k)
{
    request.requested_count = 1;
    request.requested[0] = (oip_requested_t){.name = "scores", .classification = k};
}

Test(postprocess, softmax_in_place)
{
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_OK, "%s", err.text);
    cr_assert_float_eq(rows[0][2], 0.66524096F, 1e-6);
    cr_assert_float_eq(rows[1][0] + rows[1][1] + rows[1][2], 1, 1e-6);
}

Test(postprocess, one_piece_for_all_and_trailing_ones)
{
    response.outputs[0].pieces = &(struct iovec){rows, sizeof rows};
    response.outputs[0].piece_count = 1;
    response.outputs[0].shape = (oip_shape_t){.rank = 4, .dims = {2, 3, 1, 1}};
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_OK, "%s", err.text);
    cr_assert_float_eq(rows[0][2], 0.66524096F, 1e-6);
    cr_assert_float_eq(rows[1][0] + rows[1][1] + rows[1][2], 1, 1e-6);
}

Test(postprocess, no_softmax_unless_declared)
{
    spec.softmax_output = -1;
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_OK);
    cr_assert_eq(rows[0][2], 3.0F);
}

Test(postprocess, classes_of_each_row)
{
    static const char *const wanted[] = {"3.000000:2:c", "2.000000:1:b", "3.000000:0:a", "1.000000:2:c"};
    spec.softmax_output = -1;
    for (int joined = 0; joined < 2; joined++) {
        size_t offset = 0;
        const uint8_t *element;
        uint32_t size;
        setup();
        spec.softmax_output = -1;
        ask(2);
        struct iovec whole = {rows, sizeof rows};
        if (joined) {
            response.outputs[0].pieces = &whole;
            response.outputs[0].piece_count = 1;
        }
        cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_OK, "%s",
                     err.text);
        const oip_output_t *output = &response.outputs[0];
        cr_assert(output->datatype == OIP_BYTES && output->shape.rank == 2 && output->shape.dims[1] == 2);
        for (int i = 0; i < 4; i++) {
            cr_assert(oip_bytes_next(output->pieces[0].iov_base, output->pieces[0].iov_len, &offset, &element,
                                     &size));
            cr_assert(size == strlen(wanted[i]) && memcmp(element, wanted[i], size) == 0, "%.*s", (int)size,
                      (const char *)element);
        }
        cr_assert_eq(offset, output->pieces[0].iov_len);
    }
}

Test(postprocess, bad_classifications)
{
    ask(100000);
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "'scores'"), "%s", err.text);
    ask(2);
    request.requested[0].spec_index = 1;
    response.outputs[0].name = "text";
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_INVALID_ARGUMENT);
    ask(2);
    memory_left = 10;
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_UNAVAILABLE);
}

/* Two rows of two strings, each row a piece of its own. */
Test(postprocess, strings_leave_their_rooms)
{
    static const oip_tensor_spec_t text = {
        .name = "text", .datatype = OIP_BYTES, .dims = {.rank = 1, .dims = {2}}, .text_bytes = 4};
    static const uint8_t wanted[] = {2, 0, 0,   0,   'a', 'b', 0, 0, 0, 0, 4,  0,
                                     0, 0, 'w', 'x', 'y', 'z', 1, 0, 0, 0, 'c'};
    static uint8_t rooms[2][8] = {"ab\0\0\0\0\0", "wxyzc\0\0"};
    spec.outputs = &text;
    spec.output_count = 1;
    spec.softmax_output = -1;
    pieces[0] = (struct iovec){rooms[0], sizeof rooms[0]};
    pieces[1] = (struct iovec){rooms[1], sizeof rooms[1]};
    response.outputs[0] = (oip_output_t){.name = "text",
                                         .datatype = OIP_BYTES,
                                         .shape = {.rank = 2, .dims = {2, 2}},
                                         .pieces = pieces,
                                         .piece_count = 2};
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_OK, "%s", err.text);
    const oip_output_t *output = &response.outputs[0];
    cr_assert_eq(output->piece_count, 1);
    cr_assert_eq(output->pieces[0].iov_len, sizeof wanted);
    cr_assert_arr_eq(output->pieces[0].iov_base, wanted, sizeof wanted);
    memory_left = 10;
    response.outputs[0].pieces = pieces;
    response.outputs[0].piece_count = 2;
    cr_assert_eq(postprocess_apply(&spec, &request, &allocator, &response, &err), STATUS_UNAVAILABLE);
}
