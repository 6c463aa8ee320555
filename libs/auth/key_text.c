/* The line of a key: reading and writing its fields. */
#include "auth/key.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIELDS = 5, RATE_MAX = 1000000000, COUNT_MAX = 1000000000 };

static const struct {
    const char *word;
    auth_right_t right;
} scope_words[] = {{"infer", AUTH_INFER}, {"read", AUTH_READ}, {"admin", AUTH_ADMIN}};
enum { SCOPE_WORDS = sizeof scope_words / sizeof *scope_words };

/* The next of "a,b", into `part`; false behind the last, and where one is too long. */
static bool next_part(const char **at, char *part, size_t cap_bytes, bool *too_long)
{
    size_t len = strcspn(*at, ",");

    *too_long = len >= cap_bytes;
    if (**at == '\0' || *too_long)
        return false;
    memcpy(part, *at, len);
    part[len] = '\0';
    *at += len + ((*at)[len] == ',');
    return true;
}

/* ---- scopes ---- */

static status_t add_model(auth_key_t *key, const char *model, err_t *err)
{
    size_t used = strlen(key->models), len = strlen(model);

    if (!auth_name_is_good(model))
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%.64s' is no name of a model", model);
    if (used + len + 2 > sizeof key->models)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the models of a key have over %d bytes",
                       AUTH_MODELS_BYTES - 1);
    snprintf(key->models + used, sizeof key->models - used, "%s%s", used ? "," : "", model);
    return STATUS_OK;
}

/* *all: some word says infer of every model. */
static status_t add_scope(auth_key_t *key, const char *word, bool *all, err_t *err)
{
    if (strncmp(word, "infer:", 6) == 0) {
        key->rights |= AUTH_INFER;
        return add_model(key, word + 6, err);
    }
    for (size_t i = 0; i < SCOPE_WORDS; i++) {
        if (strcmp(word, scope_words[i].word) == 0) {
            key->rights |= scope_words[i].right;
            *all |= scope_words[i].right == AUTH_INFER;
            return STATUS_OK;
        }
    }
    return err_set(err, STATUS_INVALID_ARGUMENT, "unknown scope '%.64s': infer, infer:MODEL, read or admin",
                   word);
}

status_t auth_key_set_scopes(auth_key_t *key, const char *text, err_t *err)
{
    char word[AUTH_NAME_BYTES + 8];
    bool too_long, all = false;

    key->rights = 0;
    key->models[0] = '\0';
    for (const char *at = text; next_part(&at, word, sizeof word, &too_long);) {
        if (add_scope(key, word, &all, err) != STATUS_OK)
            return err->code;
    }
    if (too_long)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a scope has over %zu bytes", sizeof word - 1);
    if (key->rights == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "a key needs a scope: infer, infer:MODEL, read or admin");
    if (all)
        key->models[0] = '\0';
    return STATUS_OK;
}

void auth_key_write_scopes(const auth_key_t *key, strbuf_t *to)
{
    const char *comma = "";

    for (const char *at = key->models; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != '\0')) {
        strbuf_printf(to, "%sinfer:%.*s", comma, (int)strcspn(at, ","), at);
        comma = ",";
    }
    for (size_t i = 0; i < SCOPE_WORDS; i++) {
        bool named = scope_words[i].right == AUTH_INFER && key->models[0];
        if (key->rights & scope_words[i].right && !named) {
            strbuf_printf(to, "%s%s", comma, scope_words[i].word);
            comma = ",";
        }
    }
}

/* ---- expiry ---- */

static status_t set_expiry(auth_key_t *key, const char *text, err_t *err)
{
    struct tm tm = {0};

    key->expires_s = 0;
    if (strcmp(text, "-") == 0)
        return STATUS_OK;
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (!end || *end != '\0' || (key->expires_s = timegm(&tm)) <= 0) {
        key->expires_s = 0;
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%.64s' is no time like 2027-01-31T00:00:00Z", text);
    }
    return STATUS_OK;
}

void auth_key_write_expiry(const auth_key_t *key, strbuf_t *to)
{
    char text[32];
    time_t at = key->expires_s;
    struct tm tm;

    if (key->expires_s && gmtime_r(&at, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        strbuf_puts(to, text);
    else
        strbuf_puts(to, "-");
}

/* ---- the line ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static status_t set_hash(auth_key_t *key, const char *text, err_t *err)
{
    bool good = strlen(text) == 2 * AUTH_HASH_BYTES;

    for (size_t i = 0; good && i < AUTH_HASH_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        good = high >= 0 && low >= 0;
        key->hash[i] = (uint8_t)(good ? high << 4 | low : 0);
    }
    return good ? STATUS_OK : err_set(err, STATUS_INVALID_ARGUMENT, "a hash is 64 digits of 0-9 and a-f");
}

static status_t split(char *line, char *fields[FIELDS], err_t *err)
{
    size_t count = 0;
    char *rest = line;

    for (char *word; (word = strtok_r(rest, " \t\r", &rest));) {
        if (count < FIELDS)
            fields[count] = word;
        count++;
    }
    if (count != FIELDS)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%zu fields where NAME SHA256 SCOPES LIMITS EXPIRES are wanted", count);
    return STATUS_OK;
}

status_t auth_key_parse(const char *line, auth_key_t *key, err_t *err)
{
    char text[AUTH_LINE_BYTES], *fields[FIELDS];
    auth_key_t read = {0};

    if (strlen(line) >= sizeof text)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the line has over %zu bytes", sizeof text - 1);
    strcpy(text, line);
    if (split(text, fields, err) != STATUS_OK)
        return err->code;
    if (!auth_name_is_good(fields[0]))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "'%.64s' is no name of a key: up to %d letters, digits, '.', '_' and '-'", fields[0],
                       AUTH_NAME_BYTES - 1);
    snprintf(read.name, sizeof read.name, "%s", fields[0]);
    if (set_hash(&read, fields[1], err) != STATUS_OK ||
        auth_key_set_scopes(&read, fields[2], err) != STATUS_OK ||
        auth_limits_parse(&read.limits, fields[3], err) != STATUS_OK ||
        set_expiry(&read, fields[4], err) != STATUS_OK)
        return err->code;
    *key = read;
    return STATUS_OK;
}

void auth_key_write(const auth_key_t *key, strbuf_t *to)
{
    strbuf_printf(to, "%s ", key->name);
    for (size_t i = 0; i < AUTH_HASH_BYTES; i++)
        strbuf_printf(to, "%02x", key->hash[i]);
    strbuf_putc(to, ' ');
    auth_key_write_scopes(key, to);
    strbuf_putc(to, ' ');
    auth_limits_write(&key->limits, to);
    strbuf_putc(to, ' ');
    auth_key_write_expiry(key, to);
    strbuf_putc(to, '\n');
}
