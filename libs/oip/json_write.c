#include "oip/json_write.h"

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

/* 10^exponent for |exponent| <= 60, within a few units in the last place of a double. */
static double power_of_ten(int exponent)
{
    static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int size = exponent < 0 ? -exponent : exponent;
    double power = 1.0;
    for (; size > 22; size -= 22)
        power *= exact[22];
    power *= exact[size];
    return exponent < 0 ? 1.0 / power : power;
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
 * A float32 fits a double with 29 bits to spare, so scaling it to an integer of 6 to 10 digits and back in doubles
 * tells whether those digits lie safely inside the interval that reads back as this float. "Safely" leaves out the
 * outer millionth of the interval, where double rounding could decide; one more digit settles those.
 */
size_t json_write_fp32(char *out, float value)
{
    if (!isfinite(value))
        return write_special(out, (double)value);
    char *at = out;
    if (signbit(value))
        *at++ = '-';
    double x = fabs((double)value);
    if (x < 1e9 && x == (double)(uint32_t)x) {
        at += json_write_uint64(at, (uint64_t)x);
        memcpy(at, ".0", 2);
        return (size_t)(at - out) + 2;
    }
    float size = fabsf(value);
    double half_gap = (x - (double)nextafterf(size, 0.0F)) / 2 * (1 - 1e-6);
    int magnitude = (int)floor(log10(x));
    for (int digits = 6;; digits++) {
        int shift = digits - 1 - magnitude;
        uint64_t scaled = (uint64_t)llrint(x * power_of_ten(shift));
        double back =
            shift < 0 ? (double)scaled * power_of_ten(-shift) : (double)scaled / power_of_ten(shift);
        if (fabs(back - x) >= half_gap && digits < 10)
            continue;
        for (; scaled % 10 == 0; scaled /= 10)
            shift--;
        return (size_t)(at - out) + write_decimal(at, scaled, -shift);
    }
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

void json_write_string(strbuf_t *out, const void *text, size_t len)
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
    union {
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } v;
    memcpy(&v, data, oip_datatype_bytes(type));
    switch (type) {
    case OIP_BOOL:
        memcpy(out, *data ? "true" : "false", *data ? 4 : 5);
        return *data ? 4 : 5;
    case OIP_UINT8:
        return json_write_uint64(out, *data);
    case OIP_UINT16:
        return json_write_uint64(out, v.u16);
    case OIP_UINT32:
        return json_write_uint64(out, v.u32);
    case OIP_UINT64:
        return json_write_uint64(out, v.u64);
    case OIP_INT8:
        return json_write_int64(out, (int8_t)*data);
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
