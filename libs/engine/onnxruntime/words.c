#include "engine/onnxruntime/words.h"

#include "engine/compile/describe.h"
#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

static status_t add(words_t *words, const ProtobufCBinaryData *text, err_t *err)
{
    char **list = realloc(words->list, (words->count + 1) * sizeof *list);
    if (list)
        words->list = list;
    char *copy = list ? strndup((const char *)text->data, text->len) : NULL;
    if (!copy)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the strings of a model");
    words->list[words->count++] = copy;
    return STATUS_OK;
}

static status_t add_of_node(words_t *words, const Onnx__NodeProto *node, err_t *err)
{
    status_t status = STATUS_OK;
    for (size_t a = 0; status == STATUS_OK && a < node->n_attribute; a++)
        if (node->attribute[a]->n_strings > 0)
            status = add(words, &node->attribute[a]->strings[0], err);
    return status;
}

status_t words_read(words_t *words, const engine_load_t *what, err_t *err)
{
    onnx_model_t *model;
    *words = (words_t){0};
    if (describe_read(what, &model, NULL) != STATUS_OK)
        return STATUS_OK;
    const Onnx__GraphProto *graph = onnx_model_proto(model)->graph;
    status_t status = STATUS_OK;
    for (size_t n = 0; status == STATUS_OK && n < graph->n_node; n++)
        status = add_of_node(words, graph->node[n], err);
    onnx_model_destroy(model);
    return status;
}

void words_dispose(words_t *words)
{
    for (uint32_t i = 0; i < words->count; i++)
        free(words->list[i]);
    free(words->list);
    *words = (words_t){0};
}

void words_lay(const words_t *words, size_t first, void *rooms, size_t count, size_t room_bytes)
{
    for (size_t i = 0; i < count; i++) {
        const char *word = words->list[(first + i) % words->count];
        memcpy((char *)rooms + i * room_bytes, word, strnlen(word, room_bytes));
    }
}
