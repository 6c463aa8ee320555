/* Execution providers by name: what is wrong with a list is told, and who can be had. The library here has the CPU's. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <string.h>

static const engine_ops_t *find(const char *name)
{
    const engine_ops_t *ops;
    err_t err;
    cr_assert_eq(engine_find(name, &ops, &err), STATUS_OK, "%s", err.text);
    return ops;
}

static status_t load(const engine_ops_t *ops, engine_t *engine, const char *providers, err_t *err)
{
    engine_model_t *model;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_node(m, "Exp", "x", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, 4});
    status_t status =
        network_load_as(m, ops, engine, (engine_load_t){.max_batch = 2, .providers = providers}, &model, err);
    if (status == STATUS_OK)
        ops->unload(model);
    return status;
}

static const struct {
    const char *list;
    status_t status;
    const char *text;
} cases[] = {
    {"", STATUS_OK, NULL},
    {"cpu", STATUS_OK, NULL},
    {"cuda", STATUS_UNAVAILABLE, "without 'cuda'; it has "},
    {"tensorrt,cuda", STATUS_UNAVAILABLE, "without 'tensorrt'; it has "},
    {"abacus", STATUS_INVALID_ARGUMENT, "'abacus' is none of cuda, tensorrt, openvino, xnnpack, cpu"},
    {"cpu,cuda", STATUS_INVALID_ARGUMENT, "'cpu' takes everything: it comes last"},
    {"cpu,", STATUS_OK, NULL},
    {",cpu", STATUS_INVALID_ARGUMENT, "'' is none of"},
};

Test(onnxruntime_providers, a_model_says_where_it_runs)
{
    const engine_ops_t *ops = find("onnxruntime");
    engine_t *engine;
    err_t err;
    cr_assert_eq(ops->open(&(engine_config_t){0}, &engine, &err), STATUS_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(load(ops, engine, cases[i].list, &err), cases[i].status, "'%s': %s", cases[i].list,
                     err.text);
        cr_expect(!cases[i].text || strstr(err.text, cases[i].text), "'%s': %s", cases[i].list, err.text);
        cr_expect(cases[i].status != STATUS_UNAVAILABLE || strstr(err.text, "cpu"), "%s", err.text);
    }
    ops->close(engine);
}

/* auto, too, does not go on without an engine that was told to use what it lacks. */
Test(onnxruntime_providers, a_device_says_where_its_models_run)
{
    static const char *const engines[] = {"onnxruntime", "auto"};
    for (int e = 0; e < 2; e++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const engine_ops_t *ops = find(engines[e]);
            engine_t *engine;
            err_t err;
            cr_expect_eq(ops->open(&(engine_config_t){.providers = cases[i].list}, &engine, &err),
                         cases[i].status, "%s, '%s': %s", engines[e], cases[i].list, err.text);
            cr_expect(!cases[i].text || strstr(err.text, cases[i].text), "%s", err.text);
            if (cases[i].status != STATUS_OK)
                continue;
            cr_expect_eq(load(ops, engine, NULL, &err), STATUS_OK, "%s", err.text);
            ops->close(engine);
        }
}
