/*
 * A growing byte buffer with a ceiling, kept and reused by its owner: the steady state allocates nothing.
 * A failed append marks the buffer, so that a writer may append freely and look once at the end.
 */
#ifndef OIP_BUFFER_H
#define OIP_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data;
    size_t len, cap, limit; /* bytes */
    bool failed;            /* an append did not fit under the limit, or memory ended */
} oip_buffer_t;

void oip_buffer_init(oip_buffer_t *buffer, size_t limit_bytes);
void oip_buffer_dispose(oip_buffer_t *buffer);
/* Empties it and keeps the memory. */
void oip_buffer_reset(oip_buffer_t *buffer);

/* Room for `len` more bytes, to be filled by the caller who then adds to ->len; NULL when that failed. */
char *oip_buffer_reserve(oip_buffer_t *buffer, size_t len);
void oip_buffer_append(oip_buffer_t *buffer, const void *data, size_t len);
void oip_buffer_text(oip_buffer_t *buffer, const char *text);
/* As a JSON string, quotes included. */
void oip_buffer_json_string(oip_buffer_t *buffer, const char *text, size_t len);

#endif
