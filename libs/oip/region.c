#include "oip/region.h"

#include "oip/json_reader.h"

#include <string.h>

typedef struct {
    oip_region_t *region;
    char *key;
    bool has_key, has_bytes;
} region_parse_t;

static status_t read_bytes(json_reader_t *reader, const char *what, uint64_t *bytes)
{
    json_number_t number;
    status_t status = json_read_number(reader, &number);
    if (status == STATUS_OK && !json_read_uint64(&number, bytes))
        status = json_read_fail(reader, "no integer of at least 0");
    if (status)
        err_prefix(reader->err, "'%s'", what);
    return status;
}

static status_t on_region_member(json_reader_t *reader, const char *key, void *user)
{
    region_parse_t *parse = user;
    status_t status;
    if (strcmp(key, "key") == 0) {
        parse->has_key = true;
        status = json_read_text(reader, parse->key, OIP_KEY_BYTES);
        if (status)
            err_prefix(reader->err, "'key'");
        return status;
    }
    if (strcmp(key, "offset") == 0)
        return read_bytes(reader, "offset", &parse->region->offset_bytes);
    if (strcmp(key, "byte_size") != 0)
        return json_read_skip(reader);
    parse->has_bytes = true;
    return read_bytes(reader, "byte_size", &parse->region->len_bytes);
}

status_t oip_rest_parse_region(const char *body, size_t body_bytes, char key[OIP_KEY_BYTES],
                               oip_region_t *region, err_t *err)
{
    oip_region_t got = {.key = key};
    region_parse_t parse = {.region = &got, .key = key};
    json_reader_t reader = {.begin = body, .at = body, .end = body + body_bytes, .err = err};
    status_t status = json_read_object(&reader, on_region_member, &parse);
    if (status)
        return status;
    if (json_read_peek(&reader) != '\0' || reader.at < reader.end)
        return json_read_fail(&reader, "something follows the document");
    if (!parse.has_key || !parse.has_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a region needs '%s'",
                       parse.has_key ? "byte_size" : "key");
    *region = got;
    return STATUS_OK;
}
