#include "gateway/models/catalogue.h"
#include "control.pb-c.h"
#include "image/pipeline_wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static metrics_t *metrics;
static catalogue_t *catalogue;
static Control__Tensor tensors[2], *inputs[80], *outputs[80];
static int64_t dims[16];
static Control__ModelReport reports[3];
static Control__CatalogueModel models[3], *list[3];
static Control__Catalogue message;

static void setup(void)
{
    metrics = metrics_create("test", NULL);
    cr_assert(catalogue_create(metrics, NULL, &catalogue, NULL) == STATUS_OK);
    for (int i = 0; i < 2; i++) {
        tensors[i] = (Control__Tensor)CONTROL__TENSOR__INIT;
        tensors[i].name = (char *)(uintptr_t)(i ? "y" : "x");
        tensors[i].datatype = (char *)(uintptr_t) "FP32";
        tensors[i].n_dims = 1;
        tensors[i].dims = dims;
    }
    for (int i = 0; i < 16; i++)
        dims[i] = 4;
    for (int i = 0; i < 80; i++) {
        inputs[i] = &tensors[0];
        outputs[i] = &tensors[1];
    }
    for (int i = 0; i < 3; i++) {
        reports[i] = (Control__ModelReport)CONTROL__MODEL_REPORT__INIT;
        reports[i].name = (char *)(uintptr_t) "m";
        reports[i].version = i + 1;
        reports[i].max_batch = 8;
        reports[i].slo_ns = 1000000;
        reports[i].n_inputs = reports[i].n_outputs = 1;
        reports[i].inputs = inputs;
        reports[i].outputs = outputs;
        models[i] = (Control__CatalogueModel)CONTROL__CATALOGUE_MODEL__INIT;
        models[i].id = (uint32_t)(7 + i);
        models[i].ready = true;
        models[i].description = &reports[i];
        list[i] = &models[i];
    }
    message = (Control__Catalogue)CONTROL__CATALOGUE__INIT;
    message.n_models = 1;
    message.models = list;
}

static void teardown(void)
{
    catalogue_destroy(catalogue);
    metrics_destroy(metrics);
}

TestSuite(catalogue, .init = setup, .fini = teardown);

static model_entry_t *find(const char *version)
{
    model_entry_t *entry = NULL;
    catalogue_find(catalogue, "m", version, &entry, NULL);
    return entry;
}

Test(catalogue, the_highest_ready_version_is_the_default)
{
    message.n_models = 3;
    models[2].ready = false;
    models[2].reason = (char *)(uintptr_t) "loading";
    catalogue_update(catalogue, &message, false);
    cr_assert(find("")->version == 2 && find(NULL)->version == 2 && find("3")->id == 9);
    cr_assert(strcmp(find("3")->reason, "loading") == 0 && catalogue_ready_count(catalogue) == 2);
    cr_assert(!find("03") && !find("4") && !find("x"));
    const char *versions[8];
    cr_assert(catalogue_versions(catalogue, "m", versions, 8) == 2 && strcmp(versions[1], "2") == 0);
    for (int i = 0; i < 3; i++)
        models[i].ready = false;
    catalogue_update(catalogue, &message, false);
    cr_assert(find("")->version == 3);
}

Test(catalogue, the_same_description_stays_the_same_entry)
{
    catalogue_update(catalogue, &message, false);
    model_entry_t *before = find("1");
    before->stats.counts.rows = 5;
    models[0].id = 70;
    models[0].ready = false;
    reports[0].memory_bytes = 1;
    catalogue_update(catalogue, &message, false);
    cr_assert(find("1") == before && before->id == 70 && !before->ready && before->stats.counts.rows == 5);
}

Test(catalogue, another_description_is_another_entry_and_the_old_one_lives_while_it_is_used)
{
    catalogue_update(catalogue, &message, false);
    model_entry_t *before = find("1");
    model_entry_ref(before);
    reports[0].max_batch = 16;
    catalogue_update(catalogue, &message, false);
    cr_assert(find("1") != before && !before->listed && before->spec.max_batch == 8);
    cr_assert(find("1")->spec.max_batch == 16 && find("1")->input_row_bytes == 16);
    model_entry_unref(before);
}

Test(catalogue, models_go_at_once_or_wait_for_a_new_scheduler)
{
    catalogue_update(catalogue, &message, false);
    message.n_models = 0;
    catalogue_update(catalogue, &message, true);
    cr_assert(find("1") && !find("1")->ready && !find("1")->listed && find("1")->reason[0]);
    catalogue_update(catalogue, &message, false);
    cr_assert(!find("1"));
}

