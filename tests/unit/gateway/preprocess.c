#include "gateway/sessions/preprocess.h"

#include "base/clock.h"

#include "../image/vectors.h"

#include <criterion/criterion.h>
#include <string.h>

static loop_t *loop;
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
    cr_assert_eq(preprocess_create(loop, 3, &preprocess, &err), STATUS_OK, "%s", err.text);
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
}

TestSuite(preprocess, .init = setup, .fini = teardown, .timeout = 60);

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
                              .done = on_done};
}

static void wait_done(int count)
{
    int64_t until_ns = clock_now_ns() + 10 * NS_PER_S;
    while (done_count < count && clock_now_ns() < until_ns)
        loop_run_once(loop, 5 * NS_PER_MS);
    cr_assert_eq(done_count, count);
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
    cr_assert_eq(preprocess_create(loop, 0, &none, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(preprocess_create(loop, 1000, &none, &err), STATUS_INVALID_ARGUMENT);
}
