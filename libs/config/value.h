/*
 * The texts of values, read and written one way everywhere: configuration files, environment, flags, model
 * repositories. Every parser takes the whole text or refuses with a reason that shows the text and what is
 * expected.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_HOST_BYTES = 256, CONFIG_ADDRESS_TEXT_BYTES = CONFIG_HOST_BYTES + 16 };

typedef struct {
    char host[CONFIG_HOST_BYTES]; /* name, IPv4, or IPv6 without brackets; "" when only a port was given */
    uint16_t port;
} config_address_t;

status_t value_parse_bool(const char *text, bool *out, err_t *err);     /* true/false yes/no on/off */
status_t value_parse_int64(const char *text, int64_t *out, err_t *err); /* decimal or 0x…, sign allowed */
status_t value_parse_double(const char *text, double *out, err_t *err); /* finite */
status_t value_parse_duration(const char *text, int64_t *ns,
                              err_t *err); /* "25ms" "1.5s" "200us" "10ns" "2m" "1h" "0" */
status_t value_parse_bytes(const char *text, int64_t *bytes,
                           err_t *err); /* "64MiB" "1.5GiB" "4096" "10kB" "1MB" */
status_t value_parse_address(const char *text, config_address_t *out,
                             err_t *err); /* "host:port" ":port" "[v6]:port" */

/* The shortest exact text with one unit, as the parsers read it. Returns text. */
const char *value_format_duration(int64_t ns, char *text, size_t text_bytes);
const char *value_format_bytes(int64_t bytes, char *text, size_t text_bytes);
const char *value_format_address(const config_address_t *address, char *text, size_t text_bytes);
/* The same, with this host where only a port was given. */
const char *value_format_address_at(const config_address_t *address, const char *default_host, char *text,
                                    size_t text_bytes);

#endif
