/*
 * The rows of a grant: written by the scheduler, read by the worker, and laid out here and nowhere else. A field more is
 * one more in grant_row_t, in the two functions below it, and in GRANT_ROW_WORDS.
 *
 *   | task | handle hi | handle lo | offset | budget | len : gateway | task | …         a word: 64 bits
 */
#ifndef PROTOS_GRANT_ROWS_H
#define PROTOS_GRANT_ROWS_H

#include "control.pb-c.h"

enum { GRANT_ROW_WORDS = 6 };

typedef struct {
    uint64_t task_id;
    uint64_t handle_hi, handle_lo, offset_bytes; /* of the input, in its gateway's arena */
    int64_t budget_ns;                           /* until the answer must leave the gateway */
    uint32_t len_bytes;                          /* of the input */
    uint32_t gateway;                            /* peer index */
} grant_row_t;

/* ---- Writing ---- */

/* No rows yet. Room for as many words as all that come, GRANT_ROW_WORDS each, stays the caller's. */
static inline void grant_rows_begin(Control__Grant *grant, uint64_t *room)
{
    grant->word = room;
    grant->n_word = 0;
    grant->rows = 0;
}

/* Over a row that is there. */
static inline void grant_rows_put(Control__Grant *grant, uint32_t row, const grant_row_t *from)
{
    uint64_t *word = grant->word + (size_t)row * GRANT_ROW_WORDS;
    word[0] = from->task_id;
    word[1] = from->handle_hi;
    word[2] = from->handle_lo;
    word[3] = from->offset_bytes;
    word[4] = (uint64_t)from->budget_ns;
    word[5] = (uint64_t)from->len_bytes << 32 | from->gateway;
}

static inline void grant_rows_append(Control__Grant *grant, const grant_row_t *from)
{
    grant_rows_put(grant, grant->rows++, from);
    grant->n_word += GRANT_ROW_WORDS;
}

/* ---- Reading: what came over the wire after grant_rows_objection only ---- */

/* NULL, or why the rows of a grant cannot be read. */
static inline const char *grant_rows_objection(const Control__Grant *grant)
{
    if (grant->rows == 0)
        return "the grant has no rows";
    if (grant->n_word != (uint64_t)grant->rows * GRANT_ROW_WORDS)
        return "the grant's rows are not of the length that this version knows";
    return NULL;
}

static inline grant_row_t grant_rows_at(const Control__Grant *grant, uint32_t row)
{
    const uint64_t *word = grant->word + (size_t)row * GRANT_ROW_WORDS;
    return (grant_row_t){.task_id = word[0],
                         .handle_hi = word[1],
                         .handle_lo = word[2],
                         .offset_bytes = word[3],
                         .budget_ns = (int64_t)word[4],
                         .len_bytes = (uint32_t)(word[5] >> 32),
                         .gateway = (uint32_t)word[5]};
}

#endif
