#include "auth/key.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

static const char prefix[] = "fmk_";

enum { KEY_RANDOM_BYTES = 32, PREFIX_BYTES = sizeof prefix - 1 };
_Static_assert(PREFIX_BYTES + (KEY_RANDOM_BYTES * 8 + 5) / 6 + 1 == AUTH_TEXT_BYTES,
               "the text of a key has its room");

/* Without padding, as a token is written into a header. */
static void put_base64url(char *to, const uint8_t *bytes, size_t len_bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t window = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < len_bytes; i++) {
        window = window << 8 | bytes[i];
        for (bits += 8; bits >= 6; bits -= 6)
            *to++ = digits[window >> (bits - 6) & 63];
    }
    if (bits > 0)
        *to++ = digits[window << (6 - bits) & 63];
    *to = '\0';
}

status_t auth_key_make(char text[AUTH_TEXT_BYTES], uint8_t hash[AUTH_HASH_BYTES], err_t *err)
{
    uint8_t bytes[KEY_RANDOM_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return err_set(err, STATUS_IO, "getrandom: %m");
    memcpy(text, prefix, PREFIX_BYTES);
    put_base64url(text + PREFIX_BYTES, bytes, sizeof bytes);
    explicit_bzero(bytes, sizeof bytes);
    auth_key_hash(text, AUTH_TEXT_BYTES - 1, hash);
    return STATUS_OK;
}

static EVP_MD *sha256; /* for as long as the process lives; NULL: OpenSSL has none */

static void find_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

void auth_key_hash(const char *text, size_t len_bytes, uint8_t hash[AUTH_HASH_BYTES])
{
    /* OpenSSL looks an algorithm up by its name unless it is given what it found before: half of what a short text costs. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_sha256);
    /* It fails only without memory or without the algorithm; then the hash is one that no key has. */
    if (!sha256 || EVP_Digest(text, len_bytes, hash, NULL, sha256, NULL) != 1)
        memset(hash, 0, AUTH_HASH_BYTES);
}

bool auth_name_is_good(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);

    return len > 0 && len < AUTH_NAME_BYTES && strspn(name, good) == len && strcmp(name, "-") != 0;
}

/* Whether `name` is one of "a,b,c". */
static bool is_among(const char *names, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = names; *at;) {
        const char *end = strchr(at, ',');
        size_t part = end ? (size_t)(end - at) : strlen(at);
        if (part == len && memcmp(at, name, len) == 0)
            return true;
        at += part + (at[part] == ',');
    }
    return false;
}

bool auth_key_may(const auth_key_t *key, auth_right_t right, const char *model)
{
    switch (right) {
    case AUTH_INFER:
        return key->rights & AUTH_INFER && (!model || !key->models[0] || is_among(key->models, model));
    case AUTH_READ:
        if (key->rights & (AUTH_READ | AUTH_ADMIN))
            return true;
        return model && auth_key_may(key, AUTH_INFER, model);
    case AUTH_ADMIN:
        return key->rights & AUTH_ADMIN;
    }
    return false;
}

bool auth_key_is_over(const auth_key_t *key, int64_t now_s)
{
    return key->expires_s != 0 && now_s >= key->expires_s;
}
