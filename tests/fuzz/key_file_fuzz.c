/* Any bytes as a file of API keys: what is refused says why, and what is taken is written and read as the same. */
#include "auth/key_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(const auth_key_t *key)
{
    auth_key_t again;
    strbuf_t line;
    strbuf_init(&line, AUTH_LINE_BYTES);
    auth_key_write(key, &line);
    if (line.failed || line.len_bytes == 0 || !auth_name_is_good(key->name) || key->rights == 0)
        abort();
    line.data[line.len_bytes - 1] = '\0';
    if (auth_key_parse(line.data, &again, NULL) != STATUS_OK || strcmp(again.models, key->models) != 0 ||
        again.rights != key->rights || again.limits.burst != key->limits.burst ||
        again.limits.concurrent != key->limits.concurrent || again.limits.weight != key->limits.weight ||
        again.expires_s != key->expires_s || memcmp(again.hash, key->hash, sizeof key->hash) != 0)
        abort();
    strbuf_dispose(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    auth_keys_t keys = {0};
    err_t err = {.text = ""};
    status_t status = auth_keys_parse((const char *)bytes, len, &keys, &err);
    if (status != STATUS_OK && !*err.text)
        abort();
    for (size_t i = 0; i < keys.count; i++)
        check(&keys.keys[i]);
    auth_keys_dispose(&keys);
    return 0;
}
