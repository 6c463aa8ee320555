#include "transfer/ucx/hardware.h"

#include <dirent.h>
#include <stddef.h>

bool ucx_has_hardware(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool found = false;

    while (devices && (entry = readdir(devices)))
        found = found || entry->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return found;
}
