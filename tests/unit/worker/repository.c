#include "worker/state/served.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/fermata-repository-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
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
    char command[100];

    snprintf(command, sizeof(command), "rm -r %s", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(served, .init = setup, .fini = teardown);

static const char *dir_of(const char *model)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s/%s", root, model);
    return path;
}

static void take_all(served_t *served, const repository_source_t *source)
{
    err_t err;

    cr_assert_eq(served_fill(served, source, &err), STATUS_OK, "%s", err.text);
}

static void open_root(repository_source_t *source, const char *dir, const char *csv)
{
    err_t err;

    cr_assert_eq(repository_source_open(source, dir, csv, 4, 32, &err), STATUS_OK, "%s", err.text);
}

Test(served, chooses_the_highest_version_and_reports_what_is_no_model)
{
    served_t served = {0};
    repository_source_t source;
    repository_reading_t *readings;
    uint32_t count;
    err_t err;

    put("b/1/model.onnx", "");
    put("b/10/model.onnx", "");
    put("b/9/model.onnx", "");
    put("b/11/readme", "no model in here");
    put("b/012/model.onnx", "");
    put("b/x12/model.onnx", "");
    put("a/3/model.onnx", "");
    put("a/7/model.onnx", "");
    put("a/config.yaml", "version: 3\n");
    put("empty/readme", "");
    put("bad name/1/model.onnx", "");
    put("gone/1/model.onnx", "");
    put("gone/config.yaml", "version: 2\n");
    put("typo/1/model.onnx", "");
    put("typo/config.yaml", "slo_ms: 10\nmaxbatch: 3\n");
    put(".hidden/1/model.onnx", "");
    put("file", "not a folder");
    open_root(&source, root, NULL);
    take_all(&served, &source);

    cr_assert_eq(served.count, 6);
    model_t *a = served_find(&served, "a"), *b = served_find(&served, "b");
    cr_assert_eq(a->version, 3);
    cr_assert_eq(a->serving->state, MODEL_LOADING);
    cr_assert_eq(b->version, 10);
    struct {
        const char *name, *reason;
    } bad[] = {
        {"empty", "no version folder with a model.onnx"},
        {"bad name", "a model's name is letters, digits, '.', '_' and '-'"},
        {"gone", "version 2 is not there"},
        {"typo", "config.yaml:2:1: unknown key"},
    };
    for (int i = 0; i < 4; i++) {
        model_t *model = served_find(&served, bad[i].name);
        cr_assert_eq(model->serving->state, MODEL_FAILED, "%s", bad[i].name);
        cr_assert_not_null(strstr(model->load_err.text, bad[i].reason), "%s: %s", bad[i].name,
                           model->load_err.text);
    }
    served_dispose(&served, NULL);
    open_root(&source, "/nonexistent/models", NULL);
    cr_assert_eq(repository_read_all(&source, &readings, &count, &err), STATUS_NOT_FOUND);
}

/* The versions of a reading, highest first, as text. */
static const char *versions_of(const repository_source_t *source, const char *name, int64_t version)
{
    static char text[1024];
    repository_reading_t reading;
    size_t len = 0;

    repository_read(source, name, version, &reading);
    text[0] = '\0';
    for (uint32_t i = 0; i < reading.count; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%lld", i ? "," : "",
                                (long long)reading.versions[i]->version);
    if (reading.status != STATUS_OK)
        snprintf(text, sizeof(text), "%s: %s", status_name(reading.status), reading.err.text);
    repository_reading_dispose(&reading);
    return text;
}

