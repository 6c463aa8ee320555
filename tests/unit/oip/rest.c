#include "oip/region.h"
#include "oip/rest_codec.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "fixture.h"

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

TestSuite(rest, .init = setup, .fini = teardown);

/* The body is copied to its exact size, so that the address sanitizer sees a read behind it. */
static status_t parse(const oip_model_spec_t *spec, const char *body, size_t body_bytes, int64_t header_bytes)
{
    char *exact = malloc(body_bytes ? body_bytes : 1);
    memory.blocks[memory.count++] = exact;
    memcpy(exact, body, body_bytes);
    return oip_rest_parse(&request, spec, exact, body_bytes, header_bytes, &allocator, &err);
}

static void assert_bad(const char *body, const char *says)
{
    status_t status = parse(&fixture_pair, body, strlen(body), OIP_REST_ALL_JSON);
    if (status == STATUS_OK)
        status = oip_validate_request(&request, &fixture_pair, &err);
    cr_assert_eq(status, STATUS_INVALID_ARGUMENT, "%s gave %s", body, status_name(status));
    cr_assert(strstr(err.text, says), "%s: '%s' is not in '%s'", body, says, err.text);
}

#define B_DATA "{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\",\"data\":[\"p\",\"qr\"]}"
#define A_DATA "{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}"

