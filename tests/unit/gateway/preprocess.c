#include "gateway/sessions/preprocess.h"

#include "base/clock.h"

#include "../image/vectors.h"
#include "support/until.h"

#include <criterion/criterion.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>

static loop_t *loop;
static metrics_t *metrics;
static preprocess_t *preprocess;
static image_pipeline_t pipeline;
static err_t err;
static int done_count;
static uint8_t elements[16384];
static size_t elements_bytes;

enum { ROW_BYTES = 17 * 23 * 3 };

static void add_picture(const void *data, uint32_t len_bytes)
{
    memcpy(elements + elements_bytes, &len_bytes, sizeof len_bytes);
    memcpy(elements + elements_bytes + sizeof len_bytes, data, len_bytes);
    elements_bytes += sizeof len_bytes + len_bytes;
}

static void setup(void)
{
    done_count = 0;
    elements_bytes = 0;
    cr_assert_eq(loop_create(&loop, &err), STATUS_OK);
    metrics = metrics_create("test", &err);
    cr_assert_eq(preprocess_create(loop, metrics, 3, &preprocess, &err), STATUS_OK, "%s", err.text);
    image_pipeline_init(&pipeline);
    cr_assert_eq(image_pipeline_set(&pipeline, "preprocess.input", "x", &err), STATUS_OK);
    cr_assert_eq(image_pipeline_set(&pipeline, "preprocess.layout", "NHWC", &err), STATUS_OK);
    cr_assert_eq(image_pipeline_set(&pipeline, "preprocess.datatype", "UINT8", &err), STATUS_OK);
    cr_assert_eq(image_pipeline_check(&pipeline, &err), STATUS_OK, "%s", err.text);
}

static void teardown(void)
{
    preprocess_destroy(preprocess);
    loop_destroy(loop);
    metrics_destroy(metrics);
}

TestSuite(preprocess, .init = setup, .fini = teardown, .timeout = 120);

static err_t last;

static void on_done(preprocess_job_t *job, const err_t *error)
{
    (void)job;
    last = *error;
    done_count++;
}

static preprocess_job_t job_of(uint8_t *dst, uint32_t rows)
{
    return (preprocess_job_t){.pipeline = &pipeline,
                              .elements = elements,
                              .elements_bytes = elements_bytes,
                              .rows = rows,
                              .dst = dst,
                              .row_bytes = ROW_BYTES,
                              .stride_bytes = ROW_BYTES + 5,
                              .deadline_ns = INT64_MAX,
                              .done = on_done};
}

static void wait_done(int count)
{
    loop_until(loop, done_count == count);
}

Test(preprocess, rows_go_to_their_strides)
{
    static uint8_t out[3 * (ROW_BYTES + 5)];
    add_picture(png_rgb, sizeof png_rgb);
    add_picture(png_grey, sizeof png_grey);
    add_picture(png_palette, sizeof png_palette);
    preprocess_job_t job = job_of(out, 3);
    memset(out, 0xee, sizeof out);
    cr_assert_eq(preprocess_start(preprocess, &job, &err), STATUS_OK);
    wait_done(1);
    cr_assert_eq(last.code, STATUS_OK, "%s", last.text);
    cr_assert_eq(memcmp(out, png_rgb_rgb, ROW_BYTES), 0);
    cr_assert_eq(memcmp(out + ROW_BYTES + 5, png_grey_rgb, ROW_BYTES), 0);
    cr_assert_eq(memcmp(out + 2 * (ROW_BYTES + 5), png_palette_rgb, ROW_BYTES), 0);
    cr_assert_eq(out[ROW_BYTES], 0xee, "nothing between the rows");
    cr_assert_gt(job.took_ns, 0);
}

