/* An engine of a plug-in, OpenVINO's unless another is named, beside the reference engine. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PLUGIN_ENGINE
#define PLUGIN_ENGINE "openvino"
#define PLUGIN_LACKS "Det"
#endif

enum { MAX = 5, ROW = 3 * 81, OUT = 5, WIDTH = 12 };

static const engine_ops_t *ops;

static const engine_ops_t *find(const char *name)
{
    const engine_ops_t *found = NULL;
    err_t err;
    cr_assert_eq(engine_find(name, &found, &err), STATUS_OK, "%s", err.text);
    return found;
}

static engine_t *open_engine(uint32_t streams, uint32_t threads)
{
    engine_t *engine;
    err_t err;
    ops = find(PLUGIN_ENGINE);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = streams, .threads = threads}, &engine, &err),
                 STATUS_OK, "%s", err.text);
    return engine;
}

/* A convolution, a skip, a pool and a product; the names tell inputs and outputs apart. Rows of [3, 9, 9] give rows of [5]. */
static maker_t *network(int64_t batch)
{
    static float w[20 * 27], fc[OUT * 20];
    maker_t *m = maker_create(17);
    network_noise(w, 20 * 27, 1);
    network_noise(fc, (size_t)OUT * 20, 2);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){batch, 3, 9, 9});
    maker_floats(m, "w", 4, (int64_t[]){20, 3, 3, 3}, w);
    maker_floats(m, "fc", 2, (int64_t[]){OUT, 20}, fc);
    maker_attr_ints(maker_node(m, "Conv", "x w", "c"), "pads", 4, (int64_t[]){1, 1, 1, 1});
    maker_node(m, "Sigmoid", "c", "s");
    maker_node(m, "Mul", "c s", "k");
    maker_node(m, "GlobalAveragePool", "k", "p");
    maker_node(m, "Flatten", "p", "f");
    maker_attr_int(maker_node(m, "Gemm", "f fc", "y"), "transB", 1);
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){batch, OUT});
    return m;
}

static void run(const engine_ops_t *of, engine_t *engine, engine_model_t *model, uint32_t batch,
                const void *in, void *out)
{
    ticket_t ticket;
    engine_job_t job = {
        .model = model, .batch = batch, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, of, engine, job), STATUS_OK, "%s", ticket.text);
}

/* What the reference engine makes of rows of network(). */
static void expect_rows(const float *in, uint32_t rows, float *out)
{
    engine_t *engine;
    engine_model_t *model;
    err_t err;
    const engine_ops_t *reference = find("reference");
    cr_assert_eq(reference->open(&(engine_config_t){0}, &engine, &err), STATUS_OK);
    cr_assert_eq(
        network_load_as(network(-1), reference, engine, (engine_load_t){.max_batch = rows}, &model, &err),
        STATUS_OK);
    run(reference, engine, model, rows, in, out);
    reference->unload(model);
    reference->close(engine);
}

static void compare(const float *got, const float *wanted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        cr_assert_float_eq(got[i], wanted[i], 1e-4f, "element %u: %g and %g", i, (double)got[i],
                           (double)wanted[i]);
}

/* First with the model compiled for any batch, then with those compiled for each; threads beyond the first are OpenVINO's. */
static void compare_batches(uint32_t threads)
{
    float in[MAX * ROW], wanted[MAX * OUT], out[MAX * OUT];
    engine_t *engine = open_engine(1, threads);
    engine_model_t *model;
    err_t err;
    network_noise(in, MAX * ROW, 7);
    expect_rows(in, MAX, wanted);
    cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){.max_batch = MAX}, &model, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert(ops->info(model)->batchable);
    cr_assert_eq(ops->info(model)->outputs[0].row_bytes, OUT * sizeof(float));
    for (int prepared = 0; prepared < 2; prepared++)
        for (uint32_t batch = 1; batch <= MAX; batch++) {
            if (prepared)
                cr_assert_eq(ops->prepare(model, batch, &err), STATUS_OK, "%s", err.text);
            memset(out, 0, sizeof out);
            run(ops, engine, model, batch, in, out);
            compare(out, wanted, batch * OUT);
        }
    cr_expect_eq(ops->prepare(model, MAX + 1, &err), STATUS_INVALID_ARGUMENT);
    ops->unload(model);
    ops->close(engine);
}