static void expect_defect(const char *text)
{
    catalogue_update(catalogue, &message, false);
    const model_entry_t *entry = find("1");
    cr_assert(entry && !entry->ready, "%s", text);
    cr_expect_eq(model_entry_check_described(entry, NULL), STATUS_UNAVAILABLE, "%s", text);
    cr_expect(strstr(entry->reason, text), "%s: %s", text, entry->reason);
    strbuf_t out;
    strbuf_init(&out, 1 << 20);
    cr_expect(catalogue_write_index(catalogue, false, false, &out) == STATUS_OK &&
              strstr(out.data, "UNAVAILABLE"));
    strbuf_dispose(&out);
}

Test(catalogue, descriptions_that_cannot_be_served_are_listed_with_the_reason)
{
    tensors[0].n_dims = 9;
    expect_defect("more than 8 dimensions");
    tensors[0].n_dims = 1;
    reports[0].n_inputs = 70;
    expect_defect("70 inputs");
    models[0].ready = false;
    models[0].reason = (char *)(uintptr_t) "no worker wants it";
    expect_defect("no worker wants it");
    models[0].ready = true;
    reports[0].n_inputs = 1;
    tensors[0].datatype = (char *)(uintptr_t) "FP128";
    expect_defect("");
    tensors[0].datatype = (char *)(uintptr_t) "BYTES";
    expect_defect("is of type BYTES");
    tensors[0].datatype = (char *)(uintptr_t) "FP32";
    dims[0] = -1;
    expect_defect("nothing tells the size of its dimension 0");
    dims[0] = INT64_MAX;
    expect_defect("");
    dims[0] = INT64_C(1) << 31;
    expect_defect("4 GiB");
    dims[0] = 4;
    reports[0].softmax_output = (char *)(uintptr_t) "nix";
    expect_defect("nix");
    reports[0].softmax_output = (char *)(uintptr_t) "";
    catalogue_update(catalogue, &message, false);
    cr_assert(find("1")->ready && find("1")->reason[0] == '\0');
}

/* Version 2 is on one of two workers, the other one is still loading it. */
Test(catalogue, a_rising_version_is_for_those_who_name_it)
{
    model_entry_t *entry;
    message.n_models = 2;
    models[1].rising = true;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(find("")->version, 1);
    cr_assert_eq(find("2")->version, 2);
    models[0].ready = false;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(find("")->version, 2, "better than none");
    models[1].rising = false;
    models[0].ready = true;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_find(catalogue, "m", NULL, &entry, NULL), STATUS_OK);
    cr_assert_eq(entry->version, 2);
}

static uint32_t share_of_two(uint32_t requests)
{
    uint32_t shared = 0;
    for (uint32_t i = 0; i < requests; i++)
        shared += catalogue_share(catalogue, find(""))->version == 2;
    return shared;
}

/* Version 2 is a stranger's. */
Test(catalogue, a_version_on_trial_gets_a_share_and_one_that_is_refused_nothing)
{
    static int64_t other_dims[16] = {5};
    static Control__Tensor other;
    static Control__Tensor *other_inputs[] = {&other};
    message.n_models = 2;
    models[1].tried = true;
    catalogue_update(catalogue, &message, false);
    cr_expect_eq(find("")->version, 1);
    cr_expect_eq(find("2")->version, 2);
    cr_expect_eq(share_of_two(800), 100);
    models[1].tried = false;
    models[1].refused = true;
    catalogue_update(catalogue, &message, false);
    cr_expect_eq(share_of_two(800), 0);
    models[0].ready = false;
    catalogue_update(catalogue, &message, false);
    cr_expect_eq(find("")->version, 2, "better than none");
    models[0].ready = models[1].tried = true;
    models[1].refused = false;
    other = tensors[0];
    other.dims = other_dims;
    reports[1].inputs = other_inputs;
    catalogue_update(catalogue, &message, false);
    cr_expect_eq(share_of_two(80), 0, "it takes other tensors");
}

