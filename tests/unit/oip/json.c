#include "oip/json_data.h"
#include "oip/json_write.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_reader_t reader_of(const char *text, err_t *err)
{
    return (json_reader_t){.begin = text, .at = text, .end = text + strlen(text), .err = err};
}

/* The number parser needs something behind the number, as in every document. */
static bool read_number(const char *text, json_number_t *number)
{
    static char copy[512];
    err_t err;
    snprintf(copy, sizeof copy, "%s]", text);
    json_reader_t reader = reader_of(copy, &err);
    return json_read_number(&reader, number) == STATUS_OK && *reader.at == ']';
}

Test(json_number, doubles_are_correctly_rounded)
{
    static const char *const texts[] = {"0",
                                        "-0.0",
                                        "1",
                                        "0.1",
                                        "-2.5e-3",
                                        "1e22",
                                        "1e23",
                                        "123456789012345678",
                                        "12345678901234567890",
                                        "0.30000000000000004",
                                        "9007199254740993",
                                        "9007199254740993.0",
                                        "1.7976931348623157e308",
                                        "5e-324",
                                        "2.2250738585072011e-308",
                                        "0.12345678806304932",
                                        "3.4028234663852886e+38",
                                        "0.500000000000000166533453693773481063544750213623046875",
                                        "100000000000000016777215",
                                        "100000000000000016777216",
                                        "1e-27",
                                        "1e27",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "123456789123456789123456789e-30",
                                        "1e400",
                                        "4.35",
                                        "8.5e-5",
                                        "179769313486231580793e289"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_number_t number;
        cr_assert(read_number(texts[i], &number), "%s", texts[i]);
        double value = json_read_double(&number), wanted = strtod(texts[i], NULL);
        cr_assert_eq(memcmp(&value, &wanted, sizeof value), 0, "%s: %.17g, not %.17g", texts[i], value,
                     wanted);
    }
}

Test(json_number, random_doubles_agree_with_strtod)
{
    static const char *const formats[] = {"%.17g", "%.15g", "%.9g", "%.6f", "%.19e"};
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        char text[400];
        double wanted;
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int exponent = (int)(state >> 33 & 127) - 64;
        snprintf(text, sizeof text, formats[i % 5], ldexp((double)(state >> 11), exponent - 53));
        json_number_t number;
        cr_assert(read_number(text, &number), "%s", text);
        wanted = strtod(text, NULL);
        cr_assert_eq(json_read_double(&number), wanted, "%s", text);
    }
}

Test(json_number, integers_and_their_ends)
{
    json_number_t number;
    int64_t i64;
    uint64_t u64;
    cr_assert(read_number("-9223372036854775808", &number) && json_read_int64(&number, &i64));
    cr_assert_eq(i64, INT64_MIN);
    cr_assert(read_number("9223372036854775808", &number) && !json_read_int64(&number, &i64));
    cr_assert(json_read_uint64(&number, &u64) && u64 == UINT64_C(9223372036854775808));
    cr_assert(read_number("18446744073709551615", &number) && json_read_uint64(&number, &u64));
    cr_assert_eq(u64, UINT64_MAX);
    cr_assert(read_number("18446744073709551616", &number) && !json_read_uint64(&number, &u64));
    cr_assert(read_number("-1", &number) && !json_read_uint64(&number, &u64));
    cr_assert(read_number("1.0", &number) && !json_read_int64(&number, &i64));
}

Test(json_number, what_is_none)
{
    static const char *const texts[] = {"",   "-",    "01",  "1.",  ".5",   "1e",   "1e+",
                                        "+1", "0x10", "inf", "nan", "-NaN", "1.e3", "--1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_number_t number;
        cr_assert_not(read_number(texts[i], &number), "'%s'", texts[i]);
    }
    err_t err;
    json_number_t number;
    json_reader_t reader = reader_of("12", &err);
    cr_assert_eq(json_read_number(&reader, &number), STATUS_INVALID_ARGUMENT, "nothing stops it");
}