Test(preprocess, the_error_names_input_and_picture)
{
    static uint8_t out[2 * (ROW_BYTES + 5)];
    add_picture(png_rgb, sizeof png_rgb);
    add_picture("not a picture", 13);
    preprocess_job_t job = job_of(out, 2);
    cr_assert_eq(preprocess_start(preprocess, &job, &err), STATUS_OK);
    wait_done(1);
    cr_assert_eq(last.code, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(last.text, "input 'x', picture 1: neither a JPEG nor a PNG picture");
    job = job_of(out, 3);
    job.elements_bytes = 4 + sizeof png_rgb;
    cr_assert_eq(preprocess_start(preprocess, &job, &err), STATUS_OK);
    wait_done(2);
    cr_assert_eq(last.code, STATUS_INVALID_ARGUMENT);
}

Test(preprocess, many_at_once)
{
    enum { JOBS = 200 };
    static uint8_t out[JOBS][ROW_BYTES];
    static preprocess_job_t jobs[JOBS];
    add_picture(png_rgb, sizeof png_rgb);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = job_of(out[i], 1);
        cr_assert_eq(preprocess_start(preprocess, &jobs[i], &err), STATUS_OK);
    }
    wait_done(JOBS);
    for (int i = 0; i < JOBS; i++)
        cr_assert_eq(memcmp(out[i], png_rgb_rgb, ROW_BYTES), 0);
}

Test(preprocess, a_stop_answers_what_waits)
{
    enum { JOBS = 500 };
    static uint8_t out[JOBS][ROW_BYTES];
    static preprocess_job_t jobs[JOBS];
    add_picture(jpeg_rgb, sizeof jpeg_rgb);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = job_of(out[i], 1);
        cr_assert_eq(preprocess_start(preprocess, &jobs[i], &err), STATUS_OK);
    }
    preprocess_destroy(preprocess);
    preprocess = NULL;
    cr_assert_eq(done_count, JOBS);
}

