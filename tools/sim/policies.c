#include "policies.h"

#include "base/wrap.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { POLICY_COLUMN = 2, TEXT_COLUMN = 26, TEXT_BYTES = 1 << 16 };

static void put_choices(const sched_param_t *param, strbuf_t *out)
{
    for (int i = 0; param->choices[i]; i++)
        strbuf_printf(out, "%s%s", i ? " or " : "", param->choices[i]);
}

static void put_param(const sched_param_t *param, strbuf_t *preset, strbuf_t *details, strbuf_t *out)
{
    strbuf_clear(preset);
    strbuf_clear(details);
    strbuf_putc(details, '(');
    if (param->choices) {
        strbuf_printf(preset, "%s=%s", param->name, param->choices[(int)param->preset]);
        put_choices(param, details);
    } else {
        strbuf_printf(preset, "%s=%g", param->name, param->preset);
        strbuf_printf(details, "%g to %g", param->least, param->most);
    }
    if (param->only_with)
        strbuf_printf(details, "; with %s=%s", param->only_with, param->only_with_choice);
    strbuf_putc(details, ')');
    out->failed |= preset->failed || details->failed;
    wrap_entry(out, preset->data, TEXT_COLUMN, param->help, details->data);
}

static void put_policy(uint32_t policy, strbuf_t *out)
{
    strbuf_t preset, details;
    size_t column = POLICY_COLUMN;
    strbuf_init(&preset, TEXT_BYTES);
    strbuf_init(&details, TEXT_BYTES);
    strbuf_printf(out, "%s%s\n", policy ? "\n" : "", sched_policy_name(policy));
    wrap_indent(out, 0, POLICY_COLUMN);
    wrap_words(out, sched_policy_help(policy), POLICY_COLUMN, &column);
    strbuf_putc(out, '\n');
    for (const sched_param_t *param = sched_policy_params(policy); param && param->name; param++)
        put_param(param, &preset, &details, out);
    strbuf_dispose(&preset);
    strbuf_dispose(&details);
}

status_t policies_print(err_t *err)
{
    strbuf_t text;
    strbuf_init(&text, TEXT_BYTES);
    for (uint32_t i = 0; sched_policy_name(i); i++)
        put_policy(i, &text);
    status_t status = strbuf_status(&text, err);
    if (status == STATUS_OK && (fputs(text.data, stdout) == EOF || fflush(stdout) != 0))
        status = err_set(err, STATUS_IO, "standard output: %s", strerror(errno));
    strbuf_dispose(&text);
    return status;
}
