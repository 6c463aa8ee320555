#include "engine/openvino/network.h"

#include "base/mapped.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ports ---- */

static ov_status_e port_at(const network_t *network, bool input, uint32_t i, ov_output_const_port_t **port)
{
    return input ? ov_model_const_input_by_index(network->model, i, port)
                 : ov_model_const_output_by_index(network->model, i, port);
}

static void read_name(const ov_output_const_port_t *port, bool input, uint32_t i, declared_t *d)
{
    char *name = NULL;
    if (ov_port_get_any_name(port, &name) != OK)
        snprintf(d->name, sizeof d->name, "%s_%u", input ? "input" : "output", i);
    else
        snprintf(d->name, sizeof d->name, "%s", name);
    if (name)
        ov_free(name);
}

static status_t read_dims(const ov_partial_shape_t *shape, declared_t *d, err_t *err)
{
    if (shape->rank.min != shape->rank.max)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has no fixed number of dimensions", d->name);
    if (shape->rank.min > ENGINE_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED,
                       "tensor '%.80s' has %lld dimensions; at most %d are supported", d->name,
                       (long long)shape->rank.min, ENGINE_MAX_RANK);
    d->rank = (uint32_t)shape->rank.min;
    for (uint32_t k = 0; k < d->rank; k++)
        d->dims[k] = shape->dims[k].min == shape->dims[k].max ? shape->dims[k].min : -1;
    return STATUS_OK;
}

static status_t read_port(const ov_output_const_port_t *port, declared_t *d, err_t *err)
{
    ov_element_type_e type;
    ov_partial_shape_t shape;
    status_t status = library_check(ov_port_get_element_type(port, &type), d->name, STATUS_UNSUPPORTED, err);
    if (status != STATUS_OK)
        return status;
    d->dtype = library_dtype(type);
    if (d->dtype == DTYPE_NONE)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' is no dense tensor of numbers", d->name);
    status = library_check(ov_port_get_partial_shape(port, &shape), d->name, STATUS_UNSUPPORTED, err);
    if (status != STATUS_OK)
        return status;
    status = read_dims(&shape, d, err);
    ov_partial_shape_free(&shape);
    return status;
}

status_t network_declared(const network_t *network, bool input, uint32_t i, declared_t *declared, err_t *err)
{
    ov_output_const_port_t *port;
    status_t status =
        library_check(port_at(network, input, i, &port), "inputs and outputs", STATUS_UNSUPPORTED, err);
    if (status != STATUS_OK)
        return status;
    *declared = (declared_t){0};
    read_name(port, input, i, declared);
    status = read_port(port, declared, err);
    ov_output_const_port_free(port);
    return status;
}

/* ---- Names ---- */

static bool has_name(const ov_output_const_port_t *port, const char *name)
{
    char *any = NULL;
    bool same = ov_port_get_any_name(port, &any) == OK && !strcmp(any, name);
    if (any)
        ov_free(any);
    return same;
}

static bool is_named(const network_t *network, bool input, uint32_t i, const char *name)
{
    ov_output_const_port_t *port;
    if (port_at(network, input, i, &port) != OK)
        return false;
    bool same = has_name(port, name);
    ov_output_const_port_free(port);
    return same;
}

/* Whose first name this is. `guess` comes first: two outputs may be one tensor. */
static int find_first_name(const network_t *network, bool input, const char *name, uint32_t guess)
{
    uint32_t count = input ? network->input_count : network->output_count;
    if (guess < count && is_named(network, input, guess, name))
        return (int)guess;
    for (uint32_t i = 0; i < count; i++)
        if (is_named(network, input, i, name))
            return (int)i;
    return NETWORK_UNUSED;
}

/* A tensor may have several names, of which OpenVINO tells one. */
static int find(const network_t *network, bool input, const char *name, uint32_t guess)
{
    ov_output_const_port_t *port;
    char *first = NULL;
    int found = NETWORK_UNUSED;
    ov_status_e code = input ? ov_model_const_input_by_name(network->model, name, &port)
                             : ov_model_const_output_by_name(network->model, name, &port);
    if (code != OK)
        return found;
    if (ov_port_get_any_name(port, &first) == OK)
        found = find_first_name(network, input, first, guess);
    if (first)
        ov_free(first);
    ov_output_const_port_free(port);
    return found;
}

/* What passes straight through a model may have lost its name: where the numbers agree the order does too. Else as many
 * inputs as are missing have no name. */
