#include "config/ydoc.h"

#include "base/file.h"
#include "config/suggest.h"
#include "config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAP_KEYS_MAX = 1024 }; /* keys are searched one by one */

struct ydoc_node {
    const ydoc_t *doc;
    char *key;  /* NULL: not in a map */
    char *text; /* scalars */
    ydoc_node_t **children;
    uint32_t len;
    uint32_t capacity;
    int line;
    int column;
    ydoc_kind_t kind;
    bool plain; /* a scalar without quotes */
};

struct ydoc {
    char *name;
    ydoc_node_t *root;
};

typedef struct {
    yaml_parser_t parser;
    ydoc_t *doc;
    uint32_t nodes;
    err_t *err;
} reader_t;

static void node_destroy(ydoc_node_t *node)
{
    if (!node)
        return;
    for (uint32_t i = 0; i < node->len; i++)
        node_destroy(node->children[i]);
    free(node->children);
    free(node->key);
    free(node->text);
    free(node);
}

void ydoc_destroy(ydoc_t *doc)
{
    if (!doc)
        return;
    node_destroy(doc->root);
    free(doc->name);
    free(doc);
}

static status_t fail_at(const reader_t *r, yaml_mark_t mark, const char *text)
{
    return err_set(r->err, STATUS_INVALID_ARGUMENT, "%s:%zu:%zu: %s", r->doc->name, mark.line + 1,
                   mark.column + 1, text);
}

static status_t no_memory(const reader_t *r)
{
    return err_set(r->err, STATUS_NO_MEMORY, "%s: no memory", r->doc->name);
}

static status_t next_event(reader_t *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event))
        return STATUS_OK;
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";
    yaml_mark_t mark = r->parser.problem_mark;
    if (r->parser.error == YAML_READER_ERROR) /* not text at all: no line is known */
        return err_set(r->err, STATUS_INVALID_ARGUMENT, "%s: %s at byte %zu", r->doc->name, problem,
                       r->parser.problem_offset);
    return fail_at(r, mark, problem);
}

static ydoc_node_t *new_node(reader_t *r, ydoc_kind_t kind, yaml_mark_t mark)
{
    ydoc_node_t *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    *node = (ydoc_node_t){
        .doc = r->doc, .kind = kind, .line = (int)mark.line + 1, .column = (int)mark.column + 1};
    r->nodes++;
    return node;
}

static bool add_child(ydoc_node_t *node, ydoc_node_t *child)
{
    if (node->len == node->capacity) {
        uint32_t capacity = node->capacity == 0 ? 4 : node->capacity * 2;
        ydoc_node_t **children = realloc(node->children, capacity * sizeof *children);
        if (!children)
            return false;
        node->children = children;
        node->capacity = capacity;
    }
    node->children[node->len++] = child;
    return true;
}

static status_t read_node(reader_t *r, const yaml_event_t *event, int depth, ydoc_node_t **out);

static status_t read_scalar(reader_t *r, const yaml_event_t *event, ydoc_node_t **out)
{
    const char *value = (const char *)event->data.scalar.value;
    if (strlen(value) != event->data.scalar.length)
        return fail_at(r, event->start_mark, "a text must not contain a NUL character");
    ydoc_node_t *node = new_node(r, YDOC_SCALAR, event->start_mark);
    if (!node || !(node->text = strdup(value))) {
        free(node);
        return no_memory(r);
    }
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    *out = node;
    return STATUS_OK;
}

static status_t read_items(reader_t *r, ydoc_node_t *list, int depth)
{
    for (;;) {
        yaml_event_t event;
        ydoc_node_t *item = NULL;
        status_t st = next_event(r, &event);
        if (st != STATUS_OK)
            return st;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end)
            st = read_node(r, &event, depth, &item);
        yaml_event_delete(&event);
        if (end || st != STATUS_OK)
            return st;
        if (!add_child(list, item)) {
            node_destroy(item);
            return no_memory(r);
        }
    }
}

static status_t check_key(reader_t *r, const ydoc_node_t *map, const yaml_event_t *event)
{
    if (event->type != YAML_SCALAR_EVENT)
        return fail_at(r, event->start_mark, "a key must be a plain text");
    const char *key = (const char *)event->data.scalar.value;
    if (strlen(key) != event->data.scalar.length)
        return fail_at(r, event->start_mark, "a key must not contain a NUL character");
    if (map->len == MAP_KEYS_MAX)
        return fail_at(r, event->start_mark, "too many keys in one map");
    const ydoc_node_t *first = ydoc_get(map, key);
    if (!first)
        return STATUS_OK;
    return err_set(r->err, STATUS_INVALID_ARGUMENT, "%s:%zu:%zu: duplicate key \"%.60s\" (first in line %d)",
                   r->doc->name, event->start_mark.line + 1, event->start_mark.column + 1, key, first->line);
}