Test(served, serves_the_versions_that_the_policy_names)
{
    repository_source_t source;

    for (int v = 1; v <= 12; v++) {
        char name[64];
        snprintf(name, sizeof(name), "m/%d/model.onnx", v);
        put(name, "");
    }
    open_root(&source, root, NULL);
    cr_assert_str_eq(versions_of(&source, "m", 0), "12");
    cr_assert_str_eq(versions_of(&source, "m", 5), "5", "one that is asked for, whatever the policy");
    put("m/config.yaml", "version_policy: {latest: 3}\n");
    cr_assert_str_eq(versions_of(&source, "m", 0), "12,11,10");
    put("m/config.yaml", "version_policy: all\n");
    cr_assert_str_eq(versions_of(&source, "m", 0), "12,11,10,9,8,7,6,5,4,3,2,1");
    put("m/config.yaml", "version_policy: {specific: [2, 7]}\n");
    cr_assert_str_eq(versions_of(&source, "m", 0), "7,2");
    put("m/config.yaml", "version: 4\n");
    cr_assert_str_eq(versions_of(&source, "m", 0), "4");
    put("m/config.yaml", "version_policy: {specific: [2, 70]}\n");
    cr_assert_str_eq(versions_of(&source, "m", 0), "not_found: version 70 is not there");
    cr_assert_str_eq(versions_of(&source, "m", 70), "not_found: version 70 is not there");
    cr_assert_str_eq(versions_of(&source, "nobody", 0),
                     "not_found: there is no model 'nobody' in the repository");
    cr_assert_not_null(strstr(versions_of(&source, "../m", 0), "invalid_argument"));
    cr_assert_not_null(strstr(versions_of(&source, ".", 0), "invalid_argument"));
}

Test(served, another_file_is_another_fingerprint_and_a_kept_profile_is_none)
{
    repository_source_t source;
    repository_reading_t before, after;

    put("m/1/model.onnx", "one");
    open_root(&source, root, NULL);
    repository_read(&source, "m", 0, &before);
    put("m/1/profile.onednn.txt", "kept by the worker");
    repository_read(&source, "m", 0, &after);
    cr_assert_eq(before.versions[0]->fingerprint, after.versions[0]->fingerprint);
    repository_reading_dispose(&after);
    const char *changes[][2] = {
        {"m/1/model.onnx", "other"}, {"m/1/weights.bin", "external"}, {"m/config.yaml", "priority: 1\n"}};
    for (int i = 0; i < 3; i++) {
        put(changes[i][0], changes[i][1]);
        repository_read(&source, "m", 0, &after);
        cr_assert_neq(before.versions[0]->fingerprint, after.versions[0]->fingerprint, "%s", changes[i][0]);
        repository_reading_dispose(&before);
        before = after;
    }
    repository_reading_dispose(&before);
}

