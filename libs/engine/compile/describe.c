#include "engine/compile/describe.h"

#include "engine/compile/fit.h"
#include "graph/ops/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One row above this is a broken description rather than a tensor. */
#define MAX_ROW_BYTES ((size_t)1 << 36)

/* Room for input_count and output_count tensors, all zero. */
static status_t description_init(description_t *d, uint32_t input_count, uint32_t output_count, err_t *err)
{
    *d = (description_t){0};
    if (input_count > ENGINE_MAX_IO || output_count > ENGINE_MAX_IO)
        return err_set(err, STATUS_UNSUPPORTED, "%u inputs and %u outputs; at most %d of each are supported",
                       input_count, output_count, ENGINE_MAX_IO);
    d->inputs = calloc(input_count + 1, sizeof *d->inputs);
    d->outputs = calloc(output_count + 1, sizeof *d->outputs);
    if (!d->inputs || !d->outputs) {
        description_dispose(d);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the description of a model");
    }
    d->info = (engine_model_info_t){.inputs = d->inputs,
                                    .outputs = d->outputs,
                                    .input_count = input_count,
                                    .output_count = output_count,
                                    .max_batch = 1};
    return STATUS_OK;
}

static void dispose_texts(engine_tensor_t *tensors, uint32_t count)
{
    for (uint32_t i = 0; tensors && i < count; i++) {
        free((char *)tensors[i].name);
        free((void *)(uintptr_t)tensors[i].sample);
        for (uint32_t k = 0; k < ENGINE_MAX_RANK; k++)
            free((char *)tensors[i].symbols[k]);
    }
}

void description_dispose(description_t *d)
{
    dispose_texts(d->inputs, d->info.input_count);
    dispose_texts(d->outputs, d->info.output_count);
    free(d->inputs);
    free(d->outputs);
    *d = (description_t){0};
}

/* Only what varies keeps its name: an exporter's name of a dimension that turned out fixed means nothing. */
static bool copy_symbols(engine_tensor_t *tensor, const char *const *symbols)
{
    for (uint32_t i = 0; symbols && i < tensor->rank; i++) {
        if (tensor->dims[i] >= 0 || !symbols[i])
            continue;
        tensor->symbols[i] = strdup(symbols[i]);
        if (!tensor->symbols[i])
            return false;
    }
    return true;
}

/* Fills one tensor: copies the name and those of varying dimensions (symbols may be NULL), computes row_bytes. */
static status_t description_set(engine_tensor_t *tensor, const char *name, dtype_t dtype, uint32_t rank,
                                const int64_t *dims, const char *const *symbols, err_t *err)
{
    size_t bytes = dtype_size(dtype);
    if (!bytes)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%s' has the element type %s, which no engine takes",
                       name, dtype_name(dtype));
    if (rank > ENGINE_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%s' has %u dimensions; at most %d are supported",
                       name, rank, ENGINE_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < -1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%s': dimension %u is negative", name, i);
        if (dims[i] > 0 && bytes > MAX_ROW_BYTES / (size_t)dims[i])
            return err_set(err, STATUS_TOO_LARGE, "tensor '%s' is larger than %zu GiB", name,
                           MAX_ROW_BYTES >> 30);
        bytes = dims[i] < 0 ? 0 : bytes * (size_t)dims[i];
        tensor->dims[i] = dims[i];
    }
    tensor->name = strdup(name);
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->row_bytes = bytes;
    if (!tensor->name || !copy_symbols(tensor, symbols))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the description of tensor '%s'", name);
    return STATUS_OK;
}

status_t describe_check(const engine_load_t *what, err_t *err)
{
    return what->max_batch <= ENGINE_MAX_BATCH
               ? STATUS_OK
               : err_set(err, STATUS_INVALID_ARGUMENT, "max_batch %u is above %d", what->max_batch,
                         ENGINE_MAX_BATCH);
}

static void set_batch(description_t *d, const engine_load_t *what, bool batchable)
{
    d->info.batchable = batchable;
    d->info.max_batch = !batchable ? 1 : what->max_batch ? what->max_batch : ENGINE_DEFAULT_MAX_BATCH;
}

