/*
 * Configuration of a program: one table of options, read from a YAML file, the environment and flags (the
 * later wins), with --help and --version made from the table (docs/configuration.md).
 *
 *   typedef struct { config_address_t http_address; int64_t arena_bytes; int policy; const char *name; } cfg_t;
 *   static const char *const policies[] = {"symphony", "eager", NULL};
 *   static const config_option_t options[] = {
 *       {"http_address", CONFIG_ADDRESS, "Listening", "Address of the REST server", .def = "0.0.0.0:8000",
 *        .offset = offsetof(cfg_t, http_address)},
 *       {"arena_bytes", CONFIG_BYTES, "Limits", "Memory for tensors", .def = "256MiB", .min = 1 << 20,
 *        .max = INT64_MAX, .offset = offsetof(cfg_t, arena_bytes)},
 *       {"policy", CONFIG_ENUM, "Scheduling", "Batching policy", .def = "symphony", .choices = policies,
 *        .offset = offsetof(cfg_t, policy)},
 *       …
 *   };
 *   int main(int argc, char **argv) {
 *       cfg_t cfg;
 *       config_t *config;
 *       int exit_code;
 *       if (!config_start(&schema, argc, argv, &cfg, &config, &exit_code))
 *           return exit_code;                    // --help, --version: 0; wrong usage: 2
 *       err_t err = {0};
 *       status_t st = gateway_run(&cfg, &err);
 *       config_destroy(config);                  // the strings in cfg live until here
 *       return config_exit(&schema, st, &err);   // 0, or 1 and "fermata-gateway: reason" on stderr
 *   }
 *
 * An option `http_address` is the key http_address in the file, FERMATA_HTTP_ADDRESS in the environment and
 * --http-address on the command line (--name value, --name=value; a bool also as --name and --no-name).
 * --config FILE names the file.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/status.h"
#include "config/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_CODE_OK = 0, EXIT_CODE_FAILED = 1, EXIT_CODE_USAGE = 2 };

typedef enum {
    CONFIG_STRING,   /* const char *; NULL when there is no default and no value */
    CONFIG_PATH,     /* const char *, the same; relative paths in a file are relative to the file's folder */
    CONFIG_INT,      /* int64_t in [min, max] */
    CONFIG_DOUBLE,   /* double in [min, max] */
    CONFIG_BOOL,     /* bool */
    CONFIG_DURATION, /* int64_t ns in [min, max] */
    CONFIG_BYTES,    /* int64_t in [min, max] */
    CONFIG_ENUM,     /* int: index into choices */
    CONFIG_ADDRESS,  /* config_address_t */
    CONFIG_LIST, /* config_list_t: the flag may be repeated; a list in the file; commas in the environment */
} config_type_t;

typedef struct {
    const char *const *items;
    size_t len;
} config_list_t;

typedef struct {
    const char *name; /* snake_case */
    config_type_t type;
    const char *group; /* heading in --help; options of one group stand together */
    const char *help;
    const char *def;            /* default, as text; NULL: empty, 0, false, first choice */
    const char *const *choices; /* CONFIG_ENUM: NULL-terminated */
    const char *metavar;        /* what --help shows for the value; NULL: by type */
    int64_t min, max;           /* checked when min < max; both 0: unchecked */
    size_t offset;              /* of the field in the program's struct */
    bool required;              /* no default: a missing value is a usage error */
} config_option_t;

typedef struct {
    const char *program; /* "fermata-gateway" */
    const char *summary; /* one sentence for --help */
    const config_option_t *options;
    size_t options_len;
    const char *positionals; /* NULL: none are accepted; else their name in the usage line ("MODEL...") */
    const char *epilog;      /* printed after the options, or NULL */
} config_schema_t;

/* Points to the table of options and its texts: they are static in every program. */
typedef struct config config_t;

/* The two options that every program has; cfg_type has `int log_level` (a log_level_t) and `int
 * log_format` (a log_format_t). */
extern const char *const config_log_levels[];
extern const char *const config_log_formats[];
#define CONFIG_LOG_OPTIONS(cfg_type)                                                                  \
    {.name = "log_level",                                                                             \
     .type = CONFIG_ENUM,                                                                             \
     .group = "Logging",                                                                              \
     .help = "Least level that is logged.",                                                           \
     .def = "info",                                                                                   \
     .choices = config_log_levels,                                                                    \
     .offset = offsetof(cfg_type, log_level)},                                                        \
    {                                                                                                 \
        .name = "log_format", .type = CONFIG_ENUM, .group = "Logging", .help = "Form of a log line.", \
        .def = "text", .choices = config_log_formats, .offset = offsetof(cfg_type, log_format)        \
    }

/* What to do next. Texts for the user have been printed (help and version to stdout, mistakes to stderr). */
bool config_start(const config_schema_t *schema, int argc, char **argv, void *out, config_t **config,
                  int *exit_code);

/* Ends main: prints "program: reason" to stderr when st is not OK. */
int config_exit(const config_schema_t *schema, status_t st, const err_t *err);
/* The same for what is wrong with the options together, which no single one says; the config is destroyed. */
int config_misused(const config_schema_t *schema, config_t *config, const err_t *err);

/*
 * The pieces, for tests and for programs with sub-commands. argv[0] is skipped; env is a NULL-terminated list
 * of "NAME=value". On failure err has a text for the user (the file with line and column, the variable or the
 * flag) and out is untouched.
 */
typedef enum { CONFIG_READY, CONFIG_HELP, CONFIG_VERSION } config_wish_t;
status_t config_load(const config_schema_t *schema, int argc, char *const *argv, char *const *env, void *out,
                     config_t **config, config_wish_t *wish, err_t *err);
void config_destroy(config_t *config); /* frees every string that out points to; NULL is allowed */

const char *const *config_positionals(const config_t *config, size_t *len);

/* Where the value of an option came from: "default", "file", "environment", "flag". */
const char *config_source(const config_t *config, const char *name);

/* The help text, malloc'd; NULL when out of memory. */
char *config_help_text(const config_schema_t *schema);

#endif
