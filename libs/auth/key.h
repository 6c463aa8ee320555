/*
 * An API key of a client: 256 random bits that only the client has, and what the side that checks it knows of it. Pure but for
 * auth_key_make, which asks the kernel for randomness.
 *
 * A line of a key file (docs/security.md), its fields apart by blanks, "-" for none:
 *
 *   NAME SHA256 SCOPES LIMITS EXPIRES
 *   ci   9f86…  infer:digits,read  rate=100,burst=200,concurrent=8  2027-01-31T00:00:00Z
 */
#ifndef AUTH_KEY_H
#define AUTH_KEY_H

#include "auth/limits.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    AUTH_NAME_BYTES = 64,     /* with its NUL; letters, digits, '.', '_' and '-' */
    AUTH_MODELS_BYTES = 1024, /* all names of a key together */
    AUTH_HASH_BYTES = 32,
    AUTH_TEXT_BYTES = 48,   /* "fmk_", 43 digits of base64url and a NUL */
    AUTH_LINE_BYTES = 8192, /* all of it, with a scope for each model */
};

/* What a key may do; more than one may be given. */
typedef enum {
    AUTH_INFER = 1 << 0, /* run models, and read what those are like */
    AUTH_READ = 1 << 1,  /* look at all models and their statistics */
    AUTH_ADMIN = 1 << 2, /* load and unload models; has AUTH_READ */
} auth_right_t;

typedef struct {
    char name[AUTH_NAME_BYTES];
    uint8_t hash[AUTH_HASH_BYTES];  /* of the key's text */
    uint32_t rights;                /* auth_right_t */
    char models[AUTH_MODELS_BYTES]; /* AUTH_INFER is for these only, "a,b"; "" = for all */
    auth_limits_t limits;
    int64_t expires_s; /* Unix time; 0 = never */
} auth_key_t;

/* A new key's text, and its hash. STATUS_IO: the kernel gives no random bytes. */
status_t auth_key_make(char text[AUTH_TEXT_BYTES], uint8_t hash[AUTH_HASH_BYTES], err_t *err);
/* Of any text that somebody presents as a key. */
void auth_key_hash(const char *text, size_t len_bytes, uint8_t hash[AUTH_HASH_BYTES]);

bool auth_name_is_good(const char *name);

/* The scopes as a file and a command line have them; the text names what is wrong. Begins from what *key says. */
status_t auth_key_set_scopes(auth_key_t *key, const char *text, err_t *err); /* "infer:a,infer:b,read" */

/* One line without its end. */
status_t auth_key_parse(const char *line, auth_key_t *key, err_t *err);
/* The line, with its end. */
void auth_key_write(const auth_key_t *key, strbuf_t *to);
/* SCOPES and EXPIRES for people and for the line; LIMITS are written by auth_limits_write. */
void auth_key_write_scopes(const auth_key_t *key, strbuf_t *to);
void auth_key_write_expiry(const auth_key_t *key, strbuf_t *to);

/* Whether it has the right, for that model where one is named (NULL: for none in particular). */
bool auth_key_may(const auth_key_t *key, auth_right_t right, const char *model);
bool auth_key_is_over(const auth_key_t *key, int64_t now_s);

#endif
