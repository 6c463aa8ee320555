#include "model/measure/agreement.h"

#include "base/prng.h"
#include "graph/ir/tensor.h"
#include "model/measure/choose_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2, SEED = 20 };

/* ---- Inputs ---- */

/* Floats within -1..1; of integers, which are little-endian and were zero, 0 and 1, which most indices are within. */
static void put_random(dtype_t dtype, void *to, size_t index, prng_t *random)
{
    double x = 2 * prng_uniform(random) - 1;
    size_t size = dtype_size(dtype);
    char *at = (char *)to + index * size;

    if (dtype == DTYPE_F32)
        memcpy(at, &(float){(float)x}, size);
    else if (dtype == DTYPE_F64)
        memcpy(at, &x, size);
    else if (dtype == DTYPE_F16)
        memcpy(at, &(uint16_t){float_to_half((float)x)}, size);
    else if (dtype == DTYPE_BF16)
        memcpy(at, &(uint16_t){float_to_bf16((float)x)}, size);
    else
        *at = x > 0;
}

/* Words of different lengths, with zeros behind the last. */
static void put_words(char *to, size_t len_bytes, prng_t *random)
{
    size_t words_bytes = 1 + (size_t)prng_below(random, (uint32_t)len_bytes);
    for (size_t i = 0; i < words_bytes; i++)
        to[i] = i % 7 == 5 ? ' ' : (char)('a' + prng_below(random, 26));
}

static void fill_text(const engine_tensor_t *tensor, void *to, size_t len_bytes, prng_t *random)
{
    size_t room_bytes = (size_t)tensor->dims[tensor->rank - 1];
    if (tensor->sample) /* it is there already */
        return;
    for (size_t at = 0; at < len_bytes; at += room_bytes)
        put_words((char *)to + at, room_bytes, random);
}

static void fill_inputs(const profiler_t *profiler, const engine_model_info_t *info, bench_t *bench,
                        uint32_t rows)
{
    prng_t random;

    prng_init(&random, SEED);
    for (uint32_t i = 0; i < info->input_count; i++) {
        uint64_t row = profiler->axes ? axes_row_bytes(profiler->axes, i, profiler->axis_sizes)
                                      : info->inputs[i].row_bytes;
        size_t count = (size_t)row * rows / dtype_size(info->inputs[i].dtype);
        if (info->inputs[i].text)
            fill_text(&info->inputs[i], bench->buffers[i], count, &random);
        for (size_t k = 0; k < count && !info->inputs[i].text; k++)
            put_random(info->inputs[i].dtype, bench->buffers[i], k, &random);
    }
}

/* ---- Outputs ---- */

static size_t output_bytes(const profiler_t *profiler, const engine_model_info_t *info, const bench_t *bench,
                           uint32_t o)
{
    if (!profiler->axes)
        return info->outputs[o].row_bytes * bench->job.batch;
    tensor_t t = {.dtype = info->outputs[o].dtype, .rank = bench->out_shapes[o].rank};
    memcpy(t.dims, bench->out_shapes[o].dims, sizeof(t.dims));
    return tensor_bytes(&t);
}

static status_t keep_outputs(agreement_t *a, const profiler_t *profiler, const engine_model_info_t *info,
                             const bench_t *bench, err_t *err)
{
    for (uint32_t o = 0; o < info->output_count; o++) {
        a->output_bytes[o] = output_bytes(profiler, info, bench, o);
        a->outputs[o] = malloc(a->output_bytes[o] + 1);
        if (!a->outputs[o])
            return err_set(err, STATUS_NO_MEMORY, "no memory to compare engines");
        memcpy(a->outputs[o], bench->job.outputs[o], a->output_bytes[o]);
    }
    a->made = true;
    return STATUS_OK;
}

static bool is_float(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

static double largest(const tensor_t *t, size_t count)
{
    double most = 0;

    for (size_t i = 0; i < count; i++) {
        double x = fabs(tensor_get_f64(t, i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

static bool is_near(double got, double want, double scale)
{
    if (isnan(want) || isinf(want))
        return (isnan(got) && isnan(want)) || got == want;
    return fabs(got - want) <= ENGINE_AGREEMENT * (fabs(want) + scale);
}

static status_t compare(const agreement_t *a, uint32_t o, const engine_tensor_t *output, void *made,
                        err_t *err)
{
    tensor_t want = {.dtype = output->dtype, .data = a->outputs[o]};
    tensor_t got = {.dtype = output->dtype, .data = made};
    size_t count = a->output_bytes[o] / dtype_size(output->dtype);

    if (!is_float(output->dtype))
        return memcmp(made, a->outputs[o], a->output_bytes[o]) == 0
                   ? STATUS_OK
                   : err_set(err, STATUS_UNSUPPORTED, "output '%.80s' differs", output->name);
    double scale = largest(&want, count);
    for (size_t i = 0; i < count; i++) {
        double x = tensor_get_f64(&got, i), y = tensor_get_f64(&want, i);
        if (!is_near(x, y, scale))
            return err_set(err, STATUS_UNSUPPORTED, "output '%.80s': element %zu is %g where %g is wanted",
                           output->name, i, x, y);
    }
    return STATUS_OK;
}

static status_t compare_all(const agreement_t *a, const profiler_t *profiler, const engine_model_info_t *info,
                            const bench_t *bench, err_t *err)
{
    status_t status = STATUS_OK;

    for (uint32_t o = 0; status == STATUS_OK && o < info->output_count; o++) {
        if (output_bytes(profiler, info, bench, o) != a->output_bytes[o])
            return err_set(err, STATUS_UNSUPPORTED, "output '%.80s' has another size", info->outputs[o].name);
        status = compare(a, o, &info->outputs[o], bench->job.outputs[o], err);
    }
    return status;
}

/* ---- A check ---- */

static status_t run(const agreement_t *a, const profiler_t *profiler, const engine_model_info_t *info,
                    bench_t *bench, bool random, err_t *err)
{
    int64_t took_ns;
    status_t status = bench_init(profiler, info, bench, err);

    bench->job.batch = a->rows;
    if (status == STATUS_OK && random)
        fill_inputs(profiler, info, bench, a->rows);
    return status == STATUS_OK ? bench_run(profiler, &bench->job, &took_ns, err) : status;
}

status_t agreement_check(agreement_t *a, const profiler_t *profiler, err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bench_t bench;

    if (!a->made)
        a->rows = info->max_batch < ROWS ? info->max_batch : ROWS;
    status_t status = run(a, profiler, info, &bench, !a->zeros, err);
    if (status != STATUS_OK && !a->made) {
        a->zeros = true;
        bench_dispose(profiler, &bench);
        status = run(a, profiler, info, &bench, false, err);
    }
    if (status == STATUS_OK)
        status = a->made ? compare_all(a, profiler, info, &bench, err)
                         : keep_outputs(a, profiler, info, &bench, err);
    bench_dispose(profiler, &bench);
    return status;
}

void agreement_dispose(agreement_t *a)
{
    for (uint32_t o = 0; o < ENGINE_MAX_IO; o++)
        free(a->outputs[o]);
    *a = (agreement_t){0};
}