static status_t read_string(const char *text, char *out, size_t cap, size_t *len, err_t *err)
{
    json_reader_t reader = reader_of(text, err);
    return json_read_string(&reader, out, cap, len);
}

Test(json_string, escapes)
{
    char out[32];
    size_t len = 0;
    err_t err;
    cr_assert_eq(read_string("\"a\\n\\\"\\u00e9\\u20ac\\ud83d\\ude00\\u0000\"", out, sizeof out, &len, &err),
                 STATUS_OK);
    cr_assert_eq(len, 3 + 2 + 3 + 4 + 1);
    cr_assert_eq(memcmp(out, "a\n\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0", len), 0);
}

Test(json_string, broken)
{
    static const char *const texts[] = {"\"a",
                                        "\"\\",
                                        "\"\\x\"",
                                        "\"\\u12g4\"",
                                        "\"\\u12",
                                        "\"\\ud800\"",
                                        "\"\\udc00\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"a\nb\"",
                                        "abc",
                                        "\"longer than the room it has\""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char out[16];
        size_t len;
        err_t err = {0};
        cr_assert_eq(read_string(texts[i], out, sizeof out, &len, &err), STATUS_INVALID_ARGUMENT, "%s",
                     texts[i]);
        cr_assert(strstr(err.text, "JSON at byte"), "%s", err.text);
    }
}

Test(json_skip, values_and_breakage)
{
    static const char good[] =
        "{\"a\":[1,2,{\"b\":null}],\"c\":\"x\\\"y\",\"d\":true,\"e\":{},\"f\":[],\"g\":-1e3}";
    err_t err;
    json_reader_t reader = reader_of(good, &err);
    cr_assert_eq(json_read_skip(&reader), STATUS_OK, "%s", err.text);
    cr_assert_eq(reader.at, reader.end);
    static const char *const bad[] = {"[1,]",    "[1 2]", "{\"a\" 1}", "{\"a\":1,}", "{a:1}", "[", "{",
                                      "{\"a\":", "\"x",   "nul",       "tru",        "[1}",   "]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reader = reader_of(bad[i], &err);
        cr_assert_eq(json_read_skip(&reader), STATUS_INVALID_ARGUMENT, "%s", bad[i]);
    }
    char deep[200];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    reader = reader_of(deep, &err);
    cr_assert_eq(json_read_skip(&reader), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "nested deeper"));
}

static status_t read_data(const char *text, oip_datatype_t type, uint64_t count, void *out, size_t cap,
                          size_t *len, err_t *err)
{
    json_reader_t reader = reader_of(text, err);
    return json_data_read(&reader, "x", type, count, out, cap, len);
}

Test(json_data, nested_and_flat_are_the_same)
{
    float nested[6], flat[6];
    size_t len = 0;
    err_t err;
    cr_assert_eq(
        read_data("[[[1, 2],[3.5,-4]], [[5e-1,NaN]]]", OIP_FP32, 6, nested, sizeof nested, &len, &err),
        STATUS_OK, "%s", err.text);
    cr_assert_eq(len, 24);
    cr_assert_eq(read_data("[1,2,3.5,-4,5e-1,NaN]", OIP_FP32, 6, flat, sizeof flat, &len, &err), STATUS_OK);
    cr_assert_eq(memcmp(nested, flat, sizeof flat), 0);
    cr_assert(nested[3] == -4.0F && isnan(nested[5]));
    cr_assert_eq(read_data("[1,2,3.5,-4,-Infinity,3e38]", OIP_FP32, 6, flat, sizeof flat, &len, &err),
                 STATUS_OK);
    cr_assert(isinf(flat[4]) && flat[4] < 0);
    cr_assert_eq(read_data("[ ]", OIP_FP32, 0, flat, 0, &len, &err), STATUS_OK);
    cr_assert_eq(len, 0);
}

