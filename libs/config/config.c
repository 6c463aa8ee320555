/*
 * Each option has one list of texts per source (flag, environment, file); the strongest source that gives any
 * is converted. Only when every option is converted is the program's struct written.
 */
#include "config/config.h"

#include "config/options.h"
#include "config/suggest.h"
#include "config/ydoc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENV, SOURCE_FLAG } source_t;

typedef struct {
    const char **texts;
    size_t len;
    source_t source;
    const ydoc_node_t *node; /* SOURCE_FILE: where, for error texts */
    option_value_t value;
} setting_t;

struct config {
    config_schema_t schema; /* a copy: only the tables it points to must outlive this */
    setting_t *settings;    /* one per option */
    ydoc_t *file;
    char **owned; /* strings made here */
    size_t owned_len;
    const char **positionals;
    size_t positionals_len;
};

/* Fields of the log options, shared by every program. */
const char *const config_log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
const char *const config_log_formats[] = {"text", "json", NULL};

static status_t no_memory(err_t *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for the configuration");
}

static bool append(const char ***list, size_t *len, const char *item)
{
    const char **grown = realloc(*list, (*len + 1) * sizeof **list);
    if (!grown)
        return false;
    grown[(*len)++] = item;
    *list = grown;
    return true;
}

/* Takes over a malloc'd text (NULL: out of memory). */
static const char *own(config_t *config, char *text)
{
    char **owned = text ? realloc(config->owned, (config->owned_len + 1) * sizeof *owned) : NULL;
    if (!owned) {
        free(text);
        return NULL;
    }
    config->owned = owned;
    owned[config->owned_len++] = text;
    return text;
}

/* A stronger source forgets what a weaker one said; the same source adds (lists) or replaces (the last flag wins). */
static status_t add_text(config_t *config, size_t i, source_t source, const char *text, err_t *err)
{
    setting_t *setting = &config->settings[i];
    if (!text)
        return no_memory(err);
    if (setting->source > source)
        return STATUS_OK;
    if (setting->source < source || config->schema.options[i].type != CONFIG_LIST)
        setting->len = 0;
    setting->source = source;
    return append(&setting->texts, &setting->len, text) ? STATUS_OK : no_memory(err);
}

static int find_option(const config_schema_t *schema, const char *name, size_t name_len)
{
    for (size_t i = 0; i < schema->options_len; i++)
        if (strlen(schema->options[i].name) == name_len &&
            memcmp(schema->options[i].name, name, name_len) == 0)
            return (int)i;
    return -1;
}

/* NULL-terminated names of all options; the caller frees. */
static const char **option_names(const config_schema_t *schema)
{
    const char **names = calloc(schema->options_len + 1, sizeof *names);
    for (size_t i = 0; names && i < schema->options_len; i++)
        names[i] = schema->options[i].name;
    return names;
}

static status_t unknown_flag(const config_schema_t *schema, const char *flag, const char *name, err_t *err)
{
    const char **names = option_names(schema);
    const char *meant = names ? suggest_name(name, names) : NULL;
    free(names);
    char meant_flag[OPTION_NAME_BYTES] = "";
    if (meant)
        option_flag_name(meant, meant_flag);
    return err_set(err, STATUS_INVALID_ARGUMENT, "unknown flag %.80s%s%s%s (see --help)", flag,
                   meant ? ", did you mean --" : "", meant_flag, meant ? "?" : "");
}

/* One parsed "--name[=value]": the option's index, and its value if it is in the same argument. */
typedef struct {
    int option;
    const char *value;
    bool negated;
} flag_t;