/* The place of an entry is its key's: a value may be empty or begin lines below. */
static status_t read_value(reader_t *r, const yaml_event_t *key, int depth, ydoc_node_t **out)
{
    yaml_event_t event;
    ydoc_node_t *value;
    status_t st = next_event(r, &event);
    if (st != STATUS_OK)
        return st;
    st = read_node(r, &event, depth, &value);
    yaml_event_delete(&event);
    if (st != STATUS_OK)
        return st;
    if (!(value->key = strdup((const char *)key->data.scalar.value))) {
        node_destroy(value);
        return no_memory(r);
    }
    value->line = (int)key->start_mark.line + 1;
    value->column = (int)key->start_mark.column + 1;
    *out = value;
    return STATUS_OK;
}

static status_t read_entries(reader_t *r, ydoc_node_t *map, int depth)
{
    for (;;) {
        yaml_event_t key;
        ydoc_node_t *value = NULL;
        status_t st = next_event(r, &key);
        if (st != STATUS_OK)
            return st;
        bool end = key.type == YAML_MAPPING_END_EVENT;
        if (!end && (st = check_key(r, map, &key)) == STATUS_OK)
            st = read_value(r, &key, depth, &value);
        yaml_event_delete(&key);
        if (end || st != STATUS_OK)
            return st;
        if (!add_child(map, value)) {
            node_destroy(value);
            return no_memory(r);
        }
    }
}

static status_t read_children(reader_t *r, const yaml_event_t *event, int depth, ydoc_node_t **out)
{
    bool map = event->type == YAML_MAPPING_START_EVENT;
    ydoc_node_t *node = new_node(r, map ? YDOC_MAP : YDOC_LIST, event->start_mark);
    if (!node)
        return no_memory(r);
    status_t st = map ? read_entries(r, node, depth + 1) : read_items(r, node, depth + 1);
    if (st == STATUS_OK)
        *out = node;
    else
        node_destroy(node);
    return st;
}

static const char *feature_refused(const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT)
        return "aliases (*name) are not supported";
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor)
        return "anchors (&name) are not supported";
    return tag ? "tags (!name) are not supported" : NULL;
}

static status_t read_node(reader_t *r, const yaml_event_t *event, int depth, ydoc_node_t **out)
{
    const char *refused = feature_refused(event);
    if (refused)
        return fail_at(r, event->start_mark, refused);
    if (r->nodes >= YDOC_MAX_NODES)
        return fail_at(r, event->start_mark, "too many values");
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(r, event, out);
    if (depth >= YDOC_MAX_DEPTH)
        return fail_at(r, event->start_mark, "nested too deeply");
    return read_children(r, event, depth, out);
}

/* STREAM-START (DOCUMENT-START root DOCUMENT-END)? STREAM-END; libyaml's grammar gives no other events here.
 */
static status_t read_document(reader_t *r)
{
    for (;;) {
        yaml_event_t event;
        status_t st = next_event(r, &event);
        if (st != STATUS_OK)
            return st;
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && r->doc->root)
            st = fail_at(r, event.start_mark, "only one document is allowed");
        else if (type == YAML_STREAM_END_EVENT && !r->doc->root)
            r->doc->root = new_node(r, YDOC_MAP, event.start_mark);
        else if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT &&
                 type != YAML_DOCUMENT_END_EVENT && type != YAML_STREAM_END_EVENT)
            st = read_node(r, &event, 0, &r->doc->root);
        yaml_event_delete(&event);
        if (st != STATUS_OK || type == YAML_STREAM_END_EVENT)
            return st == STATUS_OK && !r->doc->root ? no_memory(r) : st;
    }
}

/* "---" alone, or a file of comments in a document, is an empty map. */
static void root_of_nothing(ydoc_node_t *root)
{
    if (!ydoc_is_null(root))
        return;
    free(root->text);
    root->text = NULL;
    root->kind = YDOC_MAP;
}

status_t ydoc_parse(const char *name, const char *text, size_t len_bytes, ydoc_t **out, err_t *err)
{
    if (len_bytes > YDOC_MAX_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "%s: larger than %d bytes", name, YDOC_MAX_BYTES);
    reader_t r = {.err = err, .doc = calloc(1, sizeof *r.doc)};
    if (!r.doc || !(r.doc->name = strdup(name)) || !yaml_parser_initialize(&r.parser)) {
        ydoc_destroy(r.doc);
        return err_set(err, STATUS_NO_MEMORY, "%s: no memory", name);
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len_bytes);
    status_t st = read_document(&r);
    yaml_parser_delete(&r.parser);
    if (st != STATUS_OK) {
        ydoc_destroy(r.doc);
        return st;
    }
    root_of_nothing(r.doc->root);
    *out = r.doc;
    return STATUS_OK;
}

status_t ydoc_load(const char *path, ydoc_t **out, err_t *err)
{
    char *text;
    size_t len;
    status_t st = file_read(path, YDOC_MAX_BYTES, &text, &len, err);
    if (st != STATUS_OK)
        return st;
    st = ydoc_parse(path, text, len, out, err);
    free(text);
    return st;
}

