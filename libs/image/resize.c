#include "image/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    double (*at)(double x);
    double support; /* the kernel is zero beyond */
} kernel_t;

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(M_PI * x) / (M_PI * x);
}

static double hamming(double x)
{
    return fabs(x) < 1.0 ? sinc(x) * (0.54 + 0.46 * cos(M_PI * x)) : 0.0;
}

/* Keys' cubic with a = -1/2. */
static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? ((x - 5.0) * x + 8.0) * x * a - 4.0 * a : 0.0;
}

static double lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

static const kernel_t kernels[IMAGE_FILTER_COUNT] = {
    [IMAGE_NEAREST] = {"nearest", NULL, 0.0},       [IMAGE_BOX] = {"box", box, 0.5},
    [IMAGE_BILINEAR] = {"bilinear", triangle, 1.0}, [IMAGE_HAMMING] = {"hamming", hamming, 1.0},
    [IMAGE_BICUBIC] = {"bicubic", cubic, 2.0},      [IMAGE_LANCZOS] = {"lanczos", lanczos, 3.0},
};

const char *image_filter_name(image_filter_t filter)
{
    return kernels[filter].name;
}

bool image_filter_parse(const char *text, image_filter_t *filter)
{
    for (int i = 0; i < IMAGE_FILTER_COUNT; i++) {
        if (strcasecmp(text, kernels[i].name) == 0) {
            *filter = (image_filter_t)i;
            return true;
        }
    }
    return false;
}

void image_resizer_init(image_resizer_t *resizer)
{
    *resizer = (image_resizer_t){0};
}

void image_resizer_dispose(image_resizer_t *resizer)
{
    image_dispose(&resizer->middle);
    free(resizer->weights);
    image_resizer_init(resizer);
}

/* 8 bits of pixel and 2 of overshoot (bicubic and lanczos) leave 22 bits of fraction in 32. */
enum { FRACTION_BITS = 22 };
static const int32_t one_half = 1 << (FRACTION_BITS - 1);

/*
 * Weights of one axis, in the resizer's block:
 *
 *   first[out] | count[out] | weight[out][taps] | (vertical pass) sum[row bytes]
 */
typedef struct {
    uint32_t out, taps;
    int32_t *first, *count, *weight, *sum;
} axis_t;

static status_t axis_reserve(image_resizer_t *resizer, axis_t *axis, uint64_t sums, err_t *err)
{
    uint64_t words = (uint64_t)axis->out * (2 + (uint64_t)axis->taps) + sums;
    if (words > SIZE_MAX / sizeof(int32_t))
        return err_set(err, STATUS_NO_MEMORY, "no memory for resizing weights");
    size_t bytes = words * sizeof(int32_t);
    if (bytes > resizer->weights_cap_bytes) {
        void *weights = malloc(bytes);
        if (!weights)
            return err_set(err, STATUS_NO_MEMORY, "no memory for resizing weights");
        free(resizer->weights);
        resizer->weights = weights;
        resizer->weights_cap_bytes = bytes;
    }
    axis->first = resizer->weights;
    axis->count = axis->first + axis->out;
    axis->weight = axis->count + axis->out;
    axis->sum = axis->weight + (size_t)axis->out * axis->taps;
    return STATUS_OK;
}

static int32_t clamp_index(double value, uint32_t max)
{
    if (value < 0)
        return 0;
    return value > max ? (int32_t)max : (int32_t)value;
}

/* The taps of one output pixel. Their weights are normalised to one, also where the picture's edge cut some off. */
static void axis_fill(axis_t *axis, const kernel_t *kernel, uint32_t in, uint32_t out_index)
{
    double scale = (double)in / axis->out, widen = scale > 1.0 ? scale : 1.0;
    double centre = (out_index + 0.5) * scale, support = kernel->support * widen, total = 0;
    int32_t first = clamp_index(centre - support + 0.5, in), end = clamp_index(centre + support + 0.5, in);
    int32_t *weight = axis->weight + (size_t)out_index * axis->taps;
    for (int32_t i = first; i < end; i++)
        total += kernel->at((i - centre + 0.5) / widen);
    for (int32_t i = first; i < end; i++) {
        double value = kernel->at((i - centre + 0.5) / widen);
        if (total != 0)
            value /= total;
        weight[i - first] = (int32_t)lround(value * (1 << FRACTION_BITS));
    }
    axis->first[out_index] = first;
    axis->count[out_index] = end - first;
}

static status_t axis_init(axis_t *axis, image_resizer_t *resizer, const kernel_t *kernel, uint32_t in,
                          uint32_t out, uint64_t sums, err_t *err)
{
    double scale = (double)in / out;
    axis->out = out;
    axis->taps = (uint32_t)ceil(kernel->support * (scale > 1.0 ? scale : 1.0)) * 2 + 1;
    status_t status = axis_reserve(resizer, axis, sums, err);
    for (uint32_t i = 0; status == STATUS_OK && i < out; i++)
        axis_fill(axis, kernel, in, i);
    return status;
}

