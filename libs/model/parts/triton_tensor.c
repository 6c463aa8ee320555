/* Inputs and outputs of a config.pbtxt: read, and held against those of the model. */
#include "model/parts/triton.h"

#include "config/ptext.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static status_t read_datatype(triton_tensor_t *tensor, const ptext_field_t *field, err_t *err)
{
    const char *text = ptext_text(field);

    if (ptext_expect(field, PTEXT_WORD, err) != STATUS_OK)
        return err->code;
    if (strncmp(text, "TYPE_", 5) != 0 || strlen(text) - 5 >= sizeof(tensor->datatype))
        return ptext_error(field, err, "no such data_type; TYPE_FP32, say");
    (void)snprintf(tensor->datatype, sizeof(tensor->datatype), "%s",
                   strcmp(text, "TYPE_STRING") == 0 ? "BYTES" : text + 5);
    return STATUS_OK;
}

static status_t add_dim(const ptext_field_t *field, int64_t dims[ENGINE_MAX_RANK], uint32_t *rank, err_t *err)
{
    int64_t dim;

    if (ptext_int64(field, -1, INT_MAX, &dim, err) != STATUS_OK)
        return err->code;
    if (dim == 0 || *rank == ENGINE_MAX_RANK)
        return ptext_error(field, err, dim ? "more than %d dimensions" : "a dimension of 0", ENGINE_MAX_RANK);
    dims[(*rank)++] = dim;
    return STATUS_OK;
}

static status_t read_reshape(triton_tensor_t *tensor, const ptext_field_t *field, err_t *err)
{
    if (ptext_expect(field, PTEXT_MESSAGE, err) != STATUS_OK)
        return err->code;
    if (tensor->has_reshape)
        return ptext_error(field, err, "'reshape' stands twice");
    tensor->has_reshape = true;
    for (const ptext_field_t *f = ptext_first(field); f; f = ptext_next(f)) {
        if (strcmp(ptext_name(f), "shape") != 0)
            return ptext_error(f, err, "reshape has a shape and nothing else");
        if (add_dim(f, tensor->reshape, &tensor->reshape_rank, err) != STATUS_OK)
            return err->code;
        if (tensor->reshape[tensor->reshape_rank - 1] < 0)
            return ptext_error(f, err, "dimensions that vary cannot be reshaped");
    }
    return STATUS_OK;
}

static status_t read_label_file(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    const char *text = "";

    if (ptext_string(field, &text, err) != STATUS_OK || !*text)
        return err->code;
    if (config->labels_line > 0 && strcmp(config->labels, text) != 0) {
        triton_note(config, field, "output", "a model has one file of labels, the first");
        return STATUS_OK;
    }
    if (strchr(text, '/') || text[0] == '.' || strlen(text) >= sizeof(config->labels))
        return ptext_error(field, err, "label_filename must name a file in the model's own folder");
    (void)snprintf(config->labels, sizeof(config->labels), "%s", text);
    config->labels_line = ptext_line(field);
    return STATUS_OK;
}

/* What is served as if it were not there, and why: of flags, when they are set. */
static const char *why_passed_over(const ptext_field_t *field)
{
    static const struct {
        const char *key, *usual, *why;
    } known[] = {
        {"format", "FORMAT_NONE", "preprocess of config.yaml describes pictures"},
        {"is_shape_tensor", "false", "it is TensorRT's"},
        {"is_non_linear_format_io", "false", "it is TensorRT's"},
        {"allow_ragged_batch", "false", "rows of one batch are of one shape"},
        {"optional", "false", "every request brings all inputs"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(known[i].key, ptext_name(field)) == 0)
            return strcmp(ptext_text(field), known[i].usual) == 0 ? NULL : known[i].why;
    return "unknown";
}

static status_t read_key(triton_config_t *config, triton_tensor_t *tensor, const ptext_field_t *field,
                         err_t *err)
{
    const char *key = ptext_name(field), *text = "";

    if (strcmp(key, "name") == 0) {
        if (ptext_string(field, &text, err) != STATUS_OK)
            return err->code;
        if (strlen(text) >= sizeof(tensor->name))
            return ptext_error(field, err, "'name' is too long");
        (void)snprintf(tensor->name, sizeof(tensor->name), "%s", text);
        return STATUS_OK;
    }
    if (strcmp(key, "data_type") == 0)
        return read_datatype(tensor, field, err);
    if (strcmp(key, "dims") == 0) {
        tensor->has_dims = true;
        return add_dim(field, tensor->dims, &tensor->rank, err);
    }
    if (strcmp(key, "reshape") == 0)
        return read_reshape(tensor, field, err);
    if (strcmp(key, "label_filename") == 0 && !tensor->is_input)
        return read_label_file(config, field, err);
    const char *why = why_passed_over(field);
    if (why)
        triton_note(config, field, tensor->is_input ? "input" : "output", why);
    return STATUS_OK;
}

static bool elements(const int64_t *dims, uint32_t rank, int64_t *count)
{
    *count = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(*count, dims[i], count))
            return false;
    return true;
}

