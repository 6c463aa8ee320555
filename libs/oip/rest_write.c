#include "oip/json_write.h"
#include "oip/reply.h"
#include "oip/rest_codec.h"

#include <string.h>

static void write_text_member(strbuf_t *out, const char *prefix, const char *text)
{
    strbuf_puts(out, prefix);
    strbuf_json_string(out, text);
}

static void write_uint(strbuf_t *out, const char *prefix, uint64_t value)
{
    char text[JSON_NUMBER_BYTES];
    strbuf_puts(out, prefix);
    strbuf_append(out, text, json_write_uint64(text, value));
}

static void write_header(strbuf_t *out, const oip_response_t *response)
{
    write_text_member(out, "{\"model_name\":", response->model);
    write_text_member(out, ",\"model_version\":", response->version);
    if (response->id[0])
        write_text_member(out, ",\"id\":", response->id);
    if (!response->has_timing)
        return;
    write_uint(out, ",\"parameters\":{\"fermata_batch_size\":", response->batch_size);
    write_uint(out, ",\"fermata_queue_us\":", response->queue_us);
    write_uint(out, ",\"fermata_compute_us\":", response->compute_us);
    strbuf_puts(out, "}");
}

static void write_data(strbuf_t *out, const oip_output_t *output)
{
    bool first = true;
    strbuf_puts(out, ",\"data\":[");
    for (uint32_t i = 0; i < output->piece_count; i++) {
        json_write_elements(out, output->datatype, output->pieces[i].iov_base, output->pieces[i].iov_len,
                            first);
        first = first && output->pieces[i].iov_len == 0;
    }
    strbuf_puts(out, "]}");
}

static status_t check_form(const char *name, oip_datatype_t datatype, bool binary, err_t *err)
{
    if (binary || (datatype != OIP_FP16 && datatype != OIP_BF16))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "output '%s' is %s, which has no JSON form; ask for it with binary_data", name,
                   oip_datatype_name(datatype));
}

status_t oip_rest_check(const oip_request_t *request, const oip_model_spec_t *spec, err_t *err)
{
    bool all = request->requested_count == 0;
    uint32_t count = all ? spec->output_count : request->requested_count;
    for (uint32_t i = 0; i < count; i++) {
        const oip_requested_t *requested = all ? NULL : &request->requested[i];
        const oip_tensor_spec_t *output = &spec->outputs[requested ? (uint32_t)requested->spec_index : i];
        bool in_memory = requested && requested->memory.region;
        if (check_form(output->name, output->datatype, in_memory || oip_request_is_binary(request, requested),
                       err))
            return err->code;
    }
    return STATUS_OK;
}

static status_t write_output(strbuf_t *out, const oip_output_t *output, err_t *err)
{
    char shape[OIP_SHAPE_TEXT_BYTES];
    if (check_form(output->name, output->datatype, output->binary || output->memory, err))
        return err->code;
    write_text_member(out, "{\"name\":", output->name);
    write_text_member(out, ",\"datatype\":", oip_datatype_name(output->datatype));
    strbuf_puts(out, ",\"shape\":");
    strbuf_puts(out, oip_shape_format(&output->shape, shape));
    if (output->memory) { /* not told again: stock clients take parameters for those of a binary output */
        strbuf_putc(out, '}');
    } else if (output->binary) {
        write_uint(out, ",\"parameters\":{\"binary_data_size\":", reply_output_bytes(output));
        strbuf_puts(out, "}}");
    } else {
        write_data(out, output);
    }
    return STATUS_OK;
}

/* Its data follow the document. */
static bool is_behind(const oip_output_t *output)
{
    return output->binary && !output->memory;
}

status_t oip_rest_write(oip_reply_t *reply, const oip_response_t *response, err_t *err)
{
    bool binary = false;
    reply_begin(reply);
    write_header(&reply->head, response);
    strbuf_puts(&reply->head, ",\"outputs\":[");
    for (uint32_t i = 0; i < response->output_count; i++) {
        if (i > 0)
            strbuf_putc(&reply->head, ',');
        status_t status = write_output(&reply->head, &response->outputs[i], err);
        if (status)
            return status;
        binary = binary || is_behind(&response->outputs[i]);
    }
    strbuf_puts(&reply->head, "]}");
    size_t json_bytes = reply->head.len_bytes;
    for (uint32_t i = 0; i < response->output_count; i++)
        if (is_behind(&response->outputs[i]))
            reply_pieces(reply, response->outputs[i].pieces, response->outputs[i].piece_count);
    status_t status = reply_finish(reply, err);
    if (status == STATUS_OK)
        reply->json_bytes = binary ? json_bytes : 0;
    return status;
}
