/* Hot path: no allocation after init. */
#include "base/bitmap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64 };

static uint32_t words_for(uint32_t bits)
{
    return (bits + WORD_BITS - 1) / WORD_BITS;
}

static uint64_t bit(uint32_t i)
{
    return UINT64_C(1) << (i % WORD_BITS);
}

static uint32_t lowest(uint64_t word)
{
    return (uint32_t)__builtin_ctzll(word);
}

/* The bits of word at and above position i (i may be 64). */
static uint64_t from_bit(uint64_t word, uint32_t i)
{
    return i < WORD_BITS ? word & (UINT64_MAX << i) : 0;
}

status_t bitmap_init(bitmap_t *set, uint32_t capacity, err_t *err)
{
    if (capacity == 0 || capacity > BITMAP_CAPACITY_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "bitmap of %u (1 to %d)", capacity, BITMAP_CAPACITY_MAX);
    uint32_t bottom_len = words_for(capacity), middle_len = words_for(bottom_len);
    uint64_t *words = calloc(bottom_len + middle_len, sizeof *words);
    if (!words)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a bitmap of %u", capacity);
    *set = (bitmap_t){.middle = words, .bottom = words + middle_len, .capacity = capacity};
    return STATUS_OK;
}

void bitmap_dispose(bitmap_t *set)
{
    free(set->middle); /* bottom is in the same allocation */
    *set = (bitmap_t){0};
}

void bitmap_add(bitmap_t *set, uint32_t i)
{
    assert(i < set->capacity);
    uint32_t word = i / WORD_BITS;
    set->count += (set->bottom[word] & bit(i)) == 0;
    set->bottom[word] |= bit(i);
    set->middle[word / WORD_BITS] |= bit(word);
    set->top |= bit(word / WORD_BITS);
}

void bitmap_remove(bitmap_t *set, uint32_t i)
{
    assert(i < set->capacity);
    uint32_t word = i / WORD_BITS;
    if ((set->bottom[word] & bit(i)) == 0)
        return;
    set->count--;
    set->bottom[word] &= ~bit(i);
    if (set->bottom[word] != 0)
        return;
    set->middle[word / WORD_BITS] &= ~bit(word);
    if (set->middle[word / WORD_BITS] == 0)
        set->top &= ~bit(word / WORD_BITS);
}

bool bitmap_has(const bitmap_t *set, uint32_t i)
{
    return i < set->capacity && (set->bottom[i / WORD_BITS] & bit(i)) != 0;
}

static uint32_t first_in_word(const bitmap_t *set, uint32_t word)
{
    return word * WORD_BITS + lowest(set->bottom[word]);
}

uint32_t bitmap_first(const bitmap_t *set)
{
    if (set->top == 0)
        return BITMAP_NONE;
    uint32_t m = lowest(set->top);
    return first_in_word(set, m * WORD_BITS + lowest(set->middle[m]));
}

/* Looks in the rest of the word, then in the rest of the middle word, then above: three steps at most. */
uint32_t bitmap_next(const bitmap_t *set, uint32_t from)
{
    if (from >= set->capacity)
        return BITMAP_NONE;
    uint32_t word = from / WORD_BITS, m = word / WORD_BITS;
    uint64_t rest = from_bit(set->bottom[word], from % WORD_BITS);
    if (rest != 0)
        return word * WORD_BITS + lowest(rest);
    rest = from_bit(set->middle[m], word % WORD_BITS + 1);
    if (rest != 0)
        return first_in_word(set, m * WORD_BITS + lowest(rest));
    rest = from_bit(set->top, m + 1);
    if (rest == 0)
        return BITMAP_NONE;
    m = lowest(rest);
    return first_in_word(set, m * WORD_BITS + lowest(set->middle[m]));
}

bool bitmap_validate(const bitmap_t *set, err_t *err)
{
    uint32_t bottom_len = words_for(set->capacity), middle_len = words_for(bottom_len), count = 0;
    bool levels_agree = true;
    for (uint32_t w = 0; w < bottom_len; w++) {
        count += (uint32_t)__builtin_popcountll(set->bottom[w]);
        levels_agree &= (set->bottom[w] != 0) == ((set->middle[w / WORD_BITS] & bit(w)) != 0);
    }
    for (uint32_t m = 0; m < middle_len; m++)
        levels_agree &= (set->middle[m] != 0) == ((set->top & bit(m)) != 0);
    if (!levels_agree || count != set->count) {
        err_set(err, STATUS_INTERNAL, "bitmap: %s, %u members (counted %u)",
                levels_agree ? "levels agree" : "levels differ", set->count, count);
        return false;
    }
    return true;
}
