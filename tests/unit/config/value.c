#include "config/value.h"

#include <criterion/criterion.h>
#include <string.h>

Test(value, durations)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"25ms", 25000000},   {"2s", 2000000000},    {"1.5 s", 1500000000},
                {"200us", 200000},    {"200µs", 200000},     {"7ns", 7},
                {"2m", 120000000000}, {"1h", 3600000000000}, {"0", 0},
                {"0.1us", 100},       {".5ms", 500000},      {"9223372036854775807ns", INT64_MAX}};
    static const char *const bad[] = {"",    "ms",   "25",   "-1s",   "1 week", "1s ",
                                      " 1s", "infs", "nans", "1e30h", "1s2",    "0x"};
    int64_t ns = -1;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_expect_eq(value_parse_duration(good[i].text, &ns, NULL), STATUS_OK, "%s", good[i].text);
        cr_expect_eq(ns, good[i].ns, "%s: %ld", good[i].text, ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(value_parse_duration(bad[i], &ns, NULL), STATUS_INVALID_ARGUMENT, "%s", bad[i]);
}

Test(value, sizes)
{
    int64_t bytes = -1;
    err_t err = {0};
    cr_expect_eq(value_parse_bytes("64MiB", &bytes, NULL), STATUS_OK);
    cr_expect_eq(bytes, 64 << 20);
    cr_expect_eq(value_parse_bytes("4096", &bytes, NULL), STATUS_OK);
    cr_expect_eq(bytes, 4096);
    cr_expect_eq(value_parse_bytes("1.5 GiB", &bytes, NULL), STATUS_OK);
    cr_expect_eq(bytes, 3 << 29);
    cr_expect_eq(value_parse_bytes("10kB", &bytes, NULL), STATUS_OK);
    cr_expect_eq(bytes, 10000);
    cr_expect_eq(value_parse_bytes("64Mib", &bytes, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "\"64Mib\" is not a size"));
    cr_expect_eq(value_parse_bytes("-1", &bytes, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(value_parse_bytes("16777216TiB", &bytes, NULL), STATUS_INVALID_ARGUMENT);
}

Test(value, numbers)
{
    int64_t i = 0;
    double d = 0;
    cr_expect_eq(value_parse_int64("010", &i, NULL), STATUS_OK);
    cr_expect_eq(i, 10, "no octal");
    cr_expect_eq(value_parse_int64("-0x10", &i, NULL), STATUS_OK);
    cr_expect_eq(i, -16);
    cr_expect_eq(value_parse_int64("9223372036854775807", &i, NULL), STATUS_OK);
    cr_expect_eq(i, INT64_MAX);
    cr_expect_eq(value_parse_int64("9223372036854775808", &i, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(value_parse_int64("1.0", &i, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(value_parse_int64(" 1", &i, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(value_parse_int64("", &i, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(value_parse_double("1e-3", &d, NULL), STATUS_OK);
    cr_expect_float_eq(d, 0.001, 1e-12);
    cr_expect_eq(value_parse_double("nan", &d, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(value_parse_double("1e999", &d, NULL), STATUS_INVALID_ARGUMENT);
}

Test(value, booleans)
{
    bool b = false;
    cr_expect(value_parse_bool("Yes", &b, NULL) == STATUS_OK && b);
    cr_expect(value_parse_bool("off", &b, NULL) == STATUS_OK && !b);
    cr_expect_eq(value_parse_bool("maybe", &b, NULL), STATUS_INVALID_ARGUMENT);
}

Test(value, addresses)
{
    static const char *const bad[] = {"",       "host",    "host:", "host:99999", "host:-1",
                                      "::1:80", "[::1]80", "a b:1", "http://x:1", "h:1x"};
    config_address_t a;
    char text[CONFIG_ADDRESS_TEXT_BYTES];
    cr_expect_eq(value_parse_address("0.0.0.0:8000", &a, NULL), STATUS_OK);
    cr_expect_str_eq(a.host, "0.0.0.0");
    cr_expect_eq(a.port, 8000);
    cr_expect_eq(value_parse_address(":0", &a, NULL), STATUS_OK);
    cr_expect_str_eq(a.host, "");
    cr_expect_eq(value_parse_address("[::1]:65535", &a, NULL), STATUS_OK);
    cr_expect_str_eq(a.host, "::1");
    cr_expect_str_eq(value_format_address(&a, text, sizeof text), "[::1]:65535");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(value_parse_address(bad[i], &a, NULL), STATUS_INVALID_ARGUMENT, "%s", bad[i]);
}

Test(value, formats_read_back)
{
    char text[64];
    cr_expect_str_eq(value_format_duration(25000000, text, sizeof text), "25ms");
    cr_expect_str_eq(value_format_duration(1500000000, text, sizeof text), "1500ms");
    cr_expect_str_eq(value_format_duration(0, text, sizeof text), "0");
    cr_expect_str_eq(value_format_duration(1001, text, sizeof text), "1001ns");
    cr_expect_str_eq(value_format_bytes(64 << 20, text, sizeof text), "64MiB");
    cr_expect_str_eq(value_format_bytes(1000, text, sizeof text), "1000");
}

Test(value, an_address_with_only_a_port_gets_a_host)
{
    config_address_t address = {.port = 8000};
    char text[CONFIG_ADDRESS_TEXT_BYTES];

    cr_expect_str_eq(value_format_address_at(&address, "127.0.0.1", text, sizeof text), "127.0.0.1:8000");
    cr_expect_str_eq(value_format_address_at(&address, "::1", text, sizeof text), "[::1]:8000");
    strcpy(address.host, "gpu-3");
    cr_expect_str_eq(value_format_address_at(&address, "127.0.0.1", text, sizeof text), "gpu-3:8000");
}