Test(openvino, every_batch_size_agrees_with_the_reference)
{
    compare_batches(1);
}

/* Weights that are large enough to stay in the file while it is read; a sum takes them as they are. */
Test(openvino, a_model_outlives_its_file)
{
    enum { WIDE = 1 << 15 };
    static float w[WIDE], in[WIDE], out[WIDE];
    char path[] = "/tmp/fermata-outlives-XXXXXX";
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    size_t len;
    err_t err;
    maker_t *m = maker_create(17);
    network_noise(w, WIDE, 3);
    network_noise(in, WIDE, 4);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDE});
    maker_floats(m, "w", 1, (int64_t[]){WIDE}, w);
    maker_node(m, "Add", "x w", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, WIDE});
    uint8_t *bytes = maker_pack(m, &len);
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
    free(bytes);
    const engine_load_t what = {.name = "it", .path = path, .max_batch = 1};
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ftruncate(fd, 0), 0);
    close(fd);
    run(ops, engine, model, 1, in, out);
    for (int i = 0; i < WIDE; i++)
        cr_assert_float_eq(out[i], in[i] + w[i], 1e-6f, "element %d", i);
    ops->unload(model);
    ops->close(engine);
    unlink(path);
}

Test(openvino, several_threads_agree_with_the_reference)
{
    compare_batches(2);
}

/* Lanes share the compiled models, each with requests of its own. */
Test(openvino, streams_run_side_by_side)
{
    enum { STREAMS = 3, ROUNDS = 20 };
    float in[STREAMS * ROW], wanted[STREAMS * OUT], out[STREAMS][OUT];
    engine_t *engine = open_engine(STREAMS, 1);
    engine_model_t *model;
    ticket_t tickets[STREAMS];
    err_t err;
    network_noise(in, STREAMS * ROW, 9);
    expect_rows(in, STREAMS, wanted);
    cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){.max_batch = MAX}, &model, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->prepare(model, 1, &err), STATUS_OK, "%s", err.text);
    for (int round = 0; round < ROUNDS; round++) {
        const void *inputs[STREAMS];
        void *outputs[STREAMS];
        memset(out, 0, sizeof out);
        for (uint32_t s = 0; s < STREAMS; s++) {
            inputs[s] = in + s * ROW;
            outputs[s] = out[s];
            ticket_start(&tickets[s], ops, engine,
                         (engine_job_t){.model = model,
                                        .batch = 1,
                                        .range = {.stream = s},
                                        .inputs = &inputs[s],
                                        .outputs = &outputs[s]});
        }
        for (uint32_t s = 0; s < STREAMS; s++)
            cr_assert_eq(ticket_wait(&tickets[s]), STATUS_OK, "%s", tickets[s].text);
        compare(out[0], wanted, STREAMS * OUT);
    }
    ops->unload(model);
    ops->close(engine);
}

