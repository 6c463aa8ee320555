/* What the scheduler, and through it the gateways, are told of a model. */
#include "control.h"
#include "image/pipeline_wire.h"

#include <stdlib.h>
#include <string.h>

/* One allocation for all that the report points to beside the model itself. */
typedef struct {
    Control__Tensor tensors[2 * ENGINE_MAX_IO];
    Control__Tensor *list[2 * ENGINE_MAX_IO];
    Control__Latency latency;
    uint32_t stage_until[STAGED_STAGES_MAX];
    image_pipeline_wire_t image;
    int64_t table_ns[ENGINE_MAX_BATCH];
} report_parts_t;

static void fill_tensors(Control__ModelReport *report, report_parts_t *parts, const engine_model_info_t *info)
{
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        const engine_tensor_t *from =
            i < info->input_count ? &info->inputs[i] : &info->outputs[i - info->input_count];
        Control__Tensor *to = &parts->tensors[i];
        control__tensor__init(to);
        to->name = (char *)(uintptr_t)from->name;
        to->datatype = (char *)(uintptr_t)dtype_oip_name(from->dtype);
        to->n_dims = from->rank;
        to->dims = (int64_t *)(uintptr_t)from->dims;
        parts->list[i] = to;
    }
    report->n_inputs = info->input_count;
    report->inputs = parts->list;
    report->n_outputs = info->output_count;
    report->outputs = parts->list + info->input_count;
}

static void fill_latency(Control__ModelReport *report, report_parts_t *parts, const model_t *model)
{
    control__latency__init(&parts->latency);
    for (uint32_t b = 1; b <= model->info->max_batch; b++)
        parts->table_ns[b - 1] = profile_latency_ns(&model->profile, b);
    parts->latency.n_table_ns = model->info->max_batch;
    parts->latency.table_ns = parts->table_ns;
    parts->latency.alpha_ns = (double)model->profile.alpha_ns;
    parts->latency.beta_ns = (double)model->profile.beta_ns;
    report->latency = &parts->latency;
}

/* Of the largest batch: where the shares differ with the size, the scheduler's prediction does too. */
static void fill_stages(Control__ModelReport *report, report_parts_t *parts, const model_t *model)
{
    enum { ALL = 1000 };
    const model_stages_t *stages = model->choice.stages;
    int64_t all_ns = 0, passed_ns = 0;

    if (model->choice.mode != MODE_STAGED)
        return;
    for (uint32_t s = 0; s < stages->count; s++)
        all_ns += model_stages_cost_ns(stages, s, stages->rows_max);
    for (uint32_t s = 0; s < stages->count; s++) {
        passed_ns += model_stages_cost_ns(stages, s, stages->rows_max);
        parts->stage_until[s] = all_ns > 0 ? (uint32_t)(ALL * passed_ns / all_ns) : ALL;
    }
    parts->stage_until[stages->count - 1] = ALL;
    report->n_stage_until = stages->count;
    report->stage_until = parts->stage_until;
    report->comp_wait_ns = model->config.comp_wait_ns;
}

/* As many batches fit on a device as it has slots: which of them run side by side, and when, the mode decides. */
static void fill_busy(Control__ModelReport *report, const model_t *model)
{
    if (model->choice.mode == MODE_OVERLAP)
        report->busy_fixed = 1000 / SEGMENTS_SLOTS;
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

    return states[model->state];
}

status_t model_report_fill(Control__ModelReport *report, const model_t *model)
{
    control__model_report__init(report);
    report->name = (char *)(uintptr_t)model->name;
    report->version = model->version ? model->version : 1;
    report->state = state_of(model);
    report->platform = model->bare ? "fermata_emulated" : "onnx_onnxv1";
    if (model->state == MODEL_FAILED)
        report->reason = (char *)(uintptr_t)model->load_err.text;
    if (!model_takes_grants(model))
        return STATUS_OK;

    report_parts_t *parts = calloc(1, sizeof(*parts));
    if (!parts)
        return STATUS_NO_MEMORY;
    report->max_batch = model->info->batchable ? model->info->max_batch : 0;
    report->slo_ns = model->slo_ns;
    report->memory_bytes = model->info->memory_bytes;
    report->priority = model->config.priority;
    report->mode = (char *)(uintptr_t)model_mode_names[model->choice.mode];
    report->mode_reason = (char *)(uintptr_t)model->choice.why;
    report->exit_points = model->choice.exit_points;
    report->n_labels = model->config.label_count;
    report->labels = model->config.labels;
    fill_tensors(report, parts, model->info);
    fill_latency(report, parts, model);
    fill_stages(report, parts, model);
    fill_busy(report, model);
    fill_image(report, parts, &model->config.image);
    return STATUS_OK;
}

void model_report_dispose(Control__ModelReport *report)
{
    if (report->latency)
        free((char *)report->latency - offsetof(report_parts_t, latency));
    report->latency = NULL;
}
