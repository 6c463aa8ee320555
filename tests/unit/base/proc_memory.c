#include "base/proc_memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(proc_memory, of_this_process)
{
    enum { BYTES = 32 << 20 };
    uint64_t before = proc_resident_bytes();
    cr_assert_gt(before, 0);
    char *more = malloc(BYTES);
    cr_assert_not_null(more);
    memset(more, 1, BYTES);
    cr_expect_geq(proc_resident_bytes(), before + BYTES / 2);
    cr_expect_gt(proc_memory_bytes("/proc/self/status", "VmData"), BYTES);
    free(more);
}

Test(proc_memory, a_line_by_its_whole_name)
{
    cr_expect_gt(proc_memory_bytes("/proc/meminfo", "MemTotal"),
                 proc_memory_bytes("/proc/meminfo", "MemFree"));
    cr_expect_eq(proc_memory_bytes("/proc/meminfo", "Mem"), 0);
    cr_expect_eq(proc_memory_bytes("/nowhere", "MemTotal"), 0);
}
