/* What the kernel tells in /proc of memory. Any thread; opens a file each time. */
#ifndef BASE_PROC_MEMORY_H
#define BASE_PROC_MEMORY_H

#include <stdint.h>

/* Of this process. 0: nobody knows. */
uint64_t proc_resident_bytes(void);

/* A line "NAME:  123 kB" of /proc/meminfo, /proc/self/status, … 0: there is none. */
uint64_t proc_memory_bytes(const char *path, const char *name);

#endif
