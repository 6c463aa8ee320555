#include "load/payload.h"

#include "base/strbuf.h"
#include "open_inference.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void payloads_dispose(payloads_t *payloads)
{
    for (uint32_t i = 0; i < payloads->count; i++)
        free(payloads->items[i].bytes);
    free(payloads->items);
    *payloads = (payloads_t){0};
}

/* --- REST: JSON, then the raw tensors in order --- */

static void rest_write_parameters(strbuf_t *out, const payload_options_t *options)
{
    strbuf_printf(out, "\"parameters\":{\"fermata_timing\":true,\"binary_data_output\":%s",
                  options->text_output ? "false" : "true");
    if (options->timeout_us > 0)
        strbuf_printf(out, ",\"timeout\":%lld", (long long)options->timeout_us);
    strbuf_putc(out, '}');
}

/* Where the input lies, or that its bytes follow. */
static void rest_write_place(strbuf_t *out, const payload_input_t *input, const char *region,
                             size_t offset_bytes)
{
    if (!region) {
        strbuf_printf(out, "{\"binary_data_size\":%zu}", input->len_bytes);
        return;
    }
    strbuf_puts(out, "{\"shared_memory_region\":");
    strbuf_json_string(out, region);
    strbuf_printf(out, ",\"shared_memory_offset\":%zu,\"shared_memory_byte_size\":%zu}", offset_bytes,
                  input->len_bytes);
}

static void rest_write_input(strbuf_t *out, const payload_input_t *input, const char *region,
                             size_t offset_bytes)
{
    char shape[OIP_SHAPE_TEXT_BYTES];
    strbuf_puts(out, "{\"name\":");
    strbuf_json_string(out, input->tensor->name);
    strbuf_printf(out,
                  ",\"shape\":%s,\"datatype\":\"%s\",\"parameters\":", oip_shape_format(&input->shape, shape),
                  oip_datatype_name(input->datatype));
    rest_write_place(out, input, region, offset_bytes);
    strbuf_putc(out, '}');
}

static void rest_write_outputs(strbuf_t *out, const model_t *model, uint32_t classes)
{
    strbuf_puts(out, ",\"outputs\":[");
    for (uint32_t i = 0; i < model->output_count; i++) {
        strbuf_puts(out, i ? ",{\"name\":" : "{\"name\":");
        strbuf_json_string(out, model->outputs[i].name);
        strbuf_printf(out, ",\"parameters\":{\"classification\":%u}}", classes);
    }
    strbuf_putc(out, ']');
}

static void rest_write(strbuf_t *out, const model_t *model, const payload_options_t *options,
                       const payload_input_t *inputs, uint32_t input_count, size_t *json_bytes)
{
    strbuf_putc(out, '{');
    rest_write_parameters(out, options);
    strbuf_puts(out, ",\"inputs\":[");
    size_t offset_bytes = 0;
    for (uint32_t i = 0; i < input_count; i++) {
        if (i)
            strbuf_putc(out, ',');
        rest_write_input(out, &inputs[i], options->region, offset_bytes);
        offset_bytes += inputs[i].len_bytes;
    }
    strbuf_putc(out, ']');
    if (options->classes > 0)
        rest_write_outputs(out, model, options->classes);
    strbuf_putc(out, '}');
    *json_bytes = out->len_bytes;
    for (uint32_t i = 0; i < input_count && !options->region; i++)
        strbuf_append(out, inputs[i].data, inputs[i].len_bytes);
}

/* --- gRPC: one ModelInferRequest --- */

enum { GRPC_PARAMETERS_MAX = 2, GRPC_PLACE_PARAMETERS = 3 };

typedef Inference__ModelInferRequest__InferInputTensor__ParametersEntry place_entry_t;

/* Where an input lies. */
typedef struct {
    Inference__InferParameter values[GRPC_PLACE_PARAMETERS];
    place_entry_t entries[GRPC_PLACE_PARAMETERS], *list[GRPC_PLACE_PARAMETERS];
} grpc_place_t;

