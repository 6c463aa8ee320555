#include "engine/queue/cpu.h"

#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pin(const cpu_lane_t *lane)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < lane->cpu_count; i++)
        CPU_SET((size_t)lane->cpus[i], &set);
    if (lane->cpu_count)
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *lane_main(void *arg)
{
    cpu_lane_t *lane = arg;
    cpu_t *cpu = lane->cpu;
    engine_job_t *job;
    pin(lane);
    if (cpu->start)
        cpu->start(cpu);
    while ((job = fifo_wait(&lane->fifo))) {
        err_t err;
        job->started_ns = clock_now_ns();
        status_t status = cpu->run(lane, job, &err);
        job->finished_ns = clock_now_ns();
        fifo_answer(job, status, &err);
    }
    return NULL;
}

static status_t copy_cpus(cpu_t *cpu, const engine_config_t *config, err_t *err)
{
    cpu->cpus = NULL;
    cpu->cpu_count = config->cpu_count;
    if (!config->cpu_count)
        return STATUS_OK;
    for (uint32_t i = 0; i < config->cpu_count; i++)
        if (config->cpus[i] < 0 || config->cpus[i] >= CPU_SETSIZE)
            return err_set(err, STATUS_INVALID_ARGUMENT, "there is no CPU %d", config->cpus[i]);
    size_t len = config->cpu_count * sizeof *cpu->cpus;
    cpu->cpus = malloc(len);
    if (!cpu->cpus)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    memcpy(cpu->cpus, config->cpus, len);
    return STATUS_OK;
}

/* Of `lanes`: each on CPUs of its own where all can have as many. */
static status_t start_lane(cpu_t *cpu, uint32_t lanes, err_t *err)
{
    cpu_lane_t *lane = &cpu->lanes[cpu->lane_count];
    uint32_t each = cpu->cpu_count % lanes ? 0 : cpu->cpu_count / lanes;
    *lane = (cpu_lane_t){.cpu = cpu,
                         .index = cpu->lane_count,
                         .cpus = each ? cpu->cpus + cpu->lane_count * each : cpu->cpus,
                         .cpu_count = each ? each : cpu->cpu_count};
    fifo_init(&lane->fifo);
    if (pthread_create(&lane->thread, NULL, lane_main, lane)) {
        fifo_dispose(&lane->fifo);
        return err_set(err, STATUS_IO, "cannot start thread %u of an engine", lane->index + 1);
    }
    cpu->lane_count++;
    return STATUS_OK;
}

status_t cpu_init(cpu_t *cpu, const engine_config_t *config, err_t *err)
{
    uint32_t streams = config->streams ? config->streams : 1;
    status_t status = copy_cpus(cpu, config, err);
    if (status != STATUS_OK)
        return status;
    cpu->lane_count = 0;
    cpu->lanes = calloc(streams, sizeof *cpu->lanes);
    if (!cpu->lanes)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    for (uint32_t i = 0; status == STATUS_OK && i < streams; i++)
        status = start_lane(cpu, streams, err);
    if (status != STATUS_OK)
        cpu_dispose(cpu);
    return status;
}

void cpu_dispose(cpu_t *cpu)
{
    for (uint32_t i = 0; i < cpu->lane_count; i++)
        fifo_stop(&cpu->lanes[i].fifo);
    for (uint32_t i = 0; i < cpu->lane_count; i++) {
        pthread_join(cpu->lanes[i].thread, NULL);
        fifo_dispose(&cpu->lanes[i].fifo);
    }
    free(cpu->lanes);
    free(cpu->cpus);
}

void cpu_engine_submit(engine_t *engine, engine_job_t *job)
{
    cpu_t *cpu = (cpu_t *)engine;
    err_t err;
    const engine_cuts_t *cuts = cpu->cuts ? cpu->cuts(job->model) : NULL;
    status_t status = fifo_check_job(cpu->info(job->model), cuts, cpu->lane_count, job, &err);
    if (status != STATUS_OK)
        fifo_answer(job, status, &err);
    else
        fifo_push(&cpu->lanes[job->range.stream].fifo, job);
}

bool cpu_cancel(cpu_t *cpu, engine_job_t *job)
{
    return fifo_cancel(&cpu->lanes[job->range.stream].fifo, job);
}

bool cpu_stop(cpu_t *cpu, engine_job_t *job)
{
    fifo_t *fifo = &cpu->lanes[job->range.stream].fifo;
    return fifo_cancel(fifo, job) || (job->exit_count && fifo_interrupt(fifo, job));
}

void cpu_engine_flush(engine_t *engine)
{
    cpu_t *cpu = (cpu_t *)engine;
    for (uint32_t i = 0; i < cpu->lane_count; i++)
        fifo_flush(&cpu->lanes[i].fifo);
}

bool cpu_engine_cancel(engine_t *engine, engine_job_t *job)
{
    return cpu_cancel((cpu_t *)engine, job);
}

uint32_t cpu_device_count(void)
{
    return UINT32_MAX;
}

void *cpu_buffer_alloc(engine_t *engine, size_t len_bytes)
{
    (void)engine;
    size_t align = ENGINE_ALIGN_BYTES;
    return len_bytes > SIZE_MAX / 2 ? NULL : aligned_alloc(align, (len_bytes + align) / align * align);
}