static void *copy_of(const void *from, size_t len_bytes)
{
    void *copy = malloc(len_bytes);
    return copy ? memcpy(copy, from, len_bytes) : NULL;
}

/* Of the first `lead` dimensions nothing is taken. */
static status_t copy_tensors(engine_tensor_t *to, const engine_tensor_t *from, uint32_t count, uint32_t lead,
                             err_t *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!from[i].name || !*from[i].name)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a tensor has no name");
        status_t status = description_set(&to[i], from[i].name, from[i].dtype, from[i].rank - lead,
                                          from[i].dims + lead, from[i].symbols + lead, err);
        if (status != STATUS_OK)
            return status;
        to[i].text = from[i].text;
        if (from[i].sample && to[i].row_bytes && !(to[i].sample = copy_of(from[i].sample, to[i].row_bytes)))
            return err_set(err, STATUS_NO_MEMORY, "no memory for the description of a model");
    }
    return STATUS_OK;
}

static status_t fill(description_t *d, const engine_load_t *what, bool batchable, uint32_t lead, err_t *err)
{
    status_t status = description_init(d, what->input_count, what->output_count, err);
    if (status != STATUS_OK)
        return status;
    status = copy_tensors(d->inputs, what->inputs, what->input_count, lead, err);
    if (status == STATUS_OK)
        status = copy_tensors(d->outputs, what->outputs, what->output_count, lead, err);
    if (status == STATUS_OK && batchable)
        status = describe_check(what, err);
    if (status == STATUS_OK)
        set_batch(d, what, batchable);
    else
        description_dispose(d);
    return status;
}

status_t description_from_tensors(description_t *d, const engine_load_t *what, err_t *err)
{
    return fill(d, what, what->batching != ENGINE_BATCH_NONE, 0, err);
}

status_t description_from_declared(description_t *d, const engine_load_t *what, bool batchable, err_t *err)
{
    return fill(d, what, batchable, batchable, err);
}

status_t describe_read(const engine_load_t *what, onnx_model_t **model, err_t *err)
{
    return what->path ? onnx_model_load(what->path, model, err)
                      : onnx_model_parse(what->bytes, what->len_bytes, NULL, model, err);
}

status_t describe_check_file(const engine_load_t *what, err_t *err)
{
    onnx_model_t *model;
    if ((!what->path && !what->bytes) || describe_read(what, &model, NULL) != STATUS_OK)
        return STATUS_OK;
    status_t status = onnx_model_check_scales(model, err);
    onnx_model_destroy(model);
    return status;
}

status_t describe_check_opens(const engine_load_t *what, err_t *err)
{
    onnx_model_t *model;
    if (!what->path)
        return STATUS_OK;
    status_t status = onnx_model_load(what->path, &model, err);
    if (status != STATUS_OK)
        return status;
    status = onnx_model_check_external(model, err);
    onnx_model_destroy(model);
    return status;
}

uint64_t describe_file_bytes(const engine_load_t *what)
{
    struct stat file;
    return !what->path ? what->len_bytes : stat(what->path, &file) == 0 ? (uint64_t)file.st_size : 0;
}

static status_t open_template(const engine_load_t *what, size_t large_bytes, graph_t **graph, err_t *err)
{
    onnx_model_t *model;
    status_t status = describe_read(what, &model, err);
    if (status != STATUS_OK)
        return status;
    status = graph_import_shapes(model, large_bytes, graph, err);
    onnx_model_destroy(model);
    return status;
}

status_t describe_open(const engine_load_t *what, graph_t **graph, err_t *err)
{
    return open_template(what, SIZE_MAX, graph, err);
}

status_t describe_open_shapes(const engine_load_t *what, graph_t **graph, err_t *err)
{
    return open_template(what, DESCRIBE_LARGE_BYTES, graph, err);
}

