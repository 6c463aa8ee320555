#include "config/options.h"

#include "config/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_ranged(const config_option_t *option)
{
    return option->min < option->max;
}

static const char *format_bound(const config_option_t *option, int64_t bound, char *text, size_t text_bytes)
{
    if (option->type == CONFIG_DURATION)
        return value_format_duration(bound, text, text_bytes);
    if (option->type == CONFIG_BYTES)
        return value_format_bytes(bound, text, text_bytes);
    snprintf(text, text_bytes, "%lld", (long long)bound);
    return text;
}

static status_t out_of_range(const config_option_t *option, const char *text, err_t *err)
{
    char min[40], max[40];
    format_bound(option, option->min, min, sizeof min);
    if (option->max == INT64_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.60s is less than %s", text, min);
    return err_set(err, STATUS_INVALID_ARGUMENT, "%.60s is not between %s and %s", text, min,
                   format_bound(option, option->max, max, sizeof max));
}

static status_t convert_integer(const config_option_t *option, const char *text, int64_t *out, err_t *err)
{
    int64_t value;
    status_t st;
    if (option->type == CONFIG_DURATION)
        st = value_parse_duration(text, &value, err);
    else if (option->type == CONFIG_BYTES)
        st = value_parse_bytes(text, &value, err);
    else
        st = value_parse_int64(text, &value, err);
    if (st != STATUS_OK)
        return st;
    if (is_ranged(option) && (value < option->min || value > option->max))
        return out_of_range(option, text, err);
    *out = value;
    return STATUS_OK;
}

static status_t convert_double(const config_option_t *option, const char *text, double *out, err_t *err)
{
    double value;
    status_t st = value_parse_double(text, &value, err);
    if (st != STATUS_OK)
        return st;
    if (is_ranged(option) && (value < (double)option->min || value > (double)option->max))
        return out_of_range(option, text, err);
    *out = value;
    return STATUS_OK;
}

static status_t convert_choice(const config_option_t *option, const char *text, int *out, err_t *err)
{
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(text, option->choices[i]) == 0) {
            *out = i;
            return STATUS_OK;
        }
    }
    char list[256];
    return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.60s\" is not one of %s", text,
                   suggest_list(option->choices, list, sizeof list));
}

status_t option_convert(const config_option_t *option, const char *text, option_value_t *value, err_t *err)
{
    switch (option->type) {
    case CONFIG_STRING:
    case CONFIG_PATH:
        value->text = text;
        return STATUS_OK;
    case CONFIG_INT:
    case CONFIG_DURATION:
    case CONFIG_BYTES:
        return convert_integer(option, text, &value->i64, err);
    case CONFIG_DOUBLE:
        return convert_double(option, text, &value->f64, err);
    case CONFIG_BOOL:
        return value_parse_bool(text, &value->flag, err);
    case CONFIG_ENUM:
        return convert_choice(option, text, &value->choice, err);
    case CONFIG_ADDRESS:
        return value_parse_address(text, &value->address, err);
    case CONFIG_LIST:
        break;
    }
    return err_set(err, STATUS_INTERNAL, "option %s has no single value", option->name);
}

option_value_t option_zero(void)
{
    option_value_t value;
    memset(&value, 0, sizeof value);
    return value;
}

void option_store(const config_option_t *option, const option_value_t *value, void *out)
{
    static const size_t sizes[] = {
        [CONFIG_STRING] = sizeof(char *),
        [CONFIG_PATH] = sizeof(char *),
        [CONFIG_INT] = sizeof(int64_t),
        [CONFIG_DOUBLE] = sizeof(double),
        [CONFIG_BOOL] = sizeof(bool),
        [CONFIG_DURATION] = sizeof(int64_t),
        [CONFIG_BYTES] = sizeof(int64_t),
        [CONFIG_ENUM] = sizeof(int),
        [CONFIG_ADDRESS] = sizeof(config_address_t),
        [CONFIG_LIST] = sizeof(config_list_t),
    };
    memcpy((char *)out + option->offset, value,
           sizes[option->type]); /* every member of the union begins at its start */
}

void option_env_name(const char *name, char text[OPTION_NAME_BYTES])
{
    snprintf(text, OPTION_NAME_BYTES, "FERMATA_%s", name);
    for (char *c = text; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
}

void option_flag_name(const char *name, char text[OPTION_NAME_BYTES])
{
    snprintf(text, OPTION_NAME_BYTES, "%s", name);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '_')
            *c = '-';
}
