#include "engine/onednn/run/weights.h"

#include "engine/engine.h"
#include "engine/onednn/run/md.h"
#include "engine/wait.h"
#include "networks.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layouts ---- */

enum { ROWS = 190, COLUMNS = 310, BYTES = ROWS * COLUMNS * 4 }; /* no multiple of any block */

typedef struct {
    graph_t *graph;
    weights_t weights;
    blob_t *blob; /* of its constant, [ROWS, COLUMNS] */
    float *before;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} fixture_t;

static void fill(float *to)
{
    static const float special[] = {-0.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-130f, 0x1.fffffep127f};
    network_noise(to, ROWS * COLUMNS, 3);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        to[1000 + 7 * i] = special[i];
}

static void setup(fixture_t *f)
{
    maker_t *m = maker_create(13);
    onnx_model_t *model;
    f->before = malloc(BYTES);
    fill(f->before);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, ROWS});
    maker_floats(m, "w", 2, (int64_t[]){ROWS, COLUMNS}, f->before);
    maker_node(m, "MatMul", "x w", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(maker_parse(m, &model, NULL), STATUS_OK);
    cr_assert_eq(graph_import(model, &f->graph, NULL), STATUS_OK);
    onnx_model_destroy(model);
    cr_assert_eq(dnnl_engine_create(&f->engine, dnnl_cpu, 0), dnnl_success);
    cr_assert_eq(dnnl_stream_create(&f->stream, f->engine, dnnl_stream_default_flags), dnnl_success);
    weights_init(&f->weights);
    cr_assert_eq(weights_may_drop(&f->weights, f->graph, NULL), STATUS_OK);
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        f->blob = f->graph->values[v].blob ? f->graph->values[v].blob : f->blob;
}

static void teardown(fixture_t *f)
{
    weights_dispose(&f->weights);
    graph_destroy(f->graph);
    dnnl_stream_destroy(f->stream);
    dnnl_engine_destroy(f->engine);
    free(f->before);
}

/* Seen as [COLUMNS, ROWS], as products see it. */
static const void *get(fixture_t *f, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t to, from = md_strided(2, (int64_t[]){COLUMNS, ROWS}, (int64_t[]){1, COLUMNS});
    cr_assert_eq(dnnl_memory_desc_init_by_tag(&to, 2, (dnnl_dims_t){COLUMNS, ROWS}, dnnl_f32, tag),
                 dnnl_success);
    return weights_get(&f->weights, f->blob, &from, &to, f->engine, f->stream);
}

static void expect_as_before(fixture_t *f)
{
    cr_assert(weights_read(&f->weights, blob_data(f->blob), f->engine, f->stream));
    cr_expect_eq(memcmp(blob_data(f->blob), f->before, BYTES), 0);
}

/* Padded with zeros in both directions, in blocks of blocks, and with strides. */
static const dnnl_format_tag_t tags[] = {dnnl_AB16b64a, dnnl_AB16b16a, dnnl_AB4b16a4b, dnnl_ab};
enum { TAGS = sizeof tags / sizeof *tags };

Test(weights, what_was_dropped_is_made_again_to_the_last_bit)
{
    for (int i = 0; i < TAGS; i++) {
        fixture_t f = {0};
        setup(&f);
        cr_assert_not_null(get(&f, tags[i]), "tag %d", i);
        cr_expect_gt(f.weights.dropped_bytes, BYTES - 2 * 65536u, "tag %d", i);
        expect_as_before(&f);
        cr_expect_eq(f.weights.dropped_bytes, 0, "tag %d", i);
        teardown(&f);
    }
}

Test(weights, each_layout_is_made_once_and_of_the_same)
{
    fixture_t f = {0};
    setup(&f);
    const void *first = get(&f, tags[0]);
    uint64_t len = f.weights.len_bytes, dropped = f.weights.dropped_bytes;
    for (int i = 1; i < TAGS; i++)
        cr_expect_neq(get(&f, tags[i]), first);
    cr_expect_eq(f.weights.dropped_bytes, dropped, "it is dropped again each time");
    cr_expect_geq(f.weights.len_bytes, len + (TAGS - 1) * (uint64_t)BYTES);
    cr_expect_eq(get(&f, tags[0]), first);
    expect_as_before(&f);
    teardown(&f);
}