void describe_load_dispose(engine_load_t *load)
{
    free((char *)(uintptr_t)load->name);
    free((char *)(uintptr_t)load->path);
    free((char *)(uintptr_t)load->providers);
    free((char *)(uintptr_t)load->without);
    free((void *)(uintptr_t)load->bytes);
    *load = (engine_load_t){0};
}

bool describe_is_among(const char *names, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = names; at && *at; at += *at == ',') {
        size_t word = strcspn(at, ",");
        if (word == len && strncmp(at, name, len) == 0)
            return true;
        at += word;
    }
    return false;
}

status_t describe_load_copy(engine_load_t *load, const engine_load_t *what, err_t *err)
{
    void *bytes = what->bytes ? malloc(what->len_bytes + 1) : NULL;
    *load = *what;
    load->name = strdup(what->name);
    load->path = what->path ? strdup(what->path) : NULL;
    load->providers = what->providers ? strdup(what->providers) : NULL;
    load->without = what->without ? strdup(what->without) : NULL;
    load->bytes = bytes;
    load->only = NULL;
    if (!load->name || (what->path && !load->path) || (what->providers && !load->providers) ||
        (what->without && !load->without) || (what->bytes && !bytes)) {
        describe_load_dispose(load);
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    }
    if (bytes)
        memcpy(bytes, what->bytes, what->len_bytes);
    return STATUS_OK;
}

/* Small ones suit text models, larger ones images. */
const int64_t describe_trials[DESCRIBE_TRIALS] = {16, 24, 224, 256, 1, 2, 512, 640};

/* A template, with what of its inputs varies and which sizes fit together. */
typedef struct {
    const graph_t *graph;
    bool batchable;
    fit_axes_t axes;
    fit_t fit;
    bool *lacks; /* set where a shape depends on contents that were left out */
} subject_t;

static void subject_init(subject_t *s, const graph_t *graph, bool batchable)
{
    engine_tensor_t inputs[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_io_t *io = &graph->inputs[i];
        inputs[i] = (engine_tensor_t){.rank = io->rank};
        memcpy(inputs[i].dims, io->dims, io->rank * sizeof io->dims[0]);
        memcpy(inputs[i].symbols, io->symbols, io->rank * sizeof io->symbols[0]);
    }
    *s = (subject_t){.graph = graph, .batchable = batchable, .lacks = s->lacks};
    fit_axes(&s->axes, inputs, graph->input_count, batchable);
    fit_first(&s->fit, FIT_TO_DESCRIBE, s->axes.count);
}

/* Shapes of the outputs for a batch and a size of what else is open; rank UINT32_MAX = not known before running. */
typedef struct {
    tensor_t outputs[ENGINE_MAX_IO];
} probe_t;

static status_t probe(const subject_t *s, int64_t batch, int64_t size, probe_t *p, err_t *err)
{
    const graph_t *graph = s->graph;
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *instance;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_io_t *io = &graph->inputs[i];
        inputs[i] = (tensor_t){.dtype = io->dtype, .rank = io->rank};
        for (uint32_t k = 0; k < io->rank; k++)
            inputs[i].dims[k] =
                s->axes.of[i][k] ? fit_size(&s->fit, s->axes.of[i][k] - 1, size) : io->dims[k];
        if (s->batchable)
            inputs[i].dims[0] = batch;
    }
    status_t status = graph_instantiate(graph, inputs, &instance, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < instance->output_count; i++) {
        const value_t *value = &instance->values[instance->outputs[i].value];
        p->outputs[i] = value->t;
        if (!value->shaped)
            p->outputs[i].rank = UINT32_MAX;
    }
    *s->lacks |= instance->lacks;
    graph_destroy(instance);
    return STATUS_OK;
}

/* The first pattern is for most models, and is tried with each size; others with one for texts and one for pictures. */
enum { FIT_EVERY = 2, FIT_TRIALS = 4 };

static bool takes_some_size(const subject_t *s)
{
    probe_t out;
    bool first = s->fit.step == 0;
    for (uint32_t t = 0; t < (first ? DESCRIBE_TRIALS : FIT_TRIALS); t += first ? 1 : FIT_EVERY)
        if (probe(s, 1, describe_trials[t], &out, NULL) == STATUS_OK)
            return true;
    return false;
}

