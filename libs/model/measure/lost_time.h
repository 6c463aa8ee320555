/*
 * The time in which this process could have run and did not: its threads wait for a CPU that others have, or the host
 * behind a virtual machine gives theirs to another. What is measured meanwhile is longer than it would be, by that much.
 * What a system does not tell counts as nothing lost. Any thread; what the caller itself runs or waits does not count.
 */
#ifndef MODEL_LOST_TIME_H
#define MODEL_LOST_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Since some time in the past. */
typedef struct {
    int64_t ran_ns, waited_ns;         /* of the other threads that there are */
    uint64_t busy_ticks, stolen_ticks; /* of all CPUs of this machine */
} lost_time_t;

void lost_time_look(lost_time_t *now);

/* Of the time between two looks, in which it ran or could have: 0 = nothing was lost, to below 1. What is too short
 * to tell lost nothing. */
double lost_time_share(const lost_time_t *from, const lost_time_t *to);

/* The content of a thread's `schedstat`, "1035075617 523115 22\n": added to what there is. */
bool lost_time_add_thread(lost_time_t *now, const char *text);
/* The first line of /proc/stat, "cpu  956464 36298 …\n". */
bool lost_time_parse_stat(lost_time_t *now, const char *text);

#endif