Test(rest, json_request)
{
    static const char body[] =
        "{\"id\":\"42\",\"parameters\":{\"timeout\":1500,\"priority\":2,\"fermata_timing\":true,"
        "\"sequence_id\":7,\"unknown\":[1,{}]},\"inputs\":[" A_DATA "," B_DATA "],"
        "\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":2}},{\"name\":\"z\"}],"
        "\"other\":{\"x\":[null]}}";
    cr_assert_eq(parse(&fixture_pair, body, sizeof body - 1, OIP_REST_ALL_JSON), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert_str_eq(request.id, "42");
    cr_assert(request.timeout_us == 1500 && request.priority == 2 && request.wants_timing &&
              request.sequence);
    cr_assert(request.rows == 1 && request.input_count == 2 && request.requested_count == 2);
    cr_assert_eq(memcmp(request.inputs[0].data, (const float[]){1, 2, 3}, 12), 0);
    cr_assert_eq(memcmp(request.inputs[1].data, "\x01\0\0\0p\x02\0\0\0qr", 11), 0);
    cr_assert_eq(request.inputs[1].len_bytes, 11);
    cr_assert_eq(request.requested[0].classification, 2);
}

Test(rest, members_in_any_order)
{
    static const char body[] =
        "{\"outputs\":[],\"inputs\":[{\"data\":[[1.5,2,3],[4,5,6]],\"datatype\":\"FP32\",\"name\":\"a\","
        "\"shape\":[2,3]},"
        "{\"data\":[\"1\",\"2\",\"3\",\"4\"],\"shape\":[2,2],\"name\":\"b\",\"datatype\":\"BYTES\"}]}";
    cr_assert_eq(parse(&fixture_pair, body, sizeof body - 1, OIP_REST_ALL_JSON), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(request.rows, 2);
    cr_assert_eq(memcmp(request.inputs[0].data, (const float[]){1.5F, 2, 3, 4, 5, 6}, 24), 0);
    cr_assert_eq(request.inputs[1].len_bytes, 20);
}

/* The type of an input or of the whole request may stand before the data or behind. */
Test(rest, base64)
{
    static const char *const bodies[] = {
        "{\"inputs\":[" A_DATA ",{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\","
        "\"parameters\":{\"content_type\":\"base64\"},\"data\":[\"AP/+\",\"cXI=\"]}]}",
        "{\"inputs\":[{\"data\":[\"AP/"
        "+\",\"c\\nXI\"],\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\"}," A_DATA
        "],\"parameters\":{\"content_type\":\"base64\"}}",
    };
    for (int i = 0; i < 2; i++) {
        teardown();
        setup();
        cr_assert_eq(parse(&fixture_pair, bodies[i], strlen(bodies[i]), OIP_REST_ALL_JSON), STATUS_OK, "%s",
                     err.text);
        cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
        const oip_input_t *b = &request.inputs[i == 0];
        cr_assert_eq(b->len_bytes, 13);
        cr_assert_eq(memcmp(b->data, "\x03\0\0\0\0\xff\xfe\x02\0\0\0qr", 13), 0);
    }
    static const char other[] =
        "{\"inputs\":[" A_DATA ",{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\","
        "\"parameters\":{\"content_type\":\"str\"},\"data\":[\"AP/+\",\"cXI=\"]}]}";
    cr_assert_eq(parse(&fixture_pair, other, sizeof other - 1, OIP_REST_ALL_JSON), STATUS_OK, "%s", err.text);
    cr_assert_eq(memcmp(request.inputs[1].data, "\x04\0\0\0AP/+", 8), 0, "other types are the client's own");
}

Test(rest, what_is_no_base64)
{
#define B_BASE64(data)                                                                \
    "{\"inputs\":[" A_DATA ",{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\"," \
    "\"parameters\":{\"content_type\":\"base64\"},\"data\":[\"AP/+\",\"" data "\"]}]}"
    assert_bad(B_BASE64("AAA*"), "input 'b', element 1: no base64 from character 4 on");
    assert_bad(B_BASE64("A"), "no base64 from character 2 on");
    assert_bad(B_BASE64("AA=A"), "no base64 from character 3 on");
    assert_bad(B_BASE64("AAA=="), "no base64 from character 4 on");
    assert_bad(B_BASE64("===="), "no base64 from character 1 on");
    assert_bad(B_BASE64("data:image/png;base64,AAAA"), "no base64 from character 5 on");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\","
               "\"parameters\":{\"content_type\":\"base64\"},\"data\":[1,2,3]}]}",
               "input 'a': content_type base64 is for BYTES in 'data'");
}

Test(rest, binary_request)
{
    static const char json[] =
        "{\"parameters\":{\"binary_data_output\":true},\"inputs\":["
        "{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\",\"parameters\":{\"binary_data_size\":9}},"
        "{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":12}}],"
        "\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\",\"parameters\":{\"binary_data\":false}}]}";
    char body[512];
    size_t json_bytes = sizeof json - 1;
    memcpy(body, json, json_bytes);
    memcpy(body + json_bytes, "\x01\0\0\0p\0\0\0\0", 9);
    memcpy(body + json_bytes + 9, (const float[]){1, 2, 3}, 12);
    cr_assert_eq(parse(&fixture_pair, body, json_bytes + 21, (int64_t)json_bytes), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.inputs[0].borrowed && request.inputs[0].spec_index == 1);
    cr_assert_eq(memcmp(request.inputs[1].data, (const float[]){1, 2, 3}, 12), 0);
    cr_assert(request.requested[0].binary && !request.requested[1].binary);
    /* Too short by one, then one byte too many, then a header beyond the body. */
    cr_assert_eq(parse(&fixture_pair, body, json_bytes + 20, (int64_t)json_bytes), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "input 'a' has a binary_data_size of 12, the body has 11"), "%s", err.text);
    cr_assert_eq(parse(&fixture_pair, body, json_bytes + 22, (int64_t)json_bytes), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "1 bytes behind"), "%s", err.text);
    cr_assert_eq(parse(&fixture_pair, body, json_bytes, (int64_t)json_bytes + 1), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "Inference-Header-Content-Length"), "%s", err.text);
    cr_assert_eq(parse(&fixture_pair, body, json_bytes, -2), STATUS_INVALID_ARGUMENT);
}

