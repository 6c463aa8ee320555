#include "repository.h"

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

TestSuite(repository, .init = setup, .fini = teardown);

static const char *dir_of(const char *model)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s/%s", root, model);
    return path;
}

Test(repository, chooses_the_highest_version_and_reports_what_is_no_model)
{
    repository_t repository = {0};
    err_t err;

    put("b/1/model.onnx", "");
    put("b/10/model.onnx", "");
    put("b/9/model.onnx", "");
    put("b/11/readme", "no model in here");
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
    cr_assert_eq(repository_scan(&repository, root, &err), STATUS_OK, "%s", err.text);

    cr_assert_eq(repository.count, 6);
    model_t *a = repository_find(&repository, "a"), *b = repository_find(&repository, "b");
    cr_assert_eq(a->version, 3);
    cr_assert_eq(a->state, MODEL_LOADING);
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
        model_t *model = repository_find(&repository, bad[i].name);
        cr_assert_eq(model->state, MODEL_FAILED, "%s", bad[i].name);
        cr_assert_not_null(strstr(model->load_err.text, bad[i].reason), "%s: %s", bad[i].name,
                           model->load_err.text);
    }
    repository_dispose(&repository, NULL);
    cr_assert_eq(repository_scan(&repository, "/nonexistent/models", &err), STATUS_NOT_FOUND);
}

Test(repository, reads_a_whole_config)
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
    cr_assert_eq(config.version, 2);
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

Test(repository, refuses_wrong_configs_with_their_place)
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
        {"labels: ../secret\n", "own folder"},
        {"labels: /etc/passwd\n", "own folder"},
        {"labels: nothing.txt\n", "nothing.txt"},
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
    err_t err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put("m/config.yaml", cases[i].text);
        cr_assert_neq(model_config_read(dir_of("m"), &config, &err), STATUS_OK, "%s", cases[i].text);
        cr_assert_not_null(strstr(err.text, cases[i].reason), "%s: %s", cases[i].text, err.text);
        model_config_dispose(&config);
    }
}

Test(repository, profiles_become_models_or_belong_to_one)
{
    repository_t repository = {0};
    err_t err;

    put("models/known/1/model.onnx", "");
    put("zoo.csv", "name,alpha_ms,beta_ms,slo_ms\nfast,0.5,1,20\nknown,2,3,50\n");
    cr_assert_eq(repository_scan(&repository, dir_of("models"), &err), STATUS_OK);
    cr_assert_eq(repository_add_profiles(&repository, dir_of("zoo.csv"), 4, 32, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(repository.count, 2);
    model_t *fast = repository_find(&repository, "fast"), *known = repository_find(&repository, "known");
    cr_assert(fast->bare);
    cr_assert_eq(fast->config.slo_ns, 20000000);
    cr_assert_eq(fast->config.max_batch, 32);
    cr_assert_eq(profile_latency_ns(&fast->profile, 4), 3000000);
    cr_assert_not(known->bare);
    cr_assert_eq(profile_latency_ns(&known->profile, 1), 5000000);
    cr_assert_eq(repository_add_profiles(&repository, dir_of("none.csv"), 4, 32, &err), STATUS_NOT_FOUND);
    repository_dispose(&repository, NULL);
}
