/*
 * A model as a text for a library that parses it again, without its large contents: nearly all of a file is weights, and what a library
 * finds in a text it copies, some more than once, before it makes of it what it computes with.
 *
 *   model.onnx  … [raw_data of 'w': 104,857,600 bytes] …
 *   text        … 'w' is external data: model.onnx, from byte 181, 104,857,600 bytes …
 *
 * Libraries map such a file: see mapped_begin (base/mapped.h).
 */
#ifndef ONNX_PACK_H
#define ONNX_PACK_H

#include "onnx/model.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

enum { ONNX_PACK_LARGE_BYTES = 64 << 10 }; /* of a tensor's contents: from here on they stay in the file */

typedef struct {
    void *bytes; /* owned */
    size_t len_bytes;
    bool has_names; /* contents lie in the model's own file; false: in the text, or where the model says */
    char folder[PATH_MAX]; /* of the names in it; "": it may have none */
    char path[PATH_MAX];   /* has_names: the file, and what is known of it */
    struct stat about;
} onnx_text_t;

/*
 * As the message is by now, whoever changed it. All contents are in the text of a model that came as bytes, and of one that
 * has external data of its own: names of its own need not be relative to where a link leads. Independent of the model.
 */
status_t onnx_model_pack(const onnx_model_t *model, onnx_text_t *text, err_t *err);

/* Once whoever parsed the text has read what it names. IO: the file has been changed since the model was read. */
status_t onnx_text_check(const onnx_text_t *text, err_t *err);

/* One of all zeros is fine. */
void onnx_text_dispose(onnx_text_t *text);

#endif
