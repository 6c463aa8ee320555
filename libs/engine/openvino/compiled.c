#include "engine/openvino/compiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An output. */
typedef struct {
    tensor_t shape;
    bool known;  /* the shape, before a run */
    bool shared; /* it is an input, or an earlier output: one tensor for both */
} result_t;

struct compiled {
    ov_compiled_model_t *model;
    const engine_model_info_t *info; /* the model's, as is the map */
    const network_map_t *map;
    result_t results[ENGINE_MAX_IO];
    uint32_t lanes;
    ov_infer_request_t *requests[]; /* of each lane, and one more; NULL before it needs one */
};

/* ---- Compiling ---- */

/* A stream for each lane: two threads in one stream take turns, and not in a fair way. Threads are never pinned by OpenVINO, which
 * takes CPUs of its own choice; those beyond the lane's own inherit where that may run. */
static ov_status_e compile(const network_t *network, const compiled_how_t *how, ov_compiled_model_t **model)
{
    char threads[16], streams[16];
    snprintf(threads, sizeof threads, "%u", how->threads * how->lanes);
    snprintf(streams, sizeof streams, "%u", how->lanes);
    const ov_property_t properties[] = {
        {ov_property_key_inference_num_threads, threads},   {ov_property_key_num_streams, streams},
        {ov_property_key_hint_performance_mode, "LATENCY"}, {ov_property_key_hint_inference_precision, "f32"},
        {ov_property_key_hint_enable_cpu_pinning, "NO"},
    };
    return ov_core_compile_model_props(library_core(), network->model, "CPU",
                                       sizeof properties / sizeof properties[0], properties, model);
}

static status_t read_shape(const ov_output_const_port_t *port, const engine_tensor_t *t, result_t *r,
                           err_t *err)
{
    ov_partial_shape_t shape;
    status_t status =
        library_check(ov_port_get_partial_shape(port, &shape), t->name, STATUS_UNSUPPORTED, err);
    if (status != STATUS_OK)
        return status;
    bool scalar = !shape.rank.min && !shape.rank.max; /* which it calls dynamic */
    r->known = (scalar || !ov_partial_shape_is_dynamic(shape)) && shape.rank.min <= TENSOR_MAX_RANK;
    r->shape = (tensor_t){.dtype = t->dtype, .rank = r->known ? (uint32_t)shape.rank.min : 0};
    for (uint32_t k = 0; k < r->shape.rank; k++)
        r->shape.dims[k] = shape.dims[k].min;
    ov_partial_shape_free(&shape);
    return STATUS_OK;
}

/* Such an output OpenVINO understands in another way than the file means it. */
static status_t check_shape(const engine_model_info_t *info, const engine_tensor_t *t, const tensor_t *shape,
                            err_t *err)
{
    char text[TENSOR_TEXT_BYTES];
    bool same = shape->rank == t->rank + info->batchable;
    for (uint32_t k = 0; same && k < t->rank; k++)
        same = t->dims[k] < 0 || t->dims[k] == shape->dims[k + info->batchable];
    return same ? STATUS_OK
                : err_set(err, STATUS_UNSUPPORTED,
                          "OpenVINO makes output '%.80s' %s, which it is not in the file", t->name,
                          tensor_text(shape, text));
}

static status_t read_port(const ov_output_const_port_t *port, const engine_tensor_t *t, result_t *r,
                          err_t *err)
{
    ov_element_type_e type;
    status_t status = library_check(ov_port_get_element_type(port, &type), t->name, STATUS_UNSUPPORTED, err);
    if (status != STATUS_OK)
        return status;
    if (type != library_type(t->dtype))
        return err_set(err, STATUS_UNSUPPORTED, "OpenVINO makes output '%.80s' %s, but in the file it is %s",
                       t->name, dtype_name(library_dtype(type)), dtype_name(t->dtype));
    return read_shape(port, t, r, err);
}

