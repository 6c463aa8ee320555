/*
 * Any bytes as an ONNX model: parsed, imported, rewritten, given small shapes, and run when that is cheap. Whatever is
 * refused must say why.
 */
#include "graph/ops/op.h"
#include "graph/passes/fuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { MAX_INPUTS = 16, OPEN_DIM = 2, LARGE_BYTES = 32 };
#define CHEAP_BYTES ((size_t)1 << 12) /* a convolution of two such tensors is millions of steps already */

static void must_say_why(status_t status, const err_t *err)
{
    if (status != STATUS_OK && !*err->text)
        abort();
}

/* Zeros of the declared shapes; false when they are too many. */
static bool make_inputs(const graph_t *g, tensor_t *inputs, blob_t **blobs)
{
    if (g->input_count > MAX_INPUTS)
        return false;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const graph_io_t *io = &g->inputs[i];
        inputs[i] = (tensor_t){.dtype = io->dtype, .rank = io->rank};
        for (uint32_t d = 0; d < io->rank; d++)
            inputs[i].dims[d] = io->dims[d] < 0 ? OPEN_DIM : io->dims[d];
        if (tensor_check(&inputs[i], NULL) != STATUS_OK || tensor_bytes(&inputs[i]) > CHEAP_BYTES)
            return false;
        blobs[i] = blob_create(tensor_bytes(&inputs[i]));
        memset(blob_data(blobs[i]), 0, tensor_bytes(&inputs[i]));
    }
    return true;
}

static bool is_cheap(const graph_t *g)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < g->value_count; i++)
        if (g->values[i].shaped)
            bytes += tensor_bytes(&g->values[i].t);
    return !g->open && bytes <= CHEAP_BYTES && g->node_count < 64;
}

static bool allow(const graph_t *g, const node_t *host, const epilogue_t *tail)
{
    (void)g;
    (void)host;
    (void)tail;
    return true;
}

static void instantiate(const graph_t *g)
{
    tensor_t inputs[MAX_INPUTS];
    blob_t *blobs[MAX_INPUTS] = {NULL};
    graph_t *instance;
    err_t err = {.text = ""};
    if (make_inputs(g, inputs, blobs)) {
        status_t status = graph_instantiate(g, inputs, &instance, &err);
        must_say_why(status, &err);
        bool cheap = status == STATUS_OK && is_cheap(instance);
        if (status == STATUS_OK) {
            graph_fuse_epilogues(instance, allow, NULL);
            graph_destroy(instance);
        }
        for (uint32_t i = 0; i < g->input_count; i++)
            inputs[i].data = blob_data(blobs[i]);
        if (cheap && graph_interpret(g, inputs, &instance, &err) == STATUS_OK)
            graph_destroy(instance);
    }
    for (uint32_t i = 0; i < MAX_INPUTS; i++)
        blob_unref(blobs[i]);
}

/* As those read it who want a description only. */
static void instantiate_shapes(const onnx_model_t *model)
{
    tensor_t inputs[MAX_INPUTS];
    blob_t *blobs[MAX_INPUTS] = {NULL};
    graph_t *g, *instance;
    if (graph_import_shapes(model, LARGE_BYTES, &g, NULL) != STATUS_OK)
        return;
    if (!graph_validate(g))
        abort();
    if (make_inputs(g, inputs, blobs) && graph_instantiate(g, inputs, &instance, NULL) == STATUS_OK)
        graph_destroy(instance);
    for (uint32_t i = 0; i < MAX_INPUTS; i++)
        blob_unref(blobs[i]);
    graph_destroy(g);
}

/* From a file, as everybody does; of an empty one nothing is mapped. */
static status_t load(const uint8_t *bytes, size_t len, onnx_model_t **model, err_t *err)
{
    char path[64];
    int fd = len ? memfd_create("model.onnx", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return onnx_model_parse(bytes, len, NULL, model, err);
    if (write(fd, bytes, len) != (ssize_t)len)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    status_t status = onnx_model_load(path, model, err);
    close(fd);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    onnx_model_t *model;
    graph_t *g;
    err_t err = {.text = ""};
    status_t status = load(bytes, len, &model, &err);
    must_say_why(status, &err);
    if (status != STATUS_OK)
        return 0;
    instantiate_shapes(model);
    status = graph_import(model, &g, &err);
    must_say_why(status, &err);
    onnx_model_destroy(model);
    if (status != STATUS_OK)
        return 0;
    if (graph_fold_batch_norms(g, NULL) == STATUS_OK && graph_recognise(g, NULL) == STATUS_OK) {
        if (!graph_validate(g))
            abort();
        instantiate(g);
    }
    graph_destroy(g);
    return 0;
}
