#include "config/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *name;
    const char *models;
    int64_t threads;
    int64_t arena_bytes;
    int64_t timeout_ns;
    double ratio;
    bool verbose;
    int policy;
    config_address_t http_address;
    config_list_t tags;
    int log_level, log_format;
} cfg_t;

static const char *const policies[] = {"symphony", "eager", "timeout", NULL};
static const config_option_t options[] = {
    {"name", CONFIG_STRING, "Main", "Name.", .offset = offsetof(cfg_t, name)},
    {"models", CONFIG_PATH, "Main", "Models.", .def = "models", .offset = offsetof(cfg_t, models)},
    {"threads", CONFIG_INT, "Main", "Threads.", .def = "4", .min = 1, .max = 64,
     .offset = offsetof(cfg_t, threads)},
    {"arena_bytes", CONFIG_BYTES, "Main", "Arena.", .def = "64MiB", .min = 1 << 20, .max = INT64_MAX,
     .offset = offsetof(cfg_t, arena_bytes)},
    {"timeout", CONFIG_DURATION, "Main", "Time.", .def = "2s", .min = 1, .max = 60000000000,
     .offset = offsetof(cfg_t, timeout_ns)},
    {"ratio", CONFIG_DOUBLE, "Main", "Ratio.", .def = "0.5", .min = 0, .max = 1,
     .offset = offsetof(cfg_t, ratio)},
    {"verbose", CONFIG_BOOL, "Main", "Talk.", .offset = offsetof(cfg_t, verbose)},
    {"policy", CONFIG_ENUM, "Main", "Policy.", .def = "symphony", .choices = policies,
     .offset = offsetof(cfg_t, policy)},
    {"http_address", CONFIG_ADDRESS, "Main", "HTTP.", .def = "0.0.0.0:8000",
     .offset = offsetof(cfg_t, http_address)},
    {"tags", CONFIG_LIST, "Main", "Tags.", .def = "one", .offset = offsetof(cfg_t, tags)},
    CONFIG_LOG_OPTIONS(cfg_t),
};
static const config_schema_t schema = {.program = "fermata-test",
                                       .summary = "Tests.",
                                       .options = options,
                                       .options_len = sizeof options / sizeof *options};

static cfg_t cfg;
static config_t *config;
static err_t err;
static config_wish_t wish;
static char file_path[64];

static status_t load_schema(const config_schema_t *s, char **flags, char **env)
{
    char *argv[32] = {"fermata-test"};
    int argc = 1;
    for (; flags != NULL && flags[argc - 1] != NULL; argc++)
        argv[argc] = flags[argc - 1];
    cfg = (cfg_t){0};
    err = (err_t){0};
    config = NULL;
    return config_load(s, argc, argv, env, &cfg, &config, &wish, &err);
}

#define FLAGS(...) ((char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define ENV(...) ((char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void load_ok(char **flags, char **env)
{
    cr_assert_eq(load_schema(&schema, flags, env), STATUS_OK, "%s", err.text);
}

static const char *refusal(char **flags, char **env)
{
    cr_expect_eq(load_schema(&schema, flags, env), STATUS_INVALID_ARGUMENT);
    cr_expect_null(cfg.models, "the struct was written");
    return err.text;
}

