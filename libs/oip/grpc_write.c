#include "oip/grpc_codec.h"
#include "oip/reply.h"
#include "oip/wire.h"

enum { PARAMETER_BYTES = 64, OUTPUT_BYTES = OIP_NAME_BYTES + 128 };

static void write_head(strbuf_t *out, uint32_t number, const void *data, size_t len_bytes)
{
    uint8_t bytes[16];
    wire_writer_t writer = {.data = bytes, .cap_bytes = sizeof bytes};
    wire_put_len_head(&writer, number, len_bytes);
    strbuf_append(out, bytes, writer.len_bytes);
    if (data)
        strbuf_append(out, data, len_bytes);
}

static void write_text(strbuf_t *out, uint32_t number, const char *text)
{
    if (text[0])
        write_head(out, number, text, strlen(text));
}

/* An entry of map<string, InferParameter> with an int64_param. */
static void write_parameter(strbuf_t *out, const char *name, uint64_t value)
{
    uint8_t value_bytes[16], entry_bytes[PARAMETER_BYTES];
    wire_writer_t parameter = {.data = value_bytes, .cap_bytes = sizeof value_bytes};
    wire_writer_t entry = {.data = entry_bytes, .cap_bytes = sizeof entry_bytes};
    wire_put_uint(&parameter, 2, value);
    wire_put_len(&entry, 1, name, strlen(name));
    wire_put_len(&entry, 2, value_bytes, parameter.len_bytes);
    write_head(out, 4, entry_bytes, entry.len_bytes);
}

static status_t write_output(strbuf_t *out, const oip_output_t *output, err_t *err)
{
    uint8_t dims_bytes[OIP_MAX_RANK * 10], bytes[OUTPUT_BYTES];
    wire_writer_t dims = {.data = dims_bytes, .cap_bytes = sizeof dims_bytes};
    wire_writer_t writer = {.data = bytes, .cap_bytes = sizeof bytes};
    const char *datatype = oip_datatype_name(output->datatype);
    for (uint32_t i = 0; i < output->shape.rank; i++)
        wire_put_varint(&dims, (uint64_t)output->shape.dims[i]);
    wire_put_len(&writer, 1, output->name, strlen(output->name));
    wire_put_len(&writer, 2, datatype, strlen(datatype));
    wire_put_len(&writer, 3, dims_bytes, dims.len_bytes);
    if (writer.failed)
        return err_set(err, STATUS_INTERNAL, "output '%s' has a name of over %d bytes", output->name,
                       OIP_NAME_BYTES - 1);
    write_head(out, 5, bytes, writer.len_bytes);
    return STATUS_OK;
}

status_t oip_grpc_write(oip_reply_t *reply, const oip_response_t *response, err_t *err)
{
    strbuf_t *out = &reply->head;
    reply_begin(reply);
    write_text(out, 1, response->model);
    write_text(out, 2, response->version);
    write_text(out, 3, response->id);
    if (response->has_timing) {
        write_parameter(out, "fermata_batch_size", response->batch_size);
        write_parameter(out, "fermata_queue_us", response->queue_us);
        write_parameter(out, "fermata_compute_us", response->compute_us);
    }
    for (uint32_t i = 0; i < response->output_count; i++) {
        status_t status = write_output(out, &response->outputs[i], err);
        if (status)
            return status;
    }
    for (uint32_t i = 0; i < response->output_count; i++) {
        const oip_output_t *output = &response->outputs[i];
        uint32_t count = output->memory ? 0 : output->piece_count; /* each has one, which may be empty */
        write_head(out, 6, NULL, count > 0 ? reply_output_bytes(output) : 0);
        reply_pieces(reply, output->pieces, count);
    }
    return reply_finish(reply, err);
}