Test(json_data, each_datatype_keeps_its_range)
{
    static const struct {
        oip_datatype_t type;
        const char *low, *high, *under, *over;
    } cases[] = {
        {OIP_BOOL, "[false]", "[true]", "[-1]", "[2]"},
        {OIP_UINT8, "[0]", "[255]", "[-1]", "[256]"},
        {OIP_UINT16, "[0]", "[65535]", "[-1]", "[65536]"},
        {OIP_UINT32, "[0]", "[4294967295]", "[-1]", "[4294967296]"},
        {OIP_UINT64, "[0]", "[18446744073709551615]", "[-1]", "[18446744073709551616]"},
        {OIP_INT8, "[-128]", "[127]", "[-129]", "[128]"},
        {OIP_INT16, "[-32768]", "[32767]", "[-32769]", "[32768]"},
        {OIP_INT32, "[-2147483648]", "[2147483647]", "[-2147483649]", "[2147483648]"},
        {OIP_INT64, "[-9223372036854775808]", "[9223372036854775807]", "[-9223372036854775809]",
         "[9223372036854775808]"},
        {OIP_FP32, "[-3.4028234e38]", "[3.4028234e38]", "[-1e39]", "[1e39]"},
        {OIP_FP64, "[-1.7e308]", "[1.7e308]", "[-1e309]", "[1e309]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t out;
        size_t len;
        err_t err;
        cr_assert_eq(read_data(cases[i].low, cases[i].type, 1, &out, 8, &len, &err), STATUS_OK, "%s",
                     cases[i].low);
        cr_assert_eq(read_data(cases[i].high, cases[i].type, 1, &out, 8, &len, &err), STATUS_OK, "%s",
                     cases[i].high);
        cr_assert_eq(len, oip_datatype_bytes(cases[i].type));
        cr_assert_eq(read_data(cases[i].under, cases[i].type, 1, &out, 8, &len, &err),
                     STATUS_INVALID_ARGUMENT, "%s", cases[i].under);
        cr_assert_eq(read_data(cases[i].over, cases[i].type, 1, &out, 8, &len, &err), STATUS_INVALID_ARGUMENT,
                     "%s", cases[i].over);
        cr_assert_eq(read_data("[1.5]", cases[i].type, 1, &out, 8, &len, &err),
                     cases[i].type == OIP_FP32 || cases[i].type == OIP_FP64 ? STATUS_OK
                                                                            : STATUS_INVALID_ARGUMENT);
        cr_assert_eq(read_data("[\"1\"]", cases[i].type, 1, &out, 8, &len, &err), STATUS_INVALID_ARGUMENT);
    }
}

Test(json_data, strings_get_their_length)
{
    uint8_t out[32];
    size_t len = 0;
    err_t err;
    cr_assert_eq(read_data("[\"ab\",[\"\",\"\\u00e9\"]]", OIP_BYTES, 3, out, sizeof out, &len, &err),
                 STATUS_OK, "%s", err.text);
    static const uint8_t wanted[] = {2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9};
    cr_assert(len == sizeof wanted && memcmp(out, wanted, len) == 0);
    cr_assert_eq(read_data("[1]", OIP_BYTES, 1, out, sizeof out, &len, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(read_data("[\"abcd\"]", OIP_BYTES, 1, out, 7, &len, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(read_data("[\"abcd\"]", OIP_BYTES, 1, out, 3, &len, &err), STATUS_INTERNAL);
}

Test(json_data, counts_and_forms_that_are_wrong)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[1]", "has 1 elements"},  {"[1,2,3]", "more data"},   {"[[1,2],[3]]", "more data"},
        {"1", "no array"},          {"[1,2", "unexpected end"}, {"[1,,2]", "expected a value"},
        {"[1,2,]", "more data"},    {"{}", "no array"},         {"[1,null]", "expected a value"},
        {"[[1,2]", "expected ','"}, {"[1 2]", "expected ','"},  {"[1,", "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float out[2];
        size_t len;
        err_t err = {0};
        cr_assert_eq(read_data(cases[i].text, OIP_FP32, 2, out, sizeof out, &len, &err),
                     STATUS_INVALID_ARGUMENT, "%s", cases[i].text);
        cr_assert(strstr(err.text, cases[i].says), "%s: '%s' is not in '%s'", cases[i].text, cases[i].says,
                  err.text);
    }
    err_t err;
    size_t len;
    cr_assert_eq(read_data("[1]", OIP_FP16, 1, NULL, 0, &len, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "no JSON form"));
}

static void assert_fp32(float value, const char *wanted)
{
    char text[JSON_NUMBER_BYTES + 1];
    text[json_write_fp32(text, value)] = '\0';
    cr_assert_str_eq(text, wanted);
}

Test(json_write, short_floats)
{
    assert_fp32(0.0F, "0.0");
    assert_fp32(-0.0F, "-0.0");
    assert_fp32(1.0F, "1.0");
    assert_fp32(0.1F, "0.1");
    assert_fp32(-2.5F, "-2.5");
    assert_fp32(3.14159274F, "3.1415927");
    assert_fp32(16777216.0F, "16777216.0");
    assert_fp32(1e-5F, "1e-5");
    assert_fp32(0.00012F, "0.00012");
    assert_fp32(1e10F, "1e10");
    assert_fp32(FLT_MAX, "3.4028235e38");
    assert_fp32(FLT_MIN, "1.1754944e-38");
    assert_fp32(1.40129846e-45F, "1e-45");
    assert_fp32(NAN, "NaN");
    assert_fp32(INFINITY, "Infinity");
    assert_fp32(-INFINITY, "-Infinity");
}

Test(json_write, floats_read_back_equal)
{
    uint32_t bits = 12345;
    for (int i = 0; i < 1000000; i++) {
        char text[JSON_NUMBER_BYTES + 1];
        float value;
        bits = bits * 1664525U + 1013904223U;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        text[json_write_fp32(text, value)] = '\0';
        cr_assert_eq(strtof(text, NULL), value, "%s is not %.9g", text, (double)value);
    }
}

Test(json_write, floats_near_powers_of_ten_read_back_equal)
{
    for (int exponent = -44; exponent <= 38; exponent++) {
        float value = powf(10.0F, (float)exponent) * 0.99999F;
        for (int i = 0; i < 400; i++, value = nextafterf(value, INFINITY)) {
            char text[JSON_NUMBER_BYTES + 1];
            text[json_write_fp32(text, value)] = '\0';
            cr_assert_eq(strtof(text, NULL), value, "%s is not %.9g", text, (double)value);
        }
    }
}

Test(json_write, doubles_and_integers)
{
    char text[JSON_NUMBER_BYTES + 1];
    text[json_write_fp64(text, 0.1)] = '\0';
    cr_assert_str_eq(text, "0.1");
    text[json_write_fp64(text, 0.30000000000000004)] = '\0';
    cr_assert_str_eq(text, "0.30000000000000004");
    text[json_write_fp64(text, -1.0)] = '\0';
    cr_assert_str_eq(text, "-1.0");
    text[json_write_int64(text, INT64_MIN)] = '\0';
    cr_assert_str_eq(text, "-9223372036854775808");
    text[json_write_uint64(text, UINT64_MAX)] = '\0';
    cr_assert_str_eq(text, "18446744073709551615");
}

Test(json_write, elements)
{
    strbuf_t out;
    strbuf_init(&out, 4096);
    json_write_elements(&out, OIP_INT8, (const int8_t[]){-1, 2}, 2, true);
    json_write_elements(&out, OIP_BOOL, (const uint8_t[]){0, 1}, 2, false);
    json_write_elements(&out, OIP_BYTES, "\x03\0\0\0a\"\n", 7, false);
    cr_assert_str_eq(out.data, "-1,2,false,true,\"a\\\"\\u000a\"");
    float many[1000] = {0};
    json_write_elements(&out, OIP_FP32, many, sizeof many, true);
    cr_assert(out.failed || out.len_bytes > 4000);
    strbuf_dispose(&out);
    strbuf_init(&out, 100);
    json_write_elements(&out, OIP_FP32, many, sizeof many, true);
    cr_assert(out.failed, "the limit holds");
    strbuf_dispose(&out);
}
