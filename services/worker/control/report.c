/* What the scheduler, and through it the gateways, are told of a model. */
#include "base/container.h"
#include "image/pipeline_wire.h"
#include "worker/control/control.h"

#include <stdlib.h>
#include <string.h>

/* Of a model whose dimensions vary. */
typedef struct {
    Control__Axis axes[AXES_MAX], *axis_list[AXES_MAX];
    Control__ShapeLatency latencies[FAMILY_MAX], *latency_list[FAMILY_MAX];
    Control__Latency tables[FAMILY_MAX];
    int64_t table_ns[FAMILY_MAX][ENGINE_MAX_BATCH];
} shape_parts_t;

/* One allocation, but for the shapes, for all that the report points to beside the model itself. */
typedef struct {
    Control__Tensor tensors[2 * ENGINE_MAX_IO];
    Control__Tensor *list[2 * ENGINE_MAX_IO];
    int64_t reshaped[2 * ENGINE_MAX_IO]
                    [ENGINE_MAX_RANK]; /* dims as clients see them, where config.pbtxt has others */
    Control__Latency latency;
    char note[ERR_TEXT_BYTES]; /* what of its config is not taken up */
    image_pipeline_wire_t image;
    int64_t table_ns[ENGINE_MAX_BATCH];
    shape_parts_t *shapes; /* NULL: the model has none */
} report_parts_t;

/* The bytes of a row are the same in either shape, so only those who describe the model know of it. */
static void reshape(Control__Tensor *to, int64_t dims[ENGINE_MAX_RANK], const engine_tensor_t *from,
                    const triton_tensor_t *seen)
{
    if (!seen || seen->rank + from->text > ENGINE_MAX_RANK)
        return;
    memcpy(dims, seen->dims, seen->rank * sizeof(*dims));
    if (from->text)
        dims[seen->rank] = from->dims[from->rank - 1];
    to->n_dims = seen->rank + from->text;
    to->dims = dims;
}

static void fill_tensors(Control__ModelReport *report, report_parts_t *parts, const model_t *model)
{
    const engine_model_info_t *info = model->info;

    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        const engine_tensor_t *from =
            i < info->input_count ? &info->inputs[i] : &info->outputs[i - info->input_count];
        Control__Tensor *to = &parts->tensors[i];
        control__tensor__init(to);
        to->name = (char *)(uintptr_t)from->name;
        to->datatype = (char *)(uintptr_t)dtype_oip_name(from->dtype);
        to->n_dims = from->rank;
        to->dims = (int64_t *)(uintptr_t)from->dims;
        to->text = from->text;
        reshape(to, parts->reshaped[i], from,
                triton_config_reshaped(model->config.triton, from->name, i < info->input_count));
        parts->list[i] = to;
    }
    report->n_inputs = info->input_count;
    report->inputs = parts->list;
    report->n_outputs = info->output_count;
    report->outputs = parts->list + info->input_count;
}

static void put_latency(Control__Latency *latency, int64_t *table_ns, const profile_t *profile,
                        uint32_t max_batch)
{
    control__latency__init(latency);
    for (uint32_t b = 1; b <= max_batch; b++)
        table_ns[b - 1] = profile_latency_ns(profile, b);
    latency->n_table_ns = max_batch;
    latency->table_ns = table_ns;
    latency->alpha_ns = (double)profile->alpha_ns;
    latency->beta_ns = (double)profile->beta_ns;
    latency->measured = profile->points;
    latency->measured_up_to = profile->points > 0 ? profile->table_len : 0;
    latency->spread = profile->spread;
    latency->doubt = profile->points > 0 ? profile_doubt(profile) : 0;
}

static void fill_axes(Control__ModelReport *report, const report_parts_t *parts, const axes_t *axes)
{
    for (uint32_t a = 0; a < axes->count; a++) {
        const axis_t *from = &axes->list[a];
        Control__Axis *to = &parts->shapes->axes[a];
        control__axis__init(to);
        to->name = (char *)(uintptr_t)from->name;
        to->size_max = from->size_max;
        to->n_pad_to = from->pad_to_count;
        to->pad_to = (uint32_t *)(uintptr_t)from->pad_to;
        parts->shapes->axis_list[a] = to;
    }
    report->n_axes = axes->count;
    report->axes = parts->shapes->axis_list;
    for (uint32_t i = 0; i < report->n_inputs; i++) {
        report->inputs[i]->n_axes = report->inputs[i]->n_dims;
        report->inputs[i]->axes = (uint32_t *)(uintptr_t)axes->of_input[i];
        report->inputs[i]->pad_value = axes->pad_value[i];
    }
    for (uint32_t i = 0; i < report->n_outputs; i++) {
        report->outputs[i]->n_axes = report->outputs[i]->n_dims;
        report->outputs[i]->axes = (uint32_t *)(uintptr_t)axes->of_output[i];
    }
}

