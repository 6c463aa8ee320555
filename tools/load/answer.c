#include "load/answer.h"

#include "open_inference.pb-c.h"

#include <jansson.h>
#include <string.h>

/* The parameters stand before the outputs, behind model name, version and id. */
enum { REST_SCAN_BYTES = 2048 };

static bool scan_number(const uint8_t *body, size_t len, const char *key, uint64_t *value)
{
    const uint8_t *end = body + len, *at = memmem(body, len, key, strlen(key));
    if (!at)
        return false;
    at += strlen(key);
    while (at < end && (*at == '"' || *at == ':' || *at == ' '))
        at++;
    uint64_t number = 0;
    const uint8_t *first = at;
    for (; at < end && *at >= '0' && *at <= '9' && number < UINT64_MAX / 10 - 1; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    *value = number;
    return at > first;
}

static void timing_rest(const uint8_t *body, size_t len, timing_t *timing)
{
    uint64_t size;
    len = len < REST_SCAN_BYTES ? len : REST_SCAN_BYTES;
    timing->known = scan_number(body, len, "\"fermata_batch_size\"", &size) &&
                    scan_number(body, len, "\"fermata_queue_us\"", &timing->queue_us) &&
                    scan_number(body, len, "\"fermata_compute_us\"", &timing->compute_us);
    if (timing->known)
        timing->batch_size = (uint32_t)size;
}

/* --- gRPC: a walk over the fields of the message --- */

typedef struct {
    const uint8_t *at, *end;
} wire_t;

static bool wire_varint(wire_t *wire, uint64_t *value)
{
    uint64_t out = 0;
    for (unsigned shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *value = out;
            return true;
        }
    }
    return false;
}

/* The next field: its number, and its value or the bytes that it holds. */
static bool wire_field(wire_t *wire, uint64_t *number, uint64_t *value, wire_t *bytes)
{
    uint64_t tag;
    if (wire->at >= wire->end || !wire_varint(wire, &tag))
        return false;
    *number = tag >> 3;
    *bytes = (wire_t){0};
    switch (tag & 7) {
    case 0:
        return wire_varint(wire, value);
    case 1:
        wire->at += 8;
        return wire->at <= wire->end;
    case 2:
        if (!wire_varint(wire, value) || *value > (uint64_t)(wire->end - wire->at))
            return false;
        *bytes = (wire_t){wire->at, wire->at + *value};
        wire->at += *value;
        return true;
    default:
        return false;
    }
}

/* One entry of map<string, InferParameter> with an integer in it. */
static void timing_entry(wire_t entry, uint64_t *found, timing_t *timing)
{
    static const char *const names[] = {"fermata_batch_size", "fermata_queue_us", "fermata_compute_us"};
    uint64_t number, value, integer = 0;
    wire_t bytes, key = {0};
    while (wire_field(&entry, &number, &value, &bytes)) {
        if (number == 1)
            key = bytes;
        uint64_t kind;
        wire_t ignored;
        if (number == 2)
            wire_field(&bytes, &kind, &integer, &ignored);
    }
    for (size_t i = 0; i < 3; i++) {
        if ((size_t)(key.end - key.at) != strlen(names[i]) || memcmp(key.at, names[i], strlen(names[i])) != 0)
            continue;
        *found |= UINT64_C(1) << i;
        if (i == 0)
            timing->batch_size = (uint32_t)integer;
        else
            *(i == 1 ? &timing->queue_us : &timing->compute_us) = integer;
    }
}

static void timing_grpc(const uint8_t *body, size_t len, timing_t *timing)
{
    wire_t wire = {body, body + len}, bytes;
    uint64_t number, value, found = 0;
    /* Fields come in order, so the walk ends before the tensors. */
    while (found != 7 && wire_field(&wire, &number, &value, &bytes)) {
        if (number == 4)
            timing_entry(bytes, &found, timing);
    }
    timing->known = found == 7;
}

void answer_timing(protocol_t protocol, const uint8_t *body, size_t len_bytes, timing_t *timing)
{
    *timing = (timing_t){0};
    if (protocol == PROTOCOL_REST)
        timing_rest(body, len_bytes, timing);
    else
        timing_grpc(body, len_bytes, timing);
}

/* --- the outputs --- */

static json_t *outputs_rest(const uint8_t *body, size_t len)
{
    json_t *out = json_object(), *root = json_loadb((const char *)body, len, 0, NULL), *item;
    size_t i;
    json_array_foreach(json_object_get(root, "outputs"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name)
            json_object_set(out, name, json_object_get(item, "data"));
    }
    bool read = root;
    json_decref(root);
    if (read)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *words_of(const ProtobufCBinaryData *raw)
{
    json_t *list = json_array();
    const uint8_t *element;
    uint32_t len;
    for (size_t offset = 0; oip_bytes_next(raw->data, raw->len, &offset, &element, &len);)
        json_array_append_new(list, json_stringn((const char *)element, len));
    return list;
}

static json_t *floats_of(const ProtobufCBinaryData *raw)
{
    json_t *list = json_array();
    for (size_t i = 0; i + sizeof(float) <= raw->len; i += sizeof(float)) {
        float value;
        memcpy(&value, raw->data + i, sizeof value);
        json_array_append_new(list, json_real((double)value));
    }
    return list;
}

static json_t *outputs_grpc(const uint8_t *body, size_t len)
{
    Inference__ModelInferResponse *answer = inference__model_infer_response__unpack(NULL, len, body);
    if (!answer)
        return NULL;
    json_t *out = json_object();
    for (size_t i = 0; i < answer->n_outputs && i < answer->n_raw_output_contents; i++) {
        oip_datatype_t type =
            oip_datatype_parse(answer->outputs[i]->datatype, strlen(answer->outputs[i]->datatype));
        json_t *list = type == OIP_BYTES  ? words_of(&answer->raw_output_contents[i])
                       : type == OIP_FP32 ? floats_of(&answer->raw_output_contents[i])
                                          : json_null();
        json_object_set_new(out, answer->outputs[i]->name, list);
    }
    inference__model_infer_response__free_unpacked(answer, NULL);
    return out;
}

status_t answer_outputs(protocol_t protocol, const uint8_t *body, size_t len_bytes, strbuf_t *out, err_t *err)
{
    json_t *outputs =
        protocol == PROTOCOL_REST ? outputs_rest(body, len_bytes) : outputs_grpc(body, len_bytes);
    char *text = outputs ? json_dumps(outputs, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(outputs);
    if (!text)
        return err_set(err, STATUS_INTERNAL, "the answer cannot be read");
    strbuf_puts(out, text);
    free(text);
    return STATUS_OK;
}
