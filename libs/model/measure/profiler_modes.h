/*
 * Measures of a loaded model what its execution modes need to know beside ℓ(b): the times of its operators, what a place
 * to stop at costs, how large its outputs are. Blocks, like the rest of the profiler.
 */
#ifndef MODEL_PROFILER_MODES_H
#define MODEL_PROFILER_MODES_H

#include "model/measure/profiler.h"

/* The time of each operator of a batch: the shortest of a few runs. op_ns has room for `ops`. Where so many rows would
 * keep others waiting too long fewer are run, and each is taken to need as long as those. */
status_t profiler_operators(const profiler_t *profiler, uint32_t batch, uint32_t ops, int64_t *op_ns,
                            err_t *err);

/* Bytes of one row of each output, of a model whose dimensions vary. Runs one row. */
status_t profiler_output_bytes(const profiler_t *profiler, size_t row_bytes[ENGINE_MAX_IO], err_t *err);

/* The shortest of `runs` batches that can be stopped at these cuts, and of as many that cannot, by turns:
 * what an exit point costs is less than what a machine's other work adds to a run. */
status_t profiler_exits(const profiler_t *profiler, uint32_t batch, const uint32_t *exits,
                        uint32_t exit_count, uint32_t runs, int64_t *with_ns, int64_t *without_ns,
                        err_t *err);

#endif