static status_t check_reshape(const triton_tensor_t *tensor, const ptext_field_t *field, err_t *err)
{
    int64_t outside, inside;

    if (!tensor->has_reshape)
        return STATUS_OK;
    if (!elements(tensor->dims, tensor->rank, &outside))
        return ptext_error(field, err, "'%.80s': dimensions that vary cannot be reshaped", tensor->name);
    if (!elements(tensor->reshape, tensor->reshape_rank, &inside) || outside != inside)
        return ptext_error(field, err, "'%.80s': dims and reshape have unlike numbers of elements",
                           tensor->name);
    return STATUS_OK;
}

status_t triton_read_tensor(triton_config_t *config, const ptext_field_t *field, bool is_input, err_t *err)
{
    if (ptext_expect(field, PTEXT_MESSAGE, err) != STATUS_OK)
        return err->code;
    if (config->tensor_count == 2 * ENGINE_MAX_IO)
        return ptext_error(field, err, "more than %d inputs and outputs", 2 * ENGINE_MAX_IO);
    triton_tensor_t *tensor = &config->tensors[config->tensor_count];
    tensor->is_input = is_input;
    tensor->line = ptext_line(field);
    for (const ptext_field_t *f = ptext_first(field); f; f = ptext_next(f))
        if (read_key(config, tensor, f, err) != STATUS_OK)
            return err->code;
    if (!tensor->name[0])
        return ptext_error(field, err, "an %s without a name", ptext_name(field));
    config->tensor_count++;
    return check_reshape(tensor, field, err);
}

/* ---- against the model ---- */

static const char *kind_of(const triton_tensor_t *tensor)
{
    return tensor->is_input ? "input" : "output";
}

static const engine_tensor_t *find_tensor(const engine_model_info_t *info, const triton_tensor_t *tensor)
{
    const engine_tensor_t *list = tensor->is_input ? info->inputs : info->outputs;
    uint32_t count = tensor->is_input ? info->input_count : info->output_count;

    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].name, tensor->name) == 0)
            return &list[i];
    return NULL;
}

static void list_names(const engine_model_info_t *info, bool inputs, char *text, size_t text_bytes)
{
    const engine_tensor_t *list = inputs ? info->inputs : info->outputs;
    uint32_t count = inputs ? info->input_count : info->output_count;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s'%.60s'", i ? ", " : "", list[i].name);
}

static const char *dims_text(const int64_t *dims, uint32_t rank, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "[");

    for (uint32_t i = 0; i < rank && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%lld", i ? ", " : "", (long long)dims[i]);
    if (used < text_bytes)
        (void)snprintf(text + used, text_bytes - used, "]");
    return text;
}

static status_t check_dims(const triton_tensor_t *tensor, const engine_tensor_t *real, bool batchable,
                           err_t *err)
{
    const int64_t *dims = tensor->has_reshape ? tensor->reshape : tensor->dims;
    uint32_t rank = tensor->has_reshape ? tensor->reshape_rank : tensor->rank;
    uint32_t real_rank = real->rank - real->text;
    char told[160], here[160];
    bool same = rank == real_rank;

    for (uint32_t i = 0; same && i < rank; i++)
        same = dims[i] < 0 || real->dims[i] < 0 || dims[i] == real->dims[i];
    if (same)
        return STATUS_OK;
    return err_set(
        err, STATUS_INVALID_ARGUMENT, "config.pbtxt:%d: %s '%.60s' has %s %s, and in the model file %s%s",
        tensor->line, kind_of(tensor), tensor->name, tensor->has_reshape ? "the shape" : "the dims",
        dims_text(dims, rank, told, sizeof(told)), dims_text(real->dims, real_rank, here, sizeof(here)),
        batchable ? " without the batch dimension (max_batch_size is above 0)" : "");
}

