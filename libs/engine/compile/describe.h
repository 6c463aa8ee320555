/*
 * The owned form of engine_model_info_t, which every engine keeps per model.
 */
#ifndef ENGINE_COMPILE_DESCRIBE_H
#define ENGINE_COMPILE_DESCRIBE_H

#include "engine/engine.h"
#include "graph/ir/graph.h"
#include "onnx/model.h"

typedef struct {
    engine_model_info_t info;
    engine_tensor_t *inputs, *outputs; /* names owned as well */
} description_t;

/* INVALID_ARGUMENT: a max_batch beyond what engines take. */
status_t describe_check(const engine_load_t *what, err_t *err);

/* The ONNX file or bytes that `what` names, as libs/onnx reads them, and how large they are (0: not known). */
status_t describe_read(const engine_load_t *what, onnx_model_t **model, err_t *err);
uint64_t describe_file_bytes(const engine_load_t *what);

/* What a load needs of the file, copied for whoever loads it again later. One of all zeros is fine to dispose of. */
status_t describe_load_copy(engine_load_t *load, const engine_load_t *what, err_t *err);
void describe_load_dispose(engine_load_t *load);
/* For a library that opens what->path and what that names by itself: all are regular files, those in the model's folder, and libs/onnx
 * reads the first. Fine where it is given bytes. */
status_t describe_check_opens(const engine_load_t *what, err_t *err);
/* Whether a list (engine_load_t.without: "onednn,openvino"; NULL: nothing) has this name. */
bool describe_is_among(const char *names, const char *name);
/* What is wrong in a file that libraries would take; nothing of a file that libs/onnx does not read. */
status_t describe_check_file(const engine_load_t *what, err_t *err);

/* Sizes to try for open dimensions. */
enum { DESCRIBE_TRIALS = 8 };
extern const int64_t describe_trials[DESCRIBE_TRIALS];

/* The template of the ONNX file or bytes that `what` names. For a description alone: without its weights' contents, which takes
 * next to no time or memory. */
status_t describe_open(const engine_load_t *what, graph_t **graph, err_t *err);
status_t describe_open_shapes(const engine_load_t *what, graph_t **graph, err_t *err);
enum { DESCRIBE_LARGE_BYTES = 64 << 10 }; /* contents from here on are weights: no shape is that long */

/*
 * Inputs and outputs of a graph, which may be one of shapes alone: `what` is opened again should one of them depend on what was left
 * out. What varies is found by trying: the graph is instantiated with different sizes, and a
 * model is batchable when its outputs really grow with the batch.
 */
status_t describe_graph(description_t *d, const graph_t *graph, const engine_load_t *what, err_t *err);

/* For an engine that keeps no graph: from the ONNX file when `what` names one, else from the bare description. */
status_t describe(description_t *d, const engine_load_t *what, err_t *err);

/* Copies bare descriptions; checks ranks, types, dims and names. */
status_t description_from_tensors(description_t *d, const engine_load_t *what, err_t *err);
void description_dispose(description_t *d);

/* The same of inputs and outputs as a file declares them, with the batch dimension in front where it is batchable. */
status_t description_from_declared(description_t *d, const engine_load_t *what, bool batchable, err_t *err);

#endif
