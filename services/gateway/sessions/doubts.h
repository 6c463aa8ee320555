/*
 * Tasks that wait and that the scheduler wants to be told of as soon as their results are there, since it does not take the word of
 * the worker for it. Few, and each for a moment. Loop thread only.
 */
#ifndef GATEWAY_DOUBTS_H
#define GATEWAY_DOUBTS_H

#include <stdbool.h>
#include <stdint.h>

enum { DOUBTS_MAX = 256 };

typedef struct {
    uint64_t ids[DOUBTS_MAX];
    uint32_t count;
    uint32_t oldest; /* about; of more it is forgotten, and then run once more elsewhere */
} doubts_t;

void doubts_add(doubts_t *doubts, uint64_t id);
/* It waits no longer. True: it was doubted. O(count), mostly 0. */
bool doubts_take(doubts_t *doubts, uint64_t id);

#endif
