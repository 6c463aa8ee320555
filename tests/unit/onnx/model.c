#include "maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static maker_t *small(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 2});
    maker_floats(m, "w", 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    maker_node(m, "MatMul", "x w", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, 2});
    return m;
}

Test(model, parses_what_was_packed)
{
    onnx_model_t *model;
    err_t err;
    cr_assert_eq(maker_parse(small(), &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(onnx_model_opset(model, ""), 17);
    cr_assert_eq(onnx_model_opset(model, "ai.onnx"), 17);
    cr_assert_eq(onnx_model_opset(model, "com.other"), 0);
    cr_assert_str_eq(onnx_model_proto(model)->graph->node[0]->op_type, "MatMul");
    onnx_model_destroy(model);
}

Test(model, every_truncation_is_an_error_or_a_smaller_model)
{
    size_t len;
    uint8_t *bytes = maker_pack(small(), &len);
    for (size_t cut = 0; cut < len; cut++) {
        onnx_model_t *model = NULL;
        uint8_t *copy = malloc(cut + 1);
        err_t err = {.text = ""};
        memcpy(copy, bytes, cut);
        if (onnx_model_parse(copy, cut, NULL, &model, &err) == STATUS_OK)
            onnx_model_destroy(model);
        else
            cr_assert(*err.text);
        free(copy);
    }
    free(bytes);
}

/* By way of a file, of which the contents of tensors are not copied. */
static status_t load_bytes(const uint8_t *bytes, size_t len, onnx_model_t **model, err_t *err)
{
    char path[64];
    int fd = memfd_create("model.onnx", MFD_CLOEXEC);
    cr_assert(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    status_t status = onnx_model_load(path, model, err);
    close(fd);
    return status;
}

static void expect_same(const uint8_t *bytes, size_t len)
{
    onnx_model_t *parsed, *loaded;
    err_t err = {.text = ""}, other = {.text = ""};
    status_t status = onnx_model_parse(bytes, len, NULL, &parsed, &err);
    cr_assert_eq(load_bytes(bytes, len, &loaded, &other), status, "of %zu bytes: '%s', '%s'", len, err.text,
                 other.text);
    cr_assert_str_eq(other.text, err.text);
    if (status != STATUS_OK)
        return;
    const Onnx__ModelProto *a = onnx_model_proto(parsed), *b = onnx_model_proto(loaded);
    size_t packed = onnx__model_proto__get_packed_size(a);
    uint8_t *one = malloc(packed + 1), *two = malloc(packed + 1);
    cr_assert_eq(onnx__model_proto__get_packed_size(b), packed);
    cr_assert_eq(onnx__model_proto__pack(a, one), onnx__model_proto__pack(b, two));
    cr_assert_arr_eq(one, two, packed);
    free(one);
    free(two);
    onnx_model_destroy(parsed);
    onnx_model_destroy(loaded);
}

/* Tensors as initialisers, in an attribute and in a graph in an attribute. */
static uint8_t *nested(size_t *len)
{
    maker_t *m = small();
    Onnx__GraphProto inner = ONNX__GRAPH_PROTO__INIT, *outer = maker_proto(m)->graph;
    Onnx__AttributeProto then = ONNX__ATTRIBUTE_PROTO__INIT, value = ONNX__ATTRIBUTE_PROTO__INIT;
    Onnx__AttributeProto *both[] = {&then, &value}, **before = outer->node[0]->attribute;
    inner.initializer = outer->initializer;
    inner.n_initializer = outer->n_initializer;
    then.name = value.name = "a";
    then.g = &inner;
    value.t = outer->initializer[0];
    outer->node[0]->attribute = both;
    outer->node[0]->n_attribute = 2;
    *len = onnx__model_proto__get_packed_size(maker_proto(m));
    uint8_t *bytes = malloc(*len);
    onnx__model_proto__pack(maker_proto(m), bytes);
    outer->node[0]->attribute = before;
    outer->node[0]->n_attribute = 0;
    size_t ignored;
    free(maker_pack(m, &ignored));
    return bytes;
}

Test(model, a_file_reads_as_its_bytes_do_whole_or_cut)
{
    size_t len;
    uint8_t *bytes = nested(&len);
    for (size_t cut = 1; cut <= len; cut++)
        expect_same(bytes, cut);
    free(bytes);
}

Test(model, a_file_whose_tensors_have_contents_twice_or_empty_reads_as_its_bytes_do)
{
    static const uint8_t twice[] = {0x3a, 20, /* graph: */ 0x0a, 2, 0x22, 0, /* a node, */
                                    0x2a, 14, /* an initialiser: raw_data three times, */
                                    0x4a, 3, 'a', 'b', 'c', 0x4a, 4, 'd', 'e', 'f', 'g', 0x4a, 1, 'h',
                                    /* and an empty one behind the graph */
                                    0x3a, 4, 0x2a, 2, 0x4a, 0};
    onnx_model_t *model;
    err_t err;
    expect_same(twice, sizeof twice);
    cr_assert_eq(load_bytes(twice, sizeof twice, &model, &err), STATUS_OK, "%s", err.text);
    const Onnx__GraphProto *graph = onnx_model_proto(model)->graph;
    cr_assert_eq(graph->n_initializer, 2u);
    cr_expect_eq(graph->initializer[0]->raw_data.len, 1u);
    cr_expect_eq(graph->initializer[0]->raw_data.data[0], 'h');
    cr_expect_eq(graph->initializer[1]->raw_data.len, 0u);
    onnx_model_destroy(model);
}

Test(model, deep_nesting_is_refused_before_it_is_unpacked)
{
    /* A graph in an attribute in a node in a graph, a thousand times over. */
    enum { LEVELS = 1000, ROOM = 64 * 1024 };
    uint8_t *bytes = malloc(ROOM), *at = bytes + ROOM;
    size_t len = 0;
    static const uint8_t tags[] = {0x0a, 0x2a,
                                   0x32}; /* graph.node = 1, node.attribute = 5, attribute.g = 6 */
    for (int i = 0; i < 3 * LEVELS; i++) {
        uint8_t head[6], n = 0;
        head[n++] = tags[2 - i % 3];
        for (size_t rest = len; n < 6; rest >>= 7) {
            head[n++] = (uint8_t)((rest & 0x7f) | (rest >> 7 ? 0x80 : 0));
            if (!(rest >> 7))
                break;
        }
        at -= n;
        memcpy(at, head, n);
        len += n;
    }
    uint8_t *model_bytes = malloc(len + 8), n = 0;
    model_bytes[n++] = 0x3a; /* model.graph = 7 */
    for (size_t rest = len;; rest >>= 7) {
        model_bytes[n++] = (uint8_t)((rest & 0x7f) | (rest >> 7 ? 0x80 : 0));
        if (!(rest >> 7))
            break;
    }
    memcpy(model_bytes + n, at, len);
    onnx_model_t *model;
    err_t err;
    cr_assert_eq(onnx_model_parse(model_bytes, len + n, NULL, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "nests deeper"), "%s", err.text);
    free(model_bytes);
    free(bytes);
}

Test(model, too_many_messages_are_refused)
{
    /* graph { node {} node {} … }: two bytes each in the file, some two hundred in memory. */
    size_t count = ONNX_MAX_MESSAGES + 1, len = 2 * count, n = 0;
    uint8_t *bytes = malloc(len + 8);
    bytes[n++] = 0x3a;
    for (size_t rest = len;; rest >>= 7) {
        bytes[n++] = (uint8_t)((rest & 0x7f) | (rest >> 7 ? 0x80 : 0));
        if (!(rest >> 7))
            break;
    }
    for (size_t i = 0; i < count; i++) {
        bytes[n++] = 0x0a;
        bytes[n++] = 0x00;
    }
    onnx_model_t *model;
    cr_assert_eq(onnx_model_parse(bytes, n, NULL, &model, NULL), STATUS_TOO_LARGE);
    free(bytes);
}

Test(model, empty_and_foreign_files_are_named)
{
    onnx_model_t *model;
    err_t err;
    cr_assert_eq(onnx_model_parse("", 0, NULL, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "the file holds no graph");
    cr_assert_eq(onnx_model_parse("GIF89a not a model", 18, NULL, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(onnx_model_load("/nonexistent/model.onnx", &model, &err), STATUS_NOT_FOUND);
    cr_assert(strstr(err.text, "/nonexistent/model.onnx"));
}

Test(model, a_fifo_is_no_file, .timeout = 120)
{
    char folder[] = "/tmp/fermata-onnx-XXXXXX", path[128];
    onnx_model_t *model;
    err_t err;
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(onnx_model_load(path, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "model.onnx: a FIFO, not a regular file"), "%s", err.text);
    unlink(path);
    rmdir(folder);
}

static status_t info_of(Onnx__TensorProto *t, onnx_tensor_info_t *info, err_t *err)
{
    return onnx_tensor_info(NULL, t, info, err);
}

Test(tensor, data_must_match_the_dims)
{
    maker_t *m = small();
    Onnx__TensorProto *t = maker_proto(m)->graph->initializer[0];
    onnx_tensor_info_t info;
    err_t err;
    cr_assert_eq(info_of(t, &info, &err), STATUS_OK);
    cr_assert_eq(info.len_bytes, 16);
    t->raw_data.len = 15;
    cr_assert_eq(info_of(t, &info, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "tensor 'w' holds 15 bytes where its dimensions want 16");
    t->dims[0] = -2;
    cr_assert_eq(info_of(t, &info, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "tensor 'w': dimension 0 is negative");
    t->dims[0] = INT64_C(1) << 40;
    cr_assert_eq(info_of(t, &info, &err), STATUS_TOO_LARGE);
    t->dims[0] = t->dims[1] = INT64_MAX;
    cr_assert_eq(info_of(t, &info, &err), STATUS_TOO_LARGE);
    t->data_type = 99;
    cr_assert_eq(info_of(t, &info, &err), STATUS_UNSUPPORTED);
    cr_assert_str_eq(err.text, "tensor 'w' has the unsupported element type 99");
    size_t len;
    t->raw_data.len = 16;
    free(maker_pack(m, &len));
}

Test(tensor, typed_fields_are_read)
{
    Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
    int64_t dims[] = {3};
    int32_t values[] = {-1, 300, 0x3c00};
    uint16_t halves[3];
    onnx_tensor_info_t info;
    t.n_dims = 1;
    t.dims = dims;
    t.has_data_type = 1;
    t.data_type = DTYPE_F16;
    t.n_int32_data = 3;
    t.int32_data = values;
    cr_assert_eq(info_of(&t, &info, NULL), STATUS_OK);
    cr_assert_eq(onnx_tensor_read(NULL, &t, &info, halves, NULL), STATUS_OK);
    cr_assert_eq(halves[2], 0x3c00);
    t.n_int32_data = 2;
    cr_assert_eq(info_of(&t, &info, NULL), STATUS_INVALID_ARGUMENT);
}

/* offset NULL: the location once more. */
static void set_external(Onnx__TensorProto *t, const char *location, const char *offset)
{
    const char *pairs[2][2] = {{"location", location}, {"offset", offset}};
    if (!offset)
        memcpy(pairs[1], pairs[0], sizeof pairs[0]);
    t->has_raw_data = 0;
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->external_data = calloc(2, sizeof *t->external_data);
    for (int i = 0; i < 2; i++) {
        t->external_data[i] = calloc(1, sizeof **t->external_data);
        onnx__string_string_entry_proto__init(t->external_data[i]);
        t->external_data[i]->key = strdup(pairs[i][0]);
        t->external_data[i]->value = strdup(pairs[i][1]);
    }
    t->n_external_data = 2;
}

static status_t read_external(const char *folder, const char *location, const char *offset, float *to,
                              err_t *err)
{
    maker_t *m = small();
    Onnx__TensorProto *t = maker_proto(m)->graph->initializer[0];
    free(t->raw_data.data);
    t->raw_data = (ProtobufCBinaryData){0};
    set_external(t, location, offset);
    size_t len;
    uint8_t *bytes = maker_pack(m, &len);
    onnx_model_t *model;
    status_t status = onnx_model_parse(bytes, len, folder, &model, err);
    free(bytes);
    if (status != STATUS_OK)
        return status;
    onnx_tensor_info_t info;
    const Onnx__TensorProto *parsed = onnx_model_proto(model)->graph->initializer[0];
    status = onnx_tensor_info(model, parsed, &info, err);
    if (status == STATUS_OK)
        status = onnx_tensor_read(model, parsed, &info, to, err);
    onnx_model_destroy(model);
    return status;
}

Test(tensor, external_data_stays_in_the_folder, .timeout = 120)
{
    char folder[] = "/tmp/fermata-onnx-XXXXXX", path[128], link[128];
    float want[5] = {0, 1, 2, 3, 4}, got[4];
    err_t err;
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    snprintf(link, sizeof link, "%s/link.bin", folder);
    FILE *file = fopen(path, "wb");
    fwrite(want, sizeof *want, 5, file);
    fclose(file);
    cr_assert_eq(symlink("/etc/passwd", link), 0);

    cr_assert_eq(read_external(folder, "weights.bin", "4", got, &err), STATUS_OK, "%s", err.text);
    cr_assert(!memcmp(got, want + 1, sizeof got));
    cr_assert_eq(read_external(folder, "weights.bin", "8", got, &err), STATUS_INVALID_ARGUMENT, "too short");
    cr_assert_eq(read_external(folder, "weights.bin", "-4", got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(read_external(folder, "weights.bin", "18446744073709551615", got, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(read_external(folder, "/etc/passwd", "0", got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(read_external(folder, "../../etc/passwd", "0", got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "outside the folder"), "%s", err.text);
    cr_assert_eq(read_external(folder, "link.bin", "0", got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(read_external(folder, "missing.bin", "0", got, &err), STATUS_IO);
    cr_assert_eq(read_external(NULL, "weights.bin", "0", got, &err), STATUS_INVALID_ARGUMENT,
                 "no folder, no files");
    cr_assert_eq(read_external(folder, "*/_ORT_MEM_ADDR_/*", "0", got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "is memory, not a file"), "%s", err.text);
    cr_assert_eq(read_external(folder, "weights.bin", NULL, got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "names two files"), "%s", err.text);
    cr_assert_eq(unlink(path) + mkfifo(path, 0600), 0);
    cr_assert_eq(read_external(folder, "weights.bin", "0", got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "weights.bin: a FIFO, not a regular file"), "%s", err.text);
    unlink(path);
    unlink(link);
    rmdir(folder);
}
