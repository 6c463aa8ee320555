#include "config/value.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
    const char *name;
    int64_t factor;
} unit_t;

/* Largest first: formatting takes the first that divides exactly. */
static const unit_t duration_units[] = {{"h", 3600 * NS_PER_S}, {"m", 60 * NS_PER_S}, {"s", NS_PER_S},
                                        {"ms", NS_PER_MS},      {"us", NS_PER_US},    {"ns", 1},
                                        {"µs", NS_PER_US}};
static const unit_t bytes_units[] = {{"TiB", INT64_C(1) << 40},
                                     {"GiB", INT64_C(1) << 30},
                                     {"MiB", INT64_C(1) << 20},
                                     {"KiB", INT64_C(1) << 10},
                                     {"TB", 1000000000000},
                                     {"GB", 1000000000},
                                     {"MB", 1000000},
                                     {"kB", 1000},
                                     {"KB", 1000},
                                     {"B", 1}};
enum {
    DURATION_UNITS = sizeof duration_units / sizeof *duration_units,
    BYTES_UNITS = sizeof bytes_units / sizeof *bytes_units
};

status_t value_parse_bool(const char *text, bool *out, err_t *err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return STATUS_OK;
        }
    }
    return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.60s\" is not true or false", text);
}

/* The C library's number parsers skip spaces and take words like "infinity": a number here begins as one. */
static bool begins_as_number(const char *text)
{
    if (*text == '-' || *text == '+')
        text++;
    if (*text == '.')
        text++;
    return isdigit((unsigned char)*text);
}

status_t value_parse_int64(const char *text, int64_t *out, err_t *err)
{
    const char *digits = text + (*text == '-' || *text == '+');
    int base = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10; /* 010 is ten */
    char *end = NULL;
    errno = 0;
    long long value = begins_as_number(text) ? strtoll(text, &end, base) : 0;
    if (!end || *end != '\0')
        return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.60s\" is not a whole number", text);
    if (errno == ERANGE)
        return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.60s\" does not fit into 64 bits", text);
    *out = value;
    return STATUS_OK;
}

status_t value_parse_double(const char *text, double *out, err_t *err)
{
    char *end = NULL;
    double value = begins_as_number(text) ? strtod(text, &end) : 0;
    if (!end || *end != '\0' || !isfinite(value))
        return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.60s\" is not a number", text);
    *out = value;
    return STATUS_OK;
}

static const unit_t *find_unit(const char *name, const unit_t *units, int len)
{
    for (int i = 0; i < len; i++)
        if (strcmp(name, units[i].name) == 0)
            return &units[i];
    return NULL;
}

/* A number that is not negative and a unit, with or without a space between. bare: the factor without a unit,
 * 0: refused. */
static bool parse_with_unit(const char *text, const unit_t *units, int len, int64_t bare, int64_t *out)
{
    if (!begins_as_number(text) || *text == '-')
        return false;
    char *end;
    long double value = strtold(text, &end); /* 64 bits of mantissa: every int64 is exact */
    if (*end == ' ')
        end++;
    const unit_t *unit = find_unit(end, units, len);
    int64_t factor = unit ? unit->factor : *end == '\0' ? bare : 0;
    if (*end == '\0' && value == 0)
        factor = 1;
    long double scaled = roundl(value * (long double)factor);
    if (factor == 0 || !(scaled < 0x1p63L))
        return false;
    *out = (int64_t)scaled;
    return true;
}

status_t value_parse_duration(const char *text, int64_t *ns, err_t *err)
{
    if (parse_with_unit(text, duration_units, DURATION_UNITS, 0, ns))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "\"%.60s\" is not a duration (a number and ns, us, ms, s, m or h, as \"25ms\")", text);
}

status_t value_parse_bytes(const char *text, int64_t *bytes, err_t *err)
{
    if (parse_with_unit(text, bytes_units, BYTES_UNITS, 1, bytes))
        return STATUS_OK;
    return err_set(
        err, STATUS_INVALID_ARGUMENT,
        "\"%.60s\" is not a size (a number and B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, as \"64MiB\")", text);
}

static status_t bad_address(const char *text, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "\"%.100s\" is not an address (host:port, :port or [IPv6]:port)", text);
}

static bool parse_port(const char *text, uint16_t *port)
{
    if (!isdigit((unsigned char)*text) || strlen(text) > 5)
        return false;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value > UINT16_MAX)
        return false;
    *port = (uint16_t)value;
    return true;
}

status_t value_parse_address(const char *text, config_address_t *out, err_t *err)
{
    const char *colon = strrchr(text, ':');
    config_address_t address = {0};
    if (!colon || !parse_port(colon + 1, &address.port))
        return bad_address(text, err);
    const char *host = text;
    size_t len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        host++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return bad_address(text, err); /* IPv6 wants brackets: which colon would be the port's? */
    }
    if (len >= sizeof address.host || memchr(host, ' ', len) || memchr(host, '/', len))
        return bad_address(text, err);
    memcpy(address.host, host, len);
    *out = address;
    return STATUS_OK;
}

static const char *format_with_unit(int64_t value, const unit_t *units, int len, char *text,
                                    size_t text_bytes)
{
    int i = 0;
    while (i < len - 1 && value % units[i].factor != 0)
        i++;
    snprintf(text, text_bytes, "%" PRId64 "%s", value / units[i].factor, units[i].name);
    return text;
}

const char *value_format_duration(int64_t ns, char *text, size_t text_bytes)
{
    if (ns == 0)
        return snprintf(text, text_bytes, "0"), text;
    return format_with_unit(ns, duration_units, 6, text, text_bytes);
}

const char *value_format_bytes(int64_t bytes, char *text, size_t text_bytes)
{
    if (bytes == 0)
        return snprintf(text, text_bytes, "0"), text;
    if (bytes % 1024 != 0)
        return snprintf(text, text_bytes, "%" PRId64, bytes), text;
    return format_with_unit(bytes, bytes_units, 4, text, text_bytes);
}

const char *value_format_address(const config_address_t *address, char *text, size_t text_bytes)
{
    bool v6 = strchr(address->host, ':');
    snprintf(text, text_bytes, v6 ? "[%s]:%u" : "%s:%u", address->host, address->port);
    return text;
}

const char *value_format_address_at(const config_address_t *address, const char *default_host, char *text,
                                    size_t text_bytes)
{
    config_address_t full = *address;
    if (!full.host[0])
        snprintf(full.host, sizeof full.host, "%s", default_host);
    return value_format_address(&full, text, text_bytes);
}
