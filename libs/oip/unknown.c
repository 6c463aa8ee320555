#include "oip/unknown.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES = 240 };

/* How many characters two names have in common at their ends: a slip of the pen leaves most of them. */
static size_t likeness(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), least = la < lb ? la : lb, before = 0, behind = 0;

    while (before < least && a[before] == b[before])
        before++;
    while (behind < least - before && a[la - 1 - behind] == b[lb - 1 - behind])
        behind++;
    return before + behind;
}

static uint32_t nearest(const oip_tensor_spec_t *list, uint32_t count, const char *name)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (likeness(list[i].name, name) > likeness(list[best].name, name))
            best = i;
    return best;
}

/* False: there is no room for it. */
static bool add_name(char names[NAMES_BYTES], const char *name)
{
    size_t used = strlen(names);
    int len = snprintf(names + used, NAMES_BYTES - used, "%s'%.120s'", used ? ", " : "", name);

    if (len > 0 && (size_t)len + sizeof(", …") < NAMES_BYTES - used)
        return true;
    snprintf(names + used, NAMES_BYTES - used, ", …");
    return false;
}

static status_t unknown(const oip_model_spec_t *spec, const char *kind, const oip_tensor_spec_t *list,
                        uint32_t count, const char *name, err_t *err)
{
    char names[NAMES_BYTES] = "";
    uint32_t first = nearest(list, count, name);
    bool room = count > 0 && add_name(names, list[first].name);

    for (uint32_t i = 0; i < count && room; i++)
        room = i == first || add_name(names, list[i].name);
    return err_set(err, STATUS_INVALID_ARGUMENT, "unknown %s '%.100s' for model '%.100s', which has %s", kind,
                   name, spec->name, names);
}

status_t oip_unknown_input(const oip_model_spec_t *spec, const char *name, err_t *err)
{
    return unknown(spec, "input", spec->inputs, spec->input_count, name, err);
}

status_t oip_unknown_output(const oip_model_spec_t *spec, const char *name, err_t *err)
{
    return unknown(spec, "output", spec->outputs, spec->output_count, name, err);
}
