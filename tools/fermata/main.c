/* fermata: one front for everything that is done from a terminal. */
#include "config/config.h"
#include "config/suggest.h"
#include "fermata/command.h"

#include <stdio.h>
#include <string.h>

extern const command_t command_serve, command_up, command_model, command_cluster, command_plan,
    command_profile, command_key, command_cert, command_child_exec;
static const command_t command_version, command_help;

static const command_t *const commands[] =
    {
        &command_serve,   &command_up,      &command_model,      &command_cluster,
        &command_plan,    &command_profile, &command_key,        &command_cert,
        &command_version, &command_help,    &command_child_exec, /* how `up` starts a child */
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const command_t *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static int no_such_command(const char *name)
{
    const char *names[COMMANDS + 1] = {0};
    int count = 0;

    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->summary)
            names[count++] = commands[i]->name;
    const char *meant = suggest_name(name, names);
    fprintf(stderr, "fermata: unknown command %.80s%s%s%s (see fermata --help)\n", name,
            meant ? ", did you mean " : "", meant ? meant : "", meant ? "?" : "");
    return EXIT_CODE_USAGE;
}

static int show_all(void)
{
    printf("Usage: fermata COMMAND [OPTION...]\n"
           "Serve DNN models under latency objectives.\n\n"
           "Commands:\n");
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->summary)
            printf("  %-10s%s\n", commands[i]->name, commands[i]->summary);
    printf("\n`fermata help COMMAND` shows the options of a command.\n"
           "The services are programs of their own: fermata-gateway, fermata-scheduler,\n"
           "fermata-worker.\n");
    return EXIT_CODE_OK;
}

/* Of one command what it says of itself. */
static int help(int argc, char **argv)
{
    const command_t *command = argc > 1 ? find_command(argv[1]) : NULL;
    char option[] = "--help", *asked[] = {argc > 1 ? argv[1] : NULL, option, NULL};

    if (argc < 2 || command == &command_help || command == &command_version)
        return show_all();
    return command ? command->run(2, asked) : no_such_command(argv[1]);
}

static const command_t command_help = {"help", "show this, or the options of a command", help};

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("fermata %s\n", FERMATA_VERSION);
    return EXIT_CODE_OK;
}

static const command_t command_version = {"version", "show the version", version};

static int no_command(void)
{
    fprintf(stderr, "fermata: a command is missing:");
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->summary)
            fprintf(stderr, " %s", commands[i]->name);
    fprintf(stderr, " (see fermata --help)\n");
    return EXIT_CODE_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return no_command();
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const command_t *command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : no_such_command(argv[1]);
}
