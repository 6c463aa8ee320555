#include "cases.h"

#include "engine/wait.h"
#include "graph/ir/tensor.h"
#include "onnx.pb-c.h"
#include "onnx/model.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The tolerances of the ONNX backend test runner. */
static const double relative = 1e-3, absolute = 1e-5;

enum { MAX_PATH = 1024, MAX_CASES = 4096 };

static int by_name(const void *a, const void *b)
{
    const case_t *x = a, *y = b;
    int order = strcmp(x->group, y->group);
    return order ? order : strcmp(x->name, y->name);
}

static bool has_model(const char *data_dir, const char *group, const char *name)
{
    char path[MAX_PATH];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s/%s/model.onnx", data_dir, group, name);
    return !stat(path, &st);
}

static void find_in(const char *data_dir, const char *group, case_t *cases, size_t *count)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", data_dir, group);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) && *count < MAX_CASES;) {
        if (*e->d_name == '.' || !has_model(data_dir, group, e->d_name))
            continue;
        case_t *c = &cases[(*count)++];
        snprintf(c->group, sizeof c->group, "%s", group);
        snprintf(c->name, sizeof c->name, "%.150s", e->d_name);
    }
    if (dir)
        closedir(dir);
}

status_t cases_find(const char *data_dir, case_t **out, size_t *count, err_t *err)
{
    DIR *dir = opendir(data_dir);
    if (!dir)
        return err_set(err, STATUS_NOT_FOUND, "%s: %s", data_dir, strerror(errno));
    case_t *cases = calloc(MAX_CASES, sizeof *cases);
    *count = 0;
    for (struct dirent *e; cases && (e = readdir(dir));)
        if (*e->d_name != '.')
            find_in(data_dir, e->d_name, cases, count);
    closedir(dir);
    if (!cases || !*count) {
        free(cases);
        return err_set(err, STATUS_NOT_FOUND, "there is no case in %s", data_dir);
    }
    qsort(cases, *count, sizeof *cases, by_name);
    *out = cases;
    return STATUS_OK;
}

static void list_ops(case_t *c, const char *path)
{
    onnx_model_t *model;
    if (onnx_model_load(path, &model, NULL) != STATUS_OK)
        return;
    const Onnx__GraphProto *graph = onnx_model_proto(model)->graph;
    for (size_t n = 0; n < graph->n_node; n++) {
        char word[128];
        const char *domain = graph->node[n]->domain;
        snprintf(word, sizeof word, "%.60s%s%.60s ", domain ? domain : "", domain && *domain ? "." : "",
                 graph->node[n]->op_type);
        char *found = strstr(c->ops, word);
        bool known = found && (found == c->ops || found[-1] == ' ');
        if (!known && strlen(c->ops) + strlen(word) < sizeof c->ops)
            strcat(c->ops, word);
    }
    onnx_model_destroy(model);
    if (*c->ops)
        c->ops[strlen(c->ops) - 1] = '\0';
}

static status_t read_file(const char *path, uint8_t **bytes, size_t *len, err_t *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return err_set(err, STATUS_NOT_FOUND, "%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    *bytes = malloc((size_t)size + 1);
    *len = *bytes ? fread(*bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return *bytes ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory");
}

/* As engines have strings (engine_tensor_t.text). */
static status_t read_text(const Onnx__TensorProto *proto, tensor_t *t, err_t *err)
{
    enum { ROOM = ENGINE_DEFAULT_TEXT_BYTES };
    *t = (tensor_t){.dtype = DTYPE_U8, .rank = (uint32_t)proto->n_dims + 1};
    memcpy(t->dims, proto->dims, proto->n_dims * sizeof t->dims[0]);
    t->dims[proto->n_dims] = ROOM;
    t->data = calloc(tensor_bytes(t) + 1, 1);
    if (!t->data)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    for (size_t i = 0; i < proto->n_string_data; i++)
        memcpy((char *)t->data + i * ROOM, proto->string_data[i].data, proto->string_data[i].len);
    return STATUS_OK;
}

/* tensor_t with malloc'ed data. */
static status_t read_tensor(const char *path, tensor_t *t, err_t *err)
{
    uint8_t *bytes;
    size_t len;
    status_t status = read_file(path, &bytes, &len, err);
    if (status != STATUS_OK)
        return status;
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, len, bytes);
    free(bytes);
    if (!proto)
        return err_set(err, STATUS_UNSUPPORTED, "%s is no tensor", path);
    onnx_tensor_info_t info;
    bool text = proto->has_data_type && proto->data_type == DTYPE_STRING;
    status = text ? read_text(proto, t, err) : onnx_tensor_info(NULL, proto, &info, err);
    if (status == STATUS_OK && !text) {
        *t = (tensor_t){.dtype = info.dtype, .rank = info.rank, .data = malloc(info.len_bytes + 1)};
        memcpy(t->dims, info.dims, sizeof t->dims);
        status = t->data ? onnx_tensor_read(NULL, proto, &info, t->data, err) : STATUS_NO_MEMORY;
    }
    onnx__tensor_proto__free_unpacked(proto, NULL);
    return status;
}

static status_t read_set(const char *dir, const char *kind, uint32_t count, tensor_t *tensors, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        char path[MAX_PATH];
        snprintf(path, sizeof path, "%s/%s_%u.pb", dir, kind, i);
        status = read_tensor(path, &tensors[i], err);
    }
    return status;
}

