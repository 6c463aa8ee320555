#include "gateway/regions/regions.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OBJECT_BYTES = 64 };

static metrics_t *metrics;
static regions_t *regions;
static err_t err;
static char key[64], path[80]; /* of an object that no other test of this host has */

static void make_object(mode_t mode)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cr_assert(fd >= 0);
    for (uint8_t i = 0; i < OBJECT_BYTES; i++)
        cr_assert_eq(write(fd, &i, 1), 1);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void setup(void)
{
    metrics = metrics_create("gateway", &err);
    cr_assert_eq(regions_create(metrics, &regions, &err), STATUS_OK);
    snprintf(key, sizeof key, "/fermata-test-%d-%lld", (int)getpid(), (long long)clock_now_ns());
    snprintf(path, sizeof path, "/dev/shm%s", key);
    make_object(0600);
}

static void teardown(void)
{
    unlink(path);
    regions_destroy(regions);
    metrics_destroy(metrics);
}

TestSuite(regions, .init = setup, .fini = teardown, .timeout = 120);

static status_t enter(const char *owner, const char *name, uint64_t offset_bytes, uint64_t len_bytes)
{
    return regions_register(regions, owner, &(oip_region_t){name, key, offset_bytes, len_bytes}, &err);
}

static void assert_refused(status_t status, const char *says)
{
    cr_assert_eq(status, STATUS_INVALID_ARGUMENT, "%s gave %s", says, status_name(status));
    cr_assert(strstr(err.text, says), "'%s' is not in '%s'", says, err.text);
}

static region_t *hold(const char *name, uint64_t offset_bytes, uint64_t len_bytes, bool to_write)
{
    region_t *region = NULL;
    regions_hold(regions, "", &(oip_memory_t){name, offset_bytes, len_bytes}, to_write, &region, &err);
    return region;
}

static int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static char listed[512];

static void on_each(const oip_region_t *region, void *arg)
{
    size_t len = strlen(listed);
    (void)arg;
    snprintf(listed + len, sizeof listed - len, "%s:%llu+%llu ", region->name,
             (unsigned long long)region->offset_bytes, (unsigned long long)region->len_bytes);
}

static const char *list(const char *owner, const char *name)
{
    listed[0] = '\0';
    return regions_list(regions, owner, name, on_each, NULL, &err) == STATUS_OK ? listed : err.text;
}

