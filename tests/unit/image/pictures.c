#include "image/picture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static image_t image;
static err_t err;

static void setup(void)
{
    image_init(&image);
}

static void teardown(void)
{
    image_dispose(&image);
}

TestSuite(picture, .init = setup, .fini = teardown);

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += abs(a[i] - b[i]);
    return sum / (double)count;
}

/* The file at its exact size, so that the address sanitizer sees a read behind it. */
static status_t decode(const uint8_t *file, size_t len_bytes, image_mode_t mode, const image_limits_t *limits)
{
    uint8_t *exact = malloc(len_bytes ? len_bytes : 1);
    memcpy(exact, file, len_bytes);
    status_t status = image_decode(exact, len_bytes, mode, limits, NULL, &image, &err);
    free(exact);
    return status;
}

Test(picture, decodes_as_pillow_does)
{
    for (size_t i = 0; i < COUNT(pictures); i++) {
        size_t pixels = (size_t)pictures[i].width * pictures[i].height;
        cr_assert_eq(decode(pictures[i].file, pictures[i].file_bytes, IMAGE_RGB, &image_limits_default),
                     STATUS_OK, "%s: %s", pictures[i].name, err.text);
        cr_assert(image.width == pictures[i].width && image.height == pictures[i].height &&
                  image.channels == 3);
        double difference = mean_difference(image.pixels, pictures[i].rgb, pixels * 3);
        cr_assert_leq(difference, strncmp(pictures[i].name, "png", 3) ? 1.0 : 0.0, "%s RGB: %g",
                      pictures[i].name, difference);
        cr_assert_eq(decode(pictures[i].file, pictures[i].file_bytes, IMAGE_L, &image_limits_default),
                     STATUS_OK);
        cr_assert_eq(image.channels, 1);
        difference = mean_difference(image.pixels, pictures[i].grey, pixels);
        cr_assert_leq(difference, strncmp(pictures[i].name, "png", 3) ? 1.0 : 0.0, "%s L: %g",
                      pictures[i].name, difference);
    }
}

Test(picture, bgr_is_rgb_backwards)
{
    for (size_t i = 0; i < COUNT(pictures); i++) {
        size_t pixels = (size_t)pictures[i].width * pictures[i].height;
        image_t other;
        image_init(&other);
        cr_assert_eq(decode(pictures[i].file, pictures[i].file_bytes, IMAGE_BGR, &image_limits_default),
                     STATUS_OK);
        cr_assert_eq(image_decode(pictures[i].file, pictures[i].file_bytes, IMAGE_RGB, &image_limits_default,
                                  NULL, &other, &err),
                     STATUS_OK);
        for (size_t p = 0; p < pixels; p++)
            cr_assert(image.pixels[p * 3] == other.pixels[p * 3 + 2] &&
                          image.pixels[p * 3 + 2] == other.pixels[p * 3],
                      "%s", pictures[i].name);
        image_dispose(&other);
    }
}

Test(picture, probe)
{
    image_info_t info;
    cr_assert_eq(image_probe(jpeg_grey, sizeof jpeg_grey, &image_limits_default, &info, &err), STATUS_OK);
    cr_assert(info.format == IMAGE_JPEG && info.channels == 1 && info.width == 23 && info.height == 17);
    cr_assert_eq(image_probe(png_bits, sizeof png_bits, &image_limits_default, &info, &err), STATUS_OK);
    cr_assert(info.format == IMAGE_PNG && info.bits == 1);
}

Test(picture, every_truncation_is_refused)
{
    for (size_t i = 0; i < COUNT(pictures); i++) {
        size_t end = pictures[i].file_bytes;
        /* A JPEG without its last marker, and a PNG without its end chunk, still have all pixels. */
        size_t whole = strncmp(pictures[i].name, "png", 3) ? end - 2 : end - 16;
        for (size_t len = 0; len < whole; len++)
            cr_assert_eq(decode(pictures[i].file, len, IMAGE_RGB, &image_limits_default),
                         STATUS_INVALID_ARGUMENT, "%s at %zu of %zu", pictures[i].name, len, end);
    }
}

Test(picture, damage_never_crashes)
{
    for (size_t i = 0; i < COUNT(pictures); i++) {
        uint8_t *file = malloc(pictures[i].file_bytes);
        memcpy(file, pictures[i].file, pictures[i].file_bytes);
        for (size_t at = 0; at < pictures[i].file_bytes; at++) {
            file[at] ^= 0x55;
            decode(file, pictures[i].file_bytes, at % 2 ? IMAGE_RGB : IMAGE_L,
                   &(image_limits_t){512, 1 << 18, 1 << 20});
            file[at] ^= 0x55;
        }
        free(file);
    }
}