static status_t parse_flag(const config_schema_t *schema, const char *arg, flag_t *flag, err_t *err)
{
    char name[OPTION_NAME_BYTES];
    const char *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) - 2 : strlen(arg) - 2;
    if (len >= sizeof name)
        return err_set(err, STATUS_INVALID_ARGUMENT, "unknown flag %.80s (see --help)", arg);
    memcpy(name, arg + 2, len);
    name[len] = '\0';
    for (char *c = name; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    *flag = (flag_t){.option = find_option(schema, name, len), .value = equals ? equals + 1 : NULL};
    if (flag->option < 0 && !equals && strncmp(name, "no_", 3) == 0) {
        flag->option = find_option(schema, name + 3, len - 3);
        flag->negated = flag->option >= 0;
        if (flag->negated && schema->options[flag->option].type != CONFIG_BOOL)
            flag->option = -1;
    }
    return flag->option >= 0 ? STATUS_OK : unknown_flag(schema, arg, name, err);
}

static status_t read_flag(config_t *config, int argc, char *const *argv, int *at, err_t *err)
{
    flag_t flag;
    const char *arg = argv[*at];
    status_t st = parse_flag(&config->schema, arg, &flag, err);
    if (st != STATUS_OK)
        return st;
    if (!flag.value && config->schema.options[flag.option].type == CONFIG_BOOL)
        flag.value = flag.negated ? "false" : "true";
    if (!flag.value) {
        if (*at + 1 >= argc)
            return err_set(err, STATUS_INVALID_ARGUMENT, "flag %.80s needs a value", arg);
        flag.value = argv[++*at];
    }
    return add_text(config, (size_t)flag.option, SOURCE_FLAG, own(config, strdup(flag.value)), err);
}

static status_t read_positional(config_t *config, const char *arg, err_t *err)
{
    if (!config->schema.positionals)
        return err_set(err, STATUS_INVALID_ARGUMENT, "unexpected argument \"%.80s\" (see --help)", arg);
    const char *text = own(config, strdup(arg));
    if (!text || !append(&config->positionals, &config->positionals_len, text))
        return no_memory(err);
    return STATUS_OK;
}

/* --config is taken out here: it says where the weaker sources come from. */
static status_t read_flags(config_t *config, int argc, char *const *argv, const char **config_path,
                           err_t *err)
{
    bool only_positionals = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        status_t st = STATUS_OK;
        if (only_positionals || strncmp(arg, "--", 2) != 0)
            st = !only_positionals && arg[0] == '-' && arg[1] != '\0'
                     ? unknown_flag(&config->schema, arg, arg + 1, err)
                     : read_positional(config, arg, err);
        else if (arg[2] == '\0')
            only_positionals = true;
        else if (strncmp(arg, "--config=", 9) == 0)
            *config_path = arg + 9;
        else if (strcmp(arg, "--config") != 0)
            st = read_flag(config, argc, argv, &i, err);
        else if (i + 1 < argc)
            *config_path = argv[++i];
        else
            st = err_set(err, STATUS_INVALID_ARGUMENT, "flag --config needs a value");
        if (st != STATUS_OK)
            return st;
    }
    return STATUS_OK;
}