Test(rest, bad_requests_name_the_field)
{
    assert_bad("", "expected '{'");
    assert_bad("[]", "expected '{'");
    assert_bad("{\"inputs\":[" A_DATA "," B_DATA "]}x", "follows the document");
    assert_bad("{\"inputs\":[" A_DATA "," B_DATA "]", "expected ','");
    assert_bad("{}", "missing input 'a'");
    assert_bad("{\"inputs\":[" B_DATA "]}", "missing input 'a'");
    assert_bad("{\"inputs\":[" A_DATA "," A_DATA "," B_DATA "]}", "input 'a' is there twice");
    assert_bad("{\"inputs\":[],\"inputs\":[]}", "'inputs' is there twice");
    assert_bad("{\"inputs\":[{\"name\":\"q\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
               "unknown input 'q' for model 'pair', which has 'a', 'b'");
    assert_bad("{\"inputs\":[{\"name\":\"bb\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}",
               "unknown input 'bb' for model 'pair', which has 'b', 'a'");
    assert_bad("{\"inputs\":[{\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}", "no 'name'");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"datatype\":\"FP32\",\"data\":[1]}]}", "no 'shape'");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"data\":[1]}]}", "no 'datatype'");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\"}]}", "no 'data'");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP33\",\"data\":[1]}]}", "FP33");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,-3],\"datatype\":\"FP32\",\"data\":[1]}]}",
               "'shape'");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,2.5],\"datatype\":\"FP32\",\"data\":[1]}]}",
               "'shape'");
    assert_bad(
        "{\"inputs\":[{\"name\":\"a\",\"shape\":[1,1,1,1,1,1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]}]}",
        "8 dimensions");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2]}," B_DATA
               "]}",
               "has 2 elements");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1000000000,1000000000],\"datatype\":\"FP32\","
               "\"data\":[1]}]}",
               "less data than its shape");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[4294967296,4294967296],\"datatype\":\"FP32\","
               "\"data\":[1]}]}",
               "less data than its shape");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]}," B_DATA
               "]}",
               "shape [1,2], expected [-1,3]");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"INT32\",\"data\":[1,2,3]}," B_DATA
               "]}",
               "datatype INT32, expected FP32");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP16\",\"data\":[1,2,3]}]}",
               "no JSON form");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3],"
               "\"parameters\":{\"binary_data_size\":12}}]}",
               "both");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{\"binary_"
               "data_size\":-1}}]}",
               "binary_data_size");
    assert_bad("{\"inputs\":[{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{\"binary_"
               "data_size\":12}}]}",
               "body has 0 bytes left");
    assert_bad("{\"inputs\":[" A_DATA "," B_DATA "],\"outputs\":[{\"name\":\"w\"}]}",
               "unknown output 'w' for model 'pair', which has 'y', 'z'");
    assert_bad("{\"inputs\":[" A_DATA "," B_DATA "],\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]}",
               "requested twice");
    assert_bad("{\"inputs\":[" A_DATA "," B_DATA "],\"outputs\":[{}]}", "no 'name'");
    assert_bad("{\"parameters\":{\"timeout\":\"soon\"}}", "'timeout'");
    assert_bad("{\"parameters\":{\"timeout\":-1}}", "'timeout'");
    assert_bad("{\"parameters\":{\"timeout\":9223372036854775807}}", "'timeout'");
    assert_bad("{\"parameters\":{\"priority\":1.5}}", "'priority'");
    assert_bad("{\"parameters\":{\"binary_data_output\":1}}", "'binary_data_output'");
    assert_bad("{\"parameters\":{\"timeout\":1,\"timeout\":2}}", "twice");
    assert_bad("{\"id\":7}", "id");
    assert_bad("{\"id\":\"a\\u0000b\"}", "NUL");
}

#define IN_MEMORY(parameters) \
    "{\"name\":\"a\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{" parameters "}}"
#define REGION "\"shared_memory_region\":\"r\""
#define SIZE "\"shared_memory_byte_size\":12"

Test(rest, tensors_in_shared_memory)
{
    static const char body[] = "{\"inputs\":[" IN_MEMORY(
        REGION "," SIZE ",\"shared_memory_offset\":4096") "," B_DATA "],\"outputs\":[{\"name\":\"z\"},{"
                                                          "\"name\":\"y\",\"parameters\":{" REGION "," SIZE
                                                          ",\"binary_data\":false}}]}";
    cr_assert_eq(parse(&fixture_pair, body, sizeof body - 1, OIP_REST_ALL_JSON), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.in_memory && !request.inputs[0].data && request.inputs[0].len_bytes == 12);
    cr_assert_str_eq(request.inputs[0].memory.region, "r");
    cr_assert(request.inputs[0].memory.offset_bytes == 4096 && request.inputs[0].memory.len_bytes == 12);
    cr_assert_null(request.inputs[1].memory.region);
    cr_assert_null(request.requested[0].memory.region);
    cr_assert(request.requested[1].memory.offset_bytes == 0 && request.requested[1].memory.len_bytes == 12);
}

