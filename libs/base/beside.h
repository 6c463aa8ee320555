/* Files that are installed with the running program. */
#ifndef BASE_BESIDE_H
#define BASE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Where a file of that name is, or would be, in the folder that the running program lies in; name may lead elsewhere from there
 * ("../lib/x"). False: nobody knows, or the path is too long. Any thread. */
bool beside_program(const char *name, char *path, size_t bytes);

#endif
