/*
 * CPU engine on OpenVINO: whatever it runs, whole, in float32. One thread for each stream calls it; threads beyond the lane's
 * own are those of OpenVINO.
 *
 * A model is compiled once for all shapes. That takes some percent longer for a small batch, more where batch sizes alternate,
 * than a model compiled for the very shapes; but each of those has weights of its own, as large again as the file and more, and
 * compiling takes a while. So lone rows, for which it matters most, have such a copy where it is prepared, for a few shapes
 * and as long as copies stay below COPIES_BYTES; everything else runs the open one. A copy of a large file stays only where it has
 * been seen to be faster (trial.h).
 *
 * What compiled models keep of the network they share with it; the rest is given back as soon as nothing more will be compiled.
 *
 * Shapes and batching are described as for the other engines where libs/graph reads the file, so that engines can be
 * compared and exchanged; else by what the network says (signature.h).
 */
#include "base/clock.h"
#include "engine/compile/plan_table.h"
#include "engine/openvino/compiled.h"
#include "engine/openvino/signature.h"
#include "engine/openvino/trial.h"
#include "engine/queue/cpu.h"
#include "onnx.pb-c.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS_MAX = 256,
    COPY_FILES = 2, /* what a compiled model takes, in sizes of the file */
    COPIES_MAX = 4,
};
#define COPIES_BYTES ((uint64_t)1 << 30)
#define SMALL_BYTES ((uint64_t)16 << 20) /* a file whose copies are not tried */

struct engine {
    cpu_t cpu; /* first */
    compiled_how_t how;
};

/* A model compiled for one set of shapes. */
typedef struct {
    plan_entry_t entry; /* first */
    engine_model_t *model;
    compiled_t *compiled; /* NULL: the open one is as fast */
} plan_t;

struct engine_model {
    description_t description;
    const engine_t *engine;
    network_map_t map;
    network_t network; /* once loaded, under the table's lock; nothing: no more is compiled */
    compiled_t *open;  /* for all shapes */
    plan_table_t plans;
    uint64_t file_bytes;
    uint32_t copies_max;
    _Atomic uint32_t copies;
};

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

static bool varies(const engine_model_info_t *info)
{
    for (uint32_t i = 0; i < info->input_count; i++)
        for (uint32_t k = 0; k < info->inputs[i].rank; k++)
            if (info->inputs[i].dims[k] < 0)
                return true;
    return false;
}

/* ---- Plans ---- */

/* Beside those that were made for their shapes there is always the open one. Under the table's locks. */
static void count_copies(engine_model_t *model, int change)
{
    uint32_t copies = atomic_fetch_add(&model->copies, (uint32_t)change) + (uint32_t)change;
    model->description.info.memory_bytes = model->file_bytes * COPY_FILES * (copies + 1);
}

static void destroy_plan(plan_entry_t *entry)
{
    plan_t *plan = (plan_t *)entry;
    if (plan->compiled)
        count_copies(plan->model, -1);
    compiled_destroy(plan->compiled);
    free(plan);
}

static status_t reshape(engine_model_t *model, const tensor_t *inputs, err_t *err)
{
    return network_reshape(&model->network, model->map.inputs, inputs, info(model)->input_count, err);
}

static status_t compile(engine_model_t *model, compiled_t **compiled, err_t *err)
{
    return compiled_create(&model->network, info(model), &model->map, &model->engine->how, compiled, err);
}

/* What cannot be tried stays. */
static bool is_worth(engine_model_t *model, const tensor_t *inputs, compiled_t *own)
{
    bool worth = true;
    return model->file_bytes < SMALL_BYTES ||
           trial_is_worth(own, model->open, model->engine->how.threads, info(model), inputs, &worth, NULL) !=
               STATUS_OK ||
           worth;
}

/* NULL: it would be no faster than the open one. */
static status_t compile_own(engine_model_t *model, const tensor_t *inputs, compiled_t **own, err_t *err)
{
    compiled_t *compiled = NULL;
    status_t status = reshape(model, inputs, err);
    if (status == STATUS_OK)
        status = compile(model, &compiled, err);
    if (status == STATUS_OK)
        status = compiled_reserve(compiled, 0, err);
    bool keep = status == STATUS_OK && is_worth(model, inputs, compiled);
    if (keep)
        *own = compiled;
    else
        compiled_destroy(compiled);
    return status;
}

