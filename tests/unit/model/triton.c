#include "model/parts/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/fermata-triton-XXXXXX";
static model_config_t config;
static err_t err;

static const char *path_of(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void setup(void)
{
    cr_assert_not_null(mkdtemp(root));
}

static void teardown(void)
{
    model_config_dispose(&config);
    unlink(path_of("config.pbtxt"));
    unlink(path_of("config.yaml"));
    unlink(path_of("names.txt"));
    rmdir(root);
}

TestSuite(triton, .init = setup, .fini = teardown);

static status_t read_config(const char *pbtxt)
{
    put("config.pbtxt", pbtxt);
    model_config_dispose(&config);
    return model_config_read(root, &config, &err);
}

static void take(const char *pbtxt)
{
    cr_assert_eq(read_config(pbtxt), STATUS_OK, "%s", err.text);
}

static const char *notes(void)
{
    static char text[4096];

    return triton_config_text(config.triton, text, sizeof(text));
}

Test(triton, takes_up_what_has_a_meaning_here)
{
    put("names.txt", "cat\ndog\n");
    take("name: \"m\"\nplatform: \"onnxruntime_onnx\"\nbackend: \"onnxruntime\"\nmax_batch_size: 16\n"
         "default_model_filename: \"net.onnx\"\n"
         "input [ { name: \"x\" data_type: TYPE_FP32 format: FORMAT_NONE dims: [ 3, -1 ] } ]\n"
         "output [ { name: \"y\" data_type: TYPE_STRING dims: [ 4 ] reshape { shape: [ 2, 2 ] }\n"
         "  label_filename: \"names.txt\" } ]\n"
         "version_policy: { specific { versions: [ 3, 1 ] } }\n"
         "dynamic_batching { default_queue_policy { timeout_action: REJECT\n"
         "  default_timeout_microseconds: 25000 allow_timeout_override: true } preserve_ordering: false }\n"
         "instance_group [ { count: 1 kind: KIND_AUTO } ]\nmodel_transaction_policy { decoupled: false }\n"
         "response_cache { enable: false }\n");
    cr_expect_eq(config.max_batch, 16);
    cr_expect_eq(config.batching, ENGINE_BATCH_FORCE);
    cr_expect_eq(config.slo_ns, 25000000);
    cr_expect_eq(config.versions.kind, VERSIONS_SPECIFIC);
    cr_expect_eq(config.versions.count, 2);
    cr_expect_eq(config.versions.list[0], 3);
    cr_expect_eq(config.label_count, 2);
    cr_expect_str_eq(model_config_file(&config), "net.onnx");
    cr_expect_str_eq(config.triton->name, "m");
    cr_expect_eq(config.triton->tensor_count, 2);
    cr_expect_str_eq(config.triton->tensors[1].datatype, "BYTES");
    cr_expect_str_eq(notes(), "");

    take("version_policy: { latest { num_versions: 2 } }");
    cr_expect(config.versions.kind == VERSIONS_LATEST && config.versions.count == 2);
    cr_expect_eq(config.batching, ENGINE_BATCH_AUTO, "nothing is said of batches");
    cr_expect_str_eq(model_config_file(&config), "model.onnx");
    take("version_policy: { all { } } max_batch_size: 0");
    cr_expect_eq(config.versions.kind, VERSIONS_ALL);
    cr_expect_eq(config.batching, ENGINE_BATCH_NONE);
    take("input { name: 'x' }");
    cr_expect_eq(config.batching, ENGINE_BATCH_NONE, "as in Triton");
    take("max_batch_size: 1");
    cr_expect(config.batching == ENGINE_BATCH_FORCE && config.max_batch == 1);
}

Test(triton, names_what_it_does_not_take_up)
{
    take("max_batch_size: 5000\n"
         "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n  max_queue_delay_microseconds: 100\n"
         "  default_queue_policy { max_queue_size: 3 }\n}\n"
         "instance_group [ { count: 2\n  kind: KIND_GPU\n  gpus: [ 0, 1 ] } ]\n"
         "parameters { key: \"intra_op_thread_count\" value: { string_value: \"1\" } }\n"
         "optimisation { }\n"
         "optimization { graph { level: 1 } }\n"
         "input { name: 'x' optional: true }\n");
    cr_expect_str_eq(
        notes(),
        "config.pbtxt: not taken up: max_batch_size (line 1), dynamic_batching.preferred_batch_size (line "
        "3), "
        "dynamic_batching.max_queue_delay_microseconds (line 4), "
        "dynamic_batching.default_queue_policy.max_queue_size (line 5), instance_group.count (line 7), "
        "instance_group.kind (line 8), instance_group.gpus (line 9), parameters intra_op_thread_count (line "
        "10), "
        "optimisation (line 11), optimization (line 12), input.optional (line 13)");
    cr_expect_eq(config.max_batch, 1024);
    cr_expect_str_eq(config.triton->notes[8].why, "unknown");

    char text[64];
    cr_expect_str_eq(triton_config_text(config.triton, text, sizeof(text)),
                     "config.pbtxt: not taken up: max_batch_size (line 1), …");
}

Test(triton, refuses_what_it_cannot_serve_as_triton_does)
{
    static const char served[] =
        "are not served; those of the backend 'onnxruntime' (platform 'onnxruntime_onnx') are";
    static const struct {
        const char *text, *error;
        status_t status;
    } cases[] = {
        {"backend: \"tensorrt\"", "config.pbtxt:1:1: models of the backend 'tensorrt'", STATUS_UNSUPPORTED},
        {"backend: \"python\"", served, STATUS_UNSUPPORTED},
        {"\n platform: \"pytorch_libtorch\"", "config.pbtxt:2:2: models of the platform 'pytorch_libtorch'",
         STATUS_UNSUPPORTED},
        {"platform: \"tensorflow_savedmodel\"", served, STATUS_UNSUPPORTED},
        {"platform: \"ensemble\"", "ensembles are not served", STATUS_UNSUPPORTED},
        {"ensemble_scheduling { step [ ] }", "ensembles are not served", STATUS_UNSUPPORTED},
        {"sequence_batching { }", "keep a state between requests", STATUS_UNSUPPORTED},
        {"model_transaction_policy { decoupled: true }", "decoupled models are not served",
         STATUS_UNSUPPORTED},
        {"batch_input [ { kind: BATCH_ELEMENT_COUNT } ]", "made of a batch", STATUS_UNSUPPORTED},
        {"max_batch_size: many", "config.pbtxt:1:1: 'max_batch_size' is a whole number",
         STATUS_INVALID_ARGUMENT},
        {"max_batch_size: 2\nmax_batch_size: 3", "config.pbtxt:2:1: 'max_batch_size' stands twice",
         STATUS_INVALID_ARGUMENT},
        {"max_batch_size: 2 }", "config.pbtxt:1:19: expected the name of a field", STATUS_INVALID_ARGUMENT},
        {"name: 3", "'name' is a string in quotes", STATUS_INVALID_ARGUMENT},
        {"default_model_filename: \"../x\"", "names a file in the folder of a version",
         STATUS_INVALID_ARGUMENT},
        {"input { dims: 3 }", "an input without a name", STATUS_INVALID_ARGUMENT},
        {"input { name: 'x' data_type: FP32 }", "no such data_type", STATUS_INVALID_ARGUMENT},
        {"input { name: 'x' dims: [ 0 ] }", "a dimension of 0", STATUS_INVALID_ARGUMENT},
        {"input { name: 'x' dims: [1,1,1,1,1,1,1,1,1] }", "more than 8 dimensions", STATUS_INVALID_ARGUMENT},
        {"input { name: 'x' dims: [ 6 ] reshape { shape: [ 2, 4 ] } }", "unlike numbers of elements",
         STATUS_INVALID_ARGUMENT},
        {"output { name: 'y' dims: [ -1 ] reshape { shape: [ 1 ] } }", "that vary cannot be reshaped",
         STATUS_INVALID_ARGUMENT},
        {"version_policy { all { } latest { } }", "is one of latest, all and specific",
         STATUS_INVALID_ARGUMENT},
        {"version_policy { specific { } }", "1 to 64 versions", STATUS_INVALID_ARGUMENT},
        {"output { name: 'y' label_filename: \"names.txt\" }", "names.txt: No such file", STATUS_NOT_FOUND},
        {"output { name: 'y' label_filename: \"/etc/passwd\" }", "in the model's own folder",
         STATUS_INVALID_ARGUMENT},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(read_config(cases[i].text), cases[i].status, "%s: %s", cases[i].text, err.text);
        cr_expect(strstr(err.text, cases[i].error), "%s: %s", cases[i].text, err.text);
    }
}

Test(triton, stands_beside_a_config_yaml_unless_the_two_contradict_each_other)
{
    static const struct {
        const char *yaml, *error;
    } cases[] = {
        {"slo_ms: 20\nmax_batch: 8\n",
         "config.yaml:2:1: max_batch: 8 contradicts max_batch_size 16 in config.pbtxt:1"},
        {"slo_ms: 30\n",
         "config.yaml:1:1: slo_ms: 30 contradicts default_timeout_microseconds 20000 in config.pbtxt:2"},
        {"version_policy: all\n",
         "config.yaml:1:1: version_policy: all contradicts version_policy in config.pbtxt:3"},
        {"version: 2\n", "config.yaml:1:1: version: 2 contradicts version_policy in config.pbtxt:3"},
        {"labels: other.txt\n",
         "config.yaml:1:1: labels: other.txt contradicts label_filename names.txt in config.pbtxt:4"},
    };
    static const char pbtxt[] =
        "max_batch_size: 16\n"
        "dynamic_batching { default_queue_policy { default_timeout_microseconds: 20000 } }\n"
        "version_policy { latest { num_versions: 2 } }\n"
        "output { name: 'y' label_filename: 'names.txt' }\n";

    put("names.txt", "cat\n");
    put("config.yaml",
        "slo_ms: 20\nmax_batch: 16\nversion_policy: {latest: 2}\nlabels: names.txt\npriority: 3\n");
    take(pbtxt);
    cr_expect(config.max_batch == 16 && config.slo_ns == 20000000 && config.priority == 3);
    put("config.yaml", "priority: 4\n");
    take(pbtxt);
    cr_expect(config.max_batch == 16 && config.slo_ns == 20000000 && config.priority == 4);
    put("config.yaml", "max_batch: 1\n");
    take("max_batch_size: 0");
    cr_expect_eq(config.batching, ENGINE_BATCH_NONE, "both say that rows are not batched");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("config.yaml", cases[i].yaml);
        cr_expect_eq(read_config(pbtxt), STATUS_INVALID_ARGUMENT, "%s", cases[i].yaml);
        cr_expect(strstr(err.text, cases[i].error), "%s: %s", cases[i].yaml, err.text);
    }
}