Test(openvino, a_batch_of_one_is_a_batch_when_the_configuration_says_so)
{
    float in[MAX * ROW], wanted[MAX * OUT], out[MAX * OUT];
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    err_t err;
    network_noise(in, MAX * ROW, 7);
    expect_rows(in, MAX, wanted);
    cr_assert_eq(network_load_as(network(1), ops, engine, (engine_load_t){0}, &model, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert(!ops->info(model)->batchable);
    run(ops, engine, model, 1, in, out);
    compare(out, wanted, OUT);
    ops->unload(model);
    engine_load_t what = {.batching = ENGINE_BATCH_FORCE, .max_batch = MAX};
    cr_assert_eq(network_load_as(network(1), ops, engine, what, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->info(model)->max_batch, MAX);
    run(ops, engine, model, MAX, in, out);
    compare(out, wanted, MAX * OUT);
    cr_assert_eq(ops->prepare(model, 2, &err), STATUS_OK, "%s", err.text);
    run(ops, engine, model, 2, in, out);
    compare(out, wanted, 2 * OUT);
    ops->unload(model);
    ops->close(engine);
}

/* An output that is the input itself has no buffer of its own in OpenVINO: bound, it stays unwritten. */
Test(openvino, what_passes_through_comes_out)
{
    float in[WIDTH], out[WIDTH] = {0};
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    err_t err;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 1, (int64_t[]){WIDTH});
    maker_node(m, "Dropout", "x", "y");
    maker_output(m, "y", DTYPE_F32, 1, (int64_t[]){WIDTH});
    cr_assert_eq(network_load_as(m, ops, engine, (engine_load_t){0}, &model, &err), STATUS_OK, "%s",
                 err.text);
    network_noise(in, WIDTH, 3);
    run(ops, engine, model, 1, in, out);
    cr_expect_arr_eq(out, in, sizeof in);
    ops->unload(model);
    ops->close(engine);
}

/* Rows of [3], times a matrix, by an operator that libs/graph does not know: OpenVINO itself says what goes in and out. */
static maker_t *foreign(int64_t batch)
{
    static const float w[] = {1, 2, 3, 4, 5, 6};
    maker_t *m = maker_create(17);
    Onnx__ModelProto *proto = maker_proto(m);
    Onnx__OperatorSetIdProto *set = calloc(1, sizeof *set);
    onnx__operator_set_id_proto__init(set);
    set->domain = strdup("com.microsoft");
    set->has_version = 1;
    set->version = 1;
    proto->opset_import = realloc(proto->opset_import, 2 * sizeof(Onnx__OperatorSetIdProto *));
    proto->opset_import[proto->n_opset_import++] = set;
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){batch, 3});
    maker_floats(m, "w", 2, (int64_t[]){3, 2}, w);
    Onnx__NodeProto *node = maker_node(m, "FusedMatMul", "x w", "y");
    free(node->domain);
    node->domain = strdup("com.microsoft");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){batch, 2});
    return m;
}

static void expect_foreign(int64_t declared, engine_batching_t batching, bool batchable)
{
    static const float in[] = {1, 0, 0, 0, 1, 1};
    float out[4] = {0};
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    err_t err;
    cr_assert_eq(network_load_as(foreign(declared), ops, engine,
                                 (engine_load_t){.batching = batching, .max_batch = 2}, &model, &err),
                 STATUS_OK, "%s", err.text);
    const engine_model_info_t *info = ops->info(model);
    cr_assert_eq(info->batchable, batchable);
    cr_expect_str_eq(info->inputs[0].name, "x");
    cr_expect_str_eq(info->outputs[0].name, "y");
    cr_expect_eq(info->outputs[0].rank, batchable ? 1 : 2);
    if (batchable || declared > 0) {
        run(ops, engine, model, batchable ? 2 : 1, in, out);
        cr_expect_eq(out[0], 1);
        cr_expect_eq(out[1], 2);
    }
    if (batchable) {
        cr_expect_eq(out[2], 8);
        cr_expect_eq(out[3], 10);
    }
    ops->unload(model);
    ops->close(engine);
}

Test(openvino, what_libs_graph_does_not_read_describes_itself)
{
    expect_foreign(-1, ENGINE_BATCH_AUTO, true);
    expect_foreign(-1, ENGINE_BATCH_NONE, false);
    expect_foreign(1, ENGINE_BATCH_AUTO, false);
    expect_foreign(1, ENGINE_BATCH_FORCE, true);
}

static void expect_refused(engine_t *engine, const char *bytes, status_t wanted)
{
    engine_model_t *model;
    err_t err;
    engine_load_t what = {.name = "bad", .bytes = bytes, .len_bytes = strlen(bytes)};
    cr_assert_eq(ops->load(engine, &what, &model, &err), wanted, "%s", err.text);
    cr_expect_null(strchr(err.text, '\n'));
}

/* What it lacks is named in one line, and the next model loads all the same. */
Test(openvino, what_it_cannot_run_it_says_at_load)
{
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    err_t err;
    engine_load_t missing = {.name = "m", .path = "/nonexistent/model.onnx"};
    cr_assert_eq(ops->load(engine, &missing, &model, &err), STATUS_NOT_FOUND, "%s", err.text);
    expect_refused(engine, "this is no model", STATUS_INVALID_ARGUMENT);
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){2, 2});
    maker_node(m, PLUGIN_LACKS, "x", "y");
    maker_output(m, "y", DTYPE_F32, 0, NULL);
    cr_assert_eq(network_load_as(m, ops, engine, (engine_load_t){0}, &model, &err), STATUS_UNSUPPORTED, "%s",
                 err.text);
    cr_expect(strstr(err.text, PLUGIN_LACKS), "%s", err.text);
    cr_expect_null(strchr(err.text, '\n'), "%s", err.text);
    cr_assert_eq(
        network_load_as(network(-1), ops, engine, (engine_load_t){.precision = ENGINE_FP16}, &model, &err),
        STATUS_UNSUPPORTED);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){0}, &model, &err), STATUS_OK,
                     "%s", err.text);
        ops->unload(model);
    }
    ops->close(engine);
}

