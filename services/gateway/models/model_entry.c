#include "gateway/models/model_entry.h"

#include "auth/shares.h"
#include "control.pb-c.h"
#include "image/pipeline_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void model_entry_ref(model_entry_t *entry)
{
    entry->refs++;
}

void model_entry_unref(model_entry_t *entry)
{
    if (--entry->refs > 0)
        return;
    model_stats_dispose(&entry->stats);
    shares_destroy(entry->shares);
    free(entry->memory);
    free(entry->description);
    free(entry);
}

/* ------------------------------------------------------------------ from the description */

/* One block for all that a spec points to; the first pass (block NULL) only counts. */
typedef struct {
    char *block;
    size_t used;
} carve_t;

static void *carve(carve_t *carver, size_t bytes, size_t align)
{
    carver->used = (carver->used + align - 1) / align * align;
    void *at = carver->block ? carver->block + carver->used : NULL;
    carver->used += bytes;
    return at;
}

static const char *carve_text(carve_t *carver, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *at = carve(carver, bytes, 1);
    if (at)
        memcpy(at, text, bytes);
    return at;
}

/* Strings: the room of one is no dimension to clients. */
static void take_text(oip_tensor_spec_t *spec)
{
    int64_t room_bytes = spec->dims.rank > 0 ? spec->dims.dims[--spec->dims.rank] : 0;
    spec->datatype = OIP_BYTES;
    spec->text_bytes =
        room_bytes > 0 && room_bytes <= UINT32_MAX ? (uint32_t)room_bytes : 0; /* 0 is refused later */
}

static oip_tensor_spec_t tensor_spec(const Control__Tensor *tensor, const char *name)
{
    oip_tensor_spec_t spec = {
        .name = name,
        .datatype = oip_datatype_parse(tensor->datatype, strlen(tensor->datatype)),
        .dims = {.rank = (uint32_t)(tensor->n_dims < OIP_MAX_RANK ? tensor->n_dims : OIP_MAX_RANK)},
        .pad_value = tensor->pad_value};
    for (size_t d = 0; d < tensor->n_dims && d < OIP_MAX_RANK; d++) {
        uint32_t axis = d < tensor->n_axes ? tensor->axes[d] : 0;
        spec.dims.dims[d] = tensor->dims[d];
        spec.axes[d] = (uint8_t)(axis <= OIP_MAX_AXES ? axis : OIP_MAX_AXES + 1); /* refused later */
    }
    if (tensor->text)
        take_text(&spec);
    return spec;
}

static const oip_tensor_spec_t *carve_tensors(carve_t *carver, Control__Tensor *const *tensors, size_t count)
{
    oip_tensor_spec_t *specs = carve(carver, count * sizeof *specs, _Alignof(oip_tensor_spec_t));
    for (size_t i = 0; i < count; i++) {
        const char *name = carve_text(carver, tensors[i]->name);
        if (specs)
            specs[i] = tensor_spec(tensors[i], name);
    }
    return specs;
}

static const oip_axis_t *carve_axes(carve_t *carver, Control__Axis *const *axes, size_t count)
{
    oip_axis_t *made = carve(carver, count * sizeof *made, _Alignof(oip_axis_t));
    for (size_t i = 0; i < count; i++) {
        const Control__Axis *axis = axes[i];
        const char *name = carve_text(carver, axis->name);
        uint32_t *pad_to = carve(carver, axis->n_pad_to * sizeof *pad_to, _Alignof(uint32_t));
        if (!made)
            continue;
        if (axis->n_pad_to > 0)
            memcpy(pad_to, axis->pad_to, axis->n_pad_to * sizeof *pad_to);
        made[i] = (oip_axis_t){.name = name,
                               .size_max = axis->size_max,
                               .pad_to = pad_to,
                               .pad_to_count = (uint32_t)axis->n_pad_to};
    }
    return made;
}

