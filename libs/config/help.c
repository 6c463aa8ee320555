/* --help, from the table. */
#include "config/config.h"

#include "base/wrap.h"
#include "config/options.h"

#include <string.h>

enum { TEXT_COLUMN = 34, HELP_MAX_BYTES = 1 << 20 };

static const char *metavar_of(const config_option_t *option)
{
    static const char *const by_type[] = {
        [CONFIG_STRING] = "TEXT",   [CONFIG_PATH] = "PATH", [CONFIG_INT] = "N",
        [CONFIG_DOUBLE] = "NUMBER", [CONFIG_BOOL] = "",     [CONFIG_DURATION] = "DURATION",
        [CONFIG_BYTES] = "SIZE",    [CONFIG_ENUM] = "WORD", [CONFIG_ADDRESS] = "HOST:PORT",
        [CONFIG_LIST] = "TEXT",
    };
    return option->metavar ? option->metavar : by_type[option->type];
}

static void put_paragraph(strbuf_t *out, const char *text)
{
    size_t column = 0;
    wrap_words(out, text, 0, &column);
    strbuf_putc(out, '\n');
}

static void put_choices(strbuf_t *details, const config_option_t *option)
{
    for (int i = 0; option->choices[i]; i++)
        strbuf_printf(details, "%s%s", i > 0 ? " | " : "", option->choices[i]);
    strbuf_puts(details, "; ");
}

static void put_option(strbuf_t *out, const config_option_t *option)
{
    char name[OPTION_NAME_BYTES], env[OPTION_NAME_BYTES];
    strbuf_t flag, details;
    strbuf_init(&flag, 256);
    strbuf_init(&details, 4096);
    option_flag_name(option->name, name);
    option_env_name(option->name, env);
    const char *metavar = metavar_of(option);
    strbuf_printf(&flag, option->type == CONFIG_BOOL ? "--[no-]%s" : "--%s", name);
    if (*metavar != '\0')
        strbuf_printf(&flag, " %s", metavar);
    strbuf_putc(&details, '(');
    if (option->type == CONFIG_ENUM)
        put_choices(&details, option);
    if (option->type == CONFIG_LIST)
        strbuf_puts(&details, "repeatable; ");
    if (option->required)
        strbuf_puts(&details, "required; ");
    else if (option->def && *option->def != '\0')
        strbuf_printf(&details, "default %s; ", option->def);
    strbuf_printf(&details, "%s)", env);
    wrap_entry(out, flag.data, TEXT_COLUMN, option->help, details.data);
    strbuf_dispose(&flag);
    strbuf_dispose(&details);
}

static bool group_seen_before(const config_schema_t *schema, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(schema->options[j].group, schema->options[i].group) == 0)
            return true;
    return false;
}

static void put_groups(strbuf_t *out, const config_schema_t *schema)
{
    for (size_t i = 0; i < schema->options_len; i++) {
        if (group_seen_before(schema, i))
            continue;
        strbuf_printf(out, "\n%s:\n", schema->options[i].group);
        for (size_t j = i; j < schema->options_len; j++)
            if (strcmp(schema->options[j].group, schema->options[i].group) == 0)
                put_option(out, &schema->options[j]);
    }
}

char *config_help_text(const config_schema_t *schema)
{
    strbuf_t out;
    strbuf_init(&out, HELP_MAX_BYTES);
    strbuf_printf(&out, "Usage: %s [OPTION...]%s%s\n", schema->program, schema->positionals ? " " : "",
                  schema->positionals ? schema->positionals : "");
    put_paragraph(&out, schema->summary);
    put_groups(&out, schema);
    strbuf_puts(&out, "\nGeneral:\n");
    wrap_entry(&out, "--config FILE", TEXT_COLUMN, "YAML file with these options (keys with _ for -).",
               "(FERMATA_CONFIG)");
    wrap_entry(&out, "--help", TEXT_COLUMN, "Show this and exit.", "");
    wrap_entry(&out, "--version", TEXT_COLUMN, "Show the version and exit.", "");
    if (schema->epilog)
        strbuf_printf(&out, "\n%s\n", schema->epilog);
    strbuf_putc(&out, '\n');
    put_paragraph(&out,
                  "A flag wins over its environment variable, that over the file, that over the default.");
    char *text = strbuf_take(&out);
    strbuf_dispose(&out);
    return text;
}
