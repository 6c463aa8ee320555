#include "config/ptext.h"

#include "base/file.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ptext_field {
    const ptext_t *doc;
    const char *name, *text;
    ptext_field_t *first, *last, *next;
    int line, column;
    ptext_kind_t kind;
};

/* Fields come in blocks, so that none moves. */
enum { BLOCK_FIELDS = 256 };
typedef struct block {
    struct block *older;
    ptext_field_t fields[BLOCK_FIELDS];
} block_t;

struct ptext {
    char *name;
    char *chars; /* names and texts, each with a zero behind it */
    size_t used;
    block_t *blocks;
    uint32_t field_count;
    ptext_field_t root;
};

typedef struct {
    ptext_t *doc;
    const char *at, *end, *line_start;
    int line;
    err_t *err;
} reader_t;

/* ---- bytes ---- */

static status_t fail(const reader_t *r, const char *what)
{
    return err_set(r->err, STATUS_INVALID_ARGUMENT, "%s:%d:%d: %s", r->doc->name, r->line,
                   (int)(r->at - r->line_start) + 1, what);
}

static status_t no_memory(const reader_t *r)
{
    return err_set(r->err, STATUS_NO_MEMORY, "%s: no memory", r->doc->name);
}

static char peek(const reader_t *r)
{
    return r->at < r->end ? *r->at : '\0';
}

static void skip_space(reader_t *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        if (r->at == r->end || !isspace((unsigned char)*r->at))
            return;
        if (*r->at == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        }
    }
}

static bool take(reader_t *r, char c)
{
    skip_space(r);
    if (peek(r) != c || r->at == r->end)
        return false;
    r->at++;
    return true;
}

