/*
 * The threads on which oneDNN computes, in place of libgomp's. Debian's oneDNN runs its loops by OpenMP, of which it calls six
 * functions; they are defined here, and the loader takes a program's own before a library's.
 *
 * Why not libgomp: whoever of its threads is done spins for the others, up to 14 ms and at each of a network's fifty loops. When
 * one of them has lost its CPU to other work the rest keep theirs busy with waiting, so it gets none, and a network of 20 ms takes
 * 450. Told to sleep at once (OMP_WAIT_POLICY=passive), a network of small loops takes three times as long as it needs on a quiet
 * host. And its variables are read before main. Here
 *   - a part that its thread has not begun is taken by whoever is done: only what has been begun is waited for;
 *   - waiting is spinning for 50 µs, then sleeping.
 *
 *   caller   post ─▶ part 0 ─▶ parts nobody has begun ─▶ wait until none is left ─▶ returns
 *   thread t        wait ─▶ part t, unless taken ─▶ parts nobody has begun ─▶ wait
 *
 * Each thread that calls oneDNN has a team of its own, made when it first needs one, with its affinity, and ended with it. All
 * parts of a loop can be under way at a time, as each has a thread, so they may wait for each other (GOMP_barrier).
 *
 * OMP_WAIT_POLICY and GOMP_SPINCOUNT, where a user sets them, are heeded as libgomp would; the rest of OpenMP's are not.
 */
#ifndef ENGINE_ONEDNN_RUN_TEAM_H
#define ENGINE_ONEDNN_RUN_TEAM_H

#include <stdbool.h>
#include <stdint.h>

/* As what oneDNN knows by these names. Of the calling thread: into how many parts its loops are divided; 1 when never set. */
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);

/* Loops in more than one part that this process has run on teams: what a test sees that these are really used. */
uint64_t team_loops(void);

/* Rounds of spinning by the variables of OpenMP (either may be NULL); -1: neither says, and the 50 µs hold. */
int64_t team_spin_rounds(const char *wait_policy, const char *spin_count);

#endif