Test(served, reads_a_whole_config)
{
    model_config_t config;
    err_t err;

    put("m/config.yaml",
        "slo_ms: 12.5\nmax_batch: 16\npriority: 3\nmode: staged\nversion: 2\nprecision: bf16\n"
        "labels: names.txt\nemulate: {alpha_ms: 0.5, beta_ms: 2}\n"
        "preprocess:\n  input: image\n  decode: RGB\n  resize: {width: 256, height: 256, filter: bilinear}\n"
        "  crop: {width: 224, height: 224}\n  scale: 0.5\n  mean: [0.1, 0.2, 0.3]\n  std: [1, 2, 4]\n"
        "  layout: NHWC\n"
        "postprocess: {softmax: scores}\n");
    put("m/names.txt", "cat\ndog with a tail\r\n");
    cr_assert_eq(model_config_read(dir_of("m"), &config, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(config.slo_ns, 12500000);
    cr_assert_eq(config.max_batch, 16);
    cr_assert_eq(config.priority, 3);
    cr_assert_eq(config.versions.kind, VERSIONS_SPECIFIC);
    cr_assert_eq(config.versions.count, 1);
    cr_assert_eq(config.versions.list[0], 2);
    cr_assert_eq(config.precision, ENGINE_BF16);
    cr_assert(config.has_mode);
    cr_assert_eq(config.mode, MODE_STAGED);
    cr_assert(config.has_line);
    cr_assert_eq(config.alpha_ns, 500000);
    cr_assert_eq(config.beta_ns, 2000000);
    cr_assert_eq(config.label_count, 2);
    cr_assert_str_eq(config.labels[1], "dog with a tail");
    cr_assert_str_eq(config.image.input, "image");
    cr_assert_eq(config.image.resize_width, 256);
    cr_assert_eq(config.image.crop_height, 224);
    cr_assert_float_eq(config.image.mean[2], 0.3, 1e-6);
    cr_assert_float_eq(config.image.std[2], 4, 1e-6);
    cr_assert_eq(config.image.layout, IMAGE_NHWC);
    cr_assert_str_eq(config.image.softmax, "scores");
    model_config_dispose(&config);

    cr_assert_eq(model_config_read(dir_of("none"), &config, &err), STATUS_OK, "a config is not needed");
    cr_assert_not(config.has_mode);
    model_config_dispose(&config);
}

Test(served, refuses_wrong_configs_with_their_place)
{
    struct {
        const char *text, *reason;
    } cases[] = {
        {"slo_ms: 0\n", "slo_ms must be above 0"},
        {"slo_ms: soon\n", "config.yaml:1:"},
        {"max_batch: 0\n", "config.yaml:1:"},
        {"max_batch: 100000\n", "config.yaml:1:"},
        {"priority: -1\n", "config.yaml:1:"},
        {"mode: eager\n", "config.yaml:1:"},
        {"precision: int1\n", "config.yaml:1:"},
        {"version: one\n", "config.yaml:1:"},
        {"version_policy: none\n", "config.yaml:1:"},
        {"version_policy: {latest: 0}\n", "config.yaml:1:"},
        {"version_policy: {latest: 100}\n", "config.yaml:1:"},
        {"version_policy: {specific: []}\n", "specific: 1 to 64 versions"},
        {"version_policy: {specific: 3}\n", "config.yaml:1:"},
        {"version_policy: {specific: [1, x]}\n", "config.yaml:1:"},
        {"version_policy: {latest: 1, specific: [1]}\n", "version_policy is all, {latest: N} or"},
        {"version_policy: {}\n", "version_policy is all, {latest: N} or"},
        {"version_policy: {newest: 1}\n", "config.yaml:1:"},
        {"version: 1\nversion_policy: all\n", "exclude each other"},
        {"labels: ../secret\n", "own folder"},
        {"labels: /etc/passwd\n", "own folder"},
        {"labels: nothing.txt\n", "nothing.txt"},
        {"labels: long.txt\n", "long.txt:2: the label has over 4095 bytes"},
        {"emulate: {alpha_ms: 1}\n", "beta_ms"},
        {"emulate: {alpha_ms: 1, beta_ms: -1}\n", "config.yaml:1:"},
        {"emulate: fast\n", "config.yaml:1:"},
        {"\npreprocess:\n  resize: {breadth: 3}\n", "config.yaml:3:"},
        {"preprocess: {input: x, filter: magic}\n", "config.yaml:1:"},
        {"preprocess: yes\n", "config.yaml:1:"},
        {"- 1\n- 2\n", "config.yaml:1:"},
        {"slo_ms: 1\nslo_ms: 2\n", "config.yaml:2:"},
        {"{", "config.yaml:"},
    };
    model_config_t config;
    char labels[5000] = "short\n";
    err_t err;

    memset(labels + 6, 'x', sizeof(labels) - 7);
    put("m/long.txt", labels);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put("m/config.yaml", cases[i].text);
        cr_assert_neq(model_config_read(dir_of("m"), &config, &err), STATUS_OK, "%s", cases[i].text);
        cr_assert_not_null(strstr(err.text, cases[i].reason), "%s: %s", cases[i].text, err.text);
        model_config_dispose(&config);
    }
}

Test(served, profiles_become_models_or_belong_to_one)
{
    served_t served = {0};
    repository_source_t source;
    err_t err;

    put("models/known/1/model.onnx", "");
    put("zoo.csv", "name,alpha_ms,beta_ms,slo_ms\nfast,0.5,1,20\nknown,2,3,50\n");
    char models[300];
    snprintf(models, sizeof(models), "%s", dir_of("models"));
    open_root(&source, models, dir_of("zoo.csv"));
    take_all(&served, &source);
    cr_assert_eq(served.count, 2);
    model_t *fast = served_find(&served, "fast"), *known = served_find(&served, "known");
    cr_assert(fast->bare);
    cr_assert_eq(fast->config.slo_ns, 20000000);
    cr_assert_eq(fast->config.max_batch, 32);
    cr_assert_eq(profile_latency_ns(&fast->profile, 4), 3000000);
    cr_assert_not(known->bare);
    cr_assert_eq(profile_latency_ns(&known->profile, 1), 5000000);
    served_dispose(&served, NULL);
    repository_source_close(&source);
    cr_assert_eq(repository_source_open(&source, NULL, dir_of("none.csv"), 4, 32, &err), STATUS_NOT_FOUND);
}
