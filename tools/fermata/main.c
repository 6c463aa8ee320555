/* fermata: one front for everything that is done from a terminal. */
#include "config/config.h"
#include "fermata/command.h"

#include <stdio.h>
#include <string.h>

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const command_t commands[] = {
    {"up", "start a scheduler, gateways and workers on this machine", command_up},
    {"model", "list, show, load and unload models through a gateway", command_model},
    {"cluster", "show the scheduler's cluster, set its policy, drain workers", command_cluster},
    {"plan", "plan which models share which GPUs", command_plan},
    {"profile", "measure how long batches of a model take", command_profile},
    {"version", "show the version", command_version},
    {"help", "show this", command_help},
    {"child-exec", NULL, command_child_exec},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int command_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("Usage: fermata COMMAND [OPTION...]\n"
           "Serve DNN models under latency objectives.\n\n"
           "Commands:\n");
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].summary != NULL)
            printf("  %-10s%s\n", commands[i].name, commands[i].summary);
    printf("\n`fermata COMMAND --help` shows the options of a command.\n"
           "The services are programs of their own: fermata-gateway, fermata-scheduler, fermata-worker.\n");
    return EXIT_CODE_OK;
}

static int command_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("fermata %s\n", FERMATA_VERSION);
    return EXIT_CODE_OK;
}

static const command_t *find_command(const char *name)
{
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr,
                "fermata: a command is missing: up, model, cluster, plan, profile, version or help (see "
                "fermata --help)\n");
        return EXIT_CODE_USAGE;
    }
    const command_t *command = find_command(argv[1]);
    if (command == NULL) {
        fprintf(stderr, "fermata: unknown command %.80s (see fermata --help)\n", argv[1]);
        return EXIT_CODE_USAGE;
    }
    return command->run(argc - 1, argv + 1);
}