/* One size for all, unless only another pattern is taken. */
static void find_fit(subject_t *s)
{
    while (!takes_some_size(s))
        if (!fit_next(&s->fit))
            return;
}

/* -1 where another trial gives something else. */
static void mark_varying(const graph_t *graph, probe_t *out, const probe_t *other)
{
    for (uint32_t i = 0; i < graph->output_count; i++) {
        tensor_t *o = &out->outputs[i];
        const tensor_t *p = &other->outputs[i];
        for (uint32_t k = 0; o->rank != UINT32_MAX && p->rank == o->rank && k < o->rank; k++)
            if (p->dims[k] != o->dims[k])
                o->dims[k] = -1;
    }
}

/*
 * Every size that works is tried: a network that halves a picture five times makes 1 of 16 and of 24. At least two must
 * work, for one tells nothing.
 */
static status_t probe_sizes(const subject_t *s, probe_t *out, err_t *err)
{
    probe_t other;
    uint32_t worked = 0;
    status_t status = STATUS_OK;
    for (uint32_t t = 0; t < DESCRIBE_TRIALS; t++) {
        status_t tried = probe(s, 1, describe_trials[t], worked ? &other : out, err);
        if (tried != STATUS_OK)
            status = tried;
        else if (worked++)
            mark_varying(s->graph, out, &other);
    }
    return worked >= 2 ? STATUS_OK : status;
}

/* Output shapes with -1 where they vary; as declared when too few trials work or contents decide. */
static status_t vary(const subject_t *s, probe_t *out, err_t *err)
{
    const graph_t *graph = s->graph;
    bool open = s->axes.count > 0;
    status_t status = open ? probe_sizes(s, out, err) : probe(s, 1, describe_trials[0], out, err);
    if (status != STATUS_OK && !open)
        return status;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const graph_io_t *io = &graph->outputs[i];
        tensor_t *o = &out->outputs[i];
        if (status == STATUS_OK && o->rank != UINT32_MAX)
            continue;
        if (!io->declared)
            return err_set(err, STATUS_UNSUPPORTED,
                           "the shape of output '%.80s' is neither declared nor derivable", io->name);
        *o = (tensor_t){.dtype = io->dtype, .rank = io->rank};
        memcpy(o->dims, io->dims, sizeof io->dims);
    }
    return STATUS_OK;
}

/* NULL when every output has one row per row of the batch, else the name of one that has not. */
static const char *grows_not(const subject_t *s)
{
    const graph_t *graph = s->graph;
    probe_t one, two;
    for (uint32_t t = 0; t < DESCRIBE_TRIALS; t++) {
        if (probe(s, 1, describe_trials[t], &one, NULL) != STATUS_OK ||
            probe(s, 2, describe_trials[t], &two, NULL) != STATUS_OK)
            continue;
        for (uint32_t i = 0; i < graph->output_count; i++) {
            tensor_t *a = &one.outputs[i], *b = &two.outputs[i];
            bool grows = a->rank != UINT32_MAX && b->rank != UINT32_MAX && a->rank >= 1 && a->dims[0] == 1 &&
                         b->dims[0] == 2;
            if (!grows)
                return graph->outputs[i].name;
        }
        return NULL;
    }
    return graph->output_count ? graph->outputs[0].name : "";
}

static bool may_batch(const graph_t *graph, engine_batching_t batching)
{
    if (batching == ENGINE_BATCH_NONE || !graph->input_count)
        return false;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const graph_io_t *io = &graph->inputs[i];
        bool leads =
            io->rank >= 1 && (io->dims[0] < 0 || (batching == ENGINE_BATCH_FORCE && io->dims[0] == 1));
        if (!leads)
            return false;
    }
    return true;
}

/* Quantised while it runs, all rows get one scale: then what a row gives hangs on those beside it. */
static bool shares_a_scale(const graph_t *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (!graph->nodes[n].dead && strcmp(graph->nodes[n].op->name, "DynamicQuantizeLinear") == 0)
            return true;
    return false;
}

