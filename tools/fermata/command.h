/*
 * The sub-commands of `fermata`. Each is one row, which stands at the end of its own file and in the list of main.c; help,
 * `fermata help NAME` and what is said of an unknown one come from there.
 */
#ifndef FERMATA_COMMAND_H
#define FERMATA_COMMAND_H

typedef struct {
    const char *name;
    const char *summary; /* NULL: not shown */
    /* argv[0] = the name; returns the exit code of the program. With --help it shows its options. */
    int (*run)(int argc, char **argv);
} command_t;

#endif
