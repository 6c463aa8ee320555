/* fermata serve: becomes fermata-serve, which lies beside it. */
#include "fermata/command.h"

#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int run(int argc, char **argv)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof "-serve");

    (void)argc;
    if (len < 0) {
        fprintf(stderr, "fermata: cannot find out where the program is: %s\n", strerror(errno));
        return EXIT_CODE_FAILED;
    }
    strcpy(path + len, "-serve");
    argv[0] = path;
    execv(path, argv);
    fprintf(stderr, "fermata: cannot run %s: %s\n", path, strerror(errno));
    return EXIT_CODE_FAILED;
}

const command_t command_serve = {"serve", "serve the models of a folder with one process", run};