static const char *find_env(char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

/* "a, b" is two items. */
static status_t add_env_list(config_t *config, size_t i, const char *text, err_t *err)
{
    for (;;) {
        text += strspn(text, " ");
        size_t len = strcspn(text, ",");
        size_t trimmed = len;
        while (trimmed > 0 && text[trimmed - 1] == ' ')
            trimmed--;
        status_t st = add_text(config, i, SOURCE_ENV, own(config, strndup(text, trimmed)), err);
        if (st != STATUS_OK || text[len] == '\0')
            return st;
        text += len + 1;
    }
}

/* An empty variable counts as not set: that is what compose files and shells make of "no value". */
static status_t read_env(config_t *config, char *const *env, err_t *err)
{
    for (size_t i = 0; i < config->schema.options_len; i++) {
        char name[OPTION_NAME_BYTES];
        option_env_name(config->schema.options[i].name, name);
        const char *text = find_env(env, name);
        if (!text || *text == '\0')
            continue;
        status_t st = config->schema.options[i].type == CONFIG_LIST
                          ? add_env_list(config, i, text, err)
                          : add_text(config, i, SOURCE_ENV, own(config, strdup(text)), err);
        if (st != STATUS_OK)
            return st;
    }
    return STATUS_OK;
}

/* A path in a file is meant from where the file is. */
static const char *file_text(config_t *config, const config_option_t *option, const char *path,
                             const char *text)
{
    const char *slash = strrchr(path, '/');
    if (option->type != CONFIG_PATH || text[0] == '/' || text[0] == '\0' || !slash)
        return text; /* lives in the document */
    char *joined;
    int n = asprintf(&joined, "%.*s/%s", (int)(slash - path), path, text);
    return own(config, n < 0 ? NULL : joined);
}

static status_t read_file_value(config_t *config, const char *path, size_t i, const ydoc_node_t *node,
                                err_t *err)
{
    const config_option_t *option = &config->schema.options[i];
    bool list = option->type == CONFIG_LIST && ydoc_kind(node) == YDOC_LIST;
    size_t len = list ? ydoc_len(node) : 1;
    for (size_t k = 0; k < len; k++) {
        const char *text;
        status_t st = ydoc_string(list ? ydoc_at(node, k) : node, &text, err);
        if (st == STATUS_OK)
            st = add_text(config, i, SOURCE_FILE, file_text(config, option, path, text), err);
        if (st != STATUS_OK)
            return st;
    }
    config->settings[i].node = node;
    if (len == 0 && config->settings[i].source == SOURCE_DEFAULT)
        config->settings[i].source = SOURCE_FILE; /* "[]" is a value */
    return STATUS_OK;
}

static status_t read_file(config_t *config, const char *path, err_t *err)
{
    status_t st = ydoc_load(path, &config->file, err);
    if (st != STATUS_OK)
        return st;
    const char **names = option_names(&config->schema);
    if (!names)
        return no_memory(err);
    const ydoc_node_t *root = ydoc_root(config->file);
    st = ydoc_check_keys(root, names, err);
    free(names);
    for (size_t i = 0; i < ydoc_len(root) && st == STATUS_OK; i++) {
        const ydoc_node_t *node = ydoc_at(root, i);
        const char *key = ydoc_key(node);
        st = read_file_value(config, path, (size_t)find_option(&config->schema, key, strlen(key)), node, err);
    }
    return st;
}

/* err has the reason; what the user wrote, and where, goes before it. */
static status_t blame(const config_option_t *option, const setting_t *setting, err_t *err)
{
    char name[OPTION_NAME_BYTES];
    err_t reason = *err;
    switch (setting->source) {
    case SOURCE_FILE:
        return ydoc_error(setting->node, err, "%s", reason.text);
    case SOURCE_ENV:
        option_env_name(option->name, name);
        return err_prefix(err, "environment variable %s", name);
    case SOURCE_FLAG:
        option_flag_name(option->name, name);
        return err_prefix(err, "flag --%s", name);
    case SOURCE_DEFAULT:
        break;
    }
    return err_prefix(err, "default of %s", option->name);
}

static status_t missing(const config_option_t *option, err_t *err)
{
    char flag[OPTION_NAME_BYTES], env[OPTION_NAME_BYTES];
    option_flag_name(option->name, flag);
    option_env_name(option->name, env);
    return err_set(err, STATUS_INVALID_ARGUMENT, "flag --%s is required (or %s, or %s in the file)", flag,
                   env, option->name);
}

static status_t convert(config_t *config, size_t i, err_t *err)
{
    const config_option_t *option = &config->schema.options[i];
    setting_t *setting = &config->settings[i];
    setting->value = option_zero();
    if (setting->source == SOURCE_DEFAULT && option->required)
        return missing(option, err);
    if (setting->source == SOURCE_DEFAULT && option->def && *option->def != '\0') {
        status_t st = add_text(config, i, SOURCE_DEFAULT, option->def, err);
        if (st != STATUS_OK)
            return st;
    }
    if (option->type == CONFIG_LIST) {
        setting->value.list = (config_list_t){setting->texts, setting->len};
        return STATUS_OK;
    }
    if (setting->len == 0)
        return STATUS_OK;
    err_t reason = {0};
    status_t st = option_convert(option, setting->texts[setting->len - 1], &setting->value, &reason);
    if (st != STATUS_OK && err) {
        *err = reason;
        blame(option, setting, err);
    }
    return st;
}

static bool has_flag(int argc, char *const *argv, const char *flag)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], flag) == 0)
            return true;
    return false;
}