typedef struct {
    Inference__ModelInferRequest request;
    Inference__ModelInferRequest__InferInputTensor inputs[MODEL_TENSORS_MAX], *input_list[MODEL_TENSORS_MAX];
    Inference__ModelInferRequest__InferRequestedOutputTensor outputs[MODEL_TENSORS_MAX],
        *output_list[MODEL_TENSORS_MAX];
    Inference__InferParameter timing_value, timeout_value, classes_value;
    Inference__ModelInferRequest__ParametersEntry timing, timeout, *parameters[GRPC_PARAMETERS_MAX];
    Inference__ModelInferRequest__InferRequestedOutputTensor__ParametersEntry classes, *classes_list[1];
    ProtobufCBinaryData raw[MODEL_TENSORS_MAX];
    grpc_place_t places[MODEL_TENSORS_MAX];
} grpc_request_t;

static Inference__InferParameter int64_value(int64_t value)
{
    Inference__InferParameter parameter = INFERENCE__INFER_PARAMETER__INIT;
    parameter.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    parameter.int64_param = value;
    return parameter;
}

static void grpc_set_parameters(grpc_request_t *g, const payload_options_t *options)
{
    g->timing_value = (Inference__InferParameter)INFERENCE__INFER_PARAMETER__INIT;
    g->timing_value.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    g->timing_value.bool_param = true;
    inference__model_infer_request__parameters_entry__init(&g->timing);
    g->timing.key = (char *)"fermata_timing";
    g->timing.value = &g->timing_value;
    g->parameters[g->request.n_parameters++] = &g->timing;
    if (options->timeout_us > 0) {
        g->timeout_value = int64_value(options->timeout_us);
        inference__model_infer_request__parameters_entry__init(&g->timeout);
        g->timeout.key = (char *)"timeout";
        g->timeout.value = &g->timeout_value;
        g->parameters[g->request.n_parameters++] = &g->timeout;
    }
    g->request.parameters = g->parameters;
}

static void grpc_set_inputs(grpc_request_t *g, const payload_input_t *inputs, uint32_t input_count)
{
    for (uint32_t i = 0; i < input_count; i++) {
        inference__model_infer_request__infer_input_tensor__init(&g->inputs[i]);
        g->inputs[i].name = (char *)inputs[i].tensor->name;
        g->inputs[i].datatype = (char *)oip_datatype_name(inputs[i].datatype);
        g->inputs[i].shape = (int64_t *)inputs[i].shape.dims;
        g->inputs[i].n_shape = inputs[i].shape.rank;
        g->input_list[i] = &g->inputs[i];
        g->raw[i] = (ProtobufCBinaryData){.data = (uint8_t *)inputs[i].data, .len = inputs[i].len_bytes};
    }
    g->request.inputs = g->input_list;
    g->request.n_inputs = input_count;
    g->request.raw_input_contents = g->raw;
    g->request.n_raw_input_contents = input_count;
}

static void grpc_set_place(grpc_place_t *place, const char *region, size_t offset_bytes,
                           Inference__ModelInferRequest__InferInputTensor *input, size_t len_bytes)
{
    static const char *const names[] = {"shared_memory_region", "shared_memory_offset",
                                        "shared_memory_byte_size"};
    inference__infer_parameter__init(&place->values[0]);
    place->values[0].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
    place->values[0].string_param = (char *)region;
    place->values[1] = int64_value((int64_t)offset_bytes);
    place->values[2] = int64_value((int64_t)len_bytes);
    for (int i = 0; i < GRPC_PLACE_PARAMETERS; i++) {
        inference__model_infer_request__infer_input_tensor__parameters_entry__init(&place->entries[i]);
        place->entries[i].key = (char *)names[i];
        place->entries[i].value = &place->values[i];
        place->list[i] = &place->entries[i];
    }
    input->parameters = place->list;
    input->n_parameters = GRPC_PLACE_PARAMETERS;
}

