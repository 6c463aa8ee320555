/* From texts to the fields of a program's struct. Private to libs/config. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include "config/config.h"

/* One converted value, before anything is written to the program's struct. */
typedef struct {
    union {
        const char *text;
        int64_t i64;
        double f64;
        bool flag;
        int choice;
        config_address_t address;
        config_list_t list;
    };
} option_value_t;

/* text is never NULL. String types keep the pointer. Not for lists. */
status_t option_convert(const config_option_t *option, const char *text, option_value_t *value, err_t *err);

/* What an option is without a default: empty, 0, false, the first choice. */
option_value_t option_zero(void);

void option_store(const config_option_t *option, const option_value_t *value, void *out);

/* "http_address" -> "FERMATA_HTTP_ADDRESS" and "http-address". */
enum { OPTION_NAME_BYTES = 80 };
void option_env_name(const char *name, char text[OPTION_NAME_BYTES]);
void option_flag_name(const char *name, char text[OPTION_NAME_BYTES]);

#endif
