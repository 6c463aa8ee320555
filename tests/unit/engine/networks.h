/*
 * Small networks of each kind, with random weights: for tests that compare ways to run them.
 */
#ifndef TESTS_ENGINE_NETWORKS_H
#define TESTS_ENGINE_NETWORKS_H

#include "engine/engine.h"
#include "maker.h"

typedef struct {
    const char *name;
    maker_t *(*make)(void);
} network_t;

extern const network_t networks[];
extern const uint32_t network_count;

/* A chain with random branches, from a seed. */
maker_t *network_random(unsigned seed);

enum { NETWORK_WIDTH = 16 }; /* of a word, of the next one */

/* Attention over any number of words: inputs x [n, length, width] and mask [n, 1, 1, length], output like x. */
maker_t *network_of_any_length(void);

/* Rows of any length, less their sums: two open dimensions. */
maker_t *network_varying(void);

/* Loads it; the maker is gone. */
status_t network_load(maker_t *m, const engine_ops_t *ops, engine_t *engine, uint32_t max_batch,
                      engine_precision_t precision, engine_model_t **model, err_t *err);

/* The same, as `what` says beyond the file. */
status_t network_load_as(maker_t *m, const engine_ops_t *ops, engine_t *engine, engine_load_t what,
                         engine_model_t **model, err_t *err);

/* Numbers in -1..1. */
void network_noise(float *values, size_t count, unsigned seed);

#endif
