/* What goes into the requests: values from a seed, pictures from a folder. */
#include "base/file.h"
#include "load/payload.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* A word of eight letters, as BYTES elements carry it. */
enum { WORD_BYTES = 8, ELEMENT_BYTES = 4 + WORD_BYTES };

/* A picture over this is no example but a mistake; the gateway's own limit is lower. */
#define PICTURE_MAX_BYTES (INT64_C(256) << 20)

static void fill_floats(uint8_t *data, uint64_t count, oip_datatype_t type, prng_t *prng)
{
    for (uint64_t i = 0; i < count; i++) {
        double value = prng_uniform(prng);
        float single = (float)value;
        if (type == OIP_FP64)
            memcpy(data + i * sizeof value, &value, sizeof value);
        else
            memcpy(data + i * sizeof single, &single, sizeof single);
    }
}

/* Half floats in [0.5, 1): the exponent is fixed and the mantissa drawn. */
static void fill_halves(uint8_t *data, uint64_t count, oip_datatype_t type, prng_t *prng)
{
    uint16_t exponent = type == OIP_FP16 ? 0x3800 : 0x3f00;
    uint64_t mantissas = type == OIP_FP16 ? 1024 : 128;
    for (uint64_t i = 0; i < count; i++) {
        uint16_t value = (uint16_t)(exponent | prng_below(prng, mantissas));
        memcpy(data + i * sizeof value, &value, sizeof value);
    }
}

/* Little-endian integers in [0, 100), the same in every width; BOOL takes 0 and 1. */
static void fill_integers(uint8_t *data, uint64_t count, oip_datatype_t type, prng_t *prng)
{
    size_t width = oip_datatype_bytes(type);
    memset(data, 0, count * width);
    for (uint64_t i = 0; i < count; i++)
        data[i * width] = (uint8_t)prng_below(prng, type == OIP_BOOL ? 2 : 100);
}

static void fill_words(uint8_t *data, uint64_t count, prng_t *prng)
{
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *element = data + i * ELEMENT_BYTES;
        const uint32_t len = WORD_BYTES;
        memcpy(element, &len, sizeof len);
        for (int j = 0; j < WORD_BYTES; j++)
            element[4 + j] = (uint8_t)('a' + prng_below(prng, 26));
    }
}

static void fill(const payload_input_t *input, uint8_t *data, uint64_t count, prng_t *prng)
{
    switch (input->datatype) {
    case OIP_FP32:
    case OIP_FP64:
        fill_floats(data, count, input->datatype, prng);
        return;
    case OIP_FP16:
    case OIP_BF16:
        fill_halves(data, count, input->datatype, prng);
        return;
    case OIP_BYTES:
        fill_words(data, count, prng);
        return;
    default:
        fill_integers(data, count, input->datatype, prng);
    }
}

static status_t draw_input(payload_input_t *input, const model_tensor_t *tensor,
                           const payload_options_t *options, prng_t *prng, err_t *err)
{
    uint64_t count;
    *input = (payload_input_t){.tensor = tensor,
                               .datatype = tensor->datatype,
                               .shape = options->shapes ? shapes_of(options->shapes, tensor, options->rows)
                                                        : model_shape(tensor, options->rows)};
    size_t width = input->datatype == OIP_BYTES ? (size_t)ELEMENT_BYTES : oip_datatype_bytes(input->datatype);
    if (!oip_shape_elements(&input->shape, &count) || count > (uint64_t)PAYLOADS_MAX_BYTES / width)
        return err_set(err, STATUS_TOO_LARGE, "input %s is too large to make up", tensor->name);
    uint8_t *data = malloc(count * width + 1);
    if (!data)
        return err_set(err, STATUS_NO_MEMORY, "no memory for input %s", tensor->name);
    fill(input, data, count, prng);
    input->data = data;
    input->len_bytes = count * width;
    return STATUS_OK;
}

