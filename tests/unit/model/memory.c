#include "model/parts/memory.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static model_device_t list[2];
static model_devices_t devices;
static const engine_tensor_t tensors[] = {{.row_bytes = 3 << 20}, {.row_bytes = 1 << 20}};
static engine_model_info_t info;
static model_t *model;

static void set_up(void)
{
    devices = (model_devices_t){.list = list, .count = 2, .memory_bytes = 100 << 20};
    for (int i = 0; i < 2; i++)
        snprintf(list[i].name, sizeof(list[i].name), "cpu%d", i);
    cr_assert_eq(model_create("m", 1, "", &model, NULL), STATUS_OK);
    info = (engine_model_info_t){
        .max_batch = 4, .inputs = &tensors[0], .outputs = &tensors[1], .input_count = 1, .output_count = 1};
    model->info = &info;
    model->batch_bytes = calloc(5, sizeof(*model->batch_bytes));
}

static void tear_down(void)
{
    memory_give(model, &devices);
    free(model->batch_bytes);
    free(model);
}

TestSuite(memory, .init = set_up, .fini = tear_down);

static void prepare(uint64_t base_mib)
{
    for (uint32_t b = 1; b <= 4; b++) {
        info.memory_bytes = (base_mib + b) << 20;
        memory_note_batch(model, b);
    }
}

Test(memory, is_that_of_the_largest_batch_on_every_device)
{
    prepare(40);
    cr_assert_eq(model->batch_bytes[1], 45 << 20);
    cr_assert_eq(model->batch_bytes[4], 60 << 20);
    cr_assert_eq(memory_take(model, &devices, NULL), STATUS_OK);
    cr_assert_eq(atomic_load(&list[0].used_bytes), 60 << 20);
    cr_assert_eq(atomic_load(&list[1].used_bytes), 60 << 20);
    memory_give(model, &devices);
    memory_give(model, &devices);
    cr_assert_eq(atomic_load(&list[1].used_bytes), 0, "once, however often it is given back");
}

Test(memory, what_does_not_fit_is_refused_with_the_sizes_and_takes_nothing)
{
    err_t err;

    prepare(50);
    atomic_store(&list[1].used_bytes, (uint64_t)31 << 20);
    cr_assert_eq(memory_take(model, &devices, &err), STATUS_NO_MEMORY);
    cr_assert_str_eq(err.text, "it needs 70 MiB on cpu1, where 31 of 100 MiB are in use");
    cr_assert_eq(atomic_load(&list[0].used_bytes), 0);
    atomic_store(&list[1].used_bytes, (uint64_t)30 << 20);
    cr_assert_eq(memory_take(model, &devices, &err), STATUS_OK, "it fits exactly");
    memory_give(model, &devices);
    atomic_store(&list[1].used_bytes, UINT64_MAX);
    cr_assert_eq(memory_take(model, &devices, &err), STATUS_NO_MEMORY, "no sum overflows");
    devices.memory_bytes = 0;
    cr_assert_eq(memory_take(model, &devices, &err), STATUS_OK, "no limit is known");
}

Test(memory, what_a_mode_keeps_comes_on_top_and_can_be_given_back)
{
    err_t err;

    prepare(40);
    cr_assert_eq(memory_take(model, &devices, NULL), STATUS_OK);
    cr_assert_eq(memory_take_more(model, &devices, 30 << 20, "its borders need", NULL), STATUS_OK);
    cr_assert_eq(memory_take_more(model, &devices, 11 << 20, "its borders need", &err), STATUS_NO_MEMORY);
    cr_assert_str_eq(err.text, "its borders need 11 MiB on cpu0, where 90 of 100 MiB are in use");
    cr_assert_eq(model->taken_bytes, 90 << 20);
    cr_assert_eq(model->batch_bytes[1], 75 << 20);
    cr_assert_eq(atomic_load(&list[1].used_bytes), 90 << 20);
    memory_shrink(model, &devices, 60 << 20);
    cr_assert_eq(atomic_load(&list[0].used_bytes), 60 << 20);
    cr_assert_eq(model->batch_bytes[4], 60 << 20);
    memory_give(model, &devices);
    cr_assert_eq(atomic_load(&list[1].used_bytes), 0);
}

Test(memory, it_is_ample_where_as_much_again_is_left)
{
    err_t err;

    prepare(40);
    cr_assert_eq(memory_take(model, &devices, &err), STATUS_OK); /* 60 of 100 MiB */
    cr_expect_not(memory_is_ample(model, &devices));
    devices.memory_bytes = 120 << 20;
    cr_expect(memory_is_ample(model, &devices));
    atomic_fetch_add(&list[1].used_bytes, 1);
    cr_expect_not(memory_is_ample(model, &devices), "not on each");
    devices.memory_bytes = 0;
    cr_expect(memory_is_ample(model, &devices));
}

Test(memory, files_alone_may_be_too_large)
{
    err_t err;

    snprintf(model->file, sizeof(model->file), "examples/models/digits/1/model.onnx");
    devices.memory_bytes = 1000;
    cr_assert_eq(memory_take_files(model, &devices, &err), STATUS_NO_MEMORY);
    cr_assert_not_null(strstr(err.text, "its files alone need"), "%s", err.text);
    cr_assert_eq(atomic_load(&list[0].used_bytes), 0);
    devices.emulated = true;
    cr_assert_eq(memory_take_files(model, &devices, &err), STATUS_OK,
                 "an emulated device holds nothing of them");
    cr_assert_eq(atomic_load(&list[0].used_bytes), 0);
}

Test(memory, two_that_are_read_at_once_do_not_find_the_same_room)
{
    model_t *second;
    err_t err;

    cr_assert_eq(model_create("n", 1, "", &second, NULL), STATUS_OK);
    snprintf(model->file, sizeof(model->file), "examples/models/digits/1/model.onnx");
    snprintf(second->file, sizeof(second->file), "examples/models/digits/1/model.onnx");
    cr_assert_eq(memory_take_files(model, &devices, &err), STATUS_OK);
    uint64_t files = model->taken_bytes;
    cr_assert_gt(files, 0);
    cr_assert_eq(atomic_load(&list[1].used_bytes), files);
    devices.memory_bytes = 2 * files - 1;
    cr_assert_eq(memory_take_files(second, &devices, &err), STATUS_NO_MEMORY);
    devices.memory_bytes = 100 << 20;
    prepare(40);
    cr_assert_eq(memory_take(model, &devices, &err), STATUS_OK);
    cr_assert_eq(atomic_load(&list[0].used_bytes), 60 << 20, "the files are part of it");
    free(second);
}