/* Puts the elements of an initialiser into a file beside the model. */
static void set_external(Onnx__TensorProto *tensor, const char *location)
{
    Onnx__StringStringEntryProto *entry = calloc(1, sizeof *entry);
    onnx__string_string_entry_proto__init(entry);
    entry->key = strdup("location");
    entry->value = strdup(location);
    free(tensor->raw_data.data);
    tensor->raw_data = (ProtobufCBinaryData){.len = 0};
    tensor->has_raw_data = 0;
    tensor->has_data_location = 1;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    tensor->external_data = calloc(1, sizeof *tensor->external_data);
    tensor->external_data[0] = entry;
    tensor->n_external_data = 1;
}

static void write_external(const char *path)
{
    maker_t *m = network(-1);
    size_t len;
    set_external(maker_proto(m)->graph->initializer[1], "fc.bin");
    uint8_t *bytes = maker_pack(m, &len);
    FILE *file = fopen(path, "w");
    cr_assert_eq(fwrite(bytes, 1, len, file), len);
    fclose(file);
    free(bytes);
}

/* The library would open them by itself, and wait for a writer that never comes. */
Test(openvino, no_fifo_reaches_the_library, .timeout = 120)
{
    char folder[] = "/tmp/fermata-fifo-XXXXXX", path[64], data[64];
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    err_t err;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    snprintf(data, sizeof data, "%s/fc.bin", folder);
    const engine_load_t what = {.name = "m", .path = path};
    cr_assert_eq(mkfifo(path, 0600) + mkfifo(data, 0600), 0);
    cr_expect_eq(ops->load(engine, &what, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "model.onnx: a FIFO, not a regular file"), "%s", err.text);
    cr_assert_eq(unlink(path), 0);
    write_external(path);
    cr_expect_eq(ops->load(engine, &what, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "fc.bin: a FIFO, not a regular file"), "%s", err.text);
    cr_assert_eq(unlink(data), 0);
    FILE *file = fopen(data, "w");
    cr_assert_eq(ftruncate(fileno(file), OUT * 20 * sizeof(float)), 0);
    fclose(file);
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_OK, "%s", err.text);
    ops->unload(model);
    ops->close(engine);
    cr_expect_eq(unlink(path) + unlink(data) + rmdir(folder), 0);
}

/* One that waits behind others; whichever of them has begun by then ends as usual. */
Test(openvino, what_waits_can_be_cancelled)
{
    enum { JOBS = 40 };
    float in[MAX * ROW], out[MAX * OUT];
    engine_t *engine = open_engine(1, 1);
    engine_model_t *model;
    static ticket_t tickets[JOBS];
    err_t err;
    const void *inputs[] = {in};
    void *outputs[] = {out};
    network_noise(in, MAX * ROW, 5);
    cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){.max_batch = MAX}, &model, &err),
                 STATUS_OK, "%s", err.text);
    engine_job_t job = {.model = model, .batch = MAX, .inputs = inputs, .outputs = outputs};
    for (int i = 0; i < JOBS; i++)
        ticket_start(&tickets[i], ops, engine, job);
    bool cancelled = ops->cancel(engine, &tickets[JOBS - 1].job);
    for (int i = 0; i < JOBS - 1; i++)
        cr_assert_eq(ticket_wait(&tickets[i]), STATUS_OK, "%s", tickets[i].text);
    cr_expect_eq(ticket_wait(&tickets[JOBS - 1]), cancelled ? STATUS_CANCELLED : STATUS_OK);
    cr_expect_not(ops->cancel(engine, &tickets[0].job));
    ops->flush(engine);
    ops->unload(model);
    ops->close(engine);
}