/* Bfloat16 has 8 bits, and the last one depends on how the data set was rounded. */
static bool close_enough(double got, double want, dtype_t dtype)
{
    double step = dtype == DTYPE_BF16 ? 1.0 / 128 : relative;
    if (got == want || (isnan(got) && isnan(want)))
        return true;
    return fabs(got - want) <= absolute + step * fabs(want);
}

static status_t compare(const tensor_t *got, const tensor_t *want, const char *name, err_t *err)
{
    char a[TENSOR_TEXT_BYTES], b[TENSOR_TEXT_BYTES];
    if (got->dtype != want->dtype || !tensor_same_shape(got, want))
        return err_set(err, STATUS_INTERNAL, "output '%.60s' is %s where %s is wanted", name,
                       tensor_text(got, a), tensor_text(want, b));
    for (size_t i = 0, n = tensor_count(want); i < n; i++) {
        double x = tensor_get_f64(got, i), y = tensor_get_f64(want, i);
        if (!close_enough(x, y, want->dtype))
            return err_set(err, STATUS_INTERNAL,
                           "output '%.60s' %s: element %zu is %.9g where %.9g is wanted", name,
                           tensor_text(got, a), i, x, y);
    }
    return STATUS_OK;
}

typedef struct {
    tensor_t inputs[ENGINE_MAX_IO], wanted[ENGINE_MAX_IO], got[ENGINE_MAX_IO];
    engine_shape_t in_shapes[ENGINE_MAX_IO], out_shapes[ENGINE_MAX_IO];
    const void *in_data[ENGINE_MAX_IO];
    void *out_data[ENGINE_MAX_IO];
    size_t capacity[ENGINE_MAX_IO];
} set_t;

static void set_free(set_t *set)
{
    for (uint32_t i = 0; i < ENGINE_MAX_IO; i++) {
        free(set->inputs[i].data);
        free(set->wanted[i].data);
        free(set->got[i].data);
    }
    free(set);
}

static status_t check_input(const engine_tensor_t *t, const tensor_t *in, err_t *err)
{
    if (t->dtype != in->dtype)
        return err_set(err, STATUS_INTERNAL, "input '%.60s' has the type %s in the data", t->name,
                       dtype_name(in->dtype));
    return STATUS_OK;
}

/* The data sets of libonnx-testdata keep bfloat16 as uint16. */
static void retype(tensor_t *t, dtype_t dtype)
{
    if (t->dtype == DTYPE_U16 && dtype == DTYPE_BF16)
        t->dtype = DTYPE_BF16;
}

/*
 * A lone element takes the shape that the model declares, if that is a fixed one. The data sets of CastLike
 * with bfloat16 have one element for `like`, of which only the type counts, where their models declare [3,4];
 * engines rightly refuse that.
 */
static status_t spread(tensor_t *t, const engine_tensor_t *declared, err_t *err)
{
    size_t size = dtype_size(t->dtype);
    if (tensor_count(t) != 1 || declared->row_bytes <= size)
        return STATUS_OK;
    char *data = malloc(declared->row_bytes);
    if (!data)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    for (size_t at = 0; at < declared->row_bytes; at += size)
        memcpy(data + at, t->data, size);
    free(t->data);
    t->data = data;
    t->rank = declared->rank;
    memcpy(t->dims, declared->dims, sizeof t->dims);
    return STATUS_OK;
}

