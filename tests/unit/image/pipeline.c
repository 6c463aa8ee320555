#include "image/pipeline_wire.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

static image_pipeline_t pipeline;
static image_workspace_t *workspace;
static err_t err;

static void setup(void)
{
    image_pipeline_init(&pipeline);
    workspace = image_workspace_create();
}

static void teardown(void)
{
    image_workspace_destroy(workspace);
}

TestSuite(pipeline, .init = setup, .fini = teardown);

static void set(const char *key, const char *value)
{
    cr_assert_eq(image_pipeline_set(&pipeline, key, value, &err), STATUS_OK, "%s", err.text);
}

static status_t run(const void *picture, size_t len_bytes, void *out, size_t out_bytes)
{
    const image_task_t task = {
        .picture = picture, .picture_bytes = len_bytes, .dst = out, .dst_bytes = out_bytes};
    return image_pipeline_run(&pipeline, &image_limits_default, workspace, &task, &err);
}

static void set_all(void)
{
    set("preprocess.input", "data = x");
    set("preprocess.decode", "bgr");
    set("preprocess.resize.width", "12");
    set("preprocess.resize.height", "10");
    set("preprocess.resize.filter", "Bicubic");
    set("preprocess.resize.mode", "shorter_side");
    set("preprocess.crop.width", "8");
    set("preprocess.crop.height", "6");
    set("preprocess.scale", "0.0039215686");
    set("preprocess.mean", "[0.485, 0.456, 0.406]");
    set("preprocess.std", "0.229 0.224,0.225");
    set("preprocess.layout", "NHWC");
    set("preprocess.invert", "true");
    set("preprocess.max_pixels", "5000000");
    set("postprocess.softmax", "scores");
}

static size_t used_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

Test(pipeline, what_a_large_picture_took_is_not_kept)
{
    float out[8 * 6 * 3];
    set("preprocess.input", "x");
    set("preprocess.resize.width", "4096");
    set("preprocess.resize.height", "2048");
    set("preprocess.crop.width", "8");
    set("preprocess.crop.height", "6");
    size_t before_bytes = used_bytes();
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_OK, "%s", err.text);
    cr_expect_lt(used_bytes(), before_bytes + ((size_t)4 << 20));
}