static status_t build(void *ctx, const tensor_t *inputs, plan_entry_t **entry, err_t *err)
{
    engine_model_t *model = ctx;
    plan_t *plan = calloc(1, sizeof *plan);
    if (!plan)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    plan->model = model;
    status_t status = compile_own(model, inputs, &plan->compiled, err);
    if (status != STATUS_OK) {
        free(plan);
        return status;
    }
    if (plan->compiled)
        count_copies(model, 1);
    if (!varies(info(model))) /* lone rows have no other shapes */
        network_dispose(&model->network);
    *entry = &plan->entry;
    return STATUS_OK;
}

/* ---- Runs ---- */

/* One job on one lane: what runs it, and its outputs as they are known so far. */
typedef struct {
    engine_job_t *job;
    compiled_t *compiled;
    uint32_t lane;
    bool checked;                    /* the room for all outputs */
    tensor_t outputs[ENGINE_MAX_IO]; /* data NULL: OpenVINO has it */
} run_t;

/* Before anything is computed, where every shape is known by then. */
static status_t check_room(const engine_model_info_t *info, run_t *r, err_t *err)
{
    const tensor_t *outputs[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < info->output_count; i++)
        if (!(outputs[i] = compiled_output(r->compiled, i)))
            return STATUS_OK;
    r->checked = true;
    return cpu_job_outputs(info, r->job, outputs, err);
}

static bool fits(const engine_model_info_t *info, const run_t *r, uint32_t i)
{
    size_t row_bytes = info->outputs[i].row_bytes;
    return r->checked ||
           (row_bytes && tensor_bytes(compiled_output(r->compiled, i)) == row_bytes * r->job->batch);
}

static status_t bind_output(const engine_model_info_t *info, run_t *r, uint32_t i, err_t *err)
{
    if (!compiled_can_bind(r->compiled, i) || !fits(info, r, i))
        return STATUS_OK;
    r->outputs[i] = *compiled_output(r->compiled, i);
    r->outputs[i].data = r->job->outputs[i];
    return compiled_bind_output(r->compiled, r->lane, i, r->job->outputs[i], err);
}

static status_t bind(const engine_model_info_t *info, run_t *r, const tensor_t *inputs, err_t *err)
{
    status_t status = compiled_reserve(r->compiled, r->lane, err);
    if (status == STATUS_OK)
        status = check_room(info, r, err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->input_count; i++)
        status = compiled_bind_input(r->compiled, r->lane, i, &inputs[i], err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->output_count; i++)
        status = bind_output(info, r, i, err);
    return status;
}

/* Outputs that OpenVINO made go where the job has room for them. */
static status_t take_outputs(const engine_model_info_t *info, run_t *r, err_t *err)
{
    const tensor_t *outputs[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < info->output_count; i++) {
        outputs[i] = &r->outputs[i];
        if (!r->outputs[i].data)
            status = compiled_look(r->compiled, r->lane, i, &r->outputs[i], err);
    }
    return status == STATUS_OK ? cpu_job_put_outputs(info, r->job, outputs, err) : status;
}

static status_t run_on(const engine_model_info_t *info, run_t *r, const tensor_t *inputs, err_t *err)
{
    status_t status = bind(info, r, inputs, err);
    r->job->started_ns = clock_now_ns();
    if (status == STATUS_OK)
        status = compiled_run(r->compiled, r->lane, err);
    return status == STATUS_OK ? take_outputs(info, r, err) : status;
}

static compiled_t *compiled_of(const engine_model_t *model, const plan_entry_t *entry)
{
    const plan_t *plan = (const plan_t *)entry;
    return plan && plan->compiled ? plan->compiled : model->open;
}