Test(catalogue, a_request_moves_on_to_a_version_that_takes_the_same_tensors)
{
    static int64_t other_dims[16] = {5};
    static Control__Tensor other;
    static Control__Tensor *other_inputs[] = {&other};
    message.n_models = 2;
    models[1].ready = false;
    catalogue_update(catalogue, &message, false);
    model_entry_t *first = find("1");
    model_entry_ref(first);
    cr_assert_eq(catalogue_successor(catalogue, first), first, "it is ready");
    models[0].ready = false;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_successor(catalogue, first), first, "there is nothing better");
    models[1].ready = true;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_successor(catalogue, first)->version, 2);
    other = tensors[0];
    other.dims = other_dims;
    reports[1].inputs = other_inputs;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_successor(catalogue, first), first, "version 2 takes five numbers");
    model_entry_unref(first);
}

Test(catalogue, versions_are_those_that_are_ready)
{
    const char *versions[4];
    message.n_models = 3;
    models[1].ready = false;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_versions(catalogue, "m", versions, 4), 2);
    cr_assert_str_eq(versions[0], "1");
    cr_assert_str_eq(versions[1], "3");
    models[0].ready = models[2].ready = false;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_versions(catalogue, "m", versions, 4), 3, "all, when none is");
}

Test(catalogue, the_index_tells_where_a_model_is_on_its_way)
{
    strbuf_t out;
    strbuf_init(&out, 1 << 16);
    message.n_models = 3;
    models[0].ready = models[1].ready = models[2].ready = false;
    reports[0].state = CONTROL__MODEL_STATE__MODEL_STATE_LOADING;
    reports[1].state = CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING;
    reports[2].state = CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_write_index(catalogue, false, false, &out), STATUS_OK);
    strbuf_putc(&out, '\0');
    cr_assert_not_null(strstr(out.data, "\"LOADING\""));
    cr_assert_not_null(strstr(out.data, "\"UNLOADING\""));
    cr_assert_not_null(strstr(out.data, "\"UNAVAILABLE\""));
    strbuf_dispose(&out);
}

/* ------------------------------------------------------------------ many of them */

/* As many as there may be, in another order than that of their names, and one too many. */
Test(catalogue, as_many_models_as_there_may_be_are_found_and_listed_by_name)
{
    enum { MANY = CATALOGUE_MODELS_MAX, STEP = 4099 /* a prime */ };
    static char names[MANY + 1][16];
    static Control__ModelReport many[MANY + 1];
    static Control__CatalogueModel described[MANY + 1], *pointers[MANY + 1];
    static const char *wanted = "{\"name\":\"m00000\"";
    model_entry_t *entry;
    for (uint32_t i = 0; i <= MANY; i++) {
        snprintf(names[i], sizeof names[i], "m%05u", i < MANY ? i * STEP % MANY : i);
        many[i] = reports[0];
        many[i].name = names[i];
        described[i] = models[0];
        described[i].id = i;
        described[i].description = &many[i];
        pointers[i] = &described[i];
    }
    message.n_models = MANY + 1;
    message.models = pointers;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_ready_count(catalogue), MANY);
    for (uint32_t i = 0; i < MANY; i++)
        cr_assert(catalogue_find(catalogue, names[i], NULL, &entry, NULL) == STATUS_OK && entry->id == i);
    cr_assert_eq(catalogue_find(catalogue, names[MANY], NULL, &entry, NULL), STATUS_NOT_FOUND);
    strbuf_t out;
    strbuf_init(&out, 16 << 20);
    cr_assert_eq(catalogue_write_index(catalogue, false, false, &out), STATUS_OK);
    strbuf_putc(&out, '\0');
    cr_assert_not_null(strstr(out.data, wanted), "%.100s", out.data);
    const char *last = out.data;
    for (uint32_t i = 0; i < MANY; i++) {
        char name[24];
        snprintf(name, sizeof name, "\"m%05u\"", i);
        last = strstr(last, name);
        cr_assert_not_null(last, "%s is not behind the one before it", name);
    }
    strbuf_dispose(&out);
    message.models = pointers + MANY; /* the others leave, so there is room */
    message.n_models = 1;
    catalogue_update(catalogue, &message, false);
    cr_assert_eq(catalogue_ready_count(catalogue), 1);
    cr_assert_eq(catalogue_find(catalogue, names[MANY], NULL, &entry, NULL), STATUS_OK);
    cr_assert_eq(catalogue_find(catalogue, names[0], NULL, &entry, NULL), STATUS_NOT_FOUND);
}

/* ------------------------------------------------------------------ what can go from one version to another */

static Control__Tensor other_tensors[3];
static Control__Tensor *other_inputs[2] = {&other_tensors[0], &other_tensors[1]},
                       *other_outputs[1] = {&other_tensors[2]};