static config_t *new_config(const config_schema_t *schema)
{
    config_t *config = calloc(1, sizeof *config);
    if (!config)
        return NULL;
    config->schema = *schema;
    config->settings = calloc(schema->options_len + 1, sizeof *config->settings);
    if (config->settings)
        return config;
    free(config);
    return NULL;
}

static status_t read_all(config_t *config, int argc, char *const *argv, char *const *env, err_t *err)
{
    const char *path = find_env(env, "FERMATA_CONFIG");
    status_t st = read_flags(config, argc, argv, &path, err);
    if (st == STATUS_OK)
        st = read_env(config, env, err);
    if (st == STATUS_OK && path && *path != '\0')
        st = read_file(config, path, err);
    for (size_t i = 0; i < config->schema.options_len && st == STATUS_OK; i++)
        st = convert(config, i, err);
    return st;
}

status_t config_load(const config_schema_t *schema, int argc, char *const *argv, char *const *env, void *out,
                     config_t **result, config_wish_t *wish, err_t *err)
{
    config_t *config = new_config(schema);
    if (!config)
        return no_memory(err);
    *wish = has_flag(argc, argv, "--help") || has_flag(argc, argv, "-h") ? CONFIG_HELP
            : has_flag(argc, argv, "--version")                          ? CONFIG_VERSION
                                                                         : CONFIG_READY;
    status_t st = *wish == CONFIG_READY ? read_all(config, argc, argv, env, err) : STATUS_OK;
    if (st != STATUS_OK) {
        config_destroy(config);
        return st;
    }
    for (size_t i = 0; i < schema->options_len && *wish == CONFIG_READY; i++)
        option_store(&schema->options[i], &config->settings[i].value, out);
    *result = config;
    return STATUS_OK;
}

void config_destroy(config_t *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < config->schema.options_len; i++)
        free(config->settings[i].texts);
    for (size_t i = 0; i < config->owned_len; i++)
        free(config->owned[i]);
    free(config->owned);
    free(config->positionals);
    free(config->settings);
    ydoc_destroy(config->file);
    free(config);
}

const char *const *config_positionals(const config_t *config, size_t *len)
{
    *len = config->positionals_len;
    return config->positionals;
}

const char *config_source(const config_t *config, const char *name)
{
    static const char *const names[] = {"default", "file", "environment", "flag"};
    int i = find_option(&config->schema, name, strlen(name));
    return i < 0 ? NULL : names[config->settings[i].source];
}

static void print_help(const config_schema_t *schema)
{
    char *text = config_help_text(schema);
    if (text)
        fputs(text, stdout);
    free(text);
}

bool config_start(const config_schema_t *schema, int argc, char **argv, void *out, config_t **config,
                  int *exit_code)
{
    err_t err = {0};
    config_wish_t wish;
    status_t st = config_load(schema, argc, argv, environ, out, config, &wish, &err);
    if (st != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", schema->program, err.text);
        *exit_code = EXIT_CODE_USAGE;
        return false;
    }
    if (wish == CONFIG_READY)
        return true;
    if (wish == CONFIG_HELP)
        print_help(schema);
    else
        printf("%s %s\n", schema->program, FERMATA_VERSION);
    config_destroy(*config);
    *config = NULL;
    *exit_code = EXIT_CODE_OK;
    return false;
}

int config_misused(const config_schema_t *schema, config_t *config, const err_t *err)
{
    fprintf(stderr, "%s: %s\n", schema->program, err->text);
    config_destroy(config);
    return EXIT_CODE_USAGE;
}

int config_exit(const config_schema_t *schema, status_t st, const err_t *err)
{
    if (st == STATUS_OK)
        return EXIT_CODE_OK;
    fprintf(stderr, "%s: %s\n", schema->program, err && err->text[0] != '\0' ? err->text : status_name(st));
    return EXIT_CODE_FAILED;
}