static status_t run(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    engine_model_t *model = job->model;
    tensor_t inputs[ENGINE_MAX_IO];
    status_t status = cpu_job_inputs(info(model), job, inputs, err);
    if (status != STATUS_OK)
        return status;
    plan_entry_t *entry = plan_table_find(&model->plans, job->batch, inputs);
    run_t r = {.job = job, .lane = lane->index};
    r.compiled = compiled_of(model, entry);
    status = run_on(info(model), &r, inputs, err);
    if (entry)
        plan_table_release(&model->plans, entry);
    return status;
}

/* ---- Life ---- */

static status_t openvino_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    status_t status = library_open(err);
    if (status != STATUS_OK)
        return status;
    if (config->threads > THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u threads are too many", config->threads);
    if (config->streams > ENGINE_MAX_STREAMS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u streams are too many", config->streams);
    engine_t *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    e->how = (compiled_how_t){.threads = config->threads ? config->threads : 1,
                              .lanes = config->streams ? config->streams : 1};
    e->cpu.run = run;
    e->cpu.info = info;
    status = cpu_init(&e->cpu, config, err);
    if (status == STATUS_OK)
        *out = e;
    else
        free(e);
    return status;
}

static void openvino_close(engine_t *e)
{
    cpu_dispose(&e->cpu);
    free(e);
}

static status_t check_types(Onnx__ValueInfoProto *const *values, size_t count, const char *what, err_t *err)
{
    for (size_t i = 0; i < count; i++) {
        const Onnx__TypeProto *type = values[i]->type;
        if (type && type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            return err_set(err, STATUS_UNSUPPORTED,
                           "%s '%.80s' is no tensor but a sequence, a map or an optional", what,
                           values[i]->name);
    }
    return STATUS_OK;
}

/* graph NULL: libs/graph does not read this. */
static status_t import(const onnx_model_t *file, graph_t **graph, err_t *err)
{
    const Onnx__GraphProto *proto = onnx_model_proto(file)->graph;
    *graph = NULL;
    if (graph_import_shapes(file, DESCRIBE_LARGE_BYTES, graph, NULL) == STATUS_OK)
        return STATUS_OK;
    status_t status = check_types(proto->input, proto->n_input, "input", err);
    return status == STATUS_OK ? check_types(proto->output, proto->n_output, "output", err) : status;
}

/* What libs/onnx refuses is refused here too: a broken file, data that lies outside the model's folder. */
static status_t open_file(const engine_load_t *what, graph_t **graph, err_t *err)
{
    onnx_model_t *file;
    status_t status = describe_read(what, &file, err);
    if (status != STATUS_OK)
        return status;
    status = what->path ? onnx_model_check_external(file, err) : STATUS_OK; /* it opens them by itself */
    if (status == STATUS_OK)
        status = import(file, graph, err);
    onnx_model_destroy(file);
    return status;
}

/* -1 where anything goes: nothing does where one row is the largest batch. */
static status_t open_shapes(engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    status_t status = cpu_input_shapes(info(model), 1, NULL, inputs, err);
    for (uint32_t i = 0; info(model)->batchable && i < info(model)->input_count; i++)
        inputs[i].dims[0] = info(model)->max_batch > 1 ? -1 : 1;
    return status == STATUS_OK ? reshape(model, inputs, err) : status;
}

/* The network is then open where the description is: a batch may be wanted of inputs that are declared with one row. */
static status_t describe_any(engine_model_t *model, const graph_t *graph, const engine_load_t *what,
                             err_t *err)
{
    status_t status = graph ? describe_graph(&model->description, graph, what, err)
                            : signature_read(&model->description, &model->network, what, err);
    if (status == STATUS_OK)
        status = network_match(&model->network, info(model), &model->map, err);
    if (status != STATUS_OK || (graph && !info(model)->batchable))
        return status;
    return open_shapes(model, err);
}

static const engine_tensor_t *one_of(const engine_tensor_t *tensors, uint32_t count, dtype_t dtype)
{
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].dtype == dtype)
            return &tensors[i];
    return NULL;
}

/*
 * What it would compute with half of its bits, without a word. int64 is what indices and sizes are, which fit; what may pass
 * through, as some are given and some come out, need not be either.
 */
