#include "base/cpus.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 256 };

static char root[PATH_BYTES];

static void make_root(void)
{
    snprintf(root, sizeof root, "/tmp/cpus-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void)
{
    char command[PATH_BYTES + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(cpus, .init = make_root, .fini = remove_root);

/* With the folders that its name has, below the root. */
static void file(const char *name, const char *text)
{
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(path, 0755);
    }
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f, "%s", path);
    fputs(text, f);
    fclose(f);
}

static cpus_quota_t quota_of(const char *groups)
{
    char path[PATH_BYTES + 16];
    cpus_quota_t quota;
    file("groups", groups);
    snprintf(path, sizeof path, "%s/groups", root);
    cpus_read_quota(path, root, &quota);
    return quota;
}

static void expect(const char *groups, uint32_t millis, const char *unread)
{
    cpus_quota_t quota = quota_of(groups);
    cr_expect_eq(quota.millis, millis, "%u instead of %u", quota.millis, millis);
    cr_expect_eq(!*quota.unread, !*unread, "'%s' instead of '%s'", quota.unread, unread);
    cr_expect(strstr(quota.unread, unread), "'%s' instead of '%s'", quota.unread, unread);
}

/* ---- the text ---- */

Test(cpus, cpu_max_is_read_whole_or_not_at_all)
{
    static const struct {
        const char *text;
        uint32_t millis; /* 0: refused */
    } cases[] = {
        {"max 100000\n", CPUS_NO_QUOTA},
        {"50000 100000\n", 500},
        {"100000 100000\n", 1000},
        {"150000 100000\n", 1500},
        {"1000 1000000\n", 1},
        {"1 1000000\n", 1},
        {"5000000000 1000\n", CPUS_NO_QUOTA},
        {"", 0},
        {"\n", 0},
        {"max", 0},
        {"max\n", 0},
        {"max ", 0},
        {"max 100000", 0},
        {"maximum 100000\n", 0},
        {"5", 0},
        {"50000", 0},
        {"50000 ", 0},
        {"50000 1000", 0},
        {"50000 100000", 0},
        {"50000\n", 0},
        {"0 100000\n", 0},
        {"50000 0\n", 0},
        {"50000 999\n", 0},
        {"50000 1000001\n", 0},
        {"-1 100000\n", 0},
        {"+5 100000\n", 0},
        {"50000  100000\n", 0},
        {" 50000 100000\n", 0},
        {"0x10 100000\n", 0},
        {"5e4 100000\n", 0},
        {"50000 100000 7\n", 0},
        {"50000 100000\n\n", 0},
        {"99999999999999999999999 100000\n", 0},
        {"garbage", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t millis = 7;
        bool good = cpus_parse_max(cases[i].text, &millis);
        cr_expect_eq(good, cases[i].millis != 0, "'%s'", cases[i].text);
        cr_expect_eq(millis, good ? cases[i].millis : 7, "'%s': %u", cases[i].text, millis);
    }
}

Test(cpus, quotas_of_version_1_are_two_files)
{
    static const struct {
        const char *quota, *period;
        uint32_t millis;
    } cases[] = {
        {"-1\n", "100000\n", CPUS_NO_QUOTA},
        {"50000\n", "100000\n", 500},
        {"25000\n", "10000\n", 2500},
        {"50000", "100000\n", 0},
        {"50000\n", "100000", 0},
        {"-1", "100000\n", 0},
        {"-2\n", "100000\n", 0},
        {"0\n", "100000\n", 0},
        {"50000\n", "", 0},
        {"", "100000\n", 0},
        {"max\n", "100000\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t millis = 7;
        bool good = cpus_parse_cfs(cases[i].quota, cases[i].period, &millis);
        cr_expect_eq(good, cases[i].millis != 0, "case %zu", i);
        cr_expect_eq(millis, good ? cases[i].millis : 7, "case %zu: %u", i, millis);
    }
}

/* ---- the files ---- */

Test(cpus, without_files_there_is_no_quota)
{
    cpus_quota_t quota;
    cpus_read_quota("/nowhere/cgroup", "/nowhere", &quota);
    cr_expect_eq(quota.millis, CPUS_NO_QUOTA);
    cr_expect_str_eq(quota.unread, "");
    expect("0::/\n", CPUS_NO_QUOTA, "");
    expect("0::/a/b\n", CPUS_NO_QUOTA, "");
    expect("", CPUS_NO_QUOTA, "");
    expect("garbage\n:\n::\n0::\n0::a\n", CPUS_NO_QUOTA, "");
}

Test(cpus, the_least_of_the_group_and_those_above_it_holds)
{
    file("a/b/cpu.max", "200000 100000\n");
    expect("0::/a/b\n", 2000, "");
    file("a/cpu.max", "max 100000\n");
    expect("0::/a/b\n", 2000, "");
    file("a/cpu.max", "400000 100000\n");
    expect("0::/a/b\n", 2000, "");
    file("a/cpu.max", "50000 100000\n");
    expect("0::/a/b\n", 500, "");
    file("cpu.max", "30000 100000\n");
    expect("0::/a/b\n", 300, "");
    expect("0::/\n", 300, "");
    file("other/cpu.max", "1000 100000\n");
    expect("0::/a/b\n", 300, "");
}

/* Of a container whose mount shows its own group as the root. */
Test(cpus, folders_that_are_not_there_are_passed_over)
{
    file("cpu.max", "50000 100000\n");
    expect("0::/system.slice/docker-0123.scope\n", 500, "");
}

/* What is told of a process outside of what is mounted. */
Test(cpus, a_path_that_leads_outside_is_not_followed)
{
    file("cpu.max", "50000 100000\n");
    file("a/cpu.max", "1000 100000\n");
    file("b/cpu.max", "1000 100000\n");
    expect("0::/a/../b\n", 500, "");
    expect("0::/..\n", 500, "");
}

Test(cpus, what_cannot_be_read_limits_nothing_and_is_named)
{
    file("a/cpu.max", "garbage\n");
    expect("0::/a\n", CPUS_NO_QUOTA, "/a/cpu.max");
    file("a/cpu.max", "50000 1000");
    expect("0::/a\n", CPUS_NO_QUOTA, "/a/cpu.max");
    file("a/cpu.max", "");
    file("cpu.max", "150000 100000\n");
    expect("0::/a\n", 1500, "/a/cpu.max");
}

Test(cpus, version_1_is_looked_for_where_its_controller_is_mounted)
{
    static const char groups[] = "7:cpuset:/x\n4:cpu,cpuacct:/x\n2:cpuacct:/y\n0::/z\n";
    file("cpuset/x/cpu.cfs_quota_us", "1000\n");
    file("cpuset/x/cpu.cfs_period_us", "100000\n");
    file("cpuacct/y/cpu.cfs_quota_us", "1000\n");
    file("cpuacct/y/cpu.cfs_period_us", "100000\n");
    expect(groups, CPUS_NO_QUOTA, "");
    file("cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n");
    expect(groups, CPUS_NO_QUOTA, "cpu,cpuacct/x/cpu.cfs_quota_us");
    file("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    expect(groups, 500, "");
    file("cpu/x/cpu.cfs_quota_us", "20000\n");
    file("cpu/x/cpu.cfs_period_us", "100000\n");
    expect(groups, 200, "");
    file("unified/z/cpu.max", "10000 100000\n");
    expect(groups, 100, "");
}

/* ---- here ---- */

Test(cpus, those_here_are_those_on_which_this_thread_may_run)
{
    int list[64];
    cpus_t cpus;
    cpu_set_t set;
    uint32_t count = cpus_allowed(list, 64);
    cr_assert_gt(count, 0);
    CPU_ZERO(&set);
    CPU_SET((size_t)list[count - 1], &set);
    cr_assert_eq(sched_setaffinity(0, sizeof set, &set), 0);
    cpus_look(&cpus);
    cr_expect_eq(cpus.allowed, 1);
    cr_expect_eq(cpus.usable, 1);
    cr_expect_geq(cpus.online, 1);
    int only = -1;
    cr_expect_eq(cpus_allowed(&only, 1), 1);
    cr_expect_eq(only, list[count - 1]);
}
