/* The sub-commands of `fermata`. Each gets argv[0] = "fermata NAME" and returns the exit code of the program. */
#ifndef FERMATA_COMMAND_H
#define FERMATA_COMMAND_H

typedef struct {
    const char *name;
    const char *summary; /* NULL: not shown */
    int (*run)(int argc, char **argv);
} command_t;

int command_up(int argc, char **argv);
int command_model(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_profile(int argc, char **argv);
int command_cluster(int argc, char **argv);

/* Hidden: how `up` starts a child that cannot outlive it (child_exec.c). */
int command_child_exec(int argc, char **argv);

#endif
