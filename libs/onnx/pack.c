#include "onnx/pack.h"

#include "onnx/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 3, NUMBER_BYTES = 24 };

/* A tensor whose contents stay in the file. */
typedef struct {
    Onnx__TensorProto tensor; /* first; of the model, but for what says where its contents are */
    Onnx__StringStringEntryProto entries[ENTRIES], *list[ENTRIES];
    char offset[NUMBER_BYTES], length[NUMBER_BYTES];
} moved_t;

static char key_location[] = "location", key_offset[] = "offset", key_length[] = "length";

/* Still where the file has it, too. */
static bool is_large(const onnx_model_t *model, const Onnx__TensorProto *t)
{
    return t->has_raw_data && t->raw_data.len >= ONNX_PACK_LARGE_BYTES && !tensor_is_external(t) &&
           (uintptr_t)t->raw_data.data - (uintptr_t)model->file.bytes < model->file.len_bytes;
}

static void move(const Onnx__TensorProto *t, const uint8_t *file, char *location, moved_t *m)
{
    char *const values[ENTRIES] = {location, m->offset, m->length};
    char *const keys[ENTRIES] = {key_location, key_offset, key_length};

    snprintf(m->offset, sizeof m->offset, "%td", t->raw_data.data - file);
    snprintf(m->length, sizeof m->length, "%zu", t->raw_data.len);
    for (int i = 0; i < ENTRIES; i++) {
        onnx__string_string_entry_proto__init(&m->entries[i]);
        m->entries[i].key = keys[i];
        m->entries[i].value = values[i];
        m->list[i] = &m->entries[i];
    }
    m->tensor = *t;
    m->tensor.has_raw_data = false;
    m->tensor.has_data_location = true;
    m->tensor.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    m->tensor.n_external_data = ENTRIES;
    m->tensor.external_data = m->list;
}

static status_t write_text(const Onnx__ModelProto *proto, onnx_text_t *text, err_t *err)
{
    text->len_bytes = onnx__model_proto__get_packed_size(proto);
    text->bytes = malloc(text->len_bytes);
    if (!text->bytes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a model of %zu bytes", text->len_bytes);
    onnx__model_proto__pack(proto, text->bytes);
    return STATUS_OK;
}

/* ---- Without contents ---- */

static size_t count_large(const onnx_model_t *model)
{
    const Onnx__GraphProto *g = model->proto->graph;
    size_t count = 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        count += is_large(model, g->initializer[i]);
    return count;
}

/* What was moved stands in the list in its place. */
static void move_large(const onnx_model_t *model, char *location, Onnx__TensorProto **list, moved_t *moved)
{
    const Onnx__GraphProto *g = model->proto->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        list[i] = g->initializer[i];
        if (!is_large(model, g->initializer[i]))
            continue;
        move(g->initializer[i], model->file.bytes, location, moved);
        list[i] = &moved++->tensor;
    }
}

static status_t write_without(const onnx_model_t *model, char *location, size_t count, onnx_text_t *text,
                              err_t *err)
{
    Onnx__ModelProto proto = *model->proto;
    Onnx__GraphProto graph = *proto.graph;
    moved_t *moved = calloc(count, sizeof *moved);
    Onnx__TensorProto **list = calloc(graph.n_initializer, sizeof *list);
    status_t status = moved && list ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for a model");
    if (status == STATUS_OK) {
        move_large(model, location, list, moved);
        graph.initializer = list;
        proto.graph = &graph;
        status = write_text(&proto, text, err);
    }
    free(moved);
    free(list);
    return status;
}

/* Its path is one that realpath gave. */
static status_t write_names(const onnx_model_t *model, size_t count, onnx_text_t *text, err_t *err)
{
    char *name = strrchr(strcpy(text->path, model->path), '/');
    memcpy(text->folder, text->path, (size_t)(name - text->path));
    text->about = model->file.about;
    text->has_names = true;
    return write_without(model, name + 1, count, text, err);
}

status_t onnx_model_pack(const onnx_model_t *model, onnx_text_t *text, err_t *err)
{
    size_t count = model->path && !external_is_used(model) ? count_large(model) : 0;
    *text = (onnx_text_t){.bytes = NULL};
    if (count)
        return write_names(model, count, text, err);
    if (model->folder)
        snprintf(text->folder, sizeof text->folder, "%s", model->folder);
    return write_text(model->proto, text, err);
}

status_t onnx_text_check(const onnx_text_t *text, err_t *err)
{
    return text->has_names ? mapped_check(&text->about, text->path, err) : STATUS_OK;
}

void onnx_text_dispose(onnx_text_t *text)
{
    free(text->bytes);
    *text = (onnx_text_t){.bytes = NULL};
}