static status_t check_tensor(const triton_tensor_t *tensor, const engine_model_info_t *info, err_t *err)
{
    const engine_tensor_t *real = find_tensor(info, tensor);
    char names[280];

    if (!real) {
        list_names(info, tensor->is_input, names, sizeof(names));
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "config.pbtxt:%d: the model has no %s '%.60s'; it has %.280s", tensor->line,
                       kind_of(tensor), tensor->name, names);
    }
    const char *datatype = real->text ? "BYTES" : dtype_oip_name(real->dtype);
    if (tensor->datatype[0] && datatype && strcmp(tensor->datatype, datatype) != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "config.pbtxt:%d: %s '%.60s' is %s, and in the model file %s", tensor->line,
                       kind_of(tensor), tensor->name, tensor->datatype, datatype);
    return tensor->has_dims ? check_dims(tensor, real, info->batchable, err) : STATUS_OK;
}

/* ---- bounds ---- */

static bool axis_name(const engine_tensor_t *real, uint32_t dim, bool batchable, char name[AXIS_NAME_BYTES])
{
    const char *symbol = real->symbols[dim];
    int len = symbol ? snprintf(name, AXIS_NAME_BYTES, "%s", symbol)
                     : snprintf(name, AXIS_NAME_BYTES, "%s[%u]", real->name, dim + batchable);

    return len < AXIS_NAME_BYTES;
}

static void bound_axis(shape_config_t *shapes, const char *name, uint32_t size)
{
    uint32_t i = 0;

    while (i < shapes->dim_count && strcmp(shapes->dims[i].name, name) != 0)
        i++;
    if (i == AXES_MAX)
        return;
    if (i == shapes->dim_count) {
        shapes->dim_count++;
        (void)snprintf(shapes->dims[i].name, AXIS_NAME_BYTES, "%s", name);
    }
    if (size > shapes->dims[i].size_max)
        shapes->dims[i].size_max = size;
}

static const triton_tensor_t *find_config(const triton_config_t *config, const char *name, bool is_input)
{
    for (uint32_t i = 0; config && i < config->tensor_count; i++)
        if (config->tensors[i].is_input == is_input && strcmp(config->tensors[i].name, name) == 0)
            return &config->tensors[i];
    return NULL;
}

/* Returns whether all that varies is fixed by the config. */
static bool bound_input(const triton_config_t *config, const engine_tensor_t *real, bool batchable,
                        shape_config_t *shapes)
{
    const triton_tensor_t *tensor = find_config(config, real->name, true);
    char name[AXIS_NAME_BYTES];
    bool all = true;

    for (uint32_t k = 0; k < real->rank; k++) {
        if (real->dims[k] >= 0)
            continue;
        int64_t size =
            tensor && tensor->has_dims ? (tensor->has_reshape ? tensor->reshape[k] : tensor->dims[k]) : -1;
        if (size > 0 && size <= AXIS_SIZE_MAX && axis_name(real, k, batchable, name))
            bound_axis(shapes, name, (uint32_t)size);
        else
            all = false;
    }
    return all;
}

static void bound_axes(const triton_config_t *config, const engine_model_info_t *info, shape_config_t *shapes)
{
    bool all = true;

    for (uint32_t i = 0; i < info->input_count; i++)
        all &= bound_input(config, &info->inputs[i], info->batchable, shapes);
    if (!all || shapes->dim_count == 0)
        return;
    reference_config_t *only = &shapes->references[shapes->reference_count++];
    for (uint32_t i = 0; i < shapes->dim_count; i++) {
        (void)snprintf(only->sizes[i].axis, AXIS_NAME_BYTES, "%s", shapes->dims[i].name);
        only->sizes[i].size = shapes->dims[i].size_max;
    }
    only->count = shapes->dim_count;
}

status_t triton_config_check(const triton_config_t *config, const engine_model_info_t *info,
                             shape_config_t *shapes, err_t *err)
{
    for (uint32_t i = 0; i < config->tensor_count; i++)
        if (check_tensor(&config->tensors[i], info, err) != STATUS_OK)
            return err->code;
    if (shapes->dim_count == 0 && shapes->reference_count == 0)
        bound_axes(config, info, shapes);
    return STATUS_OK;
}

const triton_tensor_t *triton_config_reshaped(const triton_config_t *config, const char *tensor,
                                              bool is_input)
{
    const triton_tensor_t *found = find_config(config, tensor, is_input);

    return found && found->has_reshape ? found : NULL;
}
