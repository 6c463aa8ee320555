/*
 * Hot path: one function per datatype reads runs of scalars; only brackets leave it.
 */
#include "oip/json_data.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct data_reader data_reader_t;
typedef status_t (*scalar_run_fn)(data_reader_t *data);

struct data_reader {
    json_reader_t *reader;
    const char *name;
    oip_datatype_t type;
    scalar_run_fn run; /* reads scalars until something that is not ", scalar" */
    uint8_t *out;
    size_t cap_bytes, len_bytes;
    uint64_t read, count;
};

static status_t too_many(data_reader_t *data)
{
    return err_set(data->reader->err, STATUS_INVALID_ARGUMENT,
                   "input '%s' has more data than its shape says (%llu)", data->name,
                   (unsigned long long)data->count);
}

static status_t bad_element(data_reader_t *data)
{
    return err_set(data->reader->err, STATUS_INVALID_ARGUMENT,
                   "input '%s': element %llu is no %s or out of range", data->name,
                   (unsigned long long)data->read, oip_datatype_name(data->type));
}

/* Takes the comma when a scalar follows it. Lists that follow scalars are read as well: what counts is the
 * order and the number of the elements. */
static inline bool another_scalar(json_reader_t *reader)
{
    if (json_read_peek(reader) != ',')
        return false;
    const char *comma = reader->at++;
    if (json_read_peek(reader) != '[')
        return true;
    reader->at = comma;
    return false;
}

static inline bool take_int(json_reader_t *reader, int64_t min, int64_t max, int64_t *value, status_t *status)
{
    json_number_t number;
    *status = json_read_number(reader, &number);
    return *status == STATUS_OK && json_read_int64(&number, value) && *value >= min && *value <= max;
}

static inline bool take_uint(json_reader_t *reader, uint64_t max, uint64_t *value, status_t *status)
{
    json_number_t number;
    *status = json_read_number(reader, &number);
    return *status == STATUS_OK && json_read_uint64(&number, value) && *value <= max;
}

/* Written numbers must fit, infinities must be spelled out. */
static inline bool take_double(json_reader_t *reader, double max, double *value, status_t *status)
{
    json_number_t number;
    *status = json_read_number(reader, &number);
    if (*status)
        return false;
    *value = json_read_double(&number);
    return number.special || fabs(*value) <= max;
}

static inline bool take_bool(json_reader_t *reader, uint64_t *value, status_t *status)
{
    char c = json_read_peek(reader);
    if (c == '0' || c == '1')
        return take_uint(reader, 1, value, status);
    bool truth;
    *status = json_read_bool(reader, &truth);
    *value = *status == STATUS_OK && truth;
    return *status == STATUS_OK;
}

#define SCALAR_RUN(name, element_t, wide_t, take)                                      \
    static status_t name(data_reader_t *data)                                          \
    {                                                                                  \
        json_reader_t *reader = data->reader;                                          \
        status_t status = STATUS_OK;                                                   \
        do {                                                                           \
            wide_t value = 0;                                                          \
            if (data->read == data->count)                                             \
                return too_many(data);                                                 \
            if (!(take))                                                               \
                return status ? status : bad_element(data);                            \
            element_t element = (element_t)value;                                      \
            memcpy(data->out + data->read * sizeof element, &element, sizeof element); \
            data->read++;                                                              \
        } while (another_scalar(reader));                                              \
        return STATUS_OK;                                                              \
    }

