#include "engine/auto/faults.h"

#include "engine/compile/describe.h"
#include "onnx.pb-c.h"

#include <string.h>

typedef bool (*condition_fn)(const onnx_model_t *file, const Onnx__NodeProto *node);

/* ---- Conditions ---- */

static bool always(const onnx_model_t *file, const Onnx__NodeProto *node)
{
    (void)file, (void)node;
    return true;
}

static bool has_input(const Onnx__NodeProto *node, size_t i)
{
    return i < node->n_input && node->input[i][0];
}

static bool has_output_shape(const onnx_model_t *file, const Onnx__NodeProto *node)
{
    (void)file;
    return has_input(node, 2);
}

static bool attribute_is(const Onnx__NodeProto *node, const char *name, const char *text)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->name && strcmp(a->name, name) == 0)
            return a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
    }
    return false;
}

/* A constant of the file by name; NULL: it is none. */
static const Onnx__TensorProto *constant(const onnx_model_t *file, const char *name)
{
    const Onnx__GraphProto *g = onnx_model_proto(file)->graph;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name && strcmp(g->initializer[i]->name, name) == 0)
            return g->initializer[i];
    for (size_t n = 0; n < g->n_node; n++)
        if (g->node[n]->n_output == 1 && strcmp(g->node[n]->output[0], name) == 0 &&
            g->node[n]->n_attribute == 1)
            return g->node[n]->attribute[0]->t;
    return NULL;
}

/* Whether some scale makes it smaller. What only the run tells may, so far as is known. */
static bool shrinks(const onnx_model_t *file, const char *scales)
{
    float values[ONNX_MAX_RANK];
    onnx_tensor_info_t info;
    const Onnx__TensorProto *t = constant(file, scales);
    if (!t)
        return true;
    if (onnx_tensor_info(file, t, &info, NULL) != STATUS_OK || info.dtype != DTYPE_F32 ||
        info.count > ONNX_MAX_RANK || onnx_tensor_read(file, t, &info, values, NULL) != STATUS_OK)
        return false;
    for (size_t i = 0; i < info.count; i++)
        if (values[i] < 1)
            return true;
    return false;
}

static bool aligns_smaller(const onnx_model_t *file, const Onnx__NodeProto *node)
{
    return attribute_is(node, "coordinate_transformation_mode", "align_corners") &&
           (attribute_is(node, "mode", "linear") || attribute_is(node, "mode", "cubic")) &&
           has_input(node, 2) && shrinks(file, node->input[2]);
}

/* ---- The table ---- */

static const struct {
    const char *engine, *op;
    condition_fn when;
    const char *reason;
} known[] = {
    {"onnxruntime", "DFT", always, "DFT comes out up to 1e-4 off in float32"},
    {"openvino", "DFT", always, "DFT comes out up to 1e-4 off in float32"},
    {"onnxruntime", "STFT", always, "STFT comes out up to 1e-5 off where 0 is right"},
    {"onnxruntime", "Resize", aligns_smaller, "Resize aligns corners to a rounded size when it shrinks"},
    {"openvino", "Resize", aligns_smaller, "Resize aligns corners to a rounded size when it shrinks"},
    {"onnxruntime", "MaxUnpool", has_output_shape, "MaxUnpool with an output shape puts values elsewhere"},
};

static void note(fault_t *faults, const char *engine, const char *reason)
{
    uint32_t i = 0;
    while (i < FAULTS_ENGINES && faults[i].engine && strcmp(faults[i].engine, engine) != 0)
        i++;
    if (i < FAULTS_ENGINES && !faults[i].engine)
        faults[i] = (fault_t){.engine = engine, .reason = reason};
}

static void look_at(const onnx_model_t *file, const Onnx__NodeProto *node, fault_t *faults)
{
    bool standard = !node->domain || !node->domain[0] || strcmp(node->domain, "ai.onnx") == 0;
    for (size_t k = 0; standard && k < sizeof known / sizeof known[0]; k++)
        if (node->op_type && strcmp(node->op_type, known[k].op) == 0 && known[k].when(file, node))
            note(faults, known[k].engine, known[k].reason);
}

void faults_find(const engine_load_t *what, fault_t faults[FAULTS_ENGINES + 1])
{
    onnx_model_t *file;
    memset(faults, 0, (FAULTS_ENGINES + 1) * sizeof *faults);
    if (describe_read(what, &file, NULL) != STATUS_OK)
        return;
    const Onnx__GraphProto *g = onnx_model_proto(file)->graph;
    for (size_t n = 0; n < g->n_node; n++)
        look_at(file, g->node[n], faults);
    onnx_model_destroy(file);
}

const char *faults_of(const fault_t *faults, const char *engine)
{
    for (; faults->engine; faults++)
        if (strcmp(faults->engine, engine) == 0)
            return faults->reason;
    return NULL;
}
