#include "oip/request.h"

#include <string.h>

void oip_request_init(oip_request_t *request)
{
    /* Not memset: 40 KB per request would cost more than the parse of a small one. */
    request->model = request->version = request->id = "";
    request->timeout_us = 0;
    request->priority = 0;
    request->sequence = request->wants_timing = request->binary_output = request->base64 = false;
    request->in_memory = false;
    request->input_count = request->requested_count = 0;
    request->rows = 0;
    request->batched = false;
    request->text_len = 0;
}

const char *oip_request_keep(oip_request_t *request, const char *text, size_t len)
{
    if (len >= OIP_TEXT_BYTES - request->text_len)
        return NULL;
    char *kept = request->text + request->text_len;
    memcpy(kept, text, len);
    kept[len] = '\0';
    request->text_len += len + 1;
    return kept;
}

static status_t wrong_kind(const char *name, const char *wanted, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT, "parameter '%s' must be %s", name, wanted);
}

static status_t get_bool(const char *name, const oip_value_t *value, bool *out, err_t *err)
{
    if (value->kind != OIP_PARAM_BOOL)
        return wrong_kind(name, "a boolean", err);
    *out = value->b;
    return STATUS_OK;
}

static status_t get_uint64(const char *name, const oip_value_t *value, uint64_t *out, err_t *err)
{
    if (value->kind == OIP_PARAM_UINT64)
        *out = value->u64;
    else if (value->kind == OIP_PARAM_INT64 && value->i64 >= 0)
        *out = (uint64_t)value->i64;
    else
        return wrong_kind(name, "an integer of at least 0", err);
    return STATUS_OK;
}

static status_t set_timeout(oip_request_t *request, const oip_value_t *value, err_t *err)
{
    uint64_t timeout_us = 0;
    status_t status = get_uint64("timeout", value, &timeout_us, err);
    if (status)
        return status;
    if (timeout_us > INT64_MAX / 1000) /* it becomes nanoseconds */
        return wrong_kind("timeout", "at most 9223372036854775 microseconds", err);
    request->timeout_us = (int64_t)timeout_us;
    return STATUS_OK;
}

status_t oip_request_set_parameter(oip_request_t *request, const char *name, const oip_value_t *value,
                                   err_t *err)
{
    if (strcmp(name, "timeout") == 0)
        return set_timeout(request, value, err);
    if (strcmp(name, "priority") == 0)
        return get_uint64(name, value, &request->priority, err);
    if (strcmp(name, "fermata_timing") == 0)
        return get_bool(name, value, &request->wants_timing, err);
    if (strcmp(name, "binary_data_output") == 0)
        return get_bool(name, value, &request->binary_output, err);
    if (strcmp(name, "content_type") == 0) /* MLServer's others say what clients make of a tensor */
        request->base64 = value->kind == OIP_PARAM_STRING && strcmp(value->str, "base64") == 0;
    if (strncmp(name, "sequence_", strlen("sequence_")) == 0)
        request->sequence = true;
    return STATUS_OK;
}

status_t oip_requested_set_parameter(oip_requested_t *requested, const char *name, const oip_value_t *value,
                                     err_t *err)
{
    status_t status = STATUS_OK;
    if (strcmp(name, "binary_data") == 0) {
        status = get_bool(name, value, &requested->binary, err);
        requested->binary_set = true;
    } else if (strcmp(name, "classification") == 0) {
        uint64_t k = 0;
        status = get_uint64(name, value, &k, err);
        if (status == STATUS_OK && k > UINT32_MAX)
            status = wrong_kind(name, "a count of classes", err);
        if (status == STATUS_OK)
            requested->classification = (uint32_t)k;
    }
    return status;
}

status_t oip_memory_set_parameter(oip_request_t *request, oip_memory_t *memory, const char *name,
                                  const oip_value_t *value, err_t *err)
{
    if (strcmp(name, "shared_memory_offset") == 0)
        return get_uint64(name, value, &memory->offset_bytes, err);
    if (strcmp(name, "shared_memory_byte_size") == 0)
        return get_uint64(name, value, &memory->len_bytes, err);
    if (strcmp(name, "shared_memory_region") != 0)
        return STATUS_OK;
    if (value->kind != OIP_PARAM_STRING || !value->str[0])
        return wrong_kind(name, "the name of a region", err);
    memory->region = oip_request_keep(request, value->str, strlen(value->str));
    if (!memory->region)
        return err_set(err, STATUS_INVALID_ARGUMENT, "parameter '%s': over %d bytes of names in one request",
                       name, OIP_TEXT_BYTES);
    request->in_memory = true;
    return STATUS_OK;
}

status_t oip_memory_finish(const oip_memory_t *memory, const char *what, const char *tensor, err_t *err)
{
    bool placed = memory->offset_bytes > 0 || memory->len_bytes > 0;
    if (!memory->region && placed)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%s '%s' has a place in shared memory and no 'shared_memory_region'", what, tensor);
    if (memory->region && memory->len_bytes == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%s '%s' needs a 'shared_memory_byte_size' of at least 1", what, tensor);
    return STATUS_OK;
}