static inline uint8_t round_to_byte(int32_t sum)
{
    int32_t value = sum >> FRACTION_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void row_grey(const axis_t *axis, const uint8_t *in, uint8_t *out)
{
    for (uint32_t x = 0; x < axis->out; x++) {
        const int32_t *weight = axis->weight + (size_t)x * axis->taps;
        const uint8_t *pixel = in + axis->first[x];
        int32_t sum = one_half;
        for (int32_t i = 0; i < axis->count[x]; i++)
            sum += pixel[i] * weight[i];
        out[x] = round_to_byte(sum);
    }
}

static void row_colour(const axis_t *axis, const uint8_t *in, uint8_t *out)
{
    for (uint32_t x = 0; x < axis->out; x++, out += 3) {
        const int32_t *weight = axis->weight + (size_t)x * axis->taps;
        const uint8_t *pixel = in + (size_t)axis->first[x] * 3;
        int32_t a = one_half, b = one_half, c = one_half;
        for (int32_t i = 0; i < axis->count[x]; i++, pixel += 3) {
            a += pixel[0] * weight[i];
            b += pixel[1] * weight[i];
            c += pixel[2] * weight[i];
        }
        out[0] = round_to_byte(a);
        out[1] = round_to_byte(b);
        out[2] = round_to_byte(c);
    }
}

static status_t resize_width(image_resizer_t *resizer, const kernel_t *kernel, const image_t *src,
                             uint32_t width, image_t *dst, err_t *err)
{
    axis_t axis;
    status_t status = axis_init(&axis, resizer, kernel, src->width, width, 0, err);
    if (status == STATUS_OK)
        status = image_reserve(dst, width, src->height, src->channels, err);
    if (status)
        return status;
    size_t in_bytes = (size_t)src->width * src->channels, out_bytes = (size_t)width * src->channels;
    for (uint32_t y = 0; y < src->height; y++) {
        const uint8_t *in = src->pixels + y * in_bytes;
        uint8_t *out = dst->pixels + y * out_bytes;
        if (src->channels == 1)
            row_grey(&axis, in, out);
        else
            row_colour(&axis, in, out);
    }
    return STATUS_OK;
}

/* Whole rows at a time, channels and columns alike: this is the loop that the compiler turns into vectors. */
static status_t resize_height(image_resizer_t *resizer, const kernel_t *kernel, const image_t *src,
                              uint32_t height, image_t *dst, err_t *err)
{
    axis_t axis;
    size_t row_bytes = (size_t)src->width * src->channels;
    status_t status = axis_init(&axis, resizer, kernel, src->height, height, row_bytes, err);
    if (status == STATUS_OK)
        status = image_reserve(dst, src->width, height, src->channels, err);
    if (status)
        return status;
    for (uint32_t y = 0; y < height; y++) {
        int32_t *restrict sum = axis.sum;
        for (size_t i = 0; i < row_bytes; i++)
            sum[i] = one_half;
        for (int32_t tap = 0; tap < axis.count[y]; tap++) {
            const uint8_t *restrict in = src->pixels + (size_t)(axis.first[y] + tap) * row_bytes;
            int32_t weight = axis.weight[(size_t)y * axis.taps + (size_t)tap];
            for (size_t i = 0; i < row_bytes; i++)
                sum[i] += in[i] * weight;
        }
        uint8_t *out = dst->pixels + y * row_bytes;
        for (size_t i = 0; i < row_bytes; i++)
            out[i] = round_to_byte(sum[i]);
    }
    return STATUS_OK;
}

static status_t resize_nearest(const image_t *src, uint32_t width, uint32_t height, image_t *dst, err_t *err)
{
    status_t status = image_reserve(dst, width, height, src->channels, err);
    if (status)
        return status;
    double step_x = (double)src->width / width, step_y = (double)src->height / height;
    uint8_t *out = dst->pixels;
    for (uint32_t y = 0; y < height; y++) {
        size_t row = (size_t)clamp_index((y + 0.5) * step_y, src->height - 1);
        for (uint32_t x = 0; x < width; x++, out += src->channels) {
            size_t column = (size_t)clamp_index((x + 0.5) * step_x, src->width - 1);
            memcpy(out, src->pixels + (row * src->width + column) * src->channels, src->channels);
        }
    }
    return STATUS_OK;
}

static status_t copy(const image_t *src, image_t *dst, err_t *err)
{
    status_t status = image_reserve(dst, src->width, src->height, src->channels, err);
    if (status == STATUS_OK)
        memcpy(dst->pixels, src->pixels, (size_t)src->width * src->height * src->channels);
    return status;
}

status_t image_resize(image_resizer_t *resizer, const image_t *src, uint32_t width, uint32_t height,
                      image_filter_t filter, image_t *dst, err_t *err)
{
    const kernel_t *kernel = &kernels[filter];
    if (width == 0 || height == 0 || src->width == 0 || src->height == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "cannot resize to or from no pixels");
    if (width == src->width && height == src->height)
        return copy(src, dst, err);
    if (filter == IMAGE_NEAREST)
        return resize_nearest(src, width, height, dst, err);
    if (width == src->width)
        return resize_height(resizer, kernel, src, height, dst, err);
    if (height == src->height)
        return resize_width(resizer, kernel, src, width, dst, err);
    status_t status = resize_width(resizer, kernel, src, width, &resizer->middle, err);
    if (status == STATUS_OK)
        status = resize_height(resizer, kernel, &resizer->middle, height, dst, err);
    return status;
}