/* Room for what varies is generous, so that a wrong shape is seen as such. */
static status_t set_prepare(set_t *set, const engine_model_info_t *info, err_t *err)
{
    for (uint32_t i = 0; i < info->input_count; i++) {
        retype(&set->inputs[i], info->inputs[i].dtype);
        status_t status = check_input(&info->inputs[i], &set->inputs[i], err);
        if (status == STATUS_OK)
            status = spread(&set->inputs[i], &info->inputs[i], err);
        if (status != STATUS_OK)
            return status;
        set->in_data[i] = set->inputs[i].data;
        set->in_shapes[i].rank = set->inputs[i].rank;
        memcpy(set->in_shapes[i].dims, set->inputs[i].dims, sizeof set->in_shapes[i].dims);
    }
    for (uint32_t i = 0; i < info->output_count; i++) {
        retype(&set->wanted[i], info->outputs[i].dtype);
        size_t fixed = info->outputs[i].row_bytes;
        set->capacity[i] = fixed ? fixed : 4 * tensor_bytes(&set->wanted[i]) + 4096;
        set->got[i] = (tensor_t){.dtype = info->outputs[i].dtype, .data = malloc(set->capacity[i])};
        set->out_data[i] = set->got[i].data;
        if (!set->out_data[i])
            return err_set(err, STATUS_NO_MEMORY, "no memory");
    }
    return STATUS_OK;
}

static status_t run_set(const char *dir, const engine_ops_t *ops, engine_t *engine, engine_model_t *model,
                        set_t *set, err_t *err)
{
    const engine_model_info_t *info = ops->info(model);
    status_t status = read_set(dir, "input", info->input_count, set->inputs, err);
    if (status == STATUS_OK)
        status = read_set(dir, "output", info->output_count, set->wanted, err);
    if (status == STATUS_OK)
        status = set_prepare(set, info, err);
    if (status != STATUS_OK)
        return status;
    engine_job_t job = {.model = model,
                        .batch = 1,
                        .inputs = set->in_data,
                        .outputs = set->out_data,
                        .input_shapes = set->in_shapes,
                        .output_shapes = set->out_shapes,
                        .output_capacity_bytes = set->capacity};
    status = engine_run_wait(ops, engine, &job, err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->output_count; i++) {
        set->got[i].rank = set->out_shapes[i].rank;
        memcpy(set->got[i].dims, set->out_shapes[i].dims, sizeof set->got[i].dims);
        status = compare(&set->got[i], &set->wanted[i], info->outputs[i].name, err);
    }
    return status;
}

static status_t run_sets(const char *case_dir, const engine_ops_t *ops, engine_t *engine,
                         engine_model_t *model, err_t *err)
{
    status_t status = STATUS_OK;
    for (int n = 0; status == STATUS_OK && n < 16; n++) {
        char dir[MAX_PATH];
        struct stat st;
        snprintf(dir, sizeof dir, "%.900s/test_data_set_%d", case_dir, n);
        if (stat(dir, &st))
            return n ? STATUS_OK : err_set(err, STATUS_NOT_FOUND, "there is no data set");
        set_t *set = calloc(1, sizeof *set);
        status =
            set ? run_set(dir, ops, engine, model, set, err) : err_set(err, STATUS_NO_MEMORY, "no memory");
        if (set)
            set_free(set);
    }
    return status;
}

void case_run(case_t *c, const char *data_dir, const engine_ops_t *ops, engine_t *engine)
{
    char dir[MAX_PATH], path[MAX_PATH + 16];
    snprintf(dir, sizeof dir, "%.600s/%s/%s", data_dir, c->group, c->name);
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    list_ops(c, path);
    engine_load_t what = {.name = c->name, .path = path, .batching = ENGINE_BATCH_NONE};
    engine_model_t *model;
    status_t status = ops->load(engine, &what, &model, &c->err);
    if (status == STATUS_OK) {
        status = run_sets(dir, ops, engine, model, &c->err);
        ops->unload(model);
    }
    c->result = status == STATUS_OK            ? CASE_PASSED
                : status == STATUS_UNSUPPORTED ? CASE_UNSUPPORTED
                                               : CASE_FAILED;
}