Test(weights, what_a_plan_reads_as_it_is_stays)
{
    fixture_t f = {0};
    setup(&f);
    expect_as_before(&f);
    cr_expect_not_null(get(&f, tags[0]));
    cr_expect_eq(f.weights.dropped_bytes, 0);
    cr_expect_eq(memcmp(blob_data(f.blob), f.before, BYTES), 0);
    teardown(&f);
}

/* ---- Models ---- */

enum { WIDTH = 256, MAX = 4 };

static void square(maker_t *m, const char *name)
{
    float *values = malloc(WIDTH * WIDTH * sizeof *values);
    network_noise(values, WIDTH * WIDTH, 5);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        values[i] /= 16;
    maker_floats(m, name, 2, (int64_t[]){WIDTH, WIDTH}, values);
    free(values);
}

/* x·w, twice that of it and w, that and w's transpose: `second` and `third` are the same numbers as w. */
static maker_t *chain(const char *second, const char *third)
{
    char inputs[32];
    maker_t *m = maker_create(13);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    square(m, "w");
    if (strcmp(second, "w") != 0)
        square(m, second);
    if (strcmp(third, "w") != 0)
        square(m, third);
    maker_node(m, "MatMul", "x w", "a");
    snprintf(inputs, sizeof inputs, "a %s", second);
    maker_attr_float(maker_node(m, "Gemm", inputs, "b"), "alpha", 2);
    snprintf(inputs, sizeof inputs, "b %s", third);
    maker_attr_int(maker_node(m, "Gemm", inputs, "y"), "transB", 1);
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    return m;
}

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
} loaded_t;

static loaded_t load(maker_t *m)
{
    loaded_t l;
    err_t err;
    cr_assert_eq(engine_find("onednn", &l.ops, NULL), STATUS_OK);
    cr_assert_eq(l.ops->open(&(engine_config_t){0}, &l.engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load(m, l.ops, l.engine, MAX, ENGINE_FP32, &l.model, &err), STATUS_OK, "%s",
                 err.text);
    return l;
}

static void unload(loaded_t *l)
{
    l->ops->unload(l->model);
    l->ops->close(l->engine);
}

static void run_rows(const loaded_t *l, uint32_t batch, const float *in, float *out)
{
    const void *inputs[] = {in};
    void *outputs[] = {out};
    err_t err = {0};
    engine_job_t job = {.model = l->model, .batch = batch, .inputs = inputs, .outputs = outputs};
    cr_assert_eq(engine_run_wait(l->ops, l->engine, &job, &err), STATUS_OK, "%s", err.text);
}

/* The one network reads one constant in three ways, one of them as it is; the other has three, of the same numbers. */
Test(weights, a_constant_for_several_readers_is_the_same_as_one_for_each)
{
    loaded_t shared = load(chain("w", "w")), each = load(chain("w2", "w3"));
    float in[MAX * WIDTH], out[2][MAX * WIDTH];
    network_noise(in, MAX * WIDTH, 9);
    for (uint32_t batch = 1; batch <= MAX; batch++) {
        run_rows(&shared, batch, in, out[0]);
        run_rows(&each, batch, in, out[1]);
        cr_expect_eq(memcmp(out[0], out[1], batch * WIDTH * sizeof(float)), 0, "batch %u", batch);
    }
    unload(&shared);
    unload(&each);
}

/* Two are there in another layout alone, and the one that the second product reads as it is in no other. */
Test(weights, a_model_takes_what_is_there)
{
    enum { SQUARE = WIDTH * WIDTH * 4, LITTLE = 96 << 10 };
    err_t err;
    loaded_t l = load(chain("w2", "w3"));
    cr_expect_eq(l.ops->info(l.model)->memory_bytes, 3 * SQUARE);
    cr_assert_eq(l.ops->prepare(l.model, MAX, &err), STATUS_OK, "%s", err.text);
    uint64_t bytes = l.ops->info(l.model)->memory_bytes;
    cr_expect(bytes >= 3 * SQUARE && bytes < 3 * SQUARE + LITTLE, "%llu", (unsigned long long)bytes);
    unload(&l);
}