Test(pipeline, wire_round_trip)
{
    image_pipeline_wire_t wire;
    image_pipeline_t again;
    set_all();
    image_pipeline_to_wire(&pipeline, &wire);
    uint8_t bytes[1024];
    size_t len = control__image_pipeline__pack(&wire.message, bytes);
    Control__ImagePipeline *message = control__image_pipeline__unpack(NULL, len, bytes);
    cr_assert_eq(image_pipeline_from_wire(&again, message, pipeline.softmax, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(memcmp(&again, &pipeline, sizeof again), 0);
    control__image_pipeline__free_unpacked(message, NULL);
    set("preprocess.decode", "L");
    set("preprocess.mean", "0.5");
    image_pipeline_to_wire(&pipeline, &wire);
    cr_assert_eq(wire.message.n_mean, 1, "one number for each channel");
    cr_assert_eq(image_pipeline_from_wire(&again, &wire.message, "", &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(again.mean[0], 0.5f);
    cr_assert_eq(image_pipeline_from_wire(&again, NULL, NULL, &err), STATUS_OK);
    cr_assert_not(image_pipeline_present(&again));
    Control__ImagePipeline broken = CONTROL__IMAGE_PIPELINE__INIT;
    broken.input = (char *)"x";
    broken.filter = (char *)"sharp";
    cr_assert_eq(image_pipeline_from_wire(&again, &broken, "", &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "preprocess.resize.filter"), "%s", err.text);
}

Test(pipeline, bad_values_name_the_key)
{
    static const char *const cases[][2] = {
        {"preprocess.input", ""},
        {"preprocess.decode", "CMYK"},
        {"preprocess.resize.width", "0"},
        {"preprocess.resize.width", "9x"},
        {"preprocess.resize.height", "99999"},
        {"preprocess.resize.filter", "sharp"},
        {"preprocess.resize.mode", "fit"},
        {"preprocess.crop.width", "-1"},
        {"preprocess.scale", "big"},
        {"preprocess.scale", "1,2"},
        {"preprocess.mean", "1,2"},
        {"preprocess.mean", "1,2,3,4"},
        {"preprocess.std", "nan"},
        {"preprocess.layout", "CHW"},
        {"preprocess.datatype", "FP16"},
        {"preprocess.invert", "yes"},
        {"preprocess.max_pixels", "0"},
        {"preprocess.max_pixels", "64M"},
        {"preprocess.max_pixels", "268435457"},
        {"preprocess.colour", "red"},
        {"postprocess.softmax", ""},
        {"preprocess.resize.depth", "1"},
        {"something", "else"},
        {"preprocess.input", "two\nlines"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(image_pipeline_set(&pipeline, cases[i][0], cases[i][1], &err), STATUS_INVALID_ARGUMENT,
                     "%s=%s", cases[i][0], cases[i][1]);
        cr_assert(strstr(err.text, cases[i][0]), "%s: %s", cases[i][0], err.text);
    }
}

/* text: lines of key=value, each right by itself. */
static void assert_check(const char *text, const char *says)
{
    char lines[512], *rest = lines;
    image_pipeline_init(&pipeline);
    snprintf(lines, sizeof lines, "%s", text);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        char *value = line;
        const char *key = strsep(&value, "=");
        if (value)
            set(key, value);
    }
    cr_assert_eq(image_pipeline_check(&pipeline, &err), STATUS_INVALID_ARGUMENT, "%s", text);
    cr_assert(strstr(err.text, says), "'%s' is not in '%s'", says, err.text);
}

Test(pipeline, what_does_not_fit_together)
{
    assert_check("preprocess.scale=0.5\n", "preprocess.input");
    assert_check("preprocess.input=x\npreprocess.resize.width=4\n", "both width and height");
    assert_check("preprocess.input=x\npreprocess.crop.height=4\n", "both width and height");
    assert_check("preprocess.input=x\npreprocess.resize.mode=shorter_side\n", "shorter_side");
    assert_check("preprocess.input=x\npreprocess.std=0\n", "std");
    assert_check("preprocess.input=x\npreprocess.datatype=UINT8\npreprocess.scale=2\n", "FP32");
    assert_check(
        "preprocess.input=x\npreprocess.resize.width=4\npreprocess.resize.height=4\npreprocess.crop.width=5\n"
        "preprocess.crop.height=4\n",
        "larger");
    assert_check("preprocess.max_pixels=5\n", "preprocess.input");
    assert_check("preprocess.input=x\npreprocess.resize.width=4\npreprocess.resize.height=4\npreprocess.max_"
                 "pixels=15\n",
                 "max_pixels is less");
}

Test(pipeline, normalises_into_planes)
{
    float out[3 * 17 * 23];
    set("preprocess.input", "x");
    set("preprocess.scale", "0.5");
    set("preprocess.mean", "1,2,3");
    set("preprocess.std", "2,4,8");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_OK, "%s", err.text);
    for (size_t i = 0; i < 17 * 23; i++)
        for (size_t c = 0; c < 3; c++)
            cr_assert_float_eq(out[c * 17 * 23 + i],
                               ((float)png_rgb_rgb[i * 3 + c] * 0.5F - (float)(c + 1)) / (float)(2 << c),
                               1e-5);
}

Test(pipeline, bytes_stay_interleaved)
{
    uint8_t out[3 * 17 * 23];
    set("preprocess.input", "x");
    set("preprocess.layout", "NHWC");
    set("preprocess.datatype", "UINT8");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_OK, "%s", err.text);
    cr_assert_eq(memcmp(out, png_rgb_rgb, sizeof out), 0);
    set("preprocess.invert", "true");
    set("preprocess.decode", "L");
    set("preprocess.layout", "NCHW");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, 17 * 23), STATUS_OK);
    for (size_t i = 0; i < 17 * 23; i++)
        cr_assert_eq(out[i], 255 - png_rgb_l[i]);
}

Test(pipeline, centre_crop)
{
    uint8_t out[3 * 7 * 9];
    set("preprocess.input", "x");
    set("preprocess.layout", "NHWC");
    set("preprocess.datatype", "UINT8");
    set("preprocess.crop.width", "9");
    set("preprocess.crop.height", "7");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_OK, "%s", err.text);
    for (size_t y = 0; y < 7; y++)
        cr_assert_eq(memcmp(out + y * 27, png_rgb_rgb + ((y + 5) * 23 + 7) * 3, 27), 0);
    set("preprocess.crop.width", "24");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "23 x 17"), "%s", err.text);
}

