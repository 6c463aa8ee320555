#include "load/options.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

static load_options_t options;
static config_t *config;
static err_t err;

static status_t load(int argc, char *const *argv)
{
    static char *const env[] = {NULL};
    config_wish_t wish;
    return config_load(&load_schema, argc, argv, env, &options, &config, &wish, &err);
}
#define LOAD(...)                                                         \
    load((int)(sizeof((char *[]){"load", __VA_ARGS__}) / sizeof(char *)), \
         (char *[]){"load", __VA_ARGS__, NULL})

Test(options, models_have_their_own_rates)
{
    cr_assert_eq(LOAD("--model", "digits:250.5", "--model", "resnet", "--duration", "2s"), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(options.models.len, 2);
    cr_assert_eq(options.duration_ns, 2 * NS_PER_S);
    model_load_t model = {.rate_per_s = 100, .deadline_ns = 7};
    cr_assert_eq(load_parse_model(options.models.items[0], &model, &err), STATUS_OK);
    cr_assert_str_eq(model.name, "digits");
    cr_assert_float_eq(model.rate_per_s, 250.5, 1e-9);
    cr_assert_eq(model.deadline_ns, 7);
    model.rate_per_s = 100;
    cr_assert_eq(load_parse_model(options.models.items[1], &model, &err), STATUS_OK);
    cr_assert_float_eq(model.rate_per_s, 100, 1e-9);
    cr_assert_eq(load_parse_model("vgg:80:25ms", &model, &err), STATUS_OK);
    cr_assert_str_eq(model.name, "vgg");
    cr_assert_float_eq(model.rate_per_s, 80, 1e-9);
    cr_assert_eq(model.deadline_ns, 25 * NS_PER_MS);
    config_destroy(config);
}

Test(options, mistakes_are_refused)
{
    static char long_name[MODEL_NAME_BYTES + 1];
    memset(long_name, 'm', sizeof long_name - 1);
    const char *const wrong[] = {"",        ":5",        "m:",      "m:x",       "m:0",
                                 "m:-1",    "m:1e9",     "m:5:x",   "m:5:-10ms", "m:5:0s",
                                 "m::10ms", "m:5:1ms:2", ":5:10ms", long_name};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        model_load_t model = {.name = "kept", .rate_per_s = 1};
        cr_assert_eq(load_parse_model(wrong[i], &model, &err), STATUS_INVALID_ARGUMENT, "%s", wrong[i]);
        cr_assert_str_eq(model.name, "kept");
        cr_assert_not_null(strstr(err.text, "--model"));
    }
    cr_assert_neq(LOAD("--rate", "5"), STATUS_OK, "a model is required");
    cr_assert_neq(LOAD("--model", "m", "--protocol", "soap"), STATUS_OK);
    cr_assert_neq(LOAD("--model", "m", "--nonsense"), STATUS_OK);
}

Test(options, what_does_not_fit_together)
{
    cr_assert_eq(LOAD("--model", "m", "--duration", "1s", "--warmup", "1s"), STATUS_OK, "%s", err.text);
    cr_assert_eq(load_options_check(&options, &err), STATUS_INVALID_ARGUMENT);
    config_destroy(config);
    cr_assert_eq(LOAD("--model", "m", "--picture-input", "x"), STATUS_OK, "%s", err.text);
    cr_assert_eq(load_options_check(&options, &err), STATUS_INVALID_ARGUMENT);
    config_destroy(config);
    cr_assert_eq(LOAD("--model", "m", "--steps", "x.csv", "--concurrency", "3"), STATUS_OK, "%s", err.text);
    cr_assert_eq(load_options_check(&options, &err), STATUS_INVALID_ARGUMENT);
    config_destroy(config);
}