status_t payloads_add_tensors(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                              uint32_t variants, prng_t *prng, err_t *err)
{
    status_t st = STATUS_OK;
    for (uint32_t i = 0; st == STATUS_OK && i < variants; i++) {
        payload_input_t inputs[MODEL_TENSORS_MAX];
        uint32_t drawn = 0;
        if (options->shapes)
            shapes_draw(options->shapes, prng);
        while (drawn < model->input_count && st == STATUS_OK) {
            st = draw_input(&inputs[drawn], &model->inputs[drawn], options, prng, err);
            if (st == STATUS_OK)
                drawn++;
        }
        if (st == STATUS_OK)
            st = payloads_add(payloads, model, options, "", inputs, drawn, err);
        while (drawn > 0)
            free((void *)inputs[--drawn].data);
    }
    return st;
}

/* --- pictures --- */

static int is_picture(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static const model_tensor_t *picture_input(const model_t *model, const char *name, err_t *err)
{
    for (uint32_t i = 0; name && i < model->input_count; i++) {
        if (!strcmp(model->inputs[i].name, name))
            return &model->inputs[i];
    }
    if (name)
        err_set(err, STATUS_NOT_FOUND, "model %s has no input %s", model->name, name);
    else if (model->input_count != 1)
        err_set(err, STATUS_INVALID_ARGUMENT, "model %s has %u inputs: name one with --picture-input",
                model->name, model->input_count);
    else
        return &model->inputs[0];
    return NULL;
}

/* The file as a BYTES element, `rows` times over. */
static status_t read_picture(const char *path, uint32_t rows, uint8_t **data, size_t *len_bytes, err_t *err)
{
    struct stat info;
    FILE *file;
    status_t status = file_open_stream(path, PICTURE_MAX_BYTES, &file, err);
    if (status != STATUS_OK)
        return status;
    if (fstat(fileno(file), &info) != 0) {
        fclose(file);
        return err_set(err, STATUS_IO, "cannot read %s: %m", path);
    }
    if (info.st_size * rows > PAYLOADS_MAX_BYTES) {
        fclose(file);
        return err_set(err, STATUS_TOO_LARGE, "%s: too large for a picture", path);
    }
    const uint32_t size = (uint32_t)info.st_size;
    const size_t element = sizeof size + size;
    uint8_t *out = malloc(element * rows);
    bool complete = out && fread(out + sizeof size, 1, size, file) == size;
    fclose(file);
    if (!complete) {
        free(out);
        return err_set(err, STATUS_IO, "cannot read all of %s", path);
    }
    memcpy(out, &size, sizeof size);
    for (uint32_t i = 1; i < rows; i++)
        memcpy(out + i * element, out, element);
    *data = out;
    *len_bytes = element * rows;
    return STATUS_OK;
}

static status_t add_picture(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                            const model_tensor_t *tensor, const char *folder, const char *name, err_t *err)
{
    char path[4096];
    uint8_t *data;
    payload_input_t input = {.tensor = tensor, .datatype = OIP_BYTES};

    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return err_set(err, STATUS_TOO_LARGE, "path too long: %s", name);
    status_t st = read_picture(path, options->rows, &data, &input.len_bytes, err);
    if (st != STATUS_OK)
        return st;
    input.data = data;
    input.shape = (oip_shape_t){.rank = 1, .dims = {options->rows}};
    st = payloads_add(payloads, model, options, name, &input, 1, err);
    free(data);
    return st;
}

status_t payloads_add_pictures(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                               const char *folder, err_t *err)
{
    struct dirent **entries;
    const model_tensor_t *tensor = picture_input(model, options->picture_input, err);
    if (!tensor)
        return err ? err->code : STATUS_INVALID_ARGUMENT;
    int count = scandir(folder, &entries, is_picture, alphasort);
    if (count < 0)
        return err_set(err, STATUS_IO, "cannot read %s: %m", folder);
    status_t st =
        count == 0 ? err_set(err, STATUS_NOT_FOUND, "no picture (png, jpg) in %s", folder) : STATUS_OK;
    for (int i = 0; i < count; i++) {
        if (st == STATUS_OK)
            st = add_picture(payloads, model, options, tensor, folder, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return st;
}
