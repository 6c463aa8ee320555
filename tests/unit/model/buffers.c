/* What is told of the buffers of batches: each when it is made and when it goes, whoever frees it in the end. */
#include "model/model.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { TOLD_MAX = 16 };

static void *told[TOLD_MAX];
static size_t told_bytes;
static uint32_t told_count, told_on_device, allocated, fail_at, device_allocated, device_fail_at;

static void on_made(void *ctx, bool on_device, void *base, size_t len_bytes)
{
    told_on_device += on_device;
    cr_assert_eq(ctx, &told);
    cr_assert_lt(told_count, TOLD_MAX);
    told[told_count++] = base;
    told_bytes += len_bytes;
}

static void on_gone(void *ctx, void *base)
{
    cr_assert_eq(ctx, &told);
    for (uint32_t i = 0; i < told_count; i++) {
        if (told[i] != base)
            continue;
        told[i] = told[--told_count];
        return;
    }
    cr_assert_fail("told that a buffer goes which is not there");
}

static void *alloc(engine_t *engine, size_t len_bytes)
{
    (void)engine;
    return ++allocated == fail_at ? NULL : malloc(len_bytes);
}

/* Whoever frees one has told before: a reader of its memory is not surprised. */
static void release(engine_t *engine, void *buffer)
{
    (void)engine;
    for (uint32_t i = 0; i < told_count; i++)
        cr_assert_neq(told[i], buffer, "freed, and not told of");
    free(buffer);
}

static void *device_alloc(engine_model_t *on, size_t len_bytes)
{
    cr_assert_eq((void *)on, &told);
    return ++device_allocated == device_fail_at ? NULL : malloc(len_bytes);
}

static const engine_ops_t ops = {
    .buffer_alloc = alloc, .buffer_free = release, .input_alloc = device_alloc, .input_free = release};
static const model_buffers_watch_t watch = {on_made, on_gone, &told};
static model_device_t device;
static const model_devices_t devices = {
    .ops = &ops, .kind = "cpu", .list = &device, .count = 1, .watch = &watch};
static const model_devices_t on_device = {
    .ops = &ops, .kind = "cuda", .list = &device, .count = 1, .inputs_on_device = true, .watch = &watch};
static engine_model_t *loaded = (engine_model_t *)(void *)&told;
static const engine_tensor_t inputs[2] = {{.row_bytes = 100}, {.row_bytes = 7}}, output = {.row_bytes = 50};
static const engine_model_info_t info = {
    .inputs = inputs, .outputs = &output, .input_count = 2, .output_count = 1, .max_batch = 4};
static model_t model;

static void init(void)
{
    model.info = &info;
    model.buffer_groups = 1;
    model.free_buffers = calloc(1, sizeof(*model.free_buffers));
    model.on_device = &loaded;
    model.on_device_count = 1;
}

TestSuite(buffers, .init = init);

Test(buffers, are_told_of_when_made_and_withdrawn_before_the_model_is_unloaded)
{
    model_buffers_t *first = model_buffers_get(&model, &devices, 0);
    model_buffers_t *second = model_buffers_get(&model, &devices, 0);

    cr_assert_eq(told_count, 6);
    cr_assert_eq(told_bytes, 2 * 4 * (100 + 7 + 50));
    model_buffers_put(&model, first);
    cr_assert_eq(model_buffers_get(&model, &devices, 0), first);
    cr_assert_eq(told_count, 6, "one that is used again is known");
    model_buffers_put(&model, first);
    model_buffers_put(&model, second);
    model_buffers_withdraw(&model, &devices);
    cr_assert_eq(told_count, 0);
    model_buffers_free(&model, &devices);
}

Test(buffers, one_that_grows_is_another)
{
    model_buffers_t *buffers = model_buffers_get(&model, &devices, 0);
    void *before = buffers->inputs[1];

    told_bytes = 0;
    cr_assert(model_buffers_reserve(&devices, buffers, 1, 28) && told_bytes == 0, "there is room");
    cr_assert(model_buffers_reserve(&devices, buffers, 1, 100000));
    cr_assert_eq(told_bytes, 100000);
    cr_assert_eq(told_count, 3);
    for (uint32_t i = 0; i < told_count; i++)
        cr_assert(told[i] != before || before == buffers->inputs[1]);
    fail_at = allocated + 1;
    cr_assert_not(model_buffers_reserve(&devices, buffers, 1, 200000));
    cr_assert_eq(told_count, 3, "what is there stays");
    model_buffers_put(&model, buffers);
    model_buffers_withdraw(&model, &devices);
    model_buffers_free(&model, &devices);
}

Test(buffers, that_are_not_all_to_be_had_are_told_of_no_more)
{
    fail_at = 3;
    cr_assert_null(model_buffers_get(&model, &devices, 0));
    cr_assert_eq(told_count, 0);
    model_buffers_free(&model, &devices);
}

Test(buffers, have_a_place_on_the_device_for_each_input_too)
{
    model_buffers_t *buffers = model_buffers_get(&model, &on_device, 0);

    cr_assert(buffers->device_inputs && buffers->device_inputs[0] && buffers->device_inputs[1]);
    cr_assert(told_on_device == 2 && told_count == 5);
    cr_assert_eq(told_bytes, 4 * (2 * (100 + 7) + 50));
    model_buffers_put(&model, buffers);
    model_buffers_withdraw(&model, &on_device);
    cr_assert_eq(told_count, 0);
    model_buffers_free(&model, &on_device);
}

Test(buffers, land_in_the_hosts_memory_when_the_devices_is_full)
{
    device_fail_at = 2;
    model_buffers_t *buffers = model_buffers_get(&model, &on_device, 0);

    cr_assert(buffers && !buffers->device_inputs && buffers->inputs[1]);
    cr_assert(told_on_device == 0 && told_count == 3);
    model_buffers_put(&model, buffers);
    model_buffers_withdraw(&model, &on_device);
    model_buffers_free(&model, &on_device);
}
