/* The models file of `fermata plan`: both forms, and every way to get it wrong with file and line. */
#include "fermata/plan/input.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static status_t read_text(const char *suffix, const char *text, plan_input_t *input, err_t *err)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/plan_input_XXXXXX%s", suffix);
    int fd = mkstemps(path, (int)strlen(suffix));
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    status_t status = plan_input_read(path, input, err);
    unlink(path);
    return status;
}

static void expect_equal(const plan_input_t *input)
{
    cr_assert_eq(input->count, 2);
    const plan_model_t *a = &input->models[0], *b = &input->models[1];
    cr_expect_str_eq(a->name, "resnet");
    cr_expect_float_eq(a->rate, 900.5, 1e-9);
    cr_expect_eq(a->memory_bytes, 98000000);
    cr_expect_eq(a->profile.alpha_ns, 1050000);
    cr_expect_eq(a->profile.max_batch, 32);
    cr_expect_eq(a->cluster, 1);
    cr_expect_str_eq(b->name, "bert");
    cr_expect_eq(b->cluster, -1);
    cr_expect_eq(b->profile.max_batch, 128);
}

Test(plan_input, csv_and_yaml_say_the_same)
{
    plan_input_t input;
    err_t err = {0};
    cr_assert_eq(
        read_text(".csv",
                  "# models\nrate, name,memory,alpha_ms,max_batch,cluster\n900.5,resnet, 98MB ,1.05,32,1\n\n"
                  "20,bert,1GiB,7,,\n",
                  &input, &err),
        STATUS_OK, "%s", err.text);
    expect_equal(&input);
    plan_input_dispose(&input);
    cr_assert_eq(
        read_text(".yaml",
                  "models:\n  - {name: resnet, rate: 900.5, memory: 98MB, alpha_ms: 1.05, max_batch: 32, "
                  "cluster: 1}\n  - {name: bert, rate: 20, memory: 1GiB, alpha_ms: 7}\n",
                  &input, &err),
        STATUS_OK, "%s", err.text);
    expect_equal(&input);
    plan_input_dispose(&input);
}

Test(plan_input, mistakes_are_named_with_their_line)
{
    static const struct {
        const char *suffix, *text, *says;
    } cases[] = {
        {".csv", "", "no models"},
        {".csv", "name,rate\n", "no models"},
        {".csv", "name,colour\n", ":1: unknown column colour"},
        {".csv", "name,memory\n", ":1: column rate is missing"},
        {".csv", "name,rate,rate\n", "twice"},
        {".csv", "name,rate\na,1\nb\n", ":3: 1 columns instead of 2"},
        {".csv", "name,rate\na,1,2\n", ":2: more than 2 columns"},
        {".csv", "name,rate\na,-1\n", ":2: rate"},
        {".csv", "name,rate\na,nan\n", ":2: rate"},
        {".csv", "name,rate\na,fast\n", ":2: rate"},
        {".csv", "name,rate\n,1\n", ":2: name"},
        {".csv", "name,rate,memory\na,1,-5\n", ":2: memory"},
        {".csv", "name,rate,max_batch\na,1,99999999\n", ":2: a"},
        {".csv", "name,rate,alpha_ms\na,1,1e12\n", "longer than an hour"},
        {".csv", "name,rate\na,1\na,2\n", "two models are named a"},
        {".yaml", "models: 3\n", ":1"},
        {".yaml", "model: []\n", ":1"},
        {".yaml", "{}\n", "no list of models"},
        {".yaml", "models:\n  - {name: a}\n", ":2"},
        {".yaml", "models:\n  - {name: a, rate: x}\n", ":2"},
        {".yaml", "models:\n  - {name: a, rate: 1, hue: 2}\n", ":2"},
        {".yaml", "models:\n  - {name: a, rate: [1]}\n", ":2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_input_t input;
        err_t err = {0};
        cr_expect_eq(read_text(cases[i].suffix, cases[i].text, &input, &err), STATUS_INVALID_ARGUMENT,
                     "case %zu: %s", i, cases[i].text);
        cr_expect(strstr(err.text, cases[i].says) != NULL, "case %zu says: %s", i, err.text);
    }
}

Test(plan_input, a_file_that_is_not_there)
{
    plan_input_t input;
    err_t err;
    cr_expect_eq(plan_input_read("/nowhere/models.csv", &input, &err), STATUS_NOT_FOUND);
}