/* ---- against the model ---- */

static const engine_tensor_t inputs[] = {
    {.name = "x", .dtype = DTYPE_F32, .rank = 2, .dims = {3, -1}, .symbols = {NULL, "width"}},
    {.name = "words", .dtype = DTYPE_U8, .rank = 2, .dims = {2, 256}, .text = true},
};
static const engine_tensor_t outputs[] = {{.name = "y", .dtype = DTYPE_F32, .rank = 1, .dims = {6}}};
static const engine_model_info_t info = {
    .inputs = inputs, .outputs = outputs, .input_count = 2, .output_count = 1, .batchable = true};

static status_t check(const char *pbtxt)
{
    take(pbtxt);
    return triton_config_check(config.triton, &info, &config.shapes, &err);
}

Test(triton, inputs_and_outputs_are_those_of_the_model)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"input { name: 'z' }", "config.pbtxt:1: the model has no input 'z'; it has 'x', 'words'"},
        {"\noutput { name: 'x' }", "config.pbtxt:2: the model has no output 'x'; it has 'y'"},
        {"input { name: 'x' data_type: TYPE_FP16 }", "input 'x' is FP16, and in the model file FP32"},
        {"input { name: 'words' data_type: TYPE_UINT8 }",
         "input 'words' is UINT8, and in the model file BYTES"},
        {"input { name: 'x' dims: [ 8, 3, 4 ] }",
         "input 'x' has the dims [8, 3, 4], and in the model file [3, -1] without the batch dimension"},
        {"output { name: 'y' dims: [ 5 ] }", "output 'y' has the dims [5], and in the model file [6]"},
        {"output { name: 'y' dims: [ 6 ] reshape { shape: [ 6, 1 ] } }",
         "output 'y' has the shape [6, 1], and in the model file [6]"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(check(cases[i].text), STATUS_INVALID_ARGUMENT, "%s", cases[i].text);
        cr_expect(strstr(err.text, cases[i].error), "%s: %s", cases[i].text, err.text);
    }
    cr_expect_eq(check("input { name: 'x' data_type: TYPE_FP32 dims: [ 3, -1 ] }\n"
                       "input { name: 'words' data_type: TYPE_STRING dims: [ 2 ] }\n"
                       "output { name: 'y' dims: [ 2, 3 ] reshape { shape: [ 6 ] } }"),
                 STATUS_OK, "%s", err.text);
    cr_expect_eq(config.shapes.dim_count, 0, "what varies in both is not bounded");
    const triton_tensor_t *y = triton_config_reshaped(config.triton, "y", false);
    cr_assert_not_null(y);
    cr_expect(y->rank == 2 && y->dims[0] == 2 && y->dims[1] == 3);
    cr_expect_null(triton_config_reshaped(config.triton, "y", true));
    cr_expect_null(triton_config_reshaped(config.triton, "x", true));
    cr_expect_null(triton_config_reshaped(NULL, "x", true));
}

Test(triton, a_fixed_dimension_bounds_the_axis_that_the_model_leaves_open)
{
    cr_expect_eq(check("input { name: 'x' dims: [ 3, 16 ] }"), STATUS_OK, "%s", err.text);
    cr_assert_eq(config.shapes.dim_count, 1);
    cr_expect_str_eq(config.shapes.dims[0].name, "width");
    cr_expect_eq(config.shapes.dims[0].size_max, 16);
    cr_assert_eq(config.shapes.reference_count, 1);
    cr_expect(config.shapes.references[0].count == 1 && config.shapes.references[0].sizes[0].size == 16);
    cr_expect_eq(triton_config_check(config.triton, &info, &config.shapes, &err), STATUS_OK);
    cr_expect_eq(config.shapes.reference_count, 1, "a second load finds the bounds of the first");
}