static ov_status_e port_at(const compiled_t *c, bool input, int i, ov_output_const_port_t **port)
{
    return input ? ov_compiled_model_input_by_index(c->model, (size_t)i, port)
                 : ov_compiled_model_output_by_index(c->model, (size_t)i, port);
}

/* What is one tensor has the same names. */
static bool same_tensor(const compiled_t *c, const ov_output_const_port_t *port, bool input, int i)
{
    ov_output_const_port_t *other;
    char *name = NULL, *other_name = NULL;
    if (i == NETWORK_UNUSED || port_at(c, input, i, &other) != OK)
        return false;
    bool same = ov_port_get_any_name(port, &name) == OK && ov_port_get_any_name(other, &other_name) == OK &&
                !strcmp(name, other_name);
    if (name)
        ov_free(name);
    if (other_name)
        ov_free(other_name);
    ov_output_const_port_free(other);
    return same;
}

static bool is_shared(const compiled_t *c, const ov_output_const_port_t *port, uint32_t i)
{
    for (uint32_t k = 0; k < c->info->input_count; k++)
        if (same_tensor(c, port, true, c->map->inputs[k]))
            return true;
    for (uint32_t k = 0; k < i; k++)
        if (same_tensor(c, port, false, c->map->outputs[k]))
            return true;
    return false;
}

static status_t read_result(compiled_t *c, uint32_t i, err_t *err)
{
    const engine_tensor_t *t = &c->info->outputs[i];
    ov_output_const_port_t *port;
    status_t status =
        library_check(port_at(c, false, c->map->outputs[i], &port), t->name, STATUS_UNSUPPORTED, err);
    if (status != STATUS_OK)
        return status;
    status = read_port(port, t, &c->results[i], err);
    c->results[i].shared = is_shared(c, port, i);
    ov_output_const_port_free(port);
    return status == STATUS_OK && c->results[i].known ? check_shape(c->info, t, &c->results[i].shape, err)
                                                      : status;
}

status_t compiled_create(const network_t *network, const engine_model_info_t *info, const network_map_t *map,
                         const compiled_how_t *how, compiled_t **compiled, err_t *err)
{
    compiled_t *c = calloc(1, sizeof *c + (how->lanes + 1) * sizeof c->requests[0]);
    if (!c)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a compiled model");
    c->info = info;
    c->map = map;
    c->lanes = how->lanes;
    status_t status = library_check(compile(network, how, &c->model), "compile", STATUS_UNSUPPORTED, err);
    for (uint32_t i = 0; status == STATUS_OK && i < info->output_count; i++)
        status = read_result(c, i, err);
    if (status == STATUS_OK)
        *compiled = c;
    else
        compiled_destroy(c);
    return status;
}

void compiled_destroy(compiled_t *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i <= c->lanes; i++)
        compiled_give_back(c, i);
    if (c->model)
        ov_compiled_model_free(c->model);
    free(c);
}

const tensor_t *compiled_output(const compiled_t *c, uint32_t i)
{
    return c->results[i].known ? &c->results[i].shape : NULL;
}

/* ---- Runs ---- */

status_t compiled_reserve(compiled_t *c, uint32_t lane, err_t *err)
{
    if (c->requests[lane])
        return STATUS_OK;
    return library_check(ov_compiled_model_create_infer_request(c->model, &c->requests[lane]), "a request",
                         STATUS_INTERNAL, err);
}

void compiled_give_back(compiled_t *c, uint32_t lane)
{
    if (c->requests[lane])
        ov_infer_request_free(c->requests[lane]);
    c->requests[lane] = NULL;
}

uint32_t compiled_lanes(const compiled_t *c)
{
    return c->lanes;
}

/* A tensor of no elements needs a place as well. */
static status_t wrap(const tensor_t *shape, void *data, const char *name, ov_tensor_t **wrapped, err_t *err)
{
    static char nowhere;
    int64_t dims[TENSOR_MAX_RANK];
    memcpy(dims, shape->dims, sizeof dims);
    return library_check(ov_tensor_create_from_host_ptr(library_type(shape->dtype),
                                                        (ov_shape_t){.rank = shape->rank, .dims = dims},
                                                        data ? data : &nowhere, wrapped),
                         name, STATUS_INTERNAL, err);
}

