/*
 * What the engines on the CPU share: a thread for each stream, which takes jobs from its queue and runs them.
 */
#ifndef ENGINE_QUEUE_CPU_H
#define ENGINE_QUEUE_CPU_H

#include "engine/compile/describe.h"
#include "engine/queue/fifo.h"

/* First member of such an engine. */
typedef struct cpu cpu_t;

/* One stream: a queue and the thread that runs it. */
typedef struct {
    cpu_t *cpu;
    uint32_t index;
    const int *cpus; /* to which its thread is pinned, of the cpu's */
    uint32_t cpu_count;
    fifo_t fifo;
    pthread_t thread;
} cpu_lane_t;

struct cpu {
    cpu_lane_t *lanes;
    uint32_t lane_count;
    /* Runs one job to the end, on the thread of the lane. */
    status_t (*run)(cpu_lane_t *lane, engine_job_t *job, err_t *err);
    const engine_model_info_t *(*info)(const engine_model_t *model);
    const engine_cuts_t *(*cuts)(const engine_model_t *model); /* NULL: models run whole */
    void (*start)(cpu_t *cpu);                                 /* first thing on a thread; may be NULL */
    int *cpus;
    uint32_t cpu_count;
};

/* run, info, cuts and start are set before. Pins the threads when the configuration says so. */
status_t cpu_init(cpu_t *cpu, const engine_config_t *config, err_t *err);
void cpu_dispose(cpu_t *cpu); /* answers what is queued, then ends the threads */

bool cpu_cancel(cpu_t *cpu, engine_job_t *job);
bool cpu_stop(cpu_t *cpu, engine_job_t *job); /* sets fifo.interrupted of its lane while it runs */

/* Of engine.h, for engines that need no more than these. */
void cpu_engine_submit(engine_t *engine, engine_job_t *job);
bool cpu_engine_cancel(engine_t *engine, engine_job_t *job);
void cpu_engine_flush(engine_t *engine);

uint32_t cpu_device_count(void);

void *cpu_buffer_alloc(engine_t *engine, size_t len_bytes);
void cpu_buffer_free(engine_t *engine, void *buffer);

/* Full shapes of the inputs of a job, checked against the description; data points to the job's buffers. */
status_t cpu_job_inputs(const engine_model_info_t *info, const engine_job_t *job, tensor_t *inputs,
                        err_t *err);

/* The same for shapes without a job, and without data. */
status_t cpu_input_shapes(const engine_model_info_t *info, uint32_t batch, const engine_shape_t *shapes,
                          tensor_t *inputs, err_t *err);

/* Room for the outputs of these shapes: checks all capacities, and reports all shapes also when one has no room. */
status_t cpu_job_outputs(const engine_model_info_t *info, engine_job_t *job, const tensor_t *const *outputs,
                         err_t *err);

/* The same, and copies what does not lie in the job's outputs already. */
status_t cpu_job_put_outputs(const engine_model_info_t *info, engine_job_t *job,
                             const tensor_t *const *outputs, err_t *err);

/* Runs a job with the reference kernels: shapes that depend on contents. */
status_t cpu_job_interpret(const engine_model_info_t *info, engine_job_t *job, const graph_t *graph,
                           const tensor_t *inputs, err_t *err);

#endif
