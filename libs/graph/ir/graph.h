/*
 * The intermediate representation: values (tensors by name) and nodes in topological order.
 *
 * Two forms. The *template* comes from graph_import: shapes may be open, constants are folded,
 * shape-independent rewrites are done. An *instance* comes from graph_instantiate with the shapes (and, for
 * models whose shapes depend on values, the contents) of the inputs: every shape is known, everything that
 * can be computed is constant, dead nodes are gone. An instance shares constants, names and attributes with
 * its template, which must outlive it.
 *
 * A graph is used by one thread at a time; a template may be instantiated by many at once.
 */
#ifndef GRAPH_IR_GRAPH_H
#define GRAPH_IR_GRAPH_H

#include "graph/ir/tensor.h"
#include "graph/ops/elementwise.h"
#include "onnx/model.h"

typedef struct op op_t; /* "graph/ops/op.h" */

enum {
    GRAPH_MAX_NODES = 200000,
    GRAPH_MAX_NODE_IO = 1024, /* inputs of one node: DenseNets concatenate some dozens */
    NODE_MAX_EPILOGUE = 4,
};

typedef struct {
    enum {
        ATTR_INT,
        ATTR_FLOAT,
        ATTR_STRING,
        ATTR_INTS,
        ATTR_FLOATS,
        ATTR_STRINGS,
        ATTR_TENSOR,
        ATTR_OTHER
    } kind;
    const char *name;
    uint32_t count; /* of the lists */
    int64_t i;
    float f;
    const char *s;
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    tensor_t tensor; /* its data belongs to the template */
} attr_t;

typedef struct {
    const char *name;
    tensor_t t;   /* t.data: of a constant */
    bool shaped;  /* rank and dims are known; dtype is known too */
    bool hollow;  /* a constant without its contents, or made of such (graph_import_shapes) */
    bool keep;    /* holds an attribute's tensor: not to be cleaned away */
    blob_t *blob; /* owns t.data */
} value_t;

/* What a fused node does to its result before storing it; see graph_fuse_epilogues. */
typedef enum { EPILOGUE_NONE, EPILOGUE_ADD, EPILOGUE_UNARY } epilogue_kind_t;

typedef struct {
    epilogue_kind_t kind;
    int32_t value;      /* ADD: the other operand, of the shape of the result */
    ew_call_t function; /* UNARY */
    const op_t *op;     /* what it was, */
    const attr_t *attrs;
    uint32_t attr_count; /* with its attributes */
} epilogue_t;

typedef struct {
    const op_t *op;
    const char *name;
    int32_t opset;
    uint32_t in_count, out_count;
    int32_t *in, *out; /* values; -1 = absent */
    const attr_t *attrs;
    uint32_t attr_count;
    epilogue_t epilogue[NODE_MAX_EPILOGUE];
    uint32_t epilogue_count;
    bool dead;
} node_t;

typedef struct {
    int32_t value;
    const char *name;
    dtype_t dtype; /* as declared; values of half types are float inside (see widen in import.c) */
    uint32_t rank;
    int64_t dims[TENSOR_MAX_RANK];        /* -1 = open */
    const char *symbols[TENSOR_MAX_RANK]; /* dim_param of an open dimension, NULL when it has no name */
    bool declared;                        /* dtype and dims come from the file (outputs may leave them out) */
} graph_io_t;

typedef struct graph_chunk graph_chunk_t;

typedef struct graph {
    value_t *values;
    node_t *nodes;
    graph_io_t *inputs, *outputs;
    uint32_t value_count, value_capacity, node_count, node_capacity, input_count, output_count;
    int64_t opset;
    bool fold_all;                      /* graph_interpret: nothing is too large to be computed at once */
    size_t fold_budget_bytes;           /* what constants computed at load may still take */
    bool open;                          /* some node has no known shape (after graph_propagate) */
    bool by_value;                      /* ... because it depends on the contents of a tensor */
    char by_value_text[ERR_TEXT_BYTES]; /* names the first such node */
    bool lacks;                         /* ... because it depends on contents that were left out */
    graph_chunk_t *chunks;
} graph_t;

/* Builds, checks and folds the template. Errors name node, operator and opset. The model is not needed
 * afterwards. */
status_t graph_import(const onnx_model_t *model, graph_t **graph, err_t *err);

/*
 * The same for whoever wants to know shapes only: contents of initialisers of large_bytes and more are not read, nor is anything
 * computed of them. Otherwise the same nodes and values, to be instantiated alike; where `lacks` is set, in the template or in an
 * instance, only the whole graph knows. Nothing else is to be made of it.
 */
status_t graph_import_shapes(const onnx_model_t *model, size_t large_bytes, graph_t **graph, err_t *err);

void graph_destroy(graph_t *graph);

/*
 * inputs[i]: full shape of graph->inputs[i], and data when its contents are known (they are copied). Graphs
 * whose shapes depend on contents that are not given come back with open = by_value = true and cannot be
 * planned.
 */
status_t graph_instantiate(const graph_t *graph, const tensor_t *inputs, graph_t **instance, err_t *err);

/*
 * Runs the whole graph with the reference kernels: an instance in which everything is known, so its outputs
 * are constants. Slow, allocates as it goes, and right for every graph whose operators we have, whatever its
 * shapes depend on.
 */
status_t graph_interpret(const graph_t *graph, const tensor_t *inputs, graph_t **instance, err_t *err);

/* Steps of the above, for tests and for passes. */
status_t graph_propagate(graph_t *graph, err_t *err); /* infer shapes, fold constants */
void graph_clean(graph_t *graph);                /* drop nodes whose results nobody needs, then compact */
status_t graph_sort(graph_t *graph, err_t *err); /* topological order; a cycle is an error */

/* Gives back the room that values and nodes could have grown into; they may move. */
void graph_fit(graph_t *graph);

/* Building blocks for passes; memory lives as long as the graph. */
void *graph_alloc(graph_t *graph, size_t len_bytes); /* zeroed; NULL = no memory */
char *graph_strdup(graph_t *graph, const char *text);
int32_t graph_add_value(graph_t *graph, const char *name); /* -1 = no memory */
int32_t graph_add_constant(graph_t *graph, const char *name, const tensor_t *t,
                           blob_t *blob); /* takes the reference */
node_t *graph_add_node(graph_t *graph, const op_t *op, uint32_t in_count, uint32_t out_count);
/* Makes a value the constant t, whose data is in blob (takes the reference). */
void graph_set_constant(graph_t *graph, int32_t value, const tensor_t *t, blob_t *blob);
void graph_set_hollow(graph_t *graph, int32_t value, const tensor_t *t); /* one without contents */
bool value_is_constant(const value_t *value);

/* Node that makes each value (-1 = none) and how often it is read, graph outputs included; arrays of
 * value_count. */
void graph_uses(const graph_t *graph, int32_t *producer, uint32_t *readers);

/* Checks order, indices and that every value has at most one producer; for tests and debug builds. */
bool graph_validate(const graph_t *graph);

const attr_t *node_attr(const node_t *node, const char *name);

#endif