static Control__Axis axes[2], *axis_lists[2][1] = {{&axes[0]}, {&axes[1]}};
static uint32_t padded[2][2] = {{2, 4}, {2, 4}}, first_axis[1] = {1};
static int64_t open_dims[1] = {-1};

/* Two versions of two inputs, with an axis, that are the same; then one thing of the second is changed. */
static void two_alike(void)
{
    static Control__Tensor same[2];
    static Control__Tensor *same_inputs[2] = {&same[0], &same[1]};
    for (int i = 0; i < 2; i++) {
        same[i] = tensors[0];
        same[i].name = (char *)(uintptr_t)(i ? "mask" : "ids");
        same[i].dims = open_dims;
        same[i].n_axes = 1;
        same[i].axes = first_axis;
        other_tensors[i] = same[i];
        axes[i] = (Control__Axis)CONTROL__AXIS__INIT;
        axes[i].name = (char *)(uintptr_t) "length";
        axes[i].size_max = 4;
        axes[i].n_pad_to = 2;
        axes[i].pad_to = padded[i];
        reports[i].n_inputs = 2;
        reports[i].n_axes = 1;
        reports[i].axes = axis_lists[i];
    }
    other_tensors[2] = tensors[1];
    reports[0].inputs = same_inputs;
    reports[1].inputs = other_inputs;
    reports[1].outputs = other_outputs;
    message.n_models = 2;
}

static bool are_alike(void)
{
    catalogue_update(catalogue, &message, false);
    const model_entry_t *a = find("1"), *b = find("2");
    cr_assert(a->ready && b->ready, "%s%s", a->reason, b->reason);
    cr_assert_eq(model_entry_alike(a, b), model_entry_alike(b, a));
    return model_entry_alike(a, b);
}

Test(catalogue, versions_are_alike_when_all_that_lays_out_a_row_is)
{
    two_alike();
    cr_expect(are_alike());
    reports[1].max_batch = 4;
    cr_expect(are_alike(), "each row is a task of its own");
    reports[1].platform = (char *)(uintptr_t) "other";
    cr_expect(are_alike());
}

Test(catalogue, inputs_in_another_order_are_not_alike)
{
    two_alike();
    other_inputs[0] = &other_tensors[1];
    other_inputs[1] = &other_tensors[0];
    cr_expect_not(are_alike());
}

Test(catalogue, versions_that_pad_otherwise_are_not_alike)
{
    two_alike();
    other_tensors[1].pad_value = 1;
    cr_expect_not(are_alike(), "the value");
    two_alike();
    axes[1].n_pad_to = 0;
    cr_expect_not(are_alike(), "whether at all");
    two_alike();
    padded[1][0] = 3;
    cr_expect_not(are_alike(), "the sizes");
    two_alike();
    axes[1].n_pad_to = 0;
    axes[0].n_pad_to = 0;
    axes[1].size_max = 5;
    cr_expect_not(are_alike(), "the largest size");
}

Test(catalogue, other_outputs_are_not_alike)
{
    two_alike();
    other_tensors[2].name = (char *)(uintptr_t) "scores";
    cr_expect_not(are_alike(), "the name");
    two_alike();
    reports[1].softmax_output = other_tensors[2].name;
    cr_expect_not(are_alike(), "softmax");
    two_alike();
    reports[0].max_batch = 0;
    cr_expect_not(are_alike(), "without a batch");
}

Test(catalogue, versions_that_read_pictures_otherwise_are_not_alike)
{
    static int64_t picture_dims[3] = {3, 4, 4};
    static Control__Tensor picture;
    static Control__Tensor *picture_inputs[] = {&picture};
    static image_pipeline_wire_t wires[2];
    image_pipeline_t pipeline;
    image_pipeline_init(&pipeline);
    snprintf(pipeline.input, sizeof pipeline.input, "x");
    pipeline.resize_width = pipeline.resize_height = 4;
    picture = tensors[0];
    picture.n_dims = 3;
    picture.dims = picture_dims;
    message.n_models = 2;
    for (int i = 0; i < 2; i++) {
        reports[i].inputs = picture_inputs;
        image_pipeline_to_wire(&pipeline, &wires[i]);
        reports[i].image = &wires[i].message;
    }
    cr_expect(are_alike());
    wires[1].mean[2] += 0.5;
    cr_expect_not(are_alike());
}
