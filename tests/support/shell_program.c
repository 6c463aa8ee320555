#include "shell_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[] = "/tmp/program-XXXXXX";

const char *shell_program(const char *words)
{
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");

    fprintf(file, "#!/bin/sh\n%s\n", words);
    fclose(file);
    chmod(path, 0700);
    return path;
}

void shell_program_remove(void)
{
    unlink(path);
}
