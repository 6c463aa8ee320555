/*
 * CBC in a process of its own, for programs that must not fall with it: CBC 2.10 is known to crash where its
 * time ends at the wrong moment, and whatever it does to memory it does there. The problem goes over a pipe
 * to a solver program, the plan comes back over another; both ends are of one build, on one host, so that
 * structures travel as they are.
 *
 * Blocking, for a thread that may wait: at most problem->seconds and a second, then the solver is killed.
 */
#ifndef PLAN_PARTITION_APART_H
#define PLAN_PARTITION_APART_H

#include "plan/partition.h"

/* As partition_milp, in a process started from this program (a path), whose main is partition_apart_main.
 * What it answers is checked before it is believed. Beside partition_milp's: NOT_FOUND: no such program;
 * IO: it ended without an answer; DEADLINE_EXCEEDED: it gave none in time; INTERNAL: its plan breaks a
 * bound, or it is of another build. */
status_t partition_milp_apart(const char *program, const partition_problem_t *problem,
                              const partition_t *start, partition_t *plan, err_t *err);

/* What that program does: reads a problem from in, solves it and writes the plan to out. Returns its exit code. */
int partition_apart_main(int in, int out);

#endif