void cpu_buffer_free(engine_t *engine, void *buffer)
{
    (void)engine;
    free(buffer);
}

static status_t match_shape(const engine_tensor_t *t, const engine_shape_t *shape, bool batchable,
                            uint32_t batch, err_t *err)
{
    if (shape->rank != t->rank + batchable || (batchable && shape->dims[0] != batch))
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%.80s' has a shape of the wrong rank or batch",
                       t->name);
    for (uint32_t k = 0; k < t->rank; k++) {
        int64_t dim = shape->dims[k + batchable];
        if (dim < 0 || (t->dims[k] >= 0 && dim != t->dims[k]))
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "input '%.80s': dimension %u is %lld where %lld is wanted", t->name, k,
                           (long long)dim, (long long)t->dims[k]);
    }
    return STATUS_OK;
}

status_t cpu_input_shapes(const engine_model_info_t *info, uint32_t batch, const engine_shape_t *shapes,
                          tensor_t *inputs, err_t *err)
{
    for (uint32_t i = 0; i < info->input_count; i++) {
        const engine_tensor_t *t = &info->inputs[i];
        tensor_t *in = &inputs[i];
        *in = (tensor_t){.dtype = t->dtype, .rank = t->rank + info->batchable};
        if (info->batchable)
            in->dims[0] = batch;
        memcpy(in->dims + info->batchable, t->dims, t->rank * sizeof t->dims[0]);
        if (!shapes)
            continue;
        status_t status = match_shape(t, &shapes[i], info->batchable, batch, err);
        if (status != STATUS_OK)
            return status;
        memcpy(in->dims, shapes[i].dims, in->rank * sizeof in->dims[0]);
    }
    return STATUS_OK;
}

status_t cpu_job_inputs(const engine_model_info_t *info, const engine_job_t *job, tensor_t *inputs,
                        err_t *err)
{
    status_t status = cpu_input_shapes(info, job->batch, job->input_shapes, inputs, err);
    for (uint32_t i = 0; i < info->input_count; i++)
        inputs[i].data = job->range.from ? NULL : (void *)job->inputs[i];
    return status;
}

/* Mostly an output whose size depends on the data, which the data plane cannot carry. */
static status_t wrong_size(const char *name, const tensor_t *shape, size_t bytes, size_t room, err_t *err)
{
    char dims[128] = "";
    size_t len = 0;
    for (uint32_t i = 0; i < shape->rank && len < sizeof dims; i++)
        len += (size_t)snprintf(dims + len, sizeof dims - len, "%s%lld", i ? "," : "",
                                (long long)shape->dims[i]);
    return err_set(err, STATUS_TOO_LARGE, "output '%.80s' came out as [%s], %zu bytes where %zu are expected",
                   name, dims, bytes, room);
}

/* What a varying output has room for from the job's first row on: those in front of it are as large. */
static size_t room_behind(const engine_job_t *job, uint32_t i, size_t bytes)
{
    size_t before = bytes / job->batch * job->row, all = job->output_capacity_bytes[i];
    return all > before ? all - before : 0;
}

static status_t job_output(const engine_model_info_t *info, engine_job_t *job, uint32_t i,
                           const tensor_t *shape, err_t *err)
{
    size_t bytes = tensor_bytes(shape), row_bytes = info->outputs[i].row_bytes;
    size_t room =
        row_bytes || !job->output_capacity_bytes ? row_bytes * job->batch : room_behind(job, i, bytes);
    if (job->output_shapes) {
        job->output_shapes[i].rank = shape->rank;
        memcpy(job->output_shapes[i].dims, shape->dims, sizeof job->output_shapes[i].dims);
    }
    if (bytes > room || (row_bytes && bytes != room))
        return wrong_size(info->outputs[i].name, shape, bytes, room, err);
    return STATUS_OK;
}

status_t cpu_job_outputs(const engine_model_info_t *info, engine_job_t *job, const tensor_t *const *outputs,
                         err_t *err)
{
    status_t first = STATUS_OK;
    for (uint32_t i = 0; i < info->output_count; i++) {
        status_t status = job_output(info, job, i, outputs[i], first == STATUS_OK ? err : NULL);
        first = first == STATUS_OK ? status : first;
    }
    return first;
}

status_t cpu_job_put_outputs(const engine_model_info_t *info, engine_job_t *job,
                             const tensor_t *const *outputs, err_t *err)
{
    status_t status = cpu_job_outputs(info, job, outputs, err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->output_count; i++) {
        size_t bytes = tensor_bytes(outputs[i]);
        if (bytes && outputs[i]->data != job->outputs[i])
            memcpy(job->outputs[i], outputs[i]->data, bytes);
    }
    return status;
}

status_t cpu_job_interpret(const engine_model_info_t *info, engine_job_t *job, const graph_t *graph,
                           const tensor_t *inputs, err_t *err)
{
    const tensor_t *outputs[ENGINE_MAX_IO];
    graph_t *instance;
    status_t status = graph_interpret(graph, inputs, &instance, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < instance->output_count; i++)
        outputs[i] = &instance->values[instance->outputs[i].value].t;
    status = cpu_job_put_outputs(info, job, outputs, err);
    graph_destroy(instance);
    return status;
}
