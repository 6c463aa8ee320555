/*
 * Hot path: numbers of JSON tensors. Digits go into a 64-bit integer; a power of ten that is exact in the widest
 * hardware format then gives the correctly rounded double in one operation. The rest goes to strtod.
 */
#include "oip/json_reader.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline bool at_digit(const json_reader_t *reader)
{
    return reader->at < reader->end && (uint8_t)(*reader->at - '0') <= 9;
}

/* Takes digits into the mantissa. Returns how many were taken. */
static inline uint32_t take_digits(json_reader_t *reader, json_number_t *number)
{
    const char *start = reader->at;
    uint64_t mantissa = number->mantissa;
    for (; at_digit(reader); reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        if (mantissa > (UINT64_MAX - 9) / 10) {
            /* 18446744073709551615 and its neighbours still fit. */
            if (__builtin_mul_overflow(mantissa, (uint64_t)10, &mantissa) ||
                __builtin_add_overflow(mantissa, digit, &mantissa))
                number->inexact = true;
        } else {
            mantissa = mantissa * 10 + digit;
        }
    }
    number->mantissa = mantissa;
    return (uint32_t)(reader->at - start);
}

static status_t take_exponent(json_reader_t *reader, json_number_t *number)
{
    bool negative = false;
    int32_t exponent = 0;
    reader->at++;
    if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
        negative = *reader->at++ == '-';
    if (!at_digit(reader))
        return json_read_fail(reader, "expected the digits of an exponent");
    for (; at_digit(reader); reader->at++)
        if (exponent < 100000) /* far over what any double has; strtod reads the text itself */
            exponent = exponent * 10 + (*reader->at - '0');
    number->exponent += negative ? -exponent : exponent;
    return STATUS_OK;
}

static bool take_word(json_reader_t *reader, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0)
        return false;
    reader->at += len;
    return true;
}

static status_t take_special(json_reader_t *reader, json_number_t *number)
{
    if (!number->negative && take_word(reader, "NaN"))
        number->special = 'N';
    else if (take_word(reader, "Infinity"))
        number->special = 'I';
    else
        return json_read_fail(reader, "expected a value");
    return STATUS_OK;
}

status_t json_read_number(json_reader_t *reader, json_number_t *number)
{
    json_read_space(reader);
    *number = (json_number_t){.integral = true, .text = reader->at};
    if (reader->at < reader->end && *reader->at == '-') {
        number->negative = true;
        reader->at++;
    }
    if (!at_digit(reader))
        return take_special(reader, number);
    if (*reader->at == '0') {
        reader->at++;
        if (at_digit(reader))
            return json_read_fail(reader, "number with a leading zero");
    } else {
        take_digits(reader, number);
    }
    if (reader->at < reader->end && *reader->at == '.') {
        number->integral = false;
        reader->at++;
        if (!at_digit(reader))
            return json_read_fail(reader, "expected the digits of a fraction");
        number->exponent = -(int32_t)take_digits(reader, number);
    }
    if (reader->at < reader->end && (*reader->at | 0x20) == 'e') {
        status_t status = take_exponent(reader, number);
        if (status)
            return status;
        number->integral = false;
    }
    /* A document never ends in a number, and strtod needs something that stops it. */
    return reader->at < reader->end ? STATUS_OK : json_read_fail(reader, "unexpected end");
}

#if LDBL_MANT_DIG == 64
/* 10^27 = 5^27 * 2^27 and 5^27 < 2^63, so all of these are exact. */
enum { EXACT_POWERS = 28 };
static const long double powers[EXACT_POWERS] = {
    1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
    1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L,
};

/*
 * One correctly rounded operation to 64 bits, then rounding to 53. The second rounding can only go wrong when the
 * first ended exactly half way between two doubles.
 */
static bool fast_double(const json_number_t *number, double *value)
{
    int32_t exponent = number->exponent;
    if (number->inexact || exponent >= EXACT_POWERS || exponent <= -EXACT_POWERS)
        return false;
    long double wide = (long double)number->mantissa;
    wide = exponent < 0 ? wide / powers[-exponent] : wide * powers[exponent];
    uint64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    if ((bits & 0x7ff) == 0x400)
        return false;
    *value = (double)wide;
    return true;
}
#else
enum { EXACT_POWERS = 23 };
static const double powers[EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool fast_double(const json_number_t *number, double *value)
{
    int32_t exponent = number->exponent;
    if (number->inexact || number->mantissa > (UINT64_C(1) << 53) || exponent >= EXACT_POWERS ||
        exponent <= -EXACT_POWERS)
        return false;
    double exact = (double)number->mantissa;
    *value = exponent < 0 ? exact / powers[-exponent] : exact * powers[exponent];
    return true;
}
#endif

double json_read_double(const json_number_t *number)
{
    double value;
    if (number->special)
        value = number->special == 'N' ? (double)NAN : (double)INFINITY;
    else if (!fast_double(number, &value))
        return strtod(number->text, NULL);
    return number->negative ? -value : value;
}

bool json_read_int64(const json_number_t *number, int64_t *value)
{
    uint64_t limit = (uint64_t)INT64_MAX + (number->negative ? 1 : 0);
    if (number->special || !number->integral || number->inexact || number->mantissa > limit)
        return false;
    *value = (int64_t)(number->negative ? 0 - number->mantissa : number->mantissa);
    return true;
}

bool json_read_uint64(const json_number_t *number, uint64_t *value)
{
    if (number->special || !number->integral || number->inexact ||
        (number->negative && number->mantissa != 0))
        return false;
    *value = number->mantissa;
    return true;
}