static status_t check_width(const engine_model_info_t *info, err_t *err)
{
    static const dtype_t wide[] = {DTYPE_F64, DTYPE_U64};
    const engine_tensor_t *found = NULL;
    for (size_t i = 0; !found && i < sizeof wide / sizeof wide[0]; i++) {
        found = one_of(info->inputs, info->input_count, wide[i]);
        found = found ? found : one_of(info->outputs, info->output_count, wide[i]);
    }
    if (!found && one_of(info->inputs, info->input_count, DTYPE_I64))
        found = one_of(info->outputs, info->output_count, DTYPE_I64);
    return found ? err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s': OpenVINO computes %s in 32 bits",
                           found->name, dtype_name(found->dtype))
                 : STATUS_OK;
}

/* A model of one shape is compiled for it already. */
static uint32_t copies_max(const engine_model_t *model)
{
    if (info(model)->max_batch == 1 && !varies(info(model)))
        return 0;
    uint64_t fit = COPIES_BYTES / (model->file_bytes * COPY_FILES + 1);
    return fit < COPIES_MAX ? (uint32_t)fit : COPIES_MAX;
}

static status_t load_into(engine_model_t *model, const engine_load_t *what, err_t *err)
{
    graph_t *graph = NULL;
    if (what->precision != ENGINE_FP32)
        return err_set(err, STATUS_UNSUPPORTED, "model '%.80s': this engine computes in fp32 only",
                       what->name);
    status_t status = open_file(what, &graph, err);
    if (status == STATUS_OK)
        status = network_read(&model->network, what, err);
    if (status == STATUS_OK)
        status = describe_any(model, graph, what, err);
    if (status == STATUS_OK)
        status = check_width(info(model), err);
    if (status == STATUS_OK)
        status = compile(model, &model->open, err);
    if (status == STATUS_OK)
        status = plan_table_init(&model->plans, info(model), varies(info(model)), destroy_plan, err);
    if (graph)
        graph_destroy(graph);
    return status;
}

static void unload(engine_model_t *model)
{
    plan_table_dispose(&model->plans);
    compiled_destroy(model->open);
    network_dispose(&model->network);
    description_dispose(&model->description);
    free(model);
}

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **out, err_t *err)
{
    if (!what->path && !what->bytes)
        return err_set(err, STATUS_UNSUPPORTED, "model '%.80s' has no file", what->name);
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->engine = engine;
    status_t status = load_into(model, what, err);
    if (status != STATUS_OK) {
        unload(model);
        return status;
    }
    model->file_bytes = describe_file_bytes(what);
    count_copies(model, 0);
    model->copies_max = copies_max(model);
    if (!model->copies_max)
        network_dispose(&model->network);
    *out = model;
    return STATUS_OK;
}

/* Compiles a row of these shapes while there is room for one more copy; two threads at once may make one too many. */
static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    plan_entry_t *entry;
    if (batch < 1 || batch > info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       info(model)->max_batch);
    status_t status = cpu_input_shapes(info(model), batch, input_shapes, inputs, err);
    bool shaped = input_shapes || !varies(info(model));
    if (status != STATUS_OK || !shaped || batch > 1 || atomic_load(&model->copies) >= model->copies_max)
        return status;
    status = plan_table_get(&model->plans, batch, inputs, build, model, &entry, err);
    if (status == STATUS_OK)
        plan_table_release(&model->plans, entry);
    return status;
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    return prepare_shapes(model, batch, NULL, err);
}

static const engine_ops_t engine_openvino = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "openvino",
    .device_count = cpu_device_count,
    .open = openvino_open,
    .close = openvino_close,
    .load = load,
    .unload = unload,
    .info = info,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
    .submit = cpu_engine_submit,
    .cancel = cpu_engine_cancel,
    .flush = cpu_engine_flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};

const engine_ops_t *fermata_engine(uint32_t abi);

const engine_ops_t *fermata_engine(uint32_t abi)
{
    return abi == ENGINE_ABI ? &engine_openvino : NULL;
}
