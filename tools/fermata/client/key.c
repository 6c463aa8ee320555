/* fermata key: API keys of a gateway's file. A new key's text is printed once and kept nowhere. */
#include "fermata/command.h"

#include "auth/key_file.h"
#include "base/clock.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *keys, *limits;
    config_list_t scopes;
    int64_t expires_ns;
} key_options_t;

#define AT(field) .offset = offsetof(key_options_t, field)
static const config_option_t options[] = {
    {"keys", CONFIG_PATH, "File", "The file of keys, as gateways have it.", .metavar = "FILE",
     .required = true, AT(keys)},
    {"scope", CONFIG_LIST, "Of a new key", "infer, infer:MODEL, read or admin; default: infer.",
     .metavar = "SCOPE", AT(scopes)},
    {"limits", CONFIG_STRING, "Of a new key",
     "rate=N (inferences a second), burst=N, concurrent=N, weight=N (of its share where there is too little "
     "for all), with commas between; at each gateway.",
     .metavar = "LIMITS", AT(limits)},
    {"expires", CONFIG_DURATION, "Of a new key", "How long from now it counts; default: for ever.", .min = 1,
     .max = INT64_MAX, .def = NULL, AT(expires_ns)},
};

static const config_schema_t schema = {
    .program = "fermata key",
    .summary =
        "Makes API keys for clients, lists and revokes them. Gateways read the file again when it changes.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "new NAME | list | revoke NAME",
};

static status_t add_key(auth_keys_t *keys, void *arg, err_t *err)
{
    return auth_keys_add(keys, arg, err);
}

static status_t remove_key(auth_keys_t *keys, void *arg, err_t *err)
{
    return auth_keys_remove(keys, arg, err);
}

/* "a,b" of a list. */
static status_t join_scopes(const config_list_t *scopes, strbuf_t *to, err_t *err)
{
    for (size_t i = 0; i < scopes->len; i++)
        strbuf_printf(to, "%s%s", i ? "," : "", scopes->items[i]);
    if (scopes->len == 0)
        strbuf_puts(to, "infer");
    return strbuf_status(to, err);
}

static status_t describe(const key_options_t *o, const char *name, auth_key_t *key, err_t *err)
{
    strbuf_t scopes;

    if (!auth_name_is_good(name))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "\"%.64s\" is no name of a key: up to %d letters, digits, '.', '_' and '-'", name,
                       AUTH_NAME_BYTES - 1);
    *key = (auth_key_t){0};
    snprintf(key->name, sizeof key->name, "%s", name);
    strbuf_init(&scopes, AUTH_LINE_BYTES);
    status_t status = join_scopes(&o->scopes, &scopes, err);
    if (status == STATUS_OK)
        status = auth_key_set_scopes(key, scopes.data, err);
    strbuf_dispose(&scopes);
    if (status == STATUS_OK && o->limits)
        status = auth_limits_parse(&key->limits, o->limits, err);
    if (o->expires_ns > 0)
        key->expires_s = time(NULL) + (o->expires_ns + NS_PER_S - 1) / NS_PER_S;
    return status;
}

static status_t make(const key_options_t *o, const char *name, err_t *err)
{
    char text[AUTH_TEXT_BYTES];
    auth_key_t key;
    status_t status = describe(o, name, &key, err);

    if (status == STATUS_OK)
        status = auth_key_make(text, key.hash, err);
    if (status == STATUS_OK)
        status = auth_keys_change(o->keys, add_key, &key, err);
    if (status != STATUS_OK)
        return status;
    fflush(stdout);
    fprintf(stderr,
            "Key \"%s\" is in %s. Its text is shown here only; clients send it as \"Authorization: Bearer "
            "KEY\".\n",
            name, o->keys);
    printf("%s\n", text);
    explicit_bzero(text, sizeof text);
    return STATUS_OK;
}

static status_t list(const key_options_t *o, err_t *err)
{
    auth_keys_t keys;
    status_t status = auth_keys_read(o->keys, &keys, err);
    strbuf_t scopes, limits, expiry;

    if (status != STATUS_OK)
        return status;
    strbuf_init(&scopes, AUTH_LINE_BYTES);
    strbuf_init(&limits, AUTH_LINE_BYTES);
    strbuf_init(&expiry, AUTH_LINE_BYTES);
    printf("%-20s %-22s %-34s %s\n", "NAME", "EXPIRES", "LIMITS", "SCOPES");
    for (size_t i = 0; i < keys.count; i++) {
        auth_key_write_scopes(&keys.keys[i], &scopes);
        auth_limits_write(&keys.keys[i].limits, &limits);
        auth_key_write_expiry(&keys.keys[i], &expiry);
        printf("%-20s %-22s %-34s %s%s\n", keys.keys[i].name, expiry.data, limits.data, scopes.data,
               auth_key_is_over(&keys.keys[i], time(NULL)) ? "  (expired)" : "");
        strbuf_clear(&scopes);
        strbuf_clear(&limits);
        strbuf_clear(&expiry);
    }
    strbuf_dispose(&scopes);
    strbuf_dispose(&limits);
    strbuf_dispose(&expiry);
    auth_keys_dispose(&keys);
    return STATUS_OK;
}

static status_t revoke(const key_options_t *o, const char *name, err_t *err)
{
    char copy[AUTH_NAME_BYTES];

    snprintf(copy, sizeof copy, "%s", name);
    status_t status = auth_keys_change(o->keys, remove_key, copy, err);
    if (status == STATUS_OK)
        printf("%s is revoked: gateways refuse it within a second or two\n", copy);
    return status;
}

static int run(int argc, char **argv)
{
    key_options_t o;
    config_t *config;
    int exit_code;
    err_t err = {0};
    size_t len;

    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    const char *const *words = config_positionals(config, &len);
    if (len == 2 && strcmp(words[0], "new") == 0) {
        exit_code = config_exit(&schema, make(&o, words[1], &err), &err);
    } else if (len == 1 && strcmp(words[0], "list") == 0) {
        exit_code = config_exit(&schema, list(&o, &err), &err);
    } else if (len == 2 && strcmp(words[0], "revoke") == 0) {
        exit_code = config_exit(&schema, revoke(&o, words[1], &err), &err);
    } else {
        fprintf(stderr, "fermata key: say `new NAME`, `list` or `revoke NAME` (see --help)\n");
        exit_code = EXIT_CODE_USAGE;
    }
    config_destroy(config);
    return exit_code;
}

const command_t command_key = {"key", "make, list and revoke API keys of clients", run};