Test(regions, are_read_and_written_where_they_lie)
{
    const oip_memory_t part = {"r", 2, 4};
    uint8_t got[4];
    struct iovec pieces[] = {{(void *)"ab", 2}, {(void *)"c", 1}};
    cr_assert_eq(enter("", "r", 8, 16), STATUS_OK, "%s", err.text);
    region_t *region = hold("r", 2, 4, true);
    cr_assert_eq(region_read(region, &part, got, &err), STATUS_OK, "%s", err.text);
    cr_assert(memcmp(got, "\x0a\x0b\x0c\x0d", 4) == 0);
    cr_assert_eq(region_write(region, &part, pieces, 2, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(region_read(region, &part, got, &err), STATUS_OK);
    cr_assert(memcmp(got, "abc\x0d", 4) == 0, "an output shorter than its place leaves the rest");
    region_put(regions, region);
}

Test(regions, take_more_pieces_than_one_call_does)
{
    enum { PIECES = 3000 };
    static struct iovec pieces[PIECES];
    static uint8_t got[PIECES];
    const oip_memory_t part = {"r", 0, PIECES};
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){(void *)(i % 2 ? "y" : "x"), 1};
    cr_assert_eq(truncate(path, PIECES), 0);
    cr_assert_eq(enter("", "r", 0, PIECES), STATUS_OK);
    region_t *region = hold("r", 0, PIECES, true);
    cr_assert_eq(region_write(region, &part, pieces, PIECES, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(region_read(region, &part, got, &err), STATUS_OK);
    cr_assert(got[0] == 'x' && got[1023] == 'y' && got[1024] == 'x' && got[PIECES - 1] == 'y');
    region_put(regions, region);
}

Test(regions, are_listed_and_go)
{
    cr_assert_eq(enter("", "a", 0, 64), STATUS_OK);
    cr_assert_eq(enter("", "b", 8, 8), STATUS_OK);
    cr_assert_str_eq(list("", ""), "a:0+64 b:8+8 ");
    cr_assert_str_eq(list("", "b"), "b:8+8 ");
    cr_assert_str_eq(list("", "c"), "Unable to find system shared memory region: 'c'");
    assert_refused(enter("", "a", 0, 8), "shared memory region 'a' already in manager");
    regions_unregister(regions, "", "c");
    regions_unregister(regions, "", "a");
    cr_assert_str_eq(list("", ""), "b:8+8 ");
    cr_assert_eq(enter("", "a", 0, 8), STATUS_OK);
    regions_unregister(regions, "", "");
    cr_assert_str_eq(list("", ""), "");
}

Test(regions, of_another_key_are_not_there)
{
    region_t *region;
    const oip_memory_t part = {"r", 0, 8};
    cr_assert_eq(enter("anna", "r", 0, 64), STATUS_OK);
    cr_assert_eq(regions_hold(regions, "bert", &part, false, &region, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(list("bert", ""), "");
    cr_assert_eq(enter("bert", "r", 8, 8), STATUS_OK);
    regions_unregister(regions, "bert", "");
    cr_assert_str_eq(list("anna", ""), "r:0+64 ");
}

Test(regions, that_go_stay_for_who_holds_them)
{
    uint8_t got[8];
    int before = open_files();
    cr_assert_eq(enter("", "r", 0, 64), STATUS_OK);
    region_t *region = hold("r", 0, 8, true);
    regions_unregister(regions, "", "r");
    cr_assert_null(hold("r", 0, 8, true));
    cr_assert_eq(region_read(region, &(oip_memory_t){"r", 0, 8}, got, &err), STATUS_OK);
    cr_assert_eq(open_files(), before + 1);
    region_put(regions, region);
    cr_assert_eq(open_files(), before, "the last who holds it closes it");
}

Test(regions, that_become_shorter_are_told_of)
{
    uint8_t got[64];
    const oip_memory_t part = {"r", 0, 64};
    struct iovec piece = {got, 64};
    struct stat object;
    cr_assert_eq(enter("", "r", 0, 64), STATUS_OK);
    region_t *region = hold("r", 0, 64, true);
    cr_assert_eq(truncate(path, 32), 0);
    assert_refused(region_read(region, &part, got, &err), "has become shorter");
    assert_refused(region_write(region, &part, &piece, 1, &err), "has become shorter");
    cr_assert(stat(path, &object) == 0 && object.st_size == 32, "and are not made longer");
    region_put(regions, region);
}

Test(regions, have_an_end)
{
    static const struct {
        uint64_t offset_bytes, len_bytes;
    } beyond[] = {{0, 65}, {64, 1}, {1, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        assert_refused(enter("", "r", beyond[i].offset_bytes, beyond[i].len_bytes), "beyond the 64 bytes");
    assert_refused(enter("", "r", 0, 0), "byte_size of 0");
    cr_assert_eq(enter("", "r", 32, 32), STATUS_OK);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        cr_assert_null(hold("r", beyond[i].offset_bytes, beyond[i].len_bytes, false));
    cr_assert_null(hold("r", 32, 1, false), "the object goes on there, the region does not");
    cr_assert(strstr(err.text, "beyond the 32 of shared memory region 'r'"), "%s", err.text);
    region_t *region = hold("r", 0, 2, true);
    assert_refused(
        region_write(region, &(oip_memory_t){"r", 0, 2}, &(struct iovec){(void *)"abc", 3}, 1, &err),
        "3 bytes, more than the 2");
    region_put(regions, region);
}

Test(regions, have_keys_of_one_name)
{
    static const char *const bad[] = {"",     "/",    ".",   "..", "/.",           "/..",
                                      "//x",  "/x/y", "x/y", "x/", "/../dev/null", "../etc/passwd",
                                      "/\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const oip_region_t wanted = {"r", bad[i], 0, 8};
        assert_refused(regions_register(regions, "", &wanted, &err), "is no name of an object");
    }
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[299] = '\0';
    assert_refused(regions_register(regions, "", &(oip_region_t){"r", longest, 0, 8}, &err), "is no name");
    assert_refused(regions_register(regions, "", &(oip_region_t){longest, key, 0, 8}, &err),
                   "1 to 127 bytes");
    assert_refused(regions_register(regions, "", &(oip_region_t){"", key, 0, 8}, &err), "1 to 127 bytes");
    assert_refused(regions_register(regions, "", &(oip_region_t){"r", "/fermata-no-such", 0, 8}, &err),
                   "No such file");
    cr_assert_eq(regions_register(regions, "", &(oip_region_t){"r", key + 1, 0, 8}, &err), STATUS_OK,
                 "without the '/' as well");
}

Test(regions, are_of_plain_files)
{
    char other[100];
    snprintf(other, sizeof other, "%s-", path);
    char *name = strrchr(other, '/');
    const oip_region_t wanted = {"r", name, 0, 8};
    cr_assert_eq(mkfifo(other, 0600), 0);
    assert_refused(regions_register(regions, "", &wanted, &err), "is no shared memory object");
    unlink(other);
    cr_assert_eq(symlink(path, other), 0);
    assert_refused(regions_register(regions, "", &wanted, &err), "cannot open key");
    unlink(other);
    cr_assert_eq(mkdir(other, 0700), 0);
    assert_refused(regions_register(regions, "", &wanted, &err), "cannot open key");
    rmdir(other);
}

static void left_out(const char *why)
{
    fprintf(stderr, "left out: %s\n", why);
}

/* Whoever opens such a file is kept waiting for its owner, three quarters of a minute by default. */
Test(regions, whose_owner_has_a_lease_are_not_waited_for)
{
    int64_t begin_ns = clock_now_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
        close(fd);
        left_out("no leases here");
        return;
    }
    fcntl(fd, F_SETSIG, SIGCONT);
    assert_refused(enter("", "r", 0, 8), "cannot open key");
    cr_assert(clock_now_ns() - begin_ns < 30 * NS_PER_S);
    close(fd);
}

/* As who may open everything; another user's tests would see only what the kernel refuses. */
Test(regions, are_what_everybody_may_open)
{
    uint8_t got[8];
    if (geteuid() != 0) {
        left_out("only the superuser can give a file away");
        return;
    }
    cr_assert_eq(chown(path, 12345, 12345), 0);
    assert_refused(enter("", "r", 0, 8), "nor readable by everybody");
    cr_assert_eq(chmod(path, 0604), 0);
    cr_assert_eq(enter("", "r", 0, 8), STATUS_OK, "%s", err.text);
    cr_assert_null(hold("r", 0, 8, true));
    cr_assert(strstr(err.text, "cannot be written to"), "%s", err.text);
    region_t *region = hold("r", 0, 8, false);
    cr_assert_eq(region_read(region, &(oip_memory_t){"r", 0, 8}, got, &err), STATUS_OK);
    region_put(regions, region);
    cr_assert_eq(chmod(path, 0606), 0);
    cr_assert_eq(enter("", "w", 0, 8), STATUS_OK);
    region = hold("w", 0, 8, true);
    cr_assert_not_null(region, "%s", err.text);
    region_put(regions, region);
}

Test(regions, beyond_the_limit_of_files_are_not_written)
{
    const struct rlimit limit = {32, 32};
    cr_assert_eq(enter("", "before", 0, 64), STATUS_OK);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(enter("", "long", 0, 64), STATUS_OK);
    cr_assert_eq(enter("", "short", 0, 32), STATUS_OK);
    cr_assert_null(hold("long", 0, 8, true));
    region_t *region = hold("short", 0, 8, true);
    cr_assert_not_null(region);
    region_put(regions, region);
}

Test(regions, have_bounds)
{
    char name[16];
    for (int i = 0; i < REGIONS_OF_ONE_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        cr_assert_eq(enter("anna", name, 0, 8), STATUS_OK, "%s", err.text);
    }
    cr_assert_eq(enter("anna", "more", 0, 8), STATUS_LIMITED);
    for (int i = REGIONS_OF_ONE_MAX; i < REGIONS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        cr_assert_eq(enter("", name, 0, 8), STATUS_OK, "%s", err.text);
    }
    int before = open_files();
    cr_assert_eq(enter("", "more", 0, 8), STATUS_UNAVAILABLE);
    cr_assert_eq(open_files(), before);
    regions_unregister(regions, "anna", "7");
    cr_assert_eq(enter("", "more", 0, 8), STATUS_OK);
}

Test(regions, are_for_this_host)
{
    static const char *const near[] = {"127.0.0.1:1", "127.9.9.9:65535", "[::1]:7", "[::ffff:127.0.0.1]:7"};
    static const char *const far[] = {"",        "128.0.0.1:1",         "12.7.0.1:1",  "192.168.1.2:1",
                                      "[::]:1",  "[::ffff:10.0.0.1]:1", "[fe80::1]:1", "[::127.0.0.1]:1",
                                      "unknown", "unix:/run/somewhere"};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        cr_assert_eq(regions_check_peer(regions, near[i], &err), STATUS_OK, "%s", near[i]);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        cr_assert_eq(regions_check_peer(regions, far[i], &err), STATUS_PERMISSION_DENIED, "%s", far[i]);
    cr_assert_eq(regions_check_peer(NULL, "127.0.0.1:1", &err), STATUS_UNSUPPORTED);
    cr_assert(strstr(err.text, "--client-shared-memory"), "%s", err.text);
}
