#include "base/beside.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool beside_program(const char *name, char *path, size_t bytes)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len <= 0)
        return false;
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    int got = snprintf(path, bytes, "%s%s", self, name);
    return got > 0 && (size_t)got < bytes;
}