static status_t match(const network_t *network, bool input, const engine_tensor_t *tensors, uint32_t count,
                      int *found, err_t *err)
{
    uint32_t have = input ? network->input_count : network->output_count, missing = 0;
    const char *lost = NULL;
    for (uint32_t i = 0; i < count; i++) {
        found[i] = find(network, input, tensors[i].name, i);
        if (found[i] == NETWORK_UNUSED && have == count)
            found[i] = (int)i;
        if (found[i] == NETWORK_UNUSED) {
            lost = tensors[i].name;
            missing++;
        }
    }
    if (lost && (!input || have + missing != count))
        return err_set(err, STATUS_UNSUPPORTED, "OpenVINO has no %s '%.80s' in this model",
                       input ? "input" : "output", lost);
    return STATUS_OK;
}

status_t network_match(const network_t *network, const engine_model_info_t *info, network_map_t *map,
                       err_t *err)
{
    status_t status = match(network, true, info->inputs, info->input_count, map->inputs, err);
    return status == STATUS_OK ? match(network, false, info->outputs, info->output_count, map->outputs, err)
                               : status;
}

/* ---- Shapes ---- */

status_t network_reshape(network_t *network, const int *which, const tensor_t *inputs, uint32_t count,
                         err_t *err)
{
    ov_partial_shape_t shapes[ENGINE_MAX_IO];
    ov_dimension_t dims[ENGINE_MAX_IO][ENGINE_MAX_RANK];
    size_t ports[ENGINE_MAX_IO], used = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t rank = inputs[i].rank;
        if (which[i] == NETWORK_UNUSED || !rank) /* the C interface makes a vector of a scalar */
            continue;
        ports[used] = (size_t)which[i];
        shapes[used] = (ov_partial_shape_t){.rank = {rank, rank}, .dims = dims[used]};
        for (int64_t k = 0; k < rank; k++) {
            int64_t dim = inputs[i].dims[k];
            dims[used][k] = (ov_dimension_t){dim < 0 ? 0 : dim, dim};
        }
        used++;
    }
    return used ? library_check(ov_model_reshape_by_port_indexes(network->model, ports, shapes, used),
                                "shapes", STATUS_UNSUPPORTED, err)
                : STATUS_OK;
}

/* ---- Life ---- */

static status_t count_ports(network_t *network, const char *name, err_t *err)
{
    size_t inputs = 0, outputs = 0;
    ov_status_e code = ov_model_inputs_size(network->model, &inputs);
    if (code == OK)
        code = ov_model_outputs_size(network->model, &outputs);
    status_t status = library_check(code, name, STATUS_UNSUPPORTED, err);
    if (status == STATUS_OK && (inputs > ENGINE_MAX_IO || outputs > ENGINE_MAX_IO))
        status = err_set(err, STATUS_UNSUPPORTED, "%zu inputs and %zu outputs; at most %d are supported",
                         inputs, outputs, ENGINE_MAX_IO);
    network->input_count = (uint32_t)inputs;
    network->output_count = (uint32_t)outputs;
    return status;
}

static status_t read_bytes(network_t *network, const engine_load_t *what, err_t *err)
{
    return library_check(ov_core_read_model_from_memory_buffer(library_core(), what->bytes, what->len_bytes,
                                                               NULL, &network->model),
                         what->name, STATUS_UNSUPPORTED, err);
}

/* The model's file it copies; external data it maps, and what it keeps mapped is ours before anybody can change it. */
static status_t read_file(network_t *network, const engine_load_t *what, err_t *err)
{
    char path[PATH_MAX];
    mapped_watch_t watch;
    if (!realpath(what->path, path))
        return err_set(err, STATUS_IO, "%.300s: %m", what->path);
    mapped_begin(&watch);
    status_t status = library_check(ov_core_read_model(library_core(), what->path, NULL, &network->model),
                                    what->name, STATUS_UNSUPPORTED, err);
    status_t ended = mapped_end(&watch, dirname(path), status == STATUS_OK ? err : NULL);
    return status == STATUS_OK ? ended : status;
}

status_t network_read(network_t *network, const engine_load_t *what, err_t *err)
{
    *network = (network_t){0};
    status_t status = what->path ? read_file(network, what, err) : read_bytes(network, what, err);
    if (status == STATUS_OK)
        status = count_ports(network, what->name, err);
    if (status != STATUS_OK)
        network_dispose(network);
    return status;
}

void network_dispose(network_t *network)
{
    if (network->model)
        ov_model_free(network->model);
    *network = (network_t){0};
}
