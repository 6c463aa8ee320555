#include "image/pipeline_wire.h"

#include <criterion/criterion.h>
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
    set("postprocess.softmax", "scores");
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
}

Test(pipeline, normalises_into_planes)
{
    float out[3 * 17 * 23];
    set("preprocess.input", "x");
    set("preprocess.scale", "0.5");
    set("preprocess.mean", "1,2,3");
    set("preprocess.std", "2,4,8");
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    sizeof out, &err),
                 STATUS_OK, "%s", err.text);
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
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    sizeof out, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(memcmp(out, png_rgb_rgb, sizeof out), 0);
    set("preprocess.invert", "true");
    set("preprocess.decode", "L");
    set("preprocess.layout", "NCHW");
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    17 * 23, &err),
                 STATUS_OK);
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
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    sizeof out, &err),
                 STATUS_OK, "%s", err.text);
    for (size_t y = 0; y < 7; y++)
        cr_assert_eq(memcmp(out + y * 27, png_rgb_rgb + ((y + 5) * 23 + 7) * 3, 27), 0);
    set("preprocess.crop.width", "24");
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    sizeof out, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "23 x 17"), "%s", err.text);
}

Test(pipeline, shorter_side_covers_its_box)
{
    float out[3 * 8 * 8];
    set("preprocess.input", "x");
    set("preprocess.resize.width", "8");
    set("preprocess.resize.height", "8");
    set("preprocess.resize.mode", "shorter_side");
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    sizeof out, &err),
                 STATUS_OK, "%s", err.text);
    /* 23 x 17 becomes 10 x 8, of which columns 1 to 8 are kept. */
    image_t picture, small;
    image_resizer_t resizer;
    image_init(&picture);
    image_init(&small);
    image_resizer_init(&resizer);
    image_decode(png_rgb, sizeof png_rgb, IMAGE_RGB, &image_limits_default, &picture, &err);
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
    cr_assert_eq(image_pipeline_run(&pipeline, &image_limits_default, workspace, png_rgb, sizeof png_rgb, out,
                                    sizeof out, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "the model's input has 40"), "%s", err.text);
    cr_assert_eq(
        image_pipeline_run(&pipeline, &image_limits_default, workspace, "hello", 5, out, sizeof out, &err),
        STATUS_INVALID_ARGUMENT);
}