static void carve_spec(carve_t *carver, const Control__ModelReport *report, oip_model_spec_t *spec)
{
    char version[24];
    snprintf(version, sizeof version, "%" PRId64, report->version);
    *spec = (oip_model_spec_t){.max_batch = report->max_batch,
                               .input_count = (uint32_t)report->n_inputs,
                               .output_count = (uint32_t)report->n_outputs,
                               .axis_count = (uint32_t)report->n_axes,
                               .slo_ns = report->slo_ns,
                               .label_count = (uint32_t)report->n_labels,
                               .picture_input = -1,
                               .softmax_output = -1};
    spec->inputs = carve_tensors(carver, report->inputs, report->n_inputs);
    spec->outputs = carve_tensors(carver, report->outputs, report->n_outputs);
    spec->axes = carve_axes(carver, report->axes, report->n_axes);
    spec->name = carve_text(carver, report->name);
    spec->version = carve_text(carver, version);
    spec->platform = carve_text(carver, report->platform);
    const char **labels = carve(carver, report->n_labels * sizeof *labels, _Alignof(char *));
    for (size_t i = 0; i < report->n_labels; i++) {
        const char *label = carve_text(carver, report->labels[i]);
        if (labels)
            labels[i] = label;
    }
    spec->labels = report->n_labels > 0 ? labels : NULL;
}

/* each: of every tensor, or NULL. */
static status_t row_bytes(const char *kind, const oip_tensor_spec_t *tensors, uint32_t count, uint64_t *each,
                          uint64_t *sum, err_t *err)
{
    uint64_t bytes;
    *sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        oip_tensor_spec_t unit = tensors[i];
        for (uint32_t d = 0; d < unit.dims.rank; d++)
            if (unit.dims.dims[d] == -1)
                unit.dims.dims[d] = 1;
        if (!oip_tensor_spec_row_bytes(&unit, &bytes))
            return err_set(err, STATUS_UNSUPPORTED,
                           "%s '%s' is of type BYTES, which this gateway cannot serve", kind,
                           tensors[i].name);
        if (each)
            each[i] = bytes;
        if (__builtin_add_overflow(*sum, bytes, sum) || *sum > UINT32_MAX)
            return err_set(err, STATUS_UNSUPPORTED, "one row of the %ss has 4 GiB or more", kind);
    }
    return STATUS_OK;
}

static uint32_t count_open(const oip_model_spec_t *spec)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < spec->output_count; i++)
        for (uint32_t d = 0; d < spec->outputs[i].dims.rank; d++)
            open += spec->outputs[i].dims.dims[d] == -1;
    return open;
}

static status_t check_axes(const oip_model_spec_t *spec, err_t *err)
{
    for (uint32_t i = 0; i < spec->input_count; i++)
        for (uint32_t d = 0; d < spec->inputs[i].dims.rank; d++)
            if (spec->inputs[i].dims.dims[d] == -1 && !spec->inputs[i].axes[d])
                return err_set(err, STATUS_INVALID_ARGUMENT,
                               "input '%s': nothing tells the size of its dimension %u", spec->inputs[i].name,
                               d);
            else if (spec->inputs[i].axes[d] && spec->inputs[i].datatype == OIP_BYTES &&
                     spec->axes[spec->inputs[i].axes[d] - 1].pad_to_count > 0)
                return err_set(err, STATUS_UNSUPPORTED, "input '%s': strings are not padded",
                               spec->inputs[i].name);
    for (uint32_t a = 0; a < spec->axis_count; a++)
        for (uint32_t k = 0; k < spec->axes[a].pad_to_count; k++)
            if (spec->axes[a].pad_to[k] < 1 ||
                (k > 0 && spec->axes[a].pad_to[k] <= spec->axes[a].pad_to[k - 1]) ||
                (k + 1 == spec->axes[a].pad_to_count && spec->axes[a].pad_to[k] != spec->axes[a].size_max))
                return err_set(err, STATUS_INVALID_ARGUMENT,
                               "axis '%s': the sizes that it is padded to are broken", spec->axes[a].name);
    return STATUS_OK;
}