/* IHDR with a size of its own and a right checksum: 60,000 x 60,000 would be 10.8 GB of pixels. */
static uint32_t crc32_of(const uint8_t *data, size_t len)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

static void put_be32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

Test(picture, bombs_are_refused_by_their_header)
{
    uint8_t png[sizeof png_rgb], jpeg[sizeof jpeg_rgb];
    memcpy(png, png_rgb, sizeof png);
    put_be32(png + 16, 60000);
    put_be32(png + 20, 60000);
    put_be32(png + 29, crc32_of(png + 12, 17));
    cr_assert_eq(decode(png, sizeof png, IMAGE_RGB, &image_limits_default), STATUS_TOO_LARGE, "%s", err.text);
    cr_assert(strstr(err.text, "60000 x 60000"), "%s", err.text);
    cr_assert_null(image.pixels, "nothing was allocated");
    memcpy(jpeg, jpeg_rgb, sizeof jpeg);
    for (size_t i = 0; i + 9 < sizeof jpeg; i++) {
        if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) {
            jpeg[i + 5] = jpeg[i + 7] = 60000 >> 8;
            jpeg[i + 6] = jpeg[i + 8] = 60000 & 0xff;
        }
    }
    cr_assert_eq(decode(jpeg, sizeof jpeg, IMAGE_RGB, &image_limits_default), STATUS_TOO_LARGE, "%s",
                 err.text);
    cr_assert_null(image.pixels);
}

Test(picture, limits_and_other_files)
{
    image_limits_t narrow = {.max_side = 22, .max_pixels = 1000, .max_file_bytes = 1 << 20};
    cr_assert_eq(decode(png_rgb, sizeof png_rgb, IMAGE_RGB, &narrow), STATUS_TOO_LARGE);
    narrow = (image_limits_t){.max_side = 100, .max_pixels = 23 * 17 - 1, .max_file_bytes = 1 << 20};
    cr_assert_eq(decode(png_rgb, sizeof png_rgb, IMAGE_RGB, &narrow), STATUS_TOO_LARGE);
    narrow.max_file_bytes = 10;
    cr_assert_eq(decode(png_rgb, sizeof png_rgb, IMAGE_RGB, &narrow), STATUS_TOO_LARGE);
    static const char *const others[] = {
        "", "GIF89a", "BM", "\xff\xd8", "\x89PNG\r\n\x1a", "hello world", "\xff\xd8\xff"};
    for (size_t i = 0; i < COUNT(others); i++)
        cr_assert_eq(decode((const uint8_t *)others[i], strlen(others[i]), IMAGE_RGB, &image_limits_default),
                     STATUS_INVALID_ARGUMENT, "%s", others[i]);
}

/* A progressive file whose last scan comes again and again: 300 bytes a scan here, none to speak of in a hostile one. */
Test(picture, scans_are_counted_before_any_is_decoded)
{
    enum { MORE = 600, ROOM = sizeof jpeg_progressive * (MORE + 1) };
    static uint8_t file[ROOM];
    size_t scan = sizeof jpeg_progressive - 2;
    image_info_t info;
    while (jpeg_progressive[scan] != 0xff || jpeg_progressive[scan + 1] != 0xda)
        scan--;
    size_t scan_bytes = sizeof jpeg_progressive - 2 - scan, len = sizeof jpeg_progressive - 2;
    memcpy(file, jpeg_progressive, len);
    for (int i = 0; i < MORE; i++, len += scan_bytes)
        memcpy(file + len, jpeg_progressive + scan, scan_bytes);
    cr_assert_eq(image_probe(jpeg_progressive, sizeof jpeg_progressive, &image_limits_default, &info, &err),
                 STATUS_OK);
    cr_assert_eq(info.scans, 10);
    cr_assert_eq(decode(file, len, IMAGE_RGB, &image_limits_default), STATUS_TOO_LARGE, "%s", err.text);
    cr_assert(strstr(err.text, "610 scans"), "%s", err.text);
    image_limits_t narrow = {.max_side = 100, .max_pixels = 23 * 17, .max_file_bytes = ROOM};
    cr_assert_eq(decode(jpeg_progressive, sizeof jpeg_progressive, IMAGE_RGB, &narrow), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(decode(file, sizeof jpeg_progressive - 2 + scan_bytes, IMAGE_RGB, &narrow), STATUS_TOO_LARGE,
                 "%s", err.text);
    cr_assert(strstr(err.text, "11 scans"), "%s", err.text);
    cr_assert_eq(image_probe(jpeg_rgb, sizeof jpeg_rgb, &image_limits_default, &info, &err), STATUS_OK);
    cr_assert_eq(info.scans, 1);
}
