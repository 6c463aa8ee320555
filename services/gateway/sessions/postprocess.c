#include "gateway/sessions/postprocess.h"

#include "oip/classification.h"
#include "oip/text.h"

/* The classes of one row: its last dimension that is larger than one, so that [C], [C,1,1] and [T,C] all work. */
static uint64_t classes_of(const oip_model_spec_t *spec, const oip_shape_t *shape)
{
    uint32_t first = spec->max_batch > 0 ? 1 : 0;
    for (uint32_t i = shape->rank; i > first; i--)
        if (shape->dims[i - 1] > 1)
            return (uint64_t)shape->dims[i - 1];
    return 1;
}

static void apply_softmax(const oip_model_spec_t *spec, oip_output_t *output)
{
    size_t classes = (size_t)classes_of(spec, &output->shape);
    for (uint32_t i = 0; i < output->piece_count; i++)
        oip_softmax_fp32(output->pieces[i].iov_base, output->pieces[i].iov_len / sizeof(float) / classes,
                         classes);
}

/* Row r of an output that lies in one piece per row or in one for all. */
static const uint8_t *row_at(const oip_output_t *output, uint32_t rows, uint32_t row)
{
    if (output->piece_count == rows)
        return output->pieces[row].iov_base;
    return (const uint8_t *)output->pieces[0].iov_base + output->pieces[0].iov_len / rows * row;
}

static oip_shape_t row_shape(const oip_model_spec_t *spec, const oip_output_t *output)
{
    oip_shape_t row = {0};
    for (uint32_t i = spec->max_batch > 0 ? 1 : 0; i < output->shape.rank; i++)
        row.dims[row.rank++] = output->shape.dims[i];
    return row;
}

static status_t classify(const oip_model_spec_t *spec, const oip_request_t *request,
                         const oip_requested_t *requested, const oip_allocator_t *allocator,
                         oip_output_t *output, err_t *err)
{
    oip_shape_t row = row_shape(spec, output), shape;
    uint32_t classes, k = requested->classification;
    status_t status = oip_classify_shape(spec, &spec->outputs[requested->spec_index], &row, request->rows, k,
                                         &shape, &classes, err);
    if (status)
        return status;
    k = k < classes ? k : classes;
    /* The piece and its text in one block. */
    struct iovec *piece =
        allocator->alloc(allocator->self, sizeof *piece + request->rows * oip_classify_row_bytes(spec, k));
    if (!piece)
        return err_set(err, STATUS_UNAVAILABLE, "no memory for the classes of output '%s'", output->name);
    uint8_t *text = (uint8_t *)(piece + 1);
    size_t len_bytes = 0;
    for (uint32_t r = 0; r < request->rows; r++)
        len_bytes += oip_classify_row(spec, output->datatype, row_at(output, request->rows, r), classes, k,
                                      text + len_bytes);
    *piece = (struct iovec){.iov_base = text, .iov_len = len_bytes};
    output->datatype = OIP_BYTES;
    output->shape = shape;
    output->pieces = piece;
    output->piece_count = 1;
    return STATUS_OK;
}

static status_t frame_strings(const oip_tensor_spec_t *tensor, const oip_allocator_t *allocator,
                              oip_output_t *output, err_t *err)
{
    uint32_t room_bytes = tensor->text_bytes;
    size_t count = 0, len_bytes = 0;
    for (uint32_t i = 0; i < output->piece_count; i++)
        count += output->pieces[i].iov_len / room_bytes;
    struct iovec *piece =
        allocator->alloc(allocator->self, sizeof *piece + oip_text_bytes_max(count, room_bytes));
    if (!piece)
        return err_set(err, STATUS_UNAVAILABLE, "no memory for the strings of output '%s'", output->name);
    uint8_t *text = (uint8_t *)(piece + 1);
    for (uint32_t i = 0; i < output->piece_count; i++)
        len_bytes += oip_text_frame(output->pieces[i].iov_base, output->pieces[i].iov_len / room_bytes,
                                    room_bytes, text + len_bytes);
    *piece = (struct iovec){.iov_base = text, .iov_len = len_bytes};
    output->pieces = piece;
    output->piece_count = 1;
    return STATUS_OK;
}

static status_t apply_one(const oip_model_spec_t *spec, const oip_request_t *request,
                          const oip_requested_t *requested, int32_t spec_index,
                          const oip_allocator_t *allocator, oip_output_t *output, err_t *err)
{
    if (spec_index == spec->softmax_output)
        apply_softmax(spec, output);
    if (requested && requested->classification > 0)
        return classify(spec, request, requested, allocator, output, err);
    return spec->outputs[spec_index].text_bytes > 0
               ? frame_strings(&spec->outputs[spec_index], allocator, output, err)
               : STATUS_OK;
}

status_t postprocess_apply(const oip_model_spec_t *spec, const oip_request_t *request,
                           const oip_allocator_t *allocator, oip_response_t *response, err_t *err)
{
    for (uint32_t i = 0; i < response->output_count; i++) {
        const oip_requested_t *requested = request->requested_count > 0 ? &request->requested[i] : NULL;
        int32_t spec_index = requested ? requested->spec_index : (int32_t)i;
        status_t status =
            apply_one(spec, request, requested, spec_index, allocator, &response->outputs[i], err);
        if (status)
            return status;
    }
    return STATUS_OK;
}
