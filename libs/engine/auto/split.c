#include "engine/auto/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void split_name(const split_t *split, const char *const *names, char text[ENGINE_RUNNING_BYTES])
{
    if (split->rows)
        (void)snprintf(text, ENGINE_RUNNING_BYTES, "%s:%u+%s", names[split->small], split->rows,
                       names[split->large]);
    else
        (void)snprintf(text, ENGINE_RUNNING_BYTES, "%s", names[split->large]);
}

static bool find(const char *name, size_t len, const char *const *names, uint32_t count, uint32_t *which)
{
    for (uint32_t i = 0; i < count; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            *which = i;
            return true;
        }
    return false;
}

static bool parse_rows(const char *text, const char *end, uint32_t *rows)
{
    char *at;
    unsigned long value = strtoul(text, &at, 10);
    if (at != end || *text < '1' || *text > '9' || value > UINT32_MAX)
        return false;
    *rows = (uint32_t)value;
    return true;
}

bool split_parse(const char *text, const char *const *names, uint32_t count, split_t *split)
{
    const char *plus = strchr(text, '+'), *colon = strchr(text, ':'), *large = plus ? plus + 1 : text;
    *split = (split_t){0};
    if (!find(large, strlen(large), names, count, &split->large))
        return false;
    split->small = split->large;
    if (!plus)
        return true;
    return colon && colon < plus && parse_rows(colon + 1, plus, &split->rows) &&
           find(text, (size_t)(colon - text), names, count, &split->small) && split->small != split->large;
}