/* Instead of the raw contents. */
static void grpc_set_places(grpc_request_t *g, const char *region)
{
    size_t offset_bytes = 0;
    for (uint32_t i = 0; i < g->request.n_inputs; i++) {
        grpc_set_place(&g->places[i], region, offset_bytes, &g->inputs[i], g->raw[i].len);
        offset_bytes += g->raw[i].len;
    }
    g->request.n_raw_input_contents = 0;
}

static void grpc_set_outputs(grpc_request_t *g, const model_t *model, uint32_t classes)
{
    g->classes_value = int64_value(classes);
    inference__model_infer_request__infer_requested_output_tensor__parameters_entry__init(&g->classes);
    g->classes.key = (char *)"classification";
    g->classes.value = &g->classes_value;
    g->classes_list[0] = &g->classes;
    for (uint32_t i = 0; i < model->output_count; i++) {
        inference__model_infer_request__infer_requested_output_tensor__init(&g->outputs[i]);
        g->outputs[i].name = (char *)model->outputs[i].name;
        g->outputs[i].parameters = g->classes_list;
        g->outputs[i].n_parameters = 1;
        g->output_list[i] = &g->outputs[i];
    }
    g->request.outputs = g->output_list;
    g->request.n_outputs = model->output_count;
}

static void grpc_write(strbuf_t *out, const model_t *model, const payload_options_t *options,
                       const payload_input_t *inputs, uint32_t input_count)
{
    grpc_request_t g;
    inference__model_infer_request__init(&g.request);
    g.request.model_name = (char *)model->name;
    grpc_set_parameters(&g, options);
    grpc_set_inputs(&g, inputs, input_count);
    if (options->region)
        grpc_set_places(&g, options->region);
    if (options->classes > 0)
        grpc_set_outputs(&g, model, options->classes);
    size_t len = inference__model_infer_request__get_packed_size(&g.request);
    char *room = strbuf_reserve(out, len);
    if (room)
        strbuf_commit(out, inference__model_infer_request__pack(&g.request, (uint8_t *)room));
}

/* --- both --- */

static status_t payloads_grow(payloads_t *payloads, err_t *err)
{
    if (payloads->count < payloads->capacity)
        return STATUS_OK;
    if (payloads->count == PAYLOADS_MAX)
        return err_set(err, STATUS_TOO_LARGE, "more than %d different requests for one model", PAYLOADS_MAX);
    uint32_t capacity = payloads->capacity ? 2 * payloads->capacity : 16;
    payload_t *items = realloc(payloads->items, capacity * sizeof *items);
    if (!items)
        return err_set(err, STATUS_NO_MEMORY, "no memory for requests");
    payloads->items = items;
    payloads->capacity = capacity;
    return STATUS_OK;
}

status_t payloads_add(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                      const char *label, const payload_input_t *inputs, uint32_t input_count, err_t *err)
{
    status_t st = payloads_grow(payloads, err);
    if (st != STATUS_OK)
        return st;
    strbuf_t out;
    payload_t item = {0};
    size_t json_bytes = 0;
    strbuf_init(&out, (size_t)(PAYLOADS_MAX_BYTES - payloads->bytes));
    if (options->protocol == PROTOCOL_REST)
        rest_write(&out, model, options, inputs, input_count, &json_bytes);
    else
        grpc_write(&out, model, options, inputs, input_count);
    item.len_bytes = out.len_bytes;
    st = strbuf_status(&out, err);
    item.bytes = st == STATUS_OK ? (uint8_t *)strbuf_take(&out) : NULL;
    strbuf_dispose(&out);
    if (!item.bytes)
        return st != STATUS_OK ? err_prefix(err, "requests for %s", model->name)
                               : err_set(err, STATUS_NO_MEMORY, "no memory for requests");
    snprintf(item.headers, sizeof item.headers, "Inference-Header-Content-Length: %zu\r\n", json_bytes);
    snprintf(item.label, sizeof item.label, "%s", label);
    payloads->items[payloads->count++] = item;
    payloads->bytes += (int64_t)item.len_bytes;
    return STATUS_OK;
}
