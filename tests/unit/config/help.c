#include "config/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    int64_t timeout_ns;
    bool verbose;
    int policy;
    config_list_t tags;
} cfg_t;

static const char *const policies[] = {"symphony", "eager", NULL};
static const config_option_t options[] = {
    {"timeout", CONFIG_DURATION, "Limits",
     "How long to wait before giving up on an answer that may never come from the other side.", .def = "25ms",
     .offset = offsetof(cfg_t, timeout_ns)},
    {"policy", CONFIG_ENUM, "Scheduling", "Batching policy.", .choices = policies,
     .offset = offsetof(cfg_t, policy)},
    {"verbose", CONFIG_BOOL, "Limits", "Talk.", .offset = offsetof(cfg_t, verbose)},
    {"tags", CONFIG_LIST, "Scheduling", "Tags.", .metavar = "TAG", .required = true,
     .offset = offsetof(cfg_t, tags)},
};
static const config_schema_t schema = {.program = "fermata-x",
                                       .summary = "Does x.",
                                       .options = options,
                                       .options_len = 4,
                                       .positionals = "MODEL...",
                                       .epilog = "See also y."};

Test(help, is_made_from_the_table)
{
    char *text = config_help_text(&schema);
    cr_expect_str_eq(text,
                     "Usage: fermata-x [OPTION...] MODEL...\n"
                     "Does x.\n"
                     "\n"
                     "Limits:\n"
                     "  --timeout DURATION              How long to wait before giving up on an answer\n"
                     "                                  that may never come from the other side.\n"
                     "                                  (default 25ms; FERMATA_TIMEOUT)\n"
                     "  --[no-]verbose                  Talk. (FERMATA_VERBOSE)\n"
                     "\n"
                     "Scheduling:\n"
                     "  --policy WORD                   Batching policy. (symphony | eager;\n"
                     "                                  FERMATA_POLICY)\n"
                     "  --tags TAG                      Tags. (repeatable; required; FERMATA_TAGS)\n"
                     "\n"
                     "General:\n"
                     "  --config FILE                   YAML file with these options (keys with _ for\n"
                     "                                  -). (FERMATA_CONFIG)\n"
                     "  --help                          Show this and exit.\n"
                     "  --version                       Show the version and exit.\n"
                     "\n"
                     "See also y.\n"
                     "\n"
                     "A flag wins over its environment variable, that over the file, that over the\n"
                     "default.\n");
    free(text);
}

static bool start(const char *flag, int *exit_code)
{
    cfg_t cfg;
    config_t *config;
    char program[] = "fermata-x", *argv[] = {program, (char *)(uintptr_t)flag, NULL};
    bool go = config_start(&schema, 2, argv, &cfg, &config, exit_code);
    if (go)
        config_destroy(config);
    return go;
}

/* What fn prints to a standard stream. */
static const char *captured(FILE *stream, void (*fn)(void))
{
    static char text[1024];
    int ends[2], fd = fileno(stream), saved = dup(fd);
    cr_assert_eq(pipe(ends), 0);
    fflush(stream);
    dup2(ends[1], fd);
    fn();
    fflush(stream);
    dup2(saved, fd);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    close(saved);
    return text;
}

static void go_wrong(void)
{
    int code = -1;
    err_t err = {0};
    cr_expect(start("--tags=a", &code));
    cr_expect_not(start("--nonsense", &code));
    cr_expect_eq(code, 2);
    cr_expect_eq(config_exit(&schema, STATUS_OK, &err), 0);
    err_set(&err, STATUS_IO, "port 1 is taken");
    cr_expect_eq(config_exit(&schema, STATUS_IO, &err), 1);
    cr_expect_eq(config_exit(&schema, STATUS_IO, NULL), 1);
}

Test(help, exit_codes_and_reasons)
{
    cr_expect_str_eq(captured(stderr, go_wrong), "fermata-x: unknown flag --nonsense (see --help)\n"
                                                 "fermata-x: port 1 is taken\n"
                                                 "fermata-x: io\n");
}

static void ask_version(void)
{
    int code = -1;
    cr_expect_not(start("--version", &code));
    cr_expect_eq(code, 0);
}

Test(help, version_goes_to_stdout)
{
    cr_expect_str_eq(captured(stdout, ask_version), "fermata-x " FERMATA_VERSION "\n");
}
