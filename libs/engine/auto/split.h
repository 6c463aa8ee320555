/* Which of several engines runs batches of which size, and how that is called: "onednn", or "openvino:2+onednn". */
#ifndef ENGINE_AUTO_SPLIT_H
#define ENGINE_AUTO_SPLIT_H

#include "engine/engine.h"

/* By index, of any list. */
typedef struct {
    uint32_t small, large; /* the same where there is one */
    uint32_t rows;         /* that a small batch has at most; 0: there is one */
} split_t;

static inline uint32_t split_at(const split_t *split, uint32_t batch)
{
    return batch <= split->rows ? split->small : split->large;
}

void split_name(const split_t *split, const char *const *names, char text[ENGINE_RUNNING_BYTES]);
/* False: it is not the name of one or two different ones of these. */
bool split_parse(const char *text, const char *const *names, uint32_t count, split_t *split);

#endif
