/*
 * fermata-plan-solver: makes one plan for a scheduler that keeps the solver at a distance
 * (plan/partition_apart.h). Not for people.
 */
#include "plan/partition_apart.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const struct rlimit none = {0};
    if (argc > 1 || isatty(STDIN_FILENO)) {
        fprintf(stderr, "%s: the scheduler starts this to plan; see fermata plan\n", argv[0]);
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* who would read the plan? */
    (void)setrlimit(RLIMIT_CORE, &none);    /* its crashes are known ones */
    return partition_apart_main(STDIN_FILENO, STDOUT_FILENO);
}
