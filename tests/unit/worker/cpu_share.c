#include "worker/cpu_share.h"

#include "base/log.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

static cpus_t cpus(uint32_t allowed, uint32_t millis, uint32_t usable)
{
    return (cpus_t){.online = 8, .allowed = allowed, .usable = usable, .quota = {.millis = millis}};
}

Test(cpu_share, what_is_asked_for_is_given_and_else_what_there_is)
{
    static const struct {
        uint32_t usable, asked, devices, threads;
    } cases[] = {
        {8, 0, 1, 8}, {8, 0, 2, 4}, {8, 0, 3, 2}, {2, 0, 3, 1}, {1, 0, 1, 1},
        {8, 0, 0, 8}, {8, 3, 1, 3}, {1, 4, 1, 4}, {1, 4, 9, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cpus_t here = cpus(8, CPUS_NO_QUOTA, cases[i].usable);
        cr_expect_eq(cpu_share_threads(&here, cases[i].asked, cases[i].devices), cases[i].threads, "case %zu",
                     i);
    }
}

Test(cpu_share, what_devices_do_not_use_is_left_for_loads)
{
    cpus_t here = cpus(8, 6000, 6);

    cr_expect_eq(cpu_share_left(&here, 0), 6);
    cr_expect_eq(cpu_share_left(&here, 4), 2);
    cr_expect_eq(cpu_share_left(&here, 6), 0);
    cr_expect_eq(cpu_share_left(&here, UINT64_C(1) << 33), 0);
}

static void expect_log(cpus_t here, uint32_t devices, uint32_t streams, uint32_t threads, const char *wanted)
{
    char text[1024];

    cr_redirect_stderr();
    log_init("test", LOG_INFO, LOG_FORMAT_TEXT);
    cpu_share_tell(&here, devices, streams, threads);
    FILE *log = cr_get_redirected_stderr();
    fflush(stderr);
    size_t len = fread(text, 1, sizeof text - 1, log);
    text[len] = '\0';
    cr_expect_not_null(strstr(text, wanted), "'%s' lacks '%s'", text, wanted);
    cr_expect_eq(strstr(text, "WARN") == NULL, strstr(wanted, "cpus online") == wanted, "%s", text);
}

Test(cpu_share, one_line_tells_what_was_seen)
{
    expect_log(cpus(8, CPUS_NO_QUOTA, 8), 2, 1, 4,
               "cpus online=8 allowed=8 quota=none usable=8 threads=8 left=0\n");
}

Test(cpu_share, half_a_core_is_seen)
{
    expect_log(cpus(8, 500, 1), 1, 1, 1, "cpus online=8 allowed=8 quota=0.5 usable=1 threads=1 left=0\n");
}

Test(cpu_share, more_threads_than_the_quota_has_cpus_are_a_warning)
{
    expect_log(cpus(8, 500, 1), 1, 1, 2, "more_threads_than_cpus threads=2 usable=1 quota=0.5\n");
}

Test(cpu_share, streams_count)
{
    expect_log(cpus(2, CPUS_NO_QUOTA, 2), 1, 2, 2, "more_threads_than_cpus threads=4 usable=2 quota=none\n");
}

Test(cpu_share, a_file_that_cannot_be_read_is_named)
{
    cpus_t here = cpus(8, CPUS_NO_QUOTA, 8);
    strcpy(here.quota.unread, "/sys/fs/cgroup/cpu.max");
    expect_log(here, 1, 1, 1, "cpu_quota_not_read file=/sys/fs/cgroup/cpu.max\n");
}
