/*
 * Strings that a model knows: encoders refuse those they have not seen, so that an empty one cannot show what the model is like.
 * Taken from the lists of strings in the attributes of its nodes (categories, keys, vocabularies), the first of each, in the
 * order of the nodes, which is mostly that of the columns that they encode.
 */
#ifndef ENGINE_ONNXRUNTIME_WORDS_H
#define ENGINE_ONNXRUNTIME_WORDS_H

#include "engine/engine.h"

typedef struct {
    char **list; /* strings; NULL: none */
    uint32_t count;
} words_t;

/* From the file or the bytes of `what`. Nothing to be read is no words. */
status_t words_read(words_t *words, const engine_load_t *what, err_t *err);
void words_dispose(words_t *words);

/* Lays string number first, first + 1, … into rooms of so many bytes, beginning anew when all had their turn. There is one. */
void words_lay(const words_t *words, size_t first, void *rooms, size_t count, size_t room_bytes);

#endif