/* Into `alone` when a batch is wanted of a model whose inputs could have one. */
static status_t decide_batching(subject_t *s, const engine_load_t *what, char alone[ENGINE_REASON_BYTES],
                                err_t *err)
{
    const graph_t *graph = s->graph;
    subject_init(s, graph, may_batch(graph, what->batching));
    find_fit(s);
    if (!s->batchable && what->batching == ENGINE_BATCH_FORCE)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "max_batch is given, but not every input has a leading batch dimension");
    const char *stuck = s->batchable ? grows_not(s) : NULL;
    if (stuck && what->batching == ENGINE_BATCH_FORCE)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "max_batch is given, but output '%.80s' does not grow with the batch", stuck);
    if (stuck)
        snprintf(alone, ENGINE_REASON_BYTES, "output '%.80s' does not grow with the batch", stuck);
    else if (s->batchable && what->batching != ENGINE_BATCH_FORCE && shares_a_scale(graph))
        snprintf(alone, ENGINE_REASON_BYTES, "DynamicQuantizeLinear gives all rows of a batch one scale");
    if (!alone[0])
        return STATUS_OK;
    subject_init(s, graph, false);
    find_fit(s);
    return STATUS_OK;
}

static status_t set_all(description_t *d, const graph_t *graph, const probe_t *outputs, bool batchable,
                        err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < graph->input_count; i++) {
        const graph_io_t *io = &graph->inputs[i];
        status = description_set(&d->inputs[i], io->name, io->dtype, io->rank - batchable,
                                 io->dims + batchable, io->symbols + batchable, err);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < graph->output_count; i++) {
        const tensor_t *o = &outputs->outputs[i];
        const graph_io_t *io = &graph->outputs[i];
        status = description_set(&d->outputs[i], io->name, o->dtype, o->rank - batchable, o->dims + batchable,
                                 io->declared && io->rank == o->rank ? io->symbols + batchable : NULL, err);
    }
    return status;
}

static status_t describe_template(description_t *d, const graph_t *graph, const engine_load_t *what,
                                  bool *lacks, err_t *err)
{
    probe_t outputs;
    subject_t s = {.graph = graph, .lacks = lacks};
    status_t status = describe_check(what, err);
    if (status == STATUS_OK)
        status = describe_check_file(what, err);
    if (status == STATUS_OK)
        status = description_init(d, graph->input_count, graph->output_count, err);
    if (status != STATUS_OK)
        return status;
    status = decide_batching(&s, what, d->info.alone, err);
    if (status == STATUS_OK)
        status = vary(&s, &outputs, err);
    if (status == STATUS_OK)
        status = set_all(d, graph, &outputs, s.batchable, err);
    if (status != STATUS_OK) {
        description_dispose(d);
        return status;
    }
    set_batch(d, what, s.batchable);
    return STATUS_OK;
}

/* Whatever came of it. */
static status_t describe_whole(description_t *d, const engine_load_t *what, err_t *err)
{
    graph_t *graph;
    bool lacks = false;
    status_t status = describe_open(what, &graph, err);
    if (status != STATUS_OK)
        return status;
    status = describe_template(d, graph, what, &lacks, err);
    graph_destroy(graph);
    return status;
}

status_t describe_graph(description_t *d, const graph_t *graph, const engine_load_t *what, err_t *err)
{
    bool lacks = graph->lacks;
    status_t status = describe_template(d, graph, what, &lacks, err);
    if (!lacks)
        return status;
    if (status == STATUS_OK)
        description_dispose(d);
    return describe_whole(d, what, err);
}

status_t describe(description_t *d, const engine_load_t *what, err_t *err)
{
    graph_t *graph;
    if (!what->path && !what->bytes)
        return description_from_tensors(d, what, err);
    status_t status = describe_open_shapes(what, &graph, err);
    if (status != STATUS_OK)
        return status;
    status = describe_graph(d, graph, what, err);
    graph_destroy(graph);
    return status;
}
