/*
 * A small document of protobuf's text format as a tree of fields that know their place, read without a schema: for
 * config.pbtxt of models that were made for Triton. Bounded in size, fields and depth. A list [a, b] is its items as so many
 * fields of one name, which is what the format means by it. Extensions and Any ([name]) are refused.
 *
 * All readers give errors of the form "file:line:column: what is wrong".
 */
#ifndef CONFIG_PTEXT_H
#define CONFIG_PTEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PTEXT_MAX_BYTES = 1 << 20, /* configuration, not data */
    PTEXT_MAX_FIELDS = 1 << 16,
    PTEXT_MAX_DEPTH = 32, /* nobody nests deeper; bounds recursion */
};

typedef enum {
    PTEXT_WORD,   /* a number, or the name of a constant: true, TYPE_FP32 */
    PTEXT_STRING, /* in quotes; without zeros, and UTF-8 */
    PTEXT_MESSAGE
} ptext_kind_t;

typedef struct ptext ptext_t;
typedef struct ptext_field ptext_field_t;

status_t ptext_load(const char *path, ptext_t **out, err_t *err);
status_t ptext_parse(const char *name, const char *text, size_t len_bytes, ptext_t **out,
                     err_t *err); /* name is for errors */
void ptext_destroy(ptext_t *doc);
const ptext_field_t *ptext_root(const ptext_t *doc); /* a message without a name */

ptext_kind_t ptext_kind(const ptext_field_t *field);
const char *ptext_name(const ptext_field_t *field); /* "" of the root */
const char *ptext_text(const ptext_field_t *field); /* of a word or string as it stands, of a message "" */
int ptext_line(const ptext_field_t *field);         /* 1-based, where its name is */

/* The fields of a message in the order of the file; NULL at the end, and of anything but a message. */
const ptext_field_t *ptext_first(const ptext_field_t *message);
const ptext_field_t *ptext_next(const ptext_field_t *field);
/* The first of that name, or NULL. message may be NULL. */
const ptext_field_t *ptext_get(const ptext_field_t *message, const char *name);

/* Fills err with STATUS_INVALID_ARGUMENT and "file:line:column: …" of the field. */
status_t ptext_error(const ptext_field_t *field, err_t *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What a field is expected to be. The string lives as long as the document. */
status_t ptext_expect(const ptext_field_t *field, ptext_kind_t kind, err_t *err);
status_t ptext_string(const ptext_field_t *field, const char **out, err_t *err);
status_t ptext_int64(const ptext_field_t *field, int64_t min, int64_t max, int64_t *out, err_t *err);
status_t ptext_bool(const ptext_field_t *field, bool *out, err_t *err);

#endif