Test(pipeline, shorter_side_covers_its_box)
{
    float out[3 * 8 * 8];
    set("preprocess.input", "x");
    set("preprocess.resize.width", "8");
    set("preprocess.resize.height", "8");
    set("preprocess.resize.mode", "shorter_side");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_OK, "%s", err.text);
    /* 23 x 17 becomes 10 x 8, of which columns 1 to 8 are kept. */
    image_t picture, small;
    image_resizer_t resizer;
    image_init(&picture);
    image_init(&small);
    image_resizer_init(&resizer);
    image_decode(png_rgb, sizeof png_rgb, IMAGE_RGB, &image_limits_default, NULL, &picture, &err);
    image_resize(&resizer, &picture, 10, 8, IMAGE_BILINEAR, &small, &err);
    for (size_t y = 0; y < 8; y++)
        for (size_t x = 0; x < 8; x++)
            cr_assert_eq(out[y * 8 + x], (float)small.pixels[(y * 10 + x + 1) * 3]);
    image_dispose(&picture);
    image_dispose(&small);
    image_resizer_dispose(&resizer);
}

Test(pipeline, wrong_size_of_the_input_is_told)
{
    float out[10];
    set("preprocess.input", "x");
    cr_assert_eq(run(png_rgb, sizeof png_rgb, out, sizeof out), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "the model's input has 40"), "%s", err.text);
    cr_assert_eq(run("hello", 5, out, sizeof out), STATUS_INVALID_ARGUMENT);
}

static uint64_t limit(const char *side)
{
    image_limits_t limits;
    image_pipeline_init(&pipeline);
    set("preprocess.input", "x");
    if (side) {
        set("preprocess.resize.width", side);
        set("preprocess.resize.height", side);
    }
    image_pipeline_limits(&pipeline, &limits);
    return limits.max_pixels;
}

Test(pipeline, the_models_size_says_how_large_a_picture_may_be)
{
    image_limits_t limits;
    cr_expect_eq(limit("28"), 16 << 20, "any photograph");
    cr_expect_eq(limit(NULL), 16 << 20);
    cr_expect_eq(limit("300"), 300 * 300 * 256);
    cr_expect_eq(limit("2000"), 64 << 20);
    set("preprocess.max_pixels", "100000000");
    image_pipeline_limits(&pipeline, &limits);
    cr_expect_eq(limits.max_pixels, 100000000);
    limit(NULL);
    set("preprocess.crop.width", "300");
    set("preprocess.crop.height", "300");
    image_pipeline_limits(&pipeline, &limits);
    cr_expect_eq(limits.max_pixels, 300 * 300 * 256);
}

Test(pipeline, the_probe_tells_what_a_run_takes)
{
    float out[3 * 8 * 8];
    uint64_t work = 0;
    image_limits_t narrow = {.max_side = 100, .max_pixels = 23 * 17, .max_file_bytes = 1 << 20};
    image_task_t task = {.picture = jpeg_progressive,
                         .picture_bytes = sizeof jpeg_progressive,
                         .dst = out,
                         .dst_bytes = sizeof out};
    set("preprocess.input", "x");
    set("preprocess.resize.width", "8");
    set("preprocess.resize.height", "8");
    cr_assert_eq(image_pipeline_probe(&pipeline, &image_limits_default, &task, &work, &err), STATUS_OK, "%s",
                 err.text);
    cr_expect_eq(work, 23 * 17 * 10 + 8 * 8, "%llu", (unsigned long long)work);
    cr_expect_eq(image_pipeline_probe(&pipeline, &narrow, &task, &work, &err), STATUS_OK, "%s", err.text);
    narrow.max_pixels--;
    cr_expect_eq(image_pipeline_probe(&pipeline, &narrow, &task, &work, &err), STATUS_TOO_LARGE);
    cr_expect(strstr(err.text, "preprocess.max_pixels"), "%s", err.text);
    image_pipeline_init(&pipeline);
    set("preprocess.input", "x");
    cr_expect_eq(image_pipeline_probe(&pipeline, &image_limits_default, &task, &work, &err),
                 STATUS_INVALID_ARGUMENT, "of another size than the model's input: not decoded for that");
}

Test(pipeline, what_nobody_waits_for_is_not_decoded)
{
    static const struct {
        const void *picture;
        size_t len_bytes;
    } cases[] = {{png_rgb, sizeof png_rgb},
                 {jpeg_rgb, sizeof jpeg_rgb},
                 {jpeg_progressive, sizeof jpeg_progressive},
                 {jpeg_cmyk, sizeof jpeg_cmyk}};
    uint8_t out[3 * 17 * 23];
    const atomic_bool unwanted = true;
    set("preprocess.input", "x");
    set("preprocess.datatype", "UINT8");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const image_task_t task = {.picture = cases[i].picture,
                                   .picture_bytes = cases[i].len_bytes,
                                   .dst = out,
                                   .dst_bytes = sizeof out,
                                   .unwanted = &unwanted};
        cr_expect_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, &task, &err),
                     STATUS_CANCELLED, "%zu: %s", i, err.text);
    }
}
