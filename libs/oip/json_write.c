#include "oip/json_write.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t json_write_uint64(char *out, uint64_t value)
{
    char digits[20];
    size_t len = 0;
    do {
        digits[len++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    for (size_t i = 0; i < len; i++)
        out[i] = digits[len - 1 - i];
    return len;
}

size_t json_write_int64(char *out, int64_t value)
{
    if (value >= 0)
        return json_write_uint64(out, (uint64_t)value);
    out[0] = '-';
    return 1 + json_write_uint64(out + 1, 0 - (uint64_t)value);
}

static size_t write_special(char *out, double value)
{
    const char *text = isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    size_t len = strlen(text);
    memcpy(out, text, len);
    return len;
}

/* Correctly rounded by the compiler: what scaling any float to 9 digits before the point takes. */
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10,
                                1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
                                1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32,
                                1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41, 1e42, 1e43,
                                1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51, 1e52, 1e53};

static double scale_by_ten(double x, int exponent)
{
    return exponent < 0 ? x / powers[-exponent] : x * powers[exponent];
}

/* The decimal exponent of x > 0: a guess from the binary one, which is right or one too small. */
static int magnitude_of(double x)
{
    int binary;
    frexp(x, &binary);
    int guess = (int)floor((binary - 1) * 0.30102999566398119);
    return scale_by_ten(x, -guess) >= 10.0 ? guess + 1 : guess;
}

/* Writes digits * 10^exponent, digits not ending in 0: plainly where that is short, else with an exponent. */
static size_t write_decimal(char *out, uint64_t digits, int exponent)
{
    char text[20];
    int count = (int)json_write_uint64(text, digits);
    int point = count + exponent; /* digits before the point */
    char *at = out;
    if (point > 0 && point <= 9) {
        for (int i = 0; i < count || i < point; i++) {
            if (i == point)
                *at++ = '.';
            *at++ = i < count ? text[i] : '0';
        }
        if (count <= point) { /* a float stays recognisable as one */
            *at++ = '.';
            *at++ = '0';
        }
        return (size_t)(at - out);
    }
    if (point <= 0 && point > -4) {
        *at++ = '0';
        *at++ = '.';
        for (int i = point; i < 0; i++)
            *at++ = '0';
        memcpy(at, text, (size_t)count);
        return (size_t)(at - out) + (size_t)count;
    }
    *at++ = text[0];
    if (count > 1) {
        *at++ = '.';
        memcpy(at, text + 1, (size_t)count - 1);
        at += count - 1;
    }
    *at++ = 'e';
    return (size_t)(at - out) + json_write_int64(at, point - 1);
}

/*
 * A float32 fits a double with 29 bits to spare. Scaled to 9 digits before the point, its neighbours are at least 3
 * apart and the scaling is off by less than 1e-6, so comparing with half that distance tells which integers read back
 * as this float; the outer millionth of the interval, where rounding could decide, is left out. 9 digits always do.
 */
static uint64_t shorten(double scaled, double half_gap, int digits, int *dropped)
{
    static const uint32_t units[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    for (;; digits++) {
        int drop = digits < 9 ? 9 - digits : 0;
        uint64_t unit = units[drop], count = ((uint64_t)scaled + unit / 2) / unit;
        if (drop > 0 && fabs((double)(count * unit) - scaled) >= half_gap)
            continue;
        if (drop == 0)
            count = (uint64_t)llrint(scaled);
        for (; count % 10 == 0; count /= 10)
            drop++;
        *dropped = drop;
        return count;
    }
}

size_t json_write_fp32(char *out, float value)
{
    if (!isfinite(value))
        return write_special(out, (double)value);
    char *at = out;
    if (signbit(value))
        *at++ = '-';
    float size = fabsf(value);
    double x = (double)size;
    if (x < 1e9 && x == (double)(uint32_t)x) {
        at += json_write_uint64(at, (uint64_t)x);
        memcpy(at, ".0", 2);
        return (size_t)(at - out) + 2;
    }
    /* Towards zero the neighbour is never farther than on the other side. Below 6 digits only subnormals end. */
    double gap = x - (double)nextafterf(size, 0.0F);
    int shift = 8 - magnitude_of(x), dropped;
    uint64_t digits = shorten(scale_by_ten(x, shift), scale_by_ten(gap, shift) / 2 * (1 - 1e-6),
                              size < FLT_MIN ? 1 : 6, &dropped);
    return (size_t)(at - out) + write_decimal(at, digits, dropped - shift);
}

size_t json_write_fp64(char *out, double value)
{
    if (!isfinite(value))
        return write_special(out, value);
    char text[JSON_NUMBER_BYTES];
    int len = 0;
    for (int digits = 15; digits <= 17; digits++) {
        len = snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    memcpy(out, text, (size_t)len);
    if (strcspn(text, ".e") == (size_t)len) {
        memcpy(out + len, ".0", 2);
        len += 2;
    }
    return (size_t)len;
}

/* A string of given length, which may hold NULs; bytes that are no UTF-8 go out as they are, as Triton sends them. */
static void json_write_string(strbuf_t *out, const void *text, size_t len)
{
    const uint8_t *at = text, *end = at + len;
    strbuf_putc(out, '"');
    while (at < end) {
        const uint8_t *start = at;
        while (at < end && *at >= 0x20 && *at != '"' && *at != '\\')
            at++;
        strbuf_append(out, start, (size_t)(at - start));
        if (at == end)
            break;
        if (*at == '"' || *at == '\\')
            strbuf_printf(out, "\\%c", *at);
        else
            strbuf_printf(out, "\\u%04x", *at);
        at++;
    }
    strbuf_putc(out, '"');
}

static size_t write_number(char *out, oip_datatype_t type, const uint8_t *data)
{
    oip_element_t v = oip_element(type, data);
    switch (type) {
    case OIP_BOOL:
        memcpy(out, *data ? "true" : "false", *data ? 4 : 5);
        return *data ? 4 : 5;
    case OIP_UINT8:
        return json_write_uint64(out, v.u8);
    case OIP_UINT16:
        return json_write_uint64(out, v.u16);
    case OIP_UINT32:
        return json_write_uint64(out, v.u32);
    case OIP_UINT64:
        return json_write_uint64(out, v.u64);
    case OIP_INT8:
        return json_write_int64(out, v.i8);
    case OIP_INT16:
        return json_write_int64(out, v.i16);
    case OIP_INT32:
        return json_write_int64(out, v.i32);
    case OIP_INT64:
        return json_write_int64(out, v.i64);
    case OIP_FP32:
        return json_write_fp32(out, v.f32);
    default:
        return json_write_fp64(out, v.f64);
    }
}

static void write_strings(strbuf_t *out, const void *data, size_t len_bytes, bool first)
{
    size_t offset = 0;
    const uint8_t *element;
    uint32_t size;
    while (oip_bytes_next(data, len_bytes, &offset, &element, &size)) {
        if (!first)
            strbuf_putc(out, ',');
        first = false;
        json_write_string(out, element, size);
    }
}

void json_write_elements(strbuf_t *out, oip_datatype_t type, const void *data, size_t len_bytes, bool first)
{
    enum { CHUNK = 128 }; /* elements per reservation: 4 KiB of text at most */
    const uint8_t *at = data;
    size_t element_bytes = oip_datatype_bytes(type);
    if (type == OIP_BYTES) {
        write_strings(out, data, len_bytes, first);
        return;
    }
    if (element_bytes == 0 || type == OIP_FP16 || type == OIP_BF16)
        return;
    for (size_t left = len_bytes / element_bytes; left > 0;) {
        size_t count = left < CHUNK ? left : CHUNK;
        char *start = strbuf_reserve(out, count * JSON_NUMBER_BYTES), *text = start;
        if (!start)
            return;
        for (size_t i = 0; i < count; i++, at += element_bytes) {
            if (!first)
                *text++ = ',';
            first = false;
            text += write_number(text, type, at);
        }
        strbuf_commit(out, (size_t)(text - start));
        left -= count;
    }
}