static void fill_shape_latencies(Control__ModelReport *report, const report_parts_t *parts,
                                 const model_t *model)
{
    const model_shapes_t *shapes = model->shapes;

    for (uint32_t m = 0; m < shapes->reference_count; m++) {
        Control__ShapeLatency *to = &parts->shapes->latencies[m];
        control__shape_latency__init(to);
        put_latency(&parts->shapes->tables[m], parts->shapes->table_ns[m], &shapes->family.members[m].profile,
                    model->info->max_batch);
        to->n_size = shapes->axes.count;
        to->size = (uint32_t *)(uintptr_t)shapes->references[m];
        to->latency = &parts->shapes->tables[m];
        parts->shapes->latency_list[m] = to;
    }
    report->n_shape_latencies = shapes->reference_count;
    report->shape_latencies = parts->shapes->latency_list;
}

static void fill_latency(Control__ModelReport *report, report_parts_t *parts, const model_t *model)
{
    put_latency(&parts->latency, parts->table_ns, &model->profile, model->info->max_batch);
    report->latency = &parts->latency;
}

static void fill_stages(Control__ModelReport *report, const model_t *model)
{
    model_stages_t *stages = model->choice.stages;

    if (model->choice.mode != MODE_STAGED || stages->schedule)
        return; /* no rows are to be granted to a batch that runs */
    report->n_stage_until = stages->joinable;
    report->stage_until = stages->until;
    report->comp_wait_ns = stages->joinable ? stages->comp_wait_ns : 0;
}

/* Which batches run side by side, and when, the mode decides; the scheduler sees what is left of the device. */
static void fill_busy(Control__ModelReport *report, const model_t *model)
{
    if (model->choice.mode != MODE_OVERLAP)
        return;
    report->busy_fixed = model->choice.segments->busy_fixed;
    report->busy_row = model->choice.segments->busy_row;
    if (model->shapes)
        report->mode_elements = model_segments_longest(model->choice.segments);
}

static void fill_image(Control__ModelReport *report, report_parts_t *parts, const image_pipeline_t *image)
{
    report->softmax_output = (char *)(uintptr_t)image->softmax;
    if (!image_pipeline_present(image))
        return;
    image_pipeline_to_wire(image, &parts->image);
    report->image = &parts->image.message;
}

static Control__ModelState state_of(const model_t *model)
{
    static const Control__ModelState states[MODEL_STATES] = {
        [MODEL_LOADING] = CONTROL__MODEL_STATE__MODEL_STATE_LOADING,
        [MODEL_READY] = CONTROL__MODEL_STATE__MODEL_STATE_READY,
        [MODEL_FAILED] = CONTROL__MODEL_STATE__MODEL_STATE_FAILED,
        [MODEL_UNLOADING] = CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING,
        [MODEL_UNLOADED] = CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED,
    };

    return states[model->serving->state];
}

status_t model_report_fill(Control__ModelReport *report, const model_t *model)
{
    control__model_report__init(report);
    report->name = (char *)(uintptr_t)model->name;
    report->version = model->version ? model->version : 1;
    report->state = state_of(model);
    report->platform = model->bare ? "fermata_emulated" : "onnx_onnxv1";
    if (model->serving->state == MODEL_FAILED)
        report->reason = (char *)(uintptr_t)model->load_err.text;
    if (!serving_takes_grants(model))
        return STATUS_OK;

    report_parts_t *parts = calloc(1, sizeof(*parts));
    if (!parts)
        return STATUS_NO_MEMORY;
    if (model->shapes && !(parts->shapes = calloc(1, sizeof(*parts->shapes)))) {
        free(parts);
        return STATUS_NO_MEMORY;
    }
    report->max_batch = model->info->batchable ? model->info->max_batch : 0;
    report->slo_ns = model->slo_ns;
    report->memory_bytes = model->taken_bytes;
    report->n_batch_memory_bytes = model->batch_bytes ? model->info->max_batch : 0;
    report->batch_memory_bytes = model->batch_bytes ? model->batch_bytes + 1 : NULL;
    report->priority = model->config.priority;
    report->mode = (char *)(uintptr_t)model_mode_names[model->choice.mode];
    report->engine = (char *)(uintptr_t)model->engine;
    report->engines = (char *)(uintptr_t)model->engines_text;
    report->mode_reason = (char *)(uintptr_t)model->choice.why;
    report->exit_points = model->choice.exit_points;
    report->stages = model->choice.stages ? model->choice.stages->count : 0;
    report->n_labels = model->config.label_count;
    report->labels = model->config.labels;
    fill_tensors(report, parts, model);
    (void)triton_config_text(model->config.triton, parts->note, sizeof(parts->note));
    report->reason = parts->note;
    fill_latency(report, parts, model);
    fill_stages(report, model);
    fill_busy(report, model);
    fill_image(report, parts, &model->config.image);
    if (model->shapes) {
        fill_axes(report, parts, &model->shapes->axes);
        fill_shape_latencies(report, parts, model);
    }
    return STATUS_OK;
}

void model_report_dispose(Control__ModelReport *report)
{
    if (report->latency) {
        report_parts_t *parts = CONTAINER_OF(report->latency, report_parts_t, latency);
        free(parts->shapes);
        free(parts);
    }
    report->latency = NULL;
}