/* What a picture is made into, where the input itself does not say. */
static status_t fill_picture(const image_pipeline_t *pipeline, oip_model_spec_t *spec, err_t *err)
{
    const oip_tensor_spec_t *tensor = &spec->inputs[spec->picture_input];
    uint32_t width, height, first = tensor->dims.rank - 2 - (pipeline->layout == IMAGE_NHWC);
    bool sized = image_pipeline_size(pipeline, &width, &height);
    spec->picture = tensor->dims;
    for (uint32_t d = 0; d < tensor->dims.rank; d++) {
        if (tensor->dims.dims[d] != -1)
            continue;
        if (!sized || tensor->dims.rank < 3 || d < first || d > first + 1)
            return err_set(
                err, STATUS_INVALID_ARGUMENT,
                "preprocess does not tell the size of dimension %u of input '%s': it needs resize or crop", d,
                tensor->name);
        int64_t size = d == first ? height : width;
        if (!oip_axis_takes(&spec->axes[tensor->axes[d] - 1], size))
            return err_set(
                err, STATUS_INVALID_ARGUMENT,
                "preprocess makes pictures with %s %lld, which dims does not allow or pads to more",
                spec->axes[tensor->axes[d] - 1].name, (long long)size);
        spec->picture.dims[d] = size;
    }
    return STATUS_OK;
}

/* What would make the rest of the gateway stumble. The entry is listed in any case, with the reason. */
static status_t check_entry(model_entry_t *entry, const Control__ModelReport *report, err_t *err)
{
    oip_model_spec_t *spec = &entry->spec;
    for (size_t i = 0; i < report->n_inputs + report->n_outputs; i++) {
        const Control__Tensor *tensor =
            i < report->n_inputs ? report->inputs[i] : report->outputs[i - report->n_inputs];
        if (tensor->n_dims > OIP_MAX_RANK)
            return err_set(err, STATUS_UNSUPPORTED, "tensor '%s' has more than %d dimensions", tensor->name,
                           OIP_MAX_RANK);
    }
    if (oip_model_spec_check(spec, err) != STATUS_OK)
        return err->code;
    if (check_axes(spec, err) != STATUS_OK)
        return err->code;
    entry->open_outputs = count_open(spec);
    if (row_bytes("input", spec->inputs, spec->input_count, entry->input_bytes, &entry->input_row_bytes,
                  err) ||
        row_bytes("output", spec->outputs, spec->output_count, NULL, &entry->output_row_bytes, err) ||
        image_pipeline_from_wire(&entry->pipeline, report->image, report->softmax_output, err))
        return err->code;
    if (image_pipeline_present(&entry->pipeline))
        spec->picture_input = oip_model_spec_input(spec, entry->pipeline.input);
    if (entry->pipeline.softmax[0])
        spec->softmax_output = oip_model_spec_output(spec, entry->pipeline.softmax);
    if (image_pipeline_present(&entry->pipeline) && spec->picture_input < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "preprocess names the input '%s', which the model has not", entry->pipeline.input);
    if (spec->picture_input >= 0 && fill_picture(&entry->pipeline, spec, err) != STATUS_OK)
        return err->code;
    if (entry->pipeline.softmax[0] && spec->softmax_output < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "softmax names the output '%s', which the model has not",
                       entry->pipeline.softmax);
    return STATUS_OK;
}

static model_entry_t *build(const Control__ModelReport *report, metrics_t *metrics, stats_board_t *board)
{
    model_entry_t *entry = calloc(1, sizeof *entry);
    carve_t carver = {0};
    if (!entry)
        return NULL;
    carve_spec(&carver, report, &entry->spec);
    carver = (carve_t){.block = malloc(carver.used + 1)};
    entry->memory = carver.block;
    if (!entry->memory) {
        free(entry);
        return NULL;
    }
    carve_spec(&carver, report, &entry->spec);
    entry->version = report->version;
    entry->priority = report->priority;
    entry->refs = 1;
    err_t err = {0};
    if (check_entry(entry, report, &err) != STATUS_OK)
        snprintf(entry->defect, sizeof entry->defect, "%s", err.text);
    model_stats_init(&entry->stats, metrics, board, entry->spec.name, entry->spec.version);
    return entry;
}