Test(preprocess, bad_thread_counts)
{
    preprocess_t *none;
    cr_assert_eq(preprocess_create(loop, metrics, 0, &none, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(preprocess_create(loop, metrics, 1000, &none, &err), STATUS_INVALID_ARGUMENT);
}

static uint64_t unwanted(const char *when)
{
    return metrics_value(metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_UNWANTED, when));
}

Test(preprocess, what_is_late_is_not_decoded)
{
    static uint8_t out[ROW_BYTES];
    add_picture(png_rgb, sizeof png_rgb);
    preprocess_job_t job = job_of(out, 1);
    job.deadline_ns = clock_now_ns();
    cr_assert_eq(preprocess_start(preprocess, &job, &err), STATUS_OK);
    wait_done(1);
    cr_assert_eq(last.code, STATUS_DEADLINE_EXCEEDED, "%s", last.text);
    cr_assert_eq(unwanted("waiting"), 1);
    cr_assert_eq(out[0], 0);
}

/* ---- large pictures, of 2 megapixels of nothing */

enum { LARGE_SIDE = 1448, LARGE_BYTES = LARGE_SIDE * LARGE_SIDE };

static void add_large(void)
{
    static uint8_t pixels[LARGE_BYTES];
    struct spng_ihdr header = {
        .width = LARGE_SIDE, .height = LARGE_SIDE, .bit_depth = 8, .color_type = SPNG_COLOR_TYPE_GRAYSCALE};
    size_t len;
    int code;
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
    spng_set_ihdr(context, &header);
    cr_assert_eq(spng_encode_image(context, pixels, sizeof pixels, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
    void *file = spng_get_png_buffer(context, &len, &code);
    add_picture(file, (uint32_t)len);
    free(file);
    spng_ctx_free(context);
}

static preprocess_job_t large_job(uint64_t client, uint8_t *dst)
{
    preprocess_job_t job = job_of(dst, 1);
    job.client = client;
    job.row_bytes = job.stride_bytes = LARGE_BYTES;
    return job;
}

static char order[64]; /* of done, by the client's letter */

static void on_done_in_order(preprocess_job_t *job, const err_t *error)
{
    strncat(order, &(char){(char)job->client}, 1);
    on_done(job, error);
}

/* Two threads, of which one does large pictures: twenty of those, each somebody else's, are no reason to wait. */
Test(preprocess, large_pictures_are_not_in_the_way_of_small_ones)
{
    enum { LARGE = 20, JOBS = LARGE + 4 };
    static uint8_t dst[LARGE][LARGE_BYTES], out[JOBS - LARGE][ROW_BYTES];
    static preprocess_job_t jobs[JOBS];
    preprocess_destroy(preprocess);
    cr_assert_eq(preprocess_create(loop, metrics, 1, &preprocess, &err), STATUS_OK);
    image_pipeline_set(&pipeline, "preprocess.decode", "L", &err);
    add_large();
    for (int i = 0; i < LARGE; i++)
        jobs[i] = large_job('a' + (uint64_t)i, dst[i]);
    image_pipeline_t small = pipeline;
    elements_bytes = 0;
    static uint8_t small_elements[sizeof png_rgb + 4];
    uint32_t len = sizeof png_rgb;
    memcpy(small_elements, &len, 4);
    memcpy(small_elements + 4, png_rgb, len);
    for (int i = LARGE; i < JOBS; i++) {
        jobs[i] = job_of(out[i - LARGE], 1);
        jobs[i].client = i < JOBS - 1 ? 'a' : 'B';
        jobs[i].pipeline = &small;
        jobs[i].elements = small_elements;
        jobs[i].elements_bytes = sizeof small_elements;
        jobs[i].row_bytes = 17 * 23;
    }
    for (int i = 0; i < JOBS; i++) {
        jobs[i].done = on_done_in_order;
        cr_assert_eq(preprocess_start(preprocess, &jobs[i], &err), STATUS_OK);
    }
    wait_done(JOBS);
    cr_assert_eq(last.code, STATUS_OK, "%s", last.text);
    cr_expect(strchr(order, 'B') && strchr(order, 'B') < order + LARGE / 2, "%s", order);
}

Test(preprocess, what_nobody_waits_for_is_given_up)
{
    enum { LARGE = 20 };
    static uint8_t dst[LARGE][LARGE_BYTES];
    static preprocess_job_t jobs[LARGE];
    image_pipeline_set(&pipeline, "preprocess.decode", "L", &err);
    add_large();
    for (int i = 0; i < LARGE; i++) {
        jobs[i] = large_job('A', dst[i]);
        jobs[i].dst[0] = 1;
        cr_assert_eq(preprocess_start(preprocess, &jobs[i], &err), STATUS_OK);
    }
    for (int i = LARGE - 1; i >= 0; i--)
        preprocess_cancel(preprocess, &jobs[i]);
    wait_done(LARGE);
    cr_assert_eq(preprocess_queued(preprocess), 0);
    cr_assert_gt(unwanted("waiting"), 0);
    cr_assert_eq(jobs[LARGE - 1].error.code, STATUS_CANCELLED);
    cr_assert_eq(dst[LARGE - 1][0], 1);
}

Test(preprocess, one_client_has_a_part_of_the_queue)
{
    enum { JOBS = 1100 };
    static uint8_t dst[LARGE_BYTES], out[ROW_BYTES];
    static preprocess_job_t jobs[JOBS], other;
    status_t status = STATUS_OK;
    int accepted = 0;
    preprocess_destroy(preprocess);
    cr_assert_eq(preprocess_create(loop, metrics, 1, &preprocess, &err),
                 STATUS_OK); /* all have one destination */
    image_pipeline_set(&pipeline, "preprocess.decode", "L", &err);
    add_large();
    while (status == STATUS_OK && accepted < JOBS) {
        jobs[accepted] = large_job('A', dst);
        status = preprocess_start(preprocess, &jobs[accepted], &err);
        accepted += status == STATUS_OK;
    }
    cr_expect_eq(status, STATUS_LIMITED);
    cr_expect(strstr(err.text, "of this client"), "%s", err.text);
    other = job_of(out, 1);
    other.client = 'B';
    cr_expect_eq(preprocess_start(preprocess, &other, &err), STATUS_OK);
    preprocess_destroy(preprocess);
    preprocess = NULL;
    cr_expect_eq(done_count, accepted + 1);
}
