/* Which of several engines a model should run on, by what was found of each (model_engine_t). Pure: nothing is run or loaded. */
#ifndef MODEL_PICK_ENGINE_H
#define MODEL_PICK_ENGINE_H

#include "model/model.h"

typedef struct {
    const model_engine_t *engines;
    uint32_t count;
    const uint32_t *sizes; /* rising: the batches whose latencies they have */
    uint32_t size_count;
} picked_from_t;

/* Of those that fit the mode, if there are any; UINT32_MAX: none runs. `first` is not displaced for little. */
uint32_t pick_fastest(const picked_from_t *from, uint32_t first);

/* Both run, and neither is twice as fast as the other. */
bool pick_are_near(const model_engine_t *a, const model_engine_t *b);

typedef struct {
    uint32_t small, rows, large; /* as use_two of engine_choice_t */
} pick_two_t;

/* Whether another one is faster than `best` with small batches or with large ones, by more than measurements differ: then two should
 * serve, if there is memory for both. The border is where most is saved, halfway (in the logarithm) between two sizes. */
bool pick_two(const picked_from_t *from, uint32_t best, pick_two_t *two);

#endif
