/*
 * A small YAML document as a tree of maps, lists and scalars that know their place, for configuration of
 * services and of models (config.yaml). Bounded in size, nodes and depth; no anchors or aliases (an error
 * says so), no duplicate keys, one document.
 *
 * All readers give errors of the form "file:line:column: what is wrong (what is expected)".
 */
#ifndef CONFIG_YDOC_H
#define CONFIG_YDOC_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    YDOC_MAX_BYTES = 1 << 20, /* configuration, not data: a label list of 20,000 lines still fits */
    YDOC_MAX_NODES = 1 << 17, /* bounds memory to some 8 MB */
    YDOC_MAX_DEPTH = 32,      /* nobody nests deeper; bounds recursion */
};

typedef enum { YDOC_SCALAR, YDOC_LIST, YDOC_MAP } ydoc_kind_t;

typedef struct ydoc ydoc_t;
typedef struct ydoc_node ydoc_node_t;

/* An empty document has a root that is an empty map. */
status_t ydoc_load(const char *path, ydoc_t **out, err_t *err);
status_t ydoc_parse(const char *name, const char *text, size_t len_bytes, ydoc_t **out,
                    err_t *err); /* name is for errors */
void ydoc_destroy(ydoc_t *doc);
const ydoc_node_t *ydoc_root(const ydoc_t *doc);

ydoc_kind_t ydoc_kind(const ydoc_node_t *node);
const char *ydoc_key(const ydoc_node_t *node); /* its key in the map it is in; NULL elsewhere */
int ydoc_line(const ydoc_node_t *node);        /* 1-based; an entry of a map is where its key is */
bool ydoc_is_null(const ydoc_node_t *node);    /* a plain empty, ~ or null */

/* Fills err with STATUS_INVALID_ARGUMENT and "file:line:column: …" of the node. */
status_t ydoc_error(const ydoc_node_t *node, err_t *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Maps and lists; NULL safe (a NULL or scalar node has no children). */
size_t ydoc_len(const ydoc_node_t *node);
const ydoc_node_t *ydoc_at(const ydoc_node_t *node, size_t i); /* i-th child of a map or list, or NULL */
const ydoc_node_t *ydoc_get(const ydoc_node_t *map, const char *key); /* NULL when it is not there */

status_t ydoc_expect(const ydoc_node_t *node, ydoc_kind_t kind, err_t *err);

/* Every key of the map is one of allowed (NULL-terminated); else the error names the key and lists them. */
status_t ydoc_check_keys(const ydoc_node_t *map, const char *const *allowed, err_t *err);

/* Scalars. The string lives as long as the document. */
status_t ydoc_string(const ydoc_node_t *node, const char **out, err_t *err);
status_t ydoc_int64(const ydoc_node_t *node, int64_t min, int64_t max, int64_t *out, err_t *err);
status_t ydoc_double(const ydoc_node_t *node, double min, double max, double *out, err_t *err);
status_t ydoc_choice(const ydoc_node_t *node, const char *const *choices, int *out,
                     err_t *err); /* NULL-terminated */

#endif
