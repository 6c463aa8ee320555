/* A model as a text that leaves large contents in the file. */
#include "onnx/pack.h"

#include "base/file.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE = ONNX_PACK_LARGE_BYTES / sizeof(float), SMALL = LARGE - 1 };

static char folder[] = "/tmp/fermata-pack-XXXXXX", path[64], other[80];
static float values[LARGE];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    for (int i = 0; i < LARGE; i++)
        values[i] = (float)i;
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(pack, .init = make_folder, .fini = remove_folder, .timeout = 120);

static maker_t *two_tensors(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 1, (int64_t[]){LARGE});
    maker_floats(m, "small", 1, (int64_t[]){SMALL}, values);
    maker_floats(m, "large", 1, (int64_t[]){LARGE}, values);
    maker_node(m, "Add", "x large", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

static onnx_model_t *load(maker_t *m)
{
    size_t len;
    uint8_t *bytes = maker_pack(m, &len);
    onnx_model_t *model;
    err_t err;
    cr_assert_eq(file_write(path, FILE_REPLACE, 0644, bytes, len, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(onnx_model_load(path, &model, &err), STATUS_OK, "%s", err.text);
    free(bytes);
    return model;
}

static onnx_text_t pack(const onnx_model_t *model)
{
    onnx_text_t text;
    err_t err;
    cr_assert_eq(onnx_model_pack(model, &text, &err), STATUS_OK, "%s", err.text);
    return text;
}

static onnx_model_t *parse(const onnx_text_t *text)
{
    onnx_model_t *model;
    err_t err;
    cr_assert_eq(onnx_model_parse(text->bytes, text->len_bytes, text->folder, &model, &err), STATUS_OK, "%s",
                 err.text);
    return model;
}

static void expect_values(const onnx_model_t *model, int which, size_t count)
{
    const Onnx__TensorProto *t = onnx_model_proto(model)->graph->initializer[which];
    onnx_tensor_info_t info;
    err_t err;
    float got[LARGE];
    cr_assert_eq(onnx_tensor_info(model, t, &info, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(info.count, count);
    cr_assert_eq(onnx_tensor_read(model, t, &info, got, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(memcmp(got, values, info.len_bytes), 0);
}

Test(pack, large_contents_are_named_and_small_ones_are_in_it)
{
    onnx_model_t *model = load(two_tensors());
    onnx_text_t text = pack(model);
    cr_expect(text.has_names);
    cr_expect_str_eq(text.folder, folder);
    cr_expect(text.len_bytes > SMALL * sizeof(float) && text.len_bytes < LARGE * sizeof(float) + 1024, "%zu",
              text.len_bytes);
    onnx_model_t *again = parse(&text);
    const Onnx__GraphProto *g = onnx_model_proto(again)->graph;
    cr_expect_eq(g->initializer[0]->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT);
    cr_expect_eq(g->initializer[1]->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    cr_expect_str_eq(g->initializer[1]->external_data[0]->value, "model.onnx");
    expect_values(again, 0, SMALL);
    expect_values(again, 1, LARGE);
    expect_values(model, 1, LARGE);
    onnx_model_destroy(again);
    onnx_model_destroy(model);
    onnx_text_dispose(&text);
}

Test(pack, what_a_link_leads_to_is_named)
{
    onnx_text_t text;
    onnx_model_t *model = load(two_tensors());
    onnx_model_destroy(model);
    snprintf(other, sizeof other, "%s/1", folder);
    cr_assert_eq(mkdir(other, 0700), 0);
    snprintf(other, sizeof other, "%s/1/link.onnx", folder);
    cr_assert_eq(symlink("../model.onnx", other), 0);
    cr_assert_eq(onnx_model_load(other, &model, NULL), STATUS_OK);
    text = pack(model);
    cr_expect_str_eq(text.folder, folder);
    onnx_model_t *again = parse(&text);
    expect_values(again, 1, LARGE);
    onnx_model_destroy(again);
    onnx_model_destroy(model);
    onnx_text_dispose(&text);
}

Test(pack, a_model_with_external_data_keeps_all_it_has)
{
    maker_t *m = two_tensors();
    Onnx__TensorProto *t = maker_floats(m, "outside", 1, (int64_t[]){2}, values);
    t->has_data_location = true;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->n_external_data = 1;
    t->external_data = malloc(sizeof *t->external_data);
    Onnx__StringStringEntryProto *entry = t->external_data[0] = malloc(sizeof *entry);
    onnx__string_string_entry_proto__init(entry);
    entry->key = strdup("location");
    entry->value = strdup("weights");
    onnx_model_t *model = load(m);
    onnx_text_t text = pack(model);
    cr_expect(!text.has_names && text.len_bytes > LARGE * sizeof(float));
    cr_expect_str_eq(text.folder, folder);
    onnx_model_destroy(model);
    onnx_text_dispose(&text);
}

Test(pack, a_model_of_bytes_has_no_file_to_leave_them_in)
{
    onnx_model_t *model;
    cr_assert_eq(maker_parse(two_tensors(), &model, NULL), STATUS_OK);
    onnx_text_t text = pack(model);
    cr_expect(!text.has_names && !text.folder[0]);
    cr_expect_eq(onnx_text_check(&text, NULL), STATUS_OK);
    onnx_model_destroy(model);
    onnx_text_dispose(&text);
}

Test(pack, a_file_that_has_changed_since_is_told)
{
    onnx_model_t *model = load(two_tensors());
    onnx_text_t text = pack(model);
    err_t err;
    onnx_model_destroy(model);
    cr_expect_eq(onnx_text_check(&text, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(truncate(path, 100), 0);
    cr_expect_eq(onnx_text_check(&text, &err), STATUS_IO);
    cr_expect(strstr(err.text, "was changed while it was read"), "%s", err.text);
    onnx_text_dispose(&text);
}