/* Texts never get longer than they stand in the file, so there is room for all of them. */
static void put(ptext_t *doc, char c)
{
    doc->chars[doc->used++] = c;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *take_run(reader_t *r, bool (*belongs)(char))
{
    const char *start = r->doc->chars + r->doc->used;

    while (r->at < r->end && belongs(*r->at))
        put(r->doc, *r->at++);
    put(r->doc, '\0');
    return start;
}

/* ---- strings ---- */

static int digits(reader_t *r, int base, int most)
{
    int value = 0;

    for (int i = 0; i < most && r->at < r->end; i++, r->at++) {
        char c = *r->at;
        int digit = isdigit((unsigned char)c)    ? c - '0'
                    : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                                 : 99;
        if (digit >= base)
            return i ? value : -1;
        value = value * base + digit;
    }
    return value;
}

/* Behind the backslash. -1: there is no such escape. */
static int take_escape(reader_t *r)
{
    static const char letters[] = "abfnrtv\\'\"?", meant[] = "\a\b\f\n\r\t\v\\'\"?";
    char c = peek(r);
    const char *known = c ? strchr(letters, c) : NULL;

    if (c >= '0' && c <= '7')
        return digits(r, 8, 3);
    if (!c)
        return -1;
    r->at++;
    if (c == 'x' || c == 'X')
        return r->at < r->end ? digits(r, 16, 2) : -1;
    return known ? meant[known - letters] : -1;
}

static status_t take_quoted(reader_t *r)
{
    char quote = *r->at++;

    while (r->at < r->end && *r->at != quote) {
        if (*r->at == '\n')
            return fail(r, "a string ends on the line on which it begins");
        if (*r->at != '\\') {
            put(r->doc, *r->at++);
            continue;
        }
        r->at++;
        int value = take_escape(r);
        if (value < 0 || value > 255)
            return fail(r, "no such escape in a string");
        if (value == 0)
            return fail(r, "a string must not contain a zero byte");
        put(r->doc, (char)value);
    }
    if (r->at == r->end)
        return fail(r, "a string does not end");
    r->at++;
    return STATUS_OK;
}

/* Strings that follow each other are one. */
static status_t take_string(reader_t *r, ptext_field_t *field)
{
    field->kind = PTEXT_STRING;
    field->text = r->doc->chars + r->doc->used;
    do {
        if (take_quoted(r) != STATUS_OK)
            return r->err->code;
        skip_space(r);
    } while (peek(r) == '"' || peek(r) == '\'');
    put(r->doc, '\0');
    return utf8_valid(field->text, strlen(field->text)) ? STATUS_OK
                                                        : ptext_error(field, r->err, "a string is no UTF-8");
}

/* ---- fields ---- */

static ptext_field_t *new_field(reader_t *r)
{
    ptext_t *doc = r->doc;
    uint32_t in_block = doc->field_count % BLOCK_FIELDS;

    if (in_block == 0) {
        block_t *block = calloc(1, sizeof(*block));
        if (!block)
            return NULL;
        block->older = doc->blocks;
        doc->blocks = block;
    }
    doc->field_count++;
    return &doc->blocks->fields[in_block];
}

static status_t add_field(reader_t *r, ptext_field_t *message, const ptext_field_t *like, ptext_field_t **out)
{
    if (r->doc->field_count == PTEXT_MAX_FIELDS)
        return fail(r, "too many fields");
    ptext_field_t *field = new_field(r);
    if (!field)
        return no_memory(r);
    *field = *like;
    if (message->last)
        message->last->next = field;
    else
        message->first = field;
    message->last = field;
    *out = field;
    return STATUS_OK;
}

static bool is_word_char(char c)
{
    return is_name_char(c) || c == '-' || c == '+' || c == '.';
}

static status_t read_fields(reader_t *r, ptext_field_t *message, char close, int depth);

static status_t read_message(reader_t *r, ptext_field_t *field, int depth)
{
    char close = *r->at == '{' ? '}' : '>';

    if (depth == PTEXT_MAX_DEPTH)
        return fail(r, "nested too deep");
    r->at++;
    field->kind = PTEXT_MESSAGE;
    return read_fields(r, field, close, depth + 1);
}

static status_t read_value(reader_t *r, ptext_field_t *message, const ptext_field_t *like, bool colon,
                           int depth)
{
    ptext_field_t *field;
    status_t status = add_field(r, message, like, &field);

    if (status != STATUS_OK)
        return status;
    skip_space(r);
    char c = peek(r);
    if (c == '{' || c == '<')
        return read_message(r, field, depth);
    if (!colon)
        return fail(r, "expected ':' or '{' behind the name of a field");
    if (c == '"' || c == '\'')
        return take_string(r, field);
    if (!is_word_char(c))
        return fail(r, r->at == r->end ? "the file ends where a value should be" : "expected a value");
    field->text = take_run(r, is_word_char);
    return STATUS_OK;
}

static status_t read_list(reader_t *r, ptext_field_t *message, const ptext_field_t *like, bool colon,
                          int depth)
{
    if (take(r, ']'))
        return STATUS_OK;
    for (;;) {
        status_t status = read_value(r, message, like, colon, depth);
        if (status != STATUS_OK)
            return status;
        if (take(r, ']'))
            return STATUS_OK;
        if (!take(r, ','))
            return fail(r, "expected ',' or ']' in a list");
    }
}

static status_t read_field(reader_t *r, ptext_field_t *message, int depth)
{
    ptext_field_t like = {
        .doc = r->doc, .line = r->line, .column = (int)(r->at - r->line_start) + 1, .text = ""};

    if (*r->at == '[')
        return fail(r, "extensions are not known here");
    if (!is_name_char(*r->at) || isdigit((unsigned char)*r->at))
        return fail(r, "expected the name of a field");
    like.name = take_run(r, is_name_char);
    bool colon = take(r, ':');
    status_t status = take(r, '[') ? read_list(r, message, &like, colon, depth)
                                   : read_value(r, message, &like, colon, depth);
    if (status == STATUS_OK && !take(r, ','))
        (void)take(r, ';');
    return status;
}

/* Up to `close`; of the root, to the end. */
static status_t read_fields(reader_t *r, ptext_field_t *message, char close, int depth)
{
    status_t status = STATUS_OK;

    while (status == STATUS_OK) {
        skip_space(r);
        if (r->at == r->end)
            return close ? ptext_error(message, r->err, "'%s' is never closed", message->name) : STATUS_OK;
        if (close && *r->at == close) {
            r->at++;
            return STATUS_OK;
        }
        status = read_field(r, message, depth);
    }
    return status;
}

/* ---- documents ---- */

static ptext_t *new_doc(const char *name, size_t len_bytes)
{
    ptext_t *doc = calloc(1, sizeof(*doc));

    if (!doc)
        return NULL;
    doc->name = strdup(name);
    doc->chars = malloc(2 * len_bytes + 1); /* each text has a character at least, and its zero */
    if (!doc->name || !doc->chars) {
        ptext_destroy(doc);
        return NULL;
    }
    doc->root =
        (ptext_field_t){.doc = doc, .name = "", .text = "", .line = 1, .column = 1, .kind = PTEXT_MESSAGE};
    return doc;
}

void ptext_destroy(ptext_t *doc)
{
    if (!doc)
        return;
    for (block_t *older; doc->blocks; doc->blocks = older) {
        older = doc->blocks->older;
        free(doc->blocks);
    }
    free(doc->chars);
    free(doc->name);
    free(doc);
}

status_t ptext_parse(const char *name, const char *text, size_t len_bytes, ptext_t **out, err_t *err)
{
    err_t local;

    err = err ? err : &local;
    if (len_bytes > PTEXT_MAX_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "%s: over %d bytes", name, PTEXT_MAX_BYTES);
    ptext_t *doc = new_doc(name, len_bytes);
    if (!doc)
        return err_set(err, STATUS_NO_MEMORY, "%s: no memory", name);
    reader_t r = {.doc = doc, .at = text, .end = text + len_bytes, .line_start = text, .line = 1, .err = err};
    status_t status = read_fields(&r, &doc->root, '\0', 0);
    if (status == STATUS_OK)
        *out = doc;
    else
        ptext_destroy(doc);
    return status;
}

status_t ptext_load(const char *path, ptext_t **out, err_t *err)
{
    char *text;
    size_t len;
    status_t status = file_read(path, PTEXT_MAX_BYTES, &text, &len, err);

    if (status != STATUS_OK)
        return status;
    status = ptext_parse(path, text, len, out, err);
    free(text);
    return status;
}

/* ---- readers ---- */

const ptext_field_t *ptext_root(const ptext_t *doc)
{
    return &doc->root;
}

ptext_kind_t ptext_kind(const ptext_field_t *field)
{
    return field->kind;
}

const char *ptext_name(const ptext_field_t *field)
{
    return field->name;
}

const char *ptext_text(const ptext_field_t *field)
{
    return field->text;
}

int ptext_line(const ptext_field_t *field)
{
    return field->line;
}

/* A word that begins like one. */
static bool ptext_is_number(const ptext_field_t *field)
{
    return field->kind == PTEXT_WORD && strchr("+-.0123456789", field->text[0]);
}

const ptext_field_t *ptext_first(const ptext_field_t *message)
{
    return message->first;
}

const ptext_field_t *ptext_next(const ptext_field_t *field)
{
    return field->next;
}

const ptext_field_t *ptext_get(const ptext_field_t *message, const char *name)
{
    const ptext_field_t *field = message ? message->first : NULL;

    while (field && strcmp(field->name, name) != 0)
        field = field->next;
    return field;
}

status_t ptext_error(const ptext_field_t *field, err_t *err, const char *fmt, ...)
{
    err_t what;
    va_list args;

    va_start(args, fmt);
    (void)err_vset(&what, STATUS_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    return err_set(err, STATUS_INVALID_ARGUMENT, "%.200s:%d:%d: %.280s", field->doc->name, field->line,
                   field->column, what.text);
}

status_t ptext_expect(const ptext_field_t *field, ptext_kind_t kind, err_t *err)
{
    static const char *const words[] = {"a number or a name", "a string in quotes", "a message { … }"};

    if (field->kind == kind)
        return STATUS_OK;
    return ptext_error(field, err, "'%.80s' is %s", field->name, words[kind]);
}

status_t ptext_string(const ptext_field_t *field, const char **out, err_t *err)
{
    status_t status = ptext_expect(field, PTEXT_STRING, err);

    if (status == STATUS_OK)
        *out = field->text;
    return status;
}

status_t ptext_int64(const ptext_field_t *field, int64_t min, int64_t max, int64_t *out, err_t *err)
{
    char *end = NULL;
    long long value = 0;

    errno = 0;
    if (ptext_is_number(field))
        value = strtoll(field->text, &end, 0);
    if (!end || end == field->text || *end || errno)
        return ptext_error(field, err, "'%.80s' is a whole number", field->name);
    if (value < min || value > max)
        return ptext_error(field, err, "'%.80s' is %lld to %lld", field->name, (long long)min,
                           (long long)max);
    *out = value;
    return STATUS_OK;
}

status_t ptext_bool(const ptext_field_t *field, bool *out, err_t *err)
{
    static const char *const words[] = {"false", "true", "False", "True", "f", "t", "0", "1"};

    for (int i = 0; field->kind == PTEXT_WORD && i < 8; i++) {
        if (strcmp(field->text, words[i]) == 0) {
            *out = i % 2;
            return STATUS_OK;
        }
    }
    return ptext_error(field, err, "'%.80s' is true or false", field->name);
}