Test(rest, elements_in_shared_memory_are_looked_at_when_they_are_there)
{
    static const char body[] =
        "{\"inputs\":[" A_DATA
        ",{\"name\":\"b\",\"shape\":[1,2],\"datatype\":\"BYTES\",\"parameters\":{" REGION
        ",\"shared_memory_byte_size\":9}}],\"parameters\":{\"content_type\":\"base64\"}}";
    cr_assert_eq(parse(&fixture_pair, body, sizeof body - 1, OIP_REST_ALL_JSON), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    oip_input_t *input = &request.inputs[1];
    input->data = (const uint8_t *)"\1\0\0\0x\0\0\0\0";
    cr_assert_eq(oip_validate_elements(input, &fixture_pair, &err), STATUS_OK, "%s", err.text);
    input->data = (const uint8_t *)"\5\0\0\0x\0\0\0\0";
    cr_assert_eq(oip_validate_elements(input, &fixture_pair, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "has 1 elements"), "%s", err.text);
    input->data = (const uint8_t *)"\377\0\0\0x\0\0\0\0";
    cr_assert_eq(oip_validate_elements(input, &fixture_pair, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "broken BYTES"), "%s", err.text);
}

Test(rest, places_in_shared_memory_are_whole)
{
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION) "]}", "input 'a' needs a 'shared_memory_byte_size'");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION ",\"shared_memory_byte_size\":0") "]}", "of at least 1");
    assert_bad("{\"inputs\":[" IN_MEMORY(SIZE) "]}", "no 'shared_memory_region'");
    assert_bad("{\"inputs\":[" IN_MEMORY("\"shared_memory_offset\":1") "]}", "no 'shared_memory_region'");
    assert_bad("{\"inputs\":[" IN_MEMORY("\"shared_memory_region\":7") "]}", "must be the name of a region");
    assert_bad("{\"inputs\":[" IN_MEMORY("\"shared_memory_region\":\"\"") "]}",
               "must be the name of a region");
    assert_bad("{\"inputs\":[" IN_MEMORY("\"shared_memory_region\":[\"r\"]") "]}",
               "must be the name of a region");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION ",\"shared_memory_byte_size\":-1") "]}", "at least 0");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION ",\"shared_memory_byte_size\":\"12\"") "]}", "at least 0");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION "," SIZE ",\"shared_memory_offset\":null") "]}",
               "at least 0");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION "," SIZE ",\"binary_data_size\":0") "]}",
               "both data and a region");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION "," SIZE ",\"content_type\":\"base64\"") "]}", "base64");
    assert_bad("{\"inputs\":[" IN_MEMORY(REGION ",\"shared_memory_byte_size\":11") "," B_DATA "]}",
               "input 'a' has 11 bytes");
    assert_bad("{\"inputs\":[" A_DATA "," B_DATA "],\"outputs\":[{\"name\":\"y\",\"parameters\":{" REGION
               "}}]}",
               "output 'y' needs a 'shared_memory_byte_size'");
}

static status_t parse_region(const char *body, char key[OIP_KEY_BYTES], oip_region_t *region)
{
    return oip_rest_parse_region(body, strlen(body), key, region, &err);
}

