#include "image/resize.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static image_t source, result;
static image_resizer_t resizer;
static err_t err;

static void setup(void)
{
    image_init(&source);
    image_init(&result);
    image_resizer_init(&resizer);
    cr_assert_eq(image_decode(png_rgb, sizeof png_rgb, IMAGE_RGB, &image_limits_default, NULL, &source, &err),
                 STATUS_OK);
}

static void teardown(void)
{
    image_dispose(&source);
    image_dispose(&result);
    image_resizer_dispose(&resizer);
}

TestSuite(resize, .init = setup, .fini = teardown);

Test(resize, every_filter_agrees_with_pillow)
{
    for (size_t i = 0; i < COUNT(resizes); i++) {
        image_filter_t filter;
        size_t bytes = (size_t)resizes[i].width * resizes[i].height * 3;
        int worst = 0;
        cr_assert(image_filter_parse(resizes[i].filter, &filter));
        cr_assert_eq(
            image_resize(&resizer, &source, resizes[i].width, resizes[i].height, filter, &result, &err),
            STATUS_OK);
        cr_assert(result.width == resizes[i].width && result.height == resizes[i].height);
        for (size_t at = 0; at < bytes; at++) {
            int difference = abs(result.pixels[at] - resizes[i].rgb[at]);
            worst = difference > worst ? difference : worst;
        }
        cr_assert_leq(worst, 1, "%s %ux%u: %d", resizes[i].filter, resizes[i].width, resizes[i].height,
                      worst);
    }
}

Test(resize, grey_is_each_channel_alone)
{
    image_t grey, small;
    image_init(&grey);
    image_init(&small);
    image_reserve(&grey, source.width, source.height, 1, &err);
    for (size_t i = 0; i < (size_t)source.width * source.height; i++)
        grey.pixels[i] = source.pixels[i * 3 + 1];
    image_resize(&resizer, &source, 10, 9, IMAGE_LANCZOS, &result, &err);
    cr_assert_eq(image_resize(&resizer, &grey, 10, 9, IMAGE_LANCZOS, &small, &err), STATUS_OK);
    for (size_t i = 0; i < 90; i++)
        cr_assert_eq(small.pixels[i], result.pixels[i * 3 + 1]);
    image_dispose(&grey);
    image_dispose(&small);
}

Test(resize, same_size_is_a_copy)
{
    cr_assert_eq(image_resize(&resizer, &source, source.width, source.height, IMAGE_BICUBIC, &result, &err),
                 STATUS_OK);
    cr_assert_eq(memcmp(result.pixels, source.pixels, (size_t)source.width * source.height * 3), 0);
}

Test(resize, one_pixel_and_nothing)
{
    image_t dot;
    image_init(&dot);
    image_reserve(&dot, 1, 1, 3, &err);
    memcpy(dot.pixels, "\x10\x80\xff", 3);
    for (int filter = 0; filter < IMAGE_FILTER_COUNT; filter++) {
        cr_assert_eq(image_resize(&resizer, &dot, 5, 3, (image_filter_t)filter, &result, &err), STATUS_OK);
        for (size_t i = 0; i < 15; i++)
            cr_assert_eq(memcmp(result.pixels + i * 3, "\x10\x80\xff", 3), 0);
    }
    cr_assert_eq(image_resize(&resizer, &dot, 0, 3, IMAGE_BOX, &result, &err), STATUS_INVALID_ARGUMENT);
    image_dispose(&dot);
}
