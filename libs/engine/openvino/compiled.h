/*
 * A network compiled for the shapes that it had, and the requests that run it. A request belongs to one lane, whose thread alone
 * uses it. One more than there are lanes is for whoever tries the network out: its "lane" is as many as there are.
 */
#ifndef ENGINE_OPENVINO_COMPILED_H
#define ENGINE_OPENVINO_COMPILED_H

#include "engine/openvino/network.h"

/* Threads that compute a run (the first is that which calls it), and how many lanes there are, whose runs go side by side. */
typedef struct {
    uint32_t threads, lanes;
} compiled_how_t;

typedef struct compiled compiled_t;

/*
 * Inputs and outputs are those of `info`, which `map` finds in the network. UNSUPPORTED: the CPU lacks something for it, or
 * an output has another type or shape than `info` says.
 */
status_t compiled_create(const network_t *network, const engine_model_info_t *info, const network_map_t *map,
                         const compiled_how_t *how, compiled_t **compiled, err_t *err);
void compiled_destroy(compiled_t *compiled); /* NULL is fine */

/* The shape of output i where it is known before a run; else NULL. */
const tensor_t *compiled_output(const compiled_t *compiled, uint32_t i);

/* Makes what a run on this lane needs; gives it back. */
status_t compiled_reserve(compiled_t *compiled, uint32_t lane, err_t *err);
void compiled_give_back(compiled_t *compiled, uint32_t lane);
uint32_t compiled_lanes(const compiled_t *compiled);

/*
 * The next run on this lane reads, or writes, this buffer. Outputs can be bound whose shape is known: into others OpenVINO may
 * write nothing at all, without a word.
 */
status_t compiled_bind_input(compiled_t *compiled, uint32_t lane, uint32_t i, const tensor_t *tensor,
                             err_t *err);
bool compiled_can_bind(const compiled_t *compiled, uint32_t i);
status_t compiled_bind_output(compiled_t *compiled, uint32_t lane, uint32_t i, void *data, err_t *err);
status_t compiled_run(compiled_t *compiled, uint32_t lane, err_t *err);

/* Shape and place of an output that was not bound, valid until the next run of this lane. */
status_t compiled_look(compiled_t *compiled, uint32_t lane, uint32_t i, tensor_t *tensor, err_t *err);

#endif
