#include "oip/json_reader.h"

#include "base/hash.h"
#include "oip/rest_codec.h"

#include <string.h>

static status_t open_nested(json_reader_t *reader, char bracket)
{
    if (json_read_peek(reader) != bracket)
        return json_read_fail(reader, "expected '%c'", bracket);
    if (reader->depth == OIP_JSON_MAX_DEPTH)
        return json_read_fail(reader, "nested deeper than %d", OIP_JSON_MAX_DEPTH);
    reader->depth++;
    reader->at++;
    return STATUS_OK;
}

/* After a member or element: true in *more when a comma was taken, false when the closing bracket was. */
static status_t next_or_close(json_reader_t *reader, char bracket, bool *more)
{
    char c = json_read_peek(reader);
    if (c != ',' && c != bracket)
        return json_read_fail(reader, "expected ',' or '%c'", bracket);
    reader->at++;
    *more = c == ',';
    if (!*more)
        reader->depth--;
    return STATUS_OK;
}

static bool close_empty(json_reader_t *reader, char bracket)
{
    if (json_read_peek(reader) != bracket)
        return false;
    reader->at++;
    reader->depth--;
    return true;
}

/* FNV-1a. A client that constructs two keys with one hash only gets its own request refused. */
static uint64_t hash_key(const char *key)
{
    return hash_bytes(HASH_BEGIN, key, strlen(key));
}

static status_t read_key(json_reader_t *reader, char *key, uint64_t *hashes, uint32_t *count)
{
    if (json_read_peek(reader) != '"')
        return json_read_fail(reader, "expected a member name");
    status_t status = json_read_text(reader, key, JSON_KEY_BYTES);
    if (status)
        return status;
    uint64_t hash = hash_key(key);
    for (uint32_t i = 0; i < *count; i++)
        if (hashes[i] == hash)
            return json_read_fail(reader, "member '%s' is there twice", key);
    if (*count == JSON_MAX_MEMBERS)
        return json_read_fail(reader, "object with over %d members", JSON_MAX_MEMBERS);
    hashes[(*count)++] = hash;
    if (json_read_peek(reader) != ':')
        return json_read_fail(reader, "expected ':'");
    reader->at++;
    json_read_space(reader);
    return STATUS_OK;
}

status_t json_read_object(json_reader_t *reader, json_member_fn member, void *user)
{
    uint64_t hashes[JSON_MAX_MEMBERS];
    uint32_t count = 0;
    char key[JSON_KEY_BYTES];
    status_t status = open_nested(reader, '{');
    if (status)
        return status;
    bool more = !close_empty(reader, '}');
    while (more) {
        status = read_key(reader, key, hashes, &count);
        if (status == STATUS_OK)
            status = member(reader, key, user);
        if (status == STATUS_OK)
            status = next_or_close(reader, '}', &more);
        if (status)
            return status;
    }
    return STATUS_OK;
}

status_t json_read_array(json_reader_t *reader, json_element_fn element, void *user)
{
    status_t status = open_nested(reader, '[');
    if (status)
        return status;
    bool more = !close_empty(reader, ']');
    while (more) {
        json_read_space(reader);
        status = element(reader, user);
        if (status == STATUS_OK)
            status = next_or_close(reader, ']', &more);
        if (status)
            return status;
    }
    return STATUS_OK;
}

static bool take_literal(json_reader_t *reader, const char *literal)
{
    size_t len = strlen(literal);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, literal, len) != 0)
        return false;
    reader->at += len;
    return true;
}

status_t json_read_bool(json_reader_t *reader, bool *value)
{
    json_read_space(reader);
    if (take_literal(reader, "true"))
        *value = true;
    else if (take_literal(reader, "false"))
        *value = false;
    else
        return json_read_fail(reader, "expected true or false");
    return STATUS_OK;
}

/* For strings nobody wants: finds the end and checks what the decoder would check, escapes apart. */
static status_t skip_string(json_reader_t *reader)
{
    for (reader->at++; reader->at < reader->end; reader->at++) {
        if (*reader->at == '"') {
            reader->at++;
            return STATUS_OK;
        }
        if (*reader->at == '\\')
            reader->at++;
        else if ((uint8_t)*reader->at < 0x20)
            return json_read_fail(reader, "control character in a string");
    }
    reader->at = reader->end;
    return json_read_fail(reader, "unterminated string");
}

static status_t skip_element(json_reader_t *reader, void *user)
{
    (void)user;
    return json_read_skip(reader);
}

static status_t skip_members(json_reader_t *reader)
{
    bool more = true;
    status_t status = open_nested(reader, '{');
    if (status || close_empty(reader, '}'))
        return status;
    while (more) {
        if (json_read_peek(reader) != '"')
            return json_read_fail(reader, "expected a member name");
        status = skip_string(reader);
        if (status)
            return status;
        if (json_read_peek(reader) != ':')
            return json_read_fail(reader, "expected ':'");
        reader->at++;
        status = json_read_skip(reader);
        if (status == STATUS_OK)
            status = next_or_close(reader, '}', &more);
        if (status)
            return status;
    }
    return STATUS_OK;
}

status_t json_read_skip(json_reader_t *reader)
{
    json_number_t number;
    switch (json_read_peek(reader)) {
    case '{':
        return skip_members(reader);
    case '[':
        return json_read_array(reader, skip_element, NULL);
    case '"':
        return skip_string(reader);
    case 't':
    case 'f':
        return json_read_bool(reader, &(bool){false});
    case 'n':
        return take_literal(reader, "null") ? STATUS_OK : json_read_fail(reader, "expected null");
    default:
        return json_read_number(reader, &number);
    }
}