Test(rest, the_body_of_a_registration)
{
    static const struct {
        const char *body, *says;
    } bad[] = {{"", "JSON"},
               {"{}", "'key'"},
               {"{\"byte_size\":1}", "'key'"},
               {"{\"key\":\"/k\"}", "'byte_size'"},
               {"{\"key\":7,\"byte_size\":1}", "'key'"},
               {"{\"key\":\"/\\u0000\",\"byte_size\":1}", "NUL"},
               {"{\"key\":\"/k\",\"byte_size\":-1}", "'byte_size'"},
               {"{\"key\":\"/k\",\"byte_size\":18446744073709551616}", "'byte_size'"},
               {"{\"key\":\"/k\",\"byte_size\":1,\"offset\":0.5}", "'offset'"},
               {"{\"key\":\"/k\",\"byte_size\":1}{}", "follows"}};
    char key[OIP_KEY_BYTES];
    oip_region_t region;
    cr_assert_eq(parse_region("{\"key\":\"/k\",\"offset\":8,\"byte_size\":64,\"more\":{}}", key, &region),
                 STATUS_OK, "%s", err.text);
    cr_assert(strcmp(region.key, "/k") == 0 && region.offset_bytes == 8 && region.len_bytes == 64);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(parse_region(bad[i].body, key, &region), STATUS_INVALID_ARGUMENT, "%s", bad[i].body);
        cr_assert(strstr(err.text, bad[i].says), "%s: %s", bad[i].body, err.text);
    }
}

Test(rest, bounds)
{
    char *body = malloc(200000);
    size_t len = (size_t)sprintf(body, "{\"x\":");
    memset(body + len, '[', 1000);
    cr_assert_eq(parse(&fixture_pair, body, len + 1000, OIP_REST_ALL_JSON), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "nested deeper"));
    len = (size_t)sprintf(body, "{\"inputs\":[");
    for (int i = 0; i < 100; i++)
        len += (size_t)sprintf(body + len, "%s" A_DATA, i ? "," : "");
    strcpy(body + len, "]}");
    cr_assert_eq(parse(&fixture_pair, body, len + 2, OIP_REST_ALL_JSON), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "more than 64 inputs"), "%s", err.text);
    len = (size_t)sprintf(body, "{");
    for (int i = 0; i < 100; i++)
        len += (size_t)sprintf(body + len, "%s\"k%d\":1", i ? "," : "", i);
    strcpy(body + len, "}");
    cr_assert_eq(parse(&fixture_pair, body, len + 1, OIP_REST_ALL_JSON), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "over 64 members"), "%s", err.text);
    memset(body, 'n', 1000);
    memcpy(body, "{\"id\":\"", 7);
    memcpy(body + 1000, "\"}", 2);
    cr_assert_eq(parse(&fixture_pair, body, 1002, OIP_REST_ALL_JSON), STATUS_INVALID_ARGUMENT);
    free(body);
}

Test(rest, every_cut_of_a_good_body_is_refused)
{
    static const char body[] = "{\"id\":\"4\\u00e92\",\"parameters\":{\"timeout\":1500},\"inputs\":[" A_DATA
                               "," B_DATA "],\"outputs\":[{\"name\":\"y\"}]}";
    for (size_t len = 0; len < sizeof body - 1; len++) {
        setup();
        cr_assert_eq(parse(&fixture_pair, body, len, OIP_REST_ALL_JSON), STATUS_INVALID_ARGUMENT, "%zu", len);
        teardown();
    }
}

Test(rest, full_memory_is_unavailable)
{
    static const char body[] = "{\"inputs\":[" A_DATA "," B_DATA "]}";
    memory.left_bytes = 4;
    cr_assert_eq(parse(&fixture_pair, body, sizeof body - 1, OIP_REST_ALL_JSON), STATUS_UNAVAILABLE);
}

