/* Parameters of policies: "key=value,key=value", and what an error says of them. */
#include "sched/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_BYTES = 512, TOLD_BYTES = 60 };

static int param_index(const policy_ops_t *ops, const char *key, size_t len)
{
    for (int i = 0; ops->params && ops->params[i].name; i++) {
        if (strlen(ops->params[i].name) == len && strncmp(ops->params[i].name, key, len) == 0)
            return i;
    }
    return -1;
}

const sched_param_t *policy_param(const policy_ops_t *ops, const char *name)
{
    int i = param_index(ops, name, strlen(name));
    return i < 0 ? NULL : &ops->params[i];
}

static bool parse_choice(const sched_param_t *param, const char *text, size_t len, double *value)
{
    for (int i = 0; param->choices[i]; i++) {
        if (strlen(param->choices[i]) == len && strncmp(param->choices[i], text, len) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool parse_value(const sched_param_t *param, const char *text, size_t len, double *value)
{
    char *end;
    if (param->choices)
        return parse_choice(param, text, len, value);
    double v = strtod(text, &end);
    if (len == 0 || end != text + len || !(v >= param->least && v <= param->most))
        return false;
    *value = v;
    return true;
}

/* What errors list: text is always ended, and cut where there is no room. */
typedef struct {
    char text[NAMES_BYTES];
    size_t len;
} names_t;

static void put_name(names_t *names, const char *between, const char *name)
{
    size_t room = sizeof names->text - names->len;
    int len = snprintf(names->text + names->len, room, "%s%s", names->len ? between : "", name);
    names->len += len > 0 && (size_t)len < room ? (size_t)len : 0;
}

static int told(size_t len)
{
    return (int)(len < TOLD_BYTES ? len : TOLD_BYTES);
}

static status_t no_param(const policy_ops_t *ops, const char *text, size_t len, err_t *err)
{
    names_t names = {"none", 0};
    for (int i = 0; ops->params && ops->params[i].name; i++)
        put_name(&names, ", ", ops->params[i].name);
    return err_set(err, STATUS_INVALID_ARGUMENT, "policy %s has no parameter '%.*s'; it has %s", ops->name,
                   told(len), text, names.text);
}

static status_t bad_value(const policy_ops_t *ops, const sched_param_t *param, const char *text, size_t len,
                          err_t *err)
{
    names_t names = {"", 0};
    if (!param->choices)
        return err_set(err, STATUS_INVALID_ARGUMENT, "policy %s: '%.*s' is not %s=%g to %g", ops->name,
                       told(len), text, param->name, param->least, param->most);
    for (int i = 0; param->choices[i]; i++)
        put_name(&names, " or ", param->choices[i]);
    return err_set(err, STATUS_INVALID_ARGUMENT, "policy %s: '%.*s' is not %s=%s", ops->name, told(len), text,
                   param->name, names.text);
}

/* What was given belongs to what was chosen. */
static status_t check_given(const policy_ops_t *ops, const double *values, uint32_t given, err_t *err)
{
    for (int i = 0; ops->params && ops->params[i].name; i++) {
        const sched_param_t *param = &ops->params[i];
        if (!(given >> i & 1) || !param->only_with)
            continue;
        const sched_param_t *with = policy_param(ops, param->only_with);
        const char *chosen = with->choices[(int)values[with - ops->params]];
        if (strcmp(chosen, param->only_with_choice) != 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "policy %s: '%s' goes with %s=%s, not with %s=%s",
                           ops->name, param->name, with->name, param->only_with_choice, with->name, chosen);
    }
    return STATUS_OK;
}

status_t policy_parse(const policy_ops_t *ops, const char *text, double values[POLICY_PARAMS_MAX], err_t *err)
{
    uint32_t given = 0;
    for (int i = 0; ops->params && ops->params[i].name; i++)
        values[i] = ops->params[i].preset;
    while (text && *text) {
        size_t len = strcspn(text, ",");
        size_t key_len = strcspn(text, "=,");
        int i = param_index(ops, text, key_len);
        if (i < 0)
            return no_param(ops, text, key_len, err);
        if (given >> i & 1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "policy %s: '%s' is given twice", ops->name,
                           ops->params[i].name);
        if (key_len == len ||
            !parse_value(&ops->params[i], text + key_len + 1, len - key_len - 1, &values[i]))
            return bad_value(ops, &ops->params[i], text, len, err);
        given |= UINT32_C(1) << i;
        text += len + (text[len] == ',');
    }
    return check_given(ops, values, given, err);
}