SCALAR_RUN(run_bool, uint8_t, uint64_t, take_bool(reader, &value, &status))
SCALAR_RUN(run_uint8, uint8_t, uint64_t, take_uint(reader, UINT8_MAX, &value, &status))
SCALAR_RUN(run_uint16, uint16_t, uint64_t, take_uint(reader, UINT16_MAX, &value, &status))
SCALAR_RUN(run_uint32, uint32_t, uint64_t, take_uint(reader, UINT32_MAX, &value, &status))
SCALAR_RUN(run_uint64, uint64_t, uint64_t, take_uint(reader, UINT64_MAX, &value, &status))
SCALAR_RUN(run_int8, int8_t, int64_t, take_int(reader, INT8_MIN, INT8_MAX, &value, &status))
SCALAR_RUN(run_int16, int16_t, int64_t, take_int(reader, INT16_MIN, INT16_MAX, &value, &status))
SCALAR_RUN(run_int32, int32_t, int64_t, take_int(reader, INT32_MIN, INT32_MAX, &value, &status))
SCALAR_RUN(run_int64, int64_t, int64_t, take_int(reader, INT64_MIN, INT64_MAX, &value, &status))
SCALAR_RUN(run_fp32, float, double, take_double(reader, (double)FLT_MAX, &value, &status))
SCALAR_RUN(run_fp64, double, double, take_double(reader, DBL_MAX, &value, &status))

static status_t run_bytes(data_reader_t *data)
{
    do {
        size_t len = 0, free_bytes = data->cap_bytes - data->len_bytes;
        uint32_t prefix;
        if (data->read == data->count)
            return too_many(data);
        if (json_read_peek(data->reader) != '"')
            return bad_element(data);
        if (free_bytes < sizeof prefix)
            return err_set(data->reader->err, STATUS_INTERNAL, "input '%s' outgrew its memory", data->name);
        status_t status = json_read_string(data->reader, (char *)data->out + data->len_bytes + sizeof prefix,
                                           free_bytes - sizeof prefix, &len);
        if (status)
            return status;
        prefix = (uint32_t)len; /* bodies are far below 4 GiB */
        memcpy(data->out + data->len_bytes, &prefix, sizeof prefix);
        data->len_bytes += sizeof prefix + len;
        data->read++;
    } while (another_scalar(data->reader));
    return STATUS_OK;
}

static const scalar_run_fn runs[OIP_DATATYPE_COUNT] = {
    [OIP_BOOL] = run_bool,     [OIP_UINT8] = run_uint8, [OIP_UINT16] = run_uint16, [OIP_UINT32] = run_uint32,
    [OIP_UINT64] = run_uint64, [OIP_INT8] = run_int8,   [OIP_INT16] = run_int16,   [OIP_INT32] = run_int32,
    [OIP_INT64] = run_int64,   [OIP_FP32] = run_fp32,   [OIP_FP64] = run_fp64,     [OIP_BYTES] = run_bytes,
};

static status_t read_item(json_reader_t *reader, void *user)
{
    data_reader_t *data = user;
    if (reader->at < reader->end && *reader->at == '[')
        return json_read_array(reader, read_item, data);
    return data->run(data);
}

status_t json_data_read(json_reader_t *reader, const char *name, oip_datatype_t type, uint64_t count,
                        uint8_t *out, size_t cap_bytes, size_t *len_bytes)
{
    data_reader_t data = {.reader = reader,
                          .name = name,
                          .type = type,
                          .run = runs[type],
                          .out = out,
                          .cap_bytes = cap_bytes,
                          .count = count};
    if (!data.run)
        return err_set(reader->err, STATUS_INVALID_ARGUMENT,
                       "input '%s' is %s, which has no JSON form; send it with binary_data_size", name,
                       oip_datatype_name(type));
    if (json_read_peek(reader) != '[')
        return json_read_fail(reader, "data of input '%s' is no array", name);
    status_t status = json_read_array(reader, read_item, &data);
    if (status)
        return status;
    if (data.read != count)
        return err_set(reader->err, STATUS_INVALID_ARGUMENT,
                       "input '%s' has %llu elements, its shape says %llu", name,
                       (unsigned long long)data.read, (unsigned long long)count);
    *len_bytes = type == OIP_BYTES ? data.len_bytes : (size_t)count * oip_datatype_bytes(type);
    return STATUS_OK;
}