/* Writes a file and returns "--config=FILE". */
static char *with_file(const char *text)
{
    static char flag[80];
    strcpy(file_path, "/tmp/fermata-config-XXXXXX");
    int fd = mkstemp(file_path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    snprintf(flag, sizeof flag, "--config=%s", file_path);
    return flag;
}

static void clean_up(void)
{
    config_destroy(config);
    if (file_path[0] != '\0')
        unlink(file_path);
}

TestSuite(config, .fini = clean_up);

Test(config, defaults)
{
    load_ok(NULL, NULL);
    cr_expect_null(cfg.name);
    cr_expect_str_eq(cfg.models, "models");
    cr_expect_eq(cfg.threads, 4);
    cr_expect_eq(cfg.arena_bytes, 64 << 20);
    cr_expect_eq(cfg.timeout_ns, 2000000000);
    cr_expect_eq(cfg.ratio, 0.5);
    cr_expect_not(cfg.verbose);
    cr_expect_eq(cfg.policy, 0);
    cr_expect_str_eq(cfg.http_address.host, "0.0.0.0");
    cr_expect_eq(cfg.tags.len, 1);
    cr_expect_eq(cfg.log_level, 1);
    cr_expect_str_eq(config_source(config, "threads"), "default");
    cr_expect_null(config_source(config, "nonsense"));
}

Test(config, flags_in_every_form)
{
    load_ok(FLAGS("--name", "n 1", "--threads=7", "--arena-bytes", "2MiB", "--timeout=5ms", "--verbose",
                  "--policy", "eager", "--http-address", ":0", "--tags", "a", "--tags=b,c", "--ratio=1",
                  "--log_level=debug"),
            NULL);
    cr_expect_str_eq(cfg.name, "n 1");
    cr_expect_eq(cfg.threads, 7);
    cr_expect_eq(cfg.arena_bytes, 2 << 20);
    cr_expect_eq(cfg.timeout_ns, 5000000);
    cr_expect(cfg.verbose);
    cr_expect_eq(cfg.policy, 1);
    cr_expect_eq(cfg.http_address.port, 0);
    cr_expect_eq(cfg.tags.len, 2);
    cr_expect_str_eq(cfg.tags.items[1], "b,c");
    cr_expect_eq(cfg.log_level, 0);
}

Test(config, the_last_flag_wins)
{
    load_ok(FLAGS("--verbose", "--no-verbose", "--threads", "1", "--threads", "2"), NULL);
    cr_expect_not(cfg.verbose);
    cr_expect_eq(cfg.threads, 2);
}

Test(config, flag_over_environment_over_file_over_default)
{
    char *file = with_file("threads: 10\npolicy: timeout\nratio: 0.25\ntags: [x, y, z]\nmodels: repo\n");
    load_ok(FLAGS(file, "--threads", "30"), ENV("FERMATA_THREADS=20", "FERMATA_POLICY=eager",
                                                "FERMATA_RATIO=", "OTHER=1", "FERMATA_UNKNOWN=1"));
    cr_expect_eq(cfg.threads, 30);
    cr_expect_str_eq(config_source(config, "threads"), "flag");
    cr_expect_eq(cfg.policy, 1);
    cr_expect_str_eq(config_source(config, "policy"), "environment");
    cr_expect_eq(cfg.ratio, 0.25, "an empty variable counts as not set");
    cr_expect_str_eq(config_source(config, "ratio"), "file");
    cr_expect_eq(cfg.tags.len, 3);
    cr_expect_str_eq(cfg.models, "/tmp/repo", "a path in a file is relative to the file");
}

Test(config, the_environment_names_the_file_and_lists_have_commas)
{
    char env_config[80];
    snprintf(env_config, sizeof env_config, "FERMATA_%s", with_file("threads: 9\ntags: []\n") + 2);
    memcpy(env_config + 8, "CONFIG", 6);
    load_ok(NULL, ENV(env_config));
    cr_expect_eq(cfg.threads, 9);
    cr_expect_eq(cfg.tags.len, 0, "an empty list is a value");
    config_destroy(config);
    load_ok(NULL, ENV("FERMATA_TAGS=a, b ,c"));
    cr_expect_eq(cfg.tags.len, 3);
    cr_expect_str_eq(cfg.tags.items[1], "b");
}

Test(config, bad_flags)
{
    cr_expect_str_eq(refusal(FLAGS("--treads", "1"), NULL),
                     "unknown flag --treads, did you mean --threads? (see --help)");
    cr_expect_str_eq(refusal(FLAGS("--zzz"), NULL), "unknown flag --zzz (see --help)");
    cr_expect_str_eq(refusal(FLAGS("-x"), NULL), "unknown flag -x (see --help)");
    cr_expect_str_eq(refusal(FLAGS("--no-threads"), NULL), "unknown flag --no-threads (see --help)");
    cr_expect_str_eq(refusal(FLAGS("--threads"), NULL), "flag --threads needs a value");
    cr_expect_str_eq(refusal(FLAGS("--config"), NULL), "flag --config needs a value");
    cr_expect_str_eq(refusal(FLAGS("--threads=0"), NULL), "flag --threads: 0 is not between 1 and 64");
    cr_expect_str_eq(refusal(FLAGS("--arena-bytes=1KiB"), NULL),
                     "flag --arena-bytes: 1KiB is less than 1MiB");
    cr_expect_str_eq(refusal(FLAGS("--timeout=2m"), NULL), "flag --timeout: 2m is not between 1ns and 1m");
    cr_expect_str_eq(refusal(FLAGS("--ratio=1.5"), NULL), "flag --ratio: 1.5 is not between 0 and 1");
    cr_expect_str_eq(refusal(FLAGS("--policy=best"), NULL),
                     "flag --policy: \"best\" is not one of symphony, eager, timeout");
    cr_expect_str_eq(refusal(FLAGS("--verbose=perhaps"), NULL),
                     "flag --verbose: \"perhaps\" is not true or false");
    cr_expect_str_eq(refusal(FLAGS("stray"), NULL), "unexpected argument \"stray\" (see --help)");
    cr_expect_str_eq(refusal(NULL, ENV("FERMATA_THREADS=x")),
                     "environment variable FERMATA_THREADS: \"x\" is not a whole number");
}

static const char *file_refusal(const char *text)
{
    const char *reason = refusal(FLAGS(with_file(text)), NULL);
    unlink(file_path);
    size_t len = strlen(file_path);
    return strncmp(reason, file_path, len) == 0 ? reason + len : reason;
}

Test(config, bad_files)
{
    cr_expect_str_eq(file_refusal("threads: 1\nthraeds: 2\n") + 0,
                     ":2:1: unknown key \"thraeds\", did you mean \"threads\"? (allowed: name, models, "
                     "threads, arena_bytes, "
                     "timeout, ratio, verbose, policy, http_address, tags, log_level, log_format)");
    cr_expect_str_eq(file_refusal("threads: many\n"), ":1:1: threads: \"many\" is not a whole number");
    cr_expect_str_eq(file_refusal("# c\n\npolicy: best\n"),
                     ":3:1: policy: \"best\" is not one of symphony, eager, timeout");
    cr_expect_str_eq(file_refusal("threads:\n"), ":1:1: threads: expected a single value, found nothing");
    cr_expect_str_eq(file_refusal("threads: {a: 1}\n"),
                     ":1:1: threads: expected a single value, found a map");
    cr_expect_str_eq(file_refusal("threads: 1\nthreads: 2\n"),
                     ":2:1: duplicate key \"threads\" (first in line 1)");
    cr_expect_str_eq(file_refusal("- a\n"), ":1:1: expected a map, found a list");
    cr_expect_eq(load_schema(&schema, FLAGS("--config=/nowhere.yaml"), NULL), STATUS_NOT_FOUND);
    cr_expect_str_eq(err.text, "/nowhere.yaml: No such file or directory");
}

Test(config, required_and_positional)
{
    static const config_option_t need[] = {{"scheduler", CONFIG_ADDRESS, "Main", "Where.", .required = true,
                                            .offset = offsetof(cfg_t, http_address)}};
    config_schema_t s = {
        .program = "p", .summary = "", .options = need, .options_len = 1, .positionals = "MODEL..."};
    size_t len;
    cr_expect_eq(load_schema(&s, NULL, NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(err.text,
                     "flag --scheduler is required (or FERMATA_SCHEDULER, or scheduler in the file)");
    cr_assert_eq(load_schema(&s, FLAGS("a", "--scheduler=h:1", "--", "--b"), NULL), STATUS_OK, "%s",
                 err.text);
    const char *const *names = config_positionals(config, &len);
    cr_expect_eq(len, 2);
    cr_expect_str_eq(names[0], "a");
    cr_expect_str_eq(names[1], "--b");
}

Test(config, a_wish_for_help_needs_no_valid_flags)
{
    load_ok(FLAGS("--threads=0", "--help"), NULL);
    cr_expect_eq(wish, CONFIG_HELP);
    config_destroy(config);
    load_ok(FLAGS("--version"), NULL);
    cr_expect_eq(wish, CONFIG_VERSION);
}