/* The report without what changes while the model stays the same, so that two of them can be compared. */
static uint8_t *pack_description(const Control__ModelReport *report, size_t *bytes)
{
    Control__ModelReport still = *report;
    still.state = CONTROL__MODEL_STATE__MODEL_STATE_UNKNOWN;
    still.reason = (char *)(uintptr_t)protobuf_c_empty_string;
    still.latency = NULL;
    still.n_shape_latencies = 0;
    still.n_devices = 0;
    still.memory_bytes = 0;
    still.n_batch_memory_bytes = 0;
    *bytes = control__model_report__get_packed_size(&still);
    uint8_t *packed = malloc(*bytes + 1);
    if (packed)
        control__model_report__pack(&still, packed);
    return packed;
}

model_entry_t *model_entry_create(const Control__ModelReport *report, metrics_t *metrics,
                                  stats_board_t *board)
{
    size_t bytes;
    uint8_t *description = pack_description(report, &bytes);
    model_entry_t *entry = description ? build(report, metrics, board) : NULL;
    if (!entry) {
        free(description);
        return NULL;
    }
    entry->description = description;
    entry->description_bytes = bytes;
    return entry;
}

/* ------------------------------------------------------------------ comparing */

bool model_entry_is(const model_entry_t *entry, const Control__ModelReport *report)
{
    size_t bytes;
    uint8_t *description = pack_description(report, &bytes);
    bool same = description && entry->description_bytes == bytes &&
                memcmp(entry->description, description, bytes) == 0;
    free(description);
    return same;
}

static bool alike_tensor(const oip_tensor_spec_t *a, const oip_tensor_spec_t *b)
{
    if (strcmp(a->name, b->name) != 0 || a->datatype != b->datatype || a->dims.rank != b->dims.rank ||
        memcmp(&a->pad_value, &b->pad_value, sizeof a->pad_value) != 0) /* NaN pads as well as any */
        return false;
    for (uint32_t i = 0; i < a->dims.rank; i++)
        if (a->dims.dims[i] != b->dims.dims[i] || a->axes[i] != b->axes[i])
            return false;
    return true;
}

static bool alike_tensors(const oip_tensor_spec_t *a, const oip_tensor_spec_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!alike_tensor(&a[i], &b[i]))
            return false;
    return true;
}

static bool alike_axes(const oip_axis_t *a, const oip_axis_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i].size_max != b[i].size_max || a[i].pad_to_count != b[i].pad_to_count ||
            memcmp(a[i].pad_to, b[i].pad_to, a[i].pad_to_count * sizeof *a[i].pad_to) != 0)
            return false;
    return true;
}

bool model_entry_alike(const model_entry_t *a, const model_entry_t *b)
{
    const oip_model_spec_t *x = &a->spec, *y = &b->spec;
    return x->input_count == y->input_count && x->output_count == y->output_count &&
           x->axis_count == y->axis_count && (x->max_batch > 0) == (y->max_batch > 0) &&
           x->picture_input == y->picture_input && x->softmax_output == y->softmax_output &&
           alike_tensors(x->inputs, y->inputs, x->input_count) &&
           alike_tensors(x->outputs, y->outputs, x->output_count) &&
           alike_axes(x->axes, y->axes, x->axis_count) &&
           (x->picture_input < 0 || image_pipeline_alike(&a->pipeline, &b->pipeline));
}

/* ------------------------------------------------------------------ what can be done with it */

status_t model_entry_not_ready(const model_entry_t *entry, err_t *err)
{
    return err_set(err, STATUS_UNAVAILABLE, "model '%s' is not ready: %s", entry->spec.name,
                   entry->reason[0] ? entry->reason : "no worker has it");
}

status_t model_entry_check_described(const model_entry_t *entry, err_t *err)
{
    return entry->defect[0] ? model_entry_not_ready(entry, err) : STATUS_OK;
}
