#include "base/proc_memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t proc_resident_bytes(void)
{
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*u %llu", &resident) != 1)
        resident = 0;
    if (file)
        fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t proc_memory_bytes(const char *path, const char *name)
{
    unsigned long long kib = 0;
    size_t len = strlen(name);
    char line[128];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, len) == 0 && line[len] == ':' && sscanf(line + len + 1, "%llu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (uint64_t)kib << 10;
}