status_t compiled_bind_input(compiled_t *c, uint32_t lane, uint32_t i, const tensor_t *tensor, err_t *err)
{
    const char *name = c->info->inputs[i].name;
    ov_tensor_t *wrapped;
    if (c->map->inputs[i] == NETWORK_UNUSED)
        return STATUS_OK;
    status_t status = wrap(tensor, tensor->data, name, &wrapped, err);
    if (status != STATUS_OK)
        return status;
    status = library_check(
        ov_infer_request_set_input_tensor_by_index(c->requests[lane], (size_t)c->map->inputs[i], wrapped),
        name, STATUS_INVALID_ARGUMENT, err);
    ov_tensor_free(wrapped);
    return status;
}

bool compiled_can_bind(const compiled_t *c, uint32_t i)
{
    return c->results[i].known && !c->results[i].shared;
}

status_t compiled_bind_output(compiled_t *c, uint32_t lane, uint32_t i, void *data, err_t *err)
{
    const char *name = c->info->outputs[i].name;
    ov_tensor_t *wrapped;
    status_t status = wrap(&c->results[i].shape, data, name, &wrapped, err);
    if (status != STATUS_OK)
        return status;
    status = library_check(
        ov_infer_request_set_output_tensor_by_index(c->requests[lane], (size_t)c->map->outputs[i], wrapped),
        name, STATUS_INTERNAL, err);
    ov_tensor_free(wrapped);
    return status;
}

status_t compiled_run(compiled_t *c, uint32_t lane, err_t *err)
{
    return library_check(ov_infer_request_infer(c->requests[lane]), "a run", STATUS_INTERNAL, err);
}

static status_t look_shape(const ov_tensor_t *found, const char *name, tensor_t *tensor, err_t *err)
{
    ov_element_type_e type;
    ov_shape_t shape = {0};
    ov_status_e code = ov_tensor_get_element_type(found, &type);
    if (code == OK)
        code = ov_tensor_get_shape(found, &shape);
    if (code != OK)
        return library_check(code, name, STATUS_INTERNAL, err);
    status_t status = STATUS_OK;
    if (shape.rank > TENSOR_MAX_RANK || library_dtype(type) == DTYPE_NONE)
        status = err_set(err, STATUS_UNSUPPORTED, "output '%.80s' came out as %lld dimensions of %s", name,
                         (long long)shape.rank, dtype_name(library_dtype(type)));
    *tensor = (tensor_t){.dtype = library_dtype(type), .rank = (uint32_t)shape.rank};
    for (uint32_t k = 0; status == STATUS_OK && k < tensor->rank; k++)
        tensor->dims[k] = shape.dims[k];
    ov_shape_free(&shape);
    return status;
}

static status_t look(const result_t *result, const ov_tensor_t *found, const char *name, tensor_t *tensor,
                     err_t *err)
{
    status_t status = STATUS_OK;
    *tensor = result->shape;
    if (!result->known)
        status = look_shape(found, name, tensor, err);
    if (status != STATUS_OK || !tensor_bytes(tensor))
        return status;
    return library_check(ov_tensor_data(found, &tensor->data), name, STATUS_INTERNAL, err);
}

/* The request keeps what the tensor holds. */
status_t compiled_look(compiled_t *c, uint32_t lane, uint32_t i, tensor_t *tensor, err_t *err)
{
    const char *name = c->info->outputs[i].name;
    ov_tensor_t *found;
    status_t status = library_check(
        ov_infer_request_get_output_tensor_by_index(c->requests[lane], (size_t)c->map->outputs[i], &found),
        name, STATUS_INTERNAL, err);
    if (status != STATUS_OK)
        return status;
    status = look(&c->results[i], found, name, tensor, err);
    ov_tensor_free(found);
    return status;
}
