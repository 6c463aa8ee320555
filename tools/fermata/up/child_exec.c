/*
 * fermata child-exec PARENT PROGRAM [WORD...]: becomes PROGRAM, in a process group of its own, so that Ctrl-C
 * reaches only `fermata up`, and with the kernel's promise to kill it when the thread that started it ends:
 * whatever happens to `fermata up`, nothing is left behind.
 */
#include "fermata/command.h"

#include "config/config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int run(int argc, char **argv)
{
    if (argc < 3)
        return EXIT_CODE_USAGE;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atoi(argv[1])) /* it died before the promise was made */
        return EXIT_CODE_FAILED;
    setpgid(0, 0);
    unsetenv("FERMATA_CONFIG"); /* the file of `fermata up`, not the service's */
    execv(argv[2], argv + 2);
    fprintf(stderr, "fermata: cannot run %s: %s\n", argv[2], strerror(errno));
    return EXIT_CODE_FAILED;
}

const command_t command_child_exec = {"child-exec", NULL, run};
