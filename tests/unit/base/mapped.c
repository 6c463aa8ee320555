/* Files that change while they are mapped, by us and by a library. */
#include "base/mapped.h"

#include "base/file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 5 };

static char folder[] = "/tmp/fermata-mapped-XXXXXX", path[64], other[64];
static size_t page, len_bytes;

static void put(const char *name, int with)
{
    char *text = malloc(len_bytes);
    memset(text, with, len_bytes);
    cr_assert_eq(file_write(name, FILE_REPLACE, 0644, text, len_bytes, NULL), STATUS_OK);
    free(text);
}

static void make_folder(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    len_bytes = PAGES * page;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/it", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    put(path, 'a');
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(mapped, .init = make_folder, .fini = remove_folder, .timeout = 120);

static void expect_all(const uint8_t *bytes, size_t from, size_t to, int value)
{
    for (size_t i = from; i < to; i++)
        cr_assert_eq(bytes[i], value, "byte %zu is %d", i, bytes[i]);
}

Test(mapped, is_the_file_as_it_lies_on_disk)
{
    mapped_t m;
    err_t err;
    cr_assert_eq(mapped_open(path, &m, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(m.len_bytes, len_bytes);
    expect_all(m.bytes, 0, len_bytes, 'a');
    cr_expect_eq(mapped_check(&m.about, path, &err), STATUS_OK, "%s", err.text);
    mapped_close(&m);
}

Test(mapped, what_is_empty_or_none_or_no_file_is_refused)
{
    mapped_t m;
    err_t err;
    cr_assert_eq(truncate(path, 0), 0);
    cr_expect_eq(mapped_open(path, &m, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "is empty"), "%s", err.text);
    cr_expect_eq(mapped_open(other, &m, &err), STATUS_NOT_FOUND);
    cr_assert_eq(mkfifo(other, 0600), 0);
    cr_expect_eq(mapped_open(other, &m, &err), STATUS_INVALID_ARGUMENT);
}

Test(mapped, a_file_that_is_cut_short_reads_as_zeros_and_is_told)
{
    mapped_t m;
    err_t err;
    cr_assert_eq(mapped_open(path, &m, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(truncate(path, (off_t)page), 0);
    expect_all(m.bytes, 0, page, 'a');
    expect_all(m.bytes, page, len_bytes, 0);
    cr_expect_eq(mapped_check(&m.about, path, &err), STATUS_IO);
    cr_expect(strstr(err.text, "was changed while it was read"), "%s", err.text);
    mapped_close(&m);
}

Test(mapped, a_file_that_was_put_in_its_place_is_told)
{
    mapped_t m;
    err_t err;
    cr_assert_eq(mapped_open(path, &m, &err), STATUS_OK, "%s", err.text);
    put(path, 'a');
    cr_expect_eq(mapped_check(&m.about, path, &err), STATUS_IO);
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(mapped_check(&m.about, path, &err), STATUS_IO);
    mapped_close(&m);
}

/* As a library has it. */
static uint8_t *map(const char *name, int flags, int protection)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    uint8_t *at = mmap(NULL, len_bytes, protection, flags, fd, 0);
    close(fd);
    cr_assert_neq(at, MAP_FAILED);
    return at;
}

Test(mapped, what_a_library_keeps_is_no_file_any_more)
{
    mapped_watch_t watch;
    err_t err;
    mapped_begin(&watch);
    uint8_t *at = map(path, MAP_PRIVATE, PROT_READ), *to = map(path, MAP_PRIVATE, PROT_READ | PROT_WRITE);
    to[0] = 'b'; /* a page of its own already */
    cr_assert_eq(mapped_end(&watch, folder, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(truncate(path, 0), 0);
    expect_all(at, 0, len_bytes, 'a');
    expect_all(to, 1, len_bytes, 'a');
    to[1] = 'c';
    cr_expect(to[0] == 'b' && to[1] == 'c');
    cr_expect_eq(munmap(at, len_bytes), 0);
    cr_expect_eq(munmap(to, len_bytes), 0);
}

Test(mapped, files_of_other_folders_are_left_alone)
{
    mapped_watch_t watch;
    err_t err;
    char beside[80];
    snprintf(beside, sizeof beside, "%s-beside", folder);
    cr_assert_eq(mkdir(beside, 0700), 0);
    snprintf(beside, sizeof beside, "%s-beside/it", folder);
    put(beside, 'a');
    mapped_begin(&watch);
    uint8_t *at = map(beside, MAP_PRIVATE, PROT_READ);
    cr_assert_eq(mapped_end(&watch, folder, &err), STATUS_OK, "%s", err.text);
    int fd = open(beside, O_WRONLY | O_CLOEXEC);
    cr_assert_eq(pwrite(fd, "z", 1, 0), 1);
    close(fd);
    cr_expect_eq(at[0], 'z', "it is the file still");
    cr_expect_eq(munmap(at, len_bytes), 0);
    snprintf(beside, sizeof beside, "rm -rf %s-beside", folder);
    cr_expect_eq(system(beside), 0);
}

Test(mapped, a_file_that_a_library_loses_meanwhile_is_told)
{
    mapped_watch_t watch;
    err_t err;
    mapped_begin(&watch);
    uint8_t *at = map(path, MAP_PRIVATE, PROT_READ);
    cr_assert_eq(truncate(path, (off_t)page), 0);
    cr_expect_eq(at[2 * page], 0);
    cr_expect_eq(mapped_end(&watch, folder, &err), STATUS_IO);
    cr_expect(strstr(err.text, "cut short while it was read"), "%s", err.text);
    expect_all(at, 0, page, 'a');
    cr_expect_eq(munmap(at, len_bytes), 0);
}

/* Nobody watches: as without any of this. */
Test(mapped, at_any_other_time_the_signal_kills)
{
    mapped_t m;
    int how;
    cr_assert_eq(mapped_open(path, &m, NULL), STATUS_OK);
    mapped_close(&m);
    uint8_t *at = map(path, MAP_PRIVATE, PROT_READ);
    cr_assert_eq(truncate(path, 0), 0);
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO); /* a sanitizer's report */
        _exit(*(volatile uint8_t *)at);
    }
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_expect(WIFSIGNALED(how) || WEXITSTATUS(how) > 0, "%d", how);
    cr_expect_eq(munmap(at, len_bytes), 0);
}