const ydoc_node_t *ydoc_root(const ydoc_t *doc)
{
    return doc->root;
}

ydoc_kind_t ydoc_kind(const ydoc_node_t *node)
{
    return node->kind;
}

const char *ydoc_key(const ydoc_node_t *node)
{
    return node->key;
}

int ydoc_line(const ydoc_node_t *node)
{
    return node->line;
}

bool ydoc_is_null(const ydoc_node_t *node)
{
    return node->kind == YDOC_SCALAR && node->plain &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

size_t ydoc_len(const ydoc_node_t *node)
{
    return node ? node->len : 0;
}

const ydoc_node_t *ydoc_at(const ydoc_node_t *node, size_t i)
{
    return i < ydoc_len(node) ? node->children[i] : NULL;
}

const ydoc_node_t *ydoc_get(const ydoc_node_t *map, const char *key)
{
    for (size_t i = 0; i < ydoc_len(map); i++)
        if (map->children[i]->key && strcmp(map->children[i]->key, key) == 0)
            return map->children[i];
    return NULL;
}

status_t ydoc_error(const ydoc_node_t *node, err_t *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err_vset(err, STATUS_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    if (node->key)
        err_prefix(err, "%.60s", node->key); /* a longer one would push the reason out */
    err_prefix(err, "%s:%d:%d", node->doc->name, node->line, node->column);
    return STATUS_INVALID_ARGUMENT;
}

status_t ydoc_expect(const ydoc_node_t *node, ydoc_kind_t kind, err_t *err)
{
    static const char *const names[] = {"a single value", "a list", "a map"};
    if (node->kind == kind && !(kind == YDOC_SCALAR && ydoc_is_null(node)))
        return STATUS_OK;
    return ydoc_error(node, err, "expected %s, found %s", names[kind],
                      ydoc_is_null(node) ? "nothing" : names[node->kind]);
}

static bool is_one_of(const char *text, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(text, *names) == 0)
            return true;
    return false;
}

status_t ydoc_check_keys(const ydoc_node_t *map, const char *const *allowed, err_t *err)
{
    status_t st = ydoc_expect(map, YDOC_MAP, err);
    if (st != STATUS_OK)
        return st;
    for (uint32_t i = 0; i < map->len; i++) {
        const ydoc_node_t *child = map->children[i];
        if (is_one_of(child->key, allowed))
            continue;
        char list[320];
        const char *meant = suggest_name(child->key, allowed);
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%d:%d: unknown key \"%.60s\"%s%s%s (allowed: %s)",
                       map->doc->name, child->line, child->column, child->key,
                       meant ? ", did you mean \"" : "", meant ? meant : "", meant ? "\"?" : "",
                       suggest_list(allowed, list, sizeof list));
    }
    return STATUS_OK;
}

status_t ydoc_string(const ydoc_node_t *node, const char **out, err_t *err)
{
    status_t st = ydoc_expect(node, YDOC_SCALAR, err);
    if (st == STATUS_OK)
        *out = node->text;
    return st;
}

/* The parser's reason, with the place before it. */
static status_t place_error(const ydoc_node_t *node, status_t st, err_t *err)
{
    if (st == STATUS_OK || !err)
        return st;
    err_t reason = *err;
    return ydoc_error(node, err, "%s", reason.text);
}

status_t ydoc_int64(const ydoc_node_t *node, int64_t min, int64_t max, int64_t *out, err_t *err)
{
    int64_t value;
    status_t st = ydoc_expect(node, YDOC_SCALAR, err);
    if (st != STATUS_OK)
        return st;
    st = place_error(node, value_parse_int64(node->text, &value, err), err);
    if (st != STATUS_OK)
        return st;
    if (value < min || value > max)
        return ydoc_error(node, err, "%lld is not between %lld and %lld", (long long)value, (long long)min,
                          (long long)max);
    *out = value;
    return STATUS_OK;
}

status_t ydoc_double(const ydoc_node_t *node, double min, double max, double *out, err_t *err)
{
    double value;
    status_t st = ydoc_expect(node, YDOC_SCALAR, err);
    if (st != STATUS_OK)
        return st;
    st = place_error(node, value_parse_double(node->text, &value, err), err);
    if (st != STATUS_OK)
        return st;
    if (!(value >= min && value <= max))
        return ydoc_error(node, err, "%g is not between %g and %g", value, min, max);
    *out = value;
    return STATUS_OK;
}

status_t ydoc_choice(const ydoc_node_t *node, const char *const *choices, int *out, err_t *err)
{
    const char *text;
    char list[256];
    status_t st = ydoc_string(node, &text, err);
    if (st != STATUS_OK)
        return st;
    for (int i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *out = i;
            return STATUS_OK;
        }
    }
    return ydoc_error(node, err, "\"%.60s\" is not one of %s", text,
                      suggest_list(choices, list, sizeof list));
}