Test(rest, raw_tensor)
{
    oip_tensor_spec_t x = {.name = "x", .datatype = OIP_INT16, .dims = {.rank = 1, .dims = {2}}};
    oip_model_spec_t spec = fixture_single(&x, 4);
    cr_assert_eq(parse(&spec, "abcdefgh", 8, 0), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &spec, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.rows == 2 && request.binary_output);
    cr_assert_eq(parse(&spec, "abcdefg", 7, 0), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse(&spec, "", 0, 0), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(parse(&fixture_pair, "abcd", 4, 0), STATUS_INVALID_ARGUMENT, "two inputs");
    spec.max_batch = 0;
    cr_assert_eq(parse(&spec, "abcd", 4, 0), STATUS_OK);
    cr_assert_eq(parse(&spec, "abcdefgh", 8, 0), STATUS_INVALID_ARGUMENT);
    x.dims.dims[0] = -1;
    cr_assert_eq(parse(&spec, "abcdef", 6, 0), STATUS_OK);
    cr_assert_eq(request.inputs[0].shape.dims[0], 3);
    spec.max_batch = 4;
    cr_assert_eq(parse(&spec, "abcdef", 6, 0), STATUS_OK, "one row of variable size");
    cr_assert(request.inputs[0].shape.dims[0] == 1 && request.inputs[0].shape.dims[1] == 3);
    x.dims = (oip_shape_t){.rank = 2, .dims = {-1, -1}};
    cr_assert_eq(parse(&spec, "abcdef", 6, 0), STATUS_INVALID_ARGUMENT);
}

Test(rest, raw_bytes_and_pictures)
{
    oip_tensor_spec_t x = {.name = "x", .datatype = OIP_BYTES, .dims = {.rank = 1, .dims = {1}}};
    oip_model_spec_t spec = fixture_single(&x, 4);
    cr_assert_eq(parse(&spec, "hello", 5, 0), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &spec, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(memcmp(request.inputs[0].data, "\x05\0\0\0hello", 9), 0);
    cr_assert_eq(parse(&fixture_picture, "\xff\xd8\xff....", 7, 0), STATUS_OK, "%s", err.text);
    cr_assert_eq(oip_validate_request(&request, &fixture_picture, &err), STATUS_OK, "%s", err.text);
    cr_assert(request.inputs[0].picture && request.rows == 1 && !request.binary_output);
    float row[4] = {1, 2, 3, 4};
    cr_assert_eq(parse(&fixture_picture, (const char *)row, sizeof row, 0), STATUS_OK);
    cr_assert_eq(oip_validate_request(&request, &fixture_picture, &err), STATUS_OK, "%s", err.text);
    cr_assert(!request.inputs[0].picture && request.inputs[0].datatype == OIP_FP32);
}

/* ---- answers ---- */

static size_t join(const oip_reply_t *reply, char *out)
{
    size_t len = 0;
    for (uint32_t i = 0; i < reply->iov_count; i++) {
        memcpy(out + len, reply->iov[i].iov_base, reply->iov[i].iov_len);
        len += reply->iov[i].iov_len;
    }
    cr_assert_eq(len, reply->len_bytes);
    out[len] = '\0';
    return len;
}

Test(rest, json_answer)
{
    static float rows[2][2] = {{0.5F, 1}, {-3, 0.1F}};
    struct iovec pieces[] = {{rows[0], 8}, {rows[1], 8}};
    oip_response_t response = {.model = "m\"x",
                               .version = "1",
                               .id = "42",
                               .output_count = 1,
                               .has_timing = true,
                               .batch_size = 3,
                               .queue_us = 10,
                               .compute_us = 20};
    response.outputs[0] = (oip_output_t){.name = "y",
                                         .datatype = OIP_FP32,
                                         .shape = {.rank = 2, .dims = {2, 2}},
                                         .pieces = pieces,
                                         .piece_count = 2};
    oip_reply_t reply;
    char text[512];
    oip_reply_init(&reply, 1 << 16);
    for (int again = 0; again < 2; again++) {
        cr_assert_eq(oip_rest_write(&reply, &response, &err), STATUS_OK, "%s", err.text);
        join(&reply, text);
        cr_assert_str_eq(
            text, "{\"model_name\":\"m\\\"x\",\"model_version\":\"1\",\"id\":\"42\",\"parameters\":{"
                  "\"fermata_batch_size\":3,\"fermata_queue_us\":10,\"fermata_compute_us\":20},\"outputs\":["
                  "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[0.5,1.0,-3.0,0.1]}]}");
        cr_assert_eq(reply.json_bytes, 0);
    }
    response.outputs[0].datatype = OIP_FP16;
    cr_assert_eq(oip_rest_write(&reply, &response, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "no JSON form"));
    response.outputs[0].memory = &(oip_memory_t){"r", 0, 99};
    response.outputs[0].binary = true;
    cr_assert_eq(oip_rest_write(&reply, &response, &err), STATUS_OK, "%s", err.text);
    join(&reply, text);
    cr_assert(strstr(text, "\"shape\":[2,2]}]}"), "%s", text);
    cr_assert_eq(reply.json_bytes, 0, "nothing follows");
    response.outputs[0].memory = NULL;
    response.outputs[0].binary = false;
    oip_reply_dispose(&reply);
    oip_reply_init(&reply, 64);
    response.outputs[0].datatype = OIP_FP32;
    cr_assert_eq(oip_rest_write(&reply, &response, &err), STATUS_TOO_LARGE);
    oip_reply_dispose(&reply);
}

Test(rest, binary_answer_borrows_large_pieces)
{
    static uint8_t large[2][10000];
    memset(large[0], 'a', sizeof large[0]);
    memset(large[1], 'b', sizeof large[1]);
    struct iovec big[] = {{large[0], 10000}, {large[1], 10000}}, small[] = {{(void *)"12345678", 8}};
    oip_response_t response = {.model = "m", .version = "1", .id = "", .output_count = 2};
    response.outputs[0] = (oip_output_t){.name = "y",
                                         .datatype = OIP_UINT8,
                                         .shape = {.rank = 2, .dims = {2, 10000}},
                                         .pieces = big,
                                         .piece_count = 2,
                                         .binary = true};
    response.outputs[1] = (oip_output_t){.name = "z",
                                         .datatype = OIP_INT64,
                                         .shape = {.rank = 1, .dims = {1}},
                                         .pieces = small,
                                         .piece_count = 1,
                                         .binary = true};
    oip_reply_t reply;
    static char text[30000];
    oip_reply_init(&reply, 1 << 16);
    cr_assert_eq(oip_rest_write(&reply, &response, &err), STATUS_OK, "%s", err.text);
    size_t len = join(&reply, text);
    static const char json[] =
        "{\"model_name\":\"m\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"y\",\"datatype\":\"UINT8\","
        "\"shape\":[2,10000],\"parameters\":{\"binary_data_size\":20000}},{\"name\":\"z\",\"datatype\":"
        "\"INT64\",\"shape\":[1],\"parameters\":{\"binary_data_size\":8}}]}";
    cr_assert_eq(reply.json_bytes, sizeof json - 1);
    cr_assert_eq(memcmp(text, json, sizeof json - 1), 0);
    cr_assert_eq(len, sizeof json - 1 + 20008);
    cr_assert(text[len - 9] == 'b' && memcmp(text + len - 8, "12345678", 8) == 0);
    cr_assert_eq(reply.iov_count, 4);
    cr_assert_eq(reply.iov[1].iov_base, large[0]);
    oip_reply_dispose(&reply);
}

Test(rest, more_pieces_than_iovecs_are_copied)
{
    enum { PIECES = 1000, BYTES = 5000 };
    uint8_t *data = malloc(PIECES * BYTES);
    struct iovec *pieces = malloc(PIECES * sizeof *pieces);
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = (struct iovec){data + i * BYTES, BYTES};
        memset(pieces[i].iov_base, (int)i, BYTES);
    }
    oip_response_t response = {.model = "m", .version = "1", .id = "", .output_count = 1};
    response.outputs[0] = (oip_output_t){
        .name = "y", .datatype = OIP_UINT8, .pieces = pieces, .piece_count = PIECES, .binary = true};
    oip_reply_t reply;
    oip_reply_init(&reply, 8 << 20);
    cr_assert_eq(oip_rest_write(&reply, &response, &err), STATUS_OK, "%s", err.text);
    cr_assert_leq(reply.iov_count, OIP_REPLY_IOVECS);
    char *text = malloc(reply.len_bytes + 1);
    size_t len = join(&reply, text);
    cr_assert_eq(len, reply.json_bytes + PIECES * BYTES);
    cr_assert_eq(memcmp(text + reply.json_bytes, data, PIECES * BYTES), 0);
    free(text);
    free(pieces);
    free(data);
    oip_reply_dispose(&reply);
}

Test(rest, index_body)
{
    static const struct {
        const char *body;
        bool only_ready;
    } good[] = {{"", false},
                {" ", false},
                {"{}", false},
                {"{\"ready\":false}", false},
                {"{ \"repository_name\": \"true\", \"ready\": true }", true},
                {"{\"other\":[{\"ready\":true}]}", false}};
    static const char *const bad[] = {"[]", "{", "x", "{\"ready\":1}", "{\"ready\":\"true\"}", "{}{}"};
    bool only_ready;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_assert_eq(oip_rest_parse_index(good[i].body, strlen(good[i].body), &only_ready, &err), STATUS_OK,
                     "%s: %s", good[i].body, err.text);
        cr_assert_eq(only_ready, good[i].only_ready, "%s", good[i].body);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(oip_rest_parse_index(bad[i], strlen(bad[i]), &only_ready, &err), STATUS_INVALID_ARGUMENT,
                     "%s", bad[i]);
}

Test(rest, a_load_takes_no_override)
{
    const char *good[] = {"",
                          " ",
                          "{}",
                          "{\"parameters\": {}}",
                          "{\"parameters\": {\"unload_dependents\": true}}",
                          "{\"other\": [1, {}]}"};
    struct {
        const char *body, *text;
        status_t status;
    } bad[] = {
        {"{\"parameters\": {\"config\": \"{}\"}}", "'config'", STATUS_UNSUPPORTED},
        {"{\"parameters\": {\"file:1/model.onnx\": \"AA==\"}}", "'file:1/model.onnx'", STATUS_UNSUPPORTED},
        {"{\"parameters\": {\"unload_dependents\": 1}}", "unload_dependents", STATUS_INVALID_ARGUMENT},
        {"{\"parameters\": []}", "", STATUS_INVALID_ARGUMENT},
        {"[]", "", STATUS_INVALID_ARGUMENT},
        {"{", "", STATUS_INVALID_ARGUMENT},
        {"{}{}", "", STATUS_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_assert_eq(oip_rest_parse_model_control(good[i], strlen(good[i]), &err), STATUS_OK, "%s: %s",
                     good[i], err.text);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(oip_rest_parse_model_control(bad[i].body, strlen(bad[i].body), &err), bad[i].status,
                     "%s", bad[i].body);
        cr_assert_not_null(strstr(err.text, bad[i].text), "%s: %s", bad[i].body, err.text);
    }
}

Test(rest, an_answer_without_a_form_is_refused_beforehand)
{
    static oip_request_t asked;
    oip_tensor_spec_t outputs[2] = {fixture_pair.outputs[0], fixture_pair.outputs[0]};
    oip_model_spec_t spec = fixture_pair;
    outputs[1].name = "half";
    outputs[1].datatype = OIP_FP16;
    spec.outputs = outputs;
    spec.output_count = 2;
    oip_request_init(&asked);
    cr_expect_eq(oip_rest_check(&asked, &spec, &err), STATUS_INVALID_ARGUMENT, "all outputs");
    cr_expect(strstr(err.text, "output 'half' is FP16, which has no JSON form"), "%s", err.text);
    asked.binary_output = true;
    cr_expect_eq(oip_rest_check(&asked, &spec, &err), STATUS_OK);
    asked.requested_count = 1;
    asked.requested[0] =
        (oip_requested_t){.name = "half", .spec_index = 1, .binary_set = true, .binary = false};
    cr_expect_eq(oip_rest_check(&asked, &spec, &err), STATUS_INVALID_ARGUMENT);
    asked.requested[0].binary = true;
    cr_expect_eq(oip_rest_check(&asked, &spec, &err), STATUS_OK);
    asked.binary_output = false;
    asked.requested[0] = (oip_requested_t){.name = outputs[0].name};
    cr_expect_eq(oip_rest_check(&asked, &spec, &err), STATUS_OK, "the other one is not asked for");
}
