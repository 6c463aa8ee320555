/* Files that somebody else may have put there: what is read of them, and what is not written through. */
#include "base/file.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ENOUGH = 1 << 12 };

static char folder[] = "/tmp/fermata-files-XXXXXX", path[64], other[64];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/it", folder);
    snprintf(other, sizeof other, "%s/other", folder);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

/* A reader who waits for a FIFO's writer waits for ever. */
TestSuite(file, .init = make_folder, .fini = remove_folder, .timeout = 120);

static void put(const char *name, const char *text)
{
    cr_assert_eq(file_write(name, FILE_REPLACE, 0644, text, strlen(text), NULL), STATUS_OK);
}

static void expect_text(const char *name, const char *expected)
{
    char *text;
    size_t len;
    err_t err;
    cr_assert_eq(file_read(name, ENOUGH, &text, &len, &err), STATUS_OK, "%s", err.text);
    cr_expect_str_eq(text, expected);
    cr_expect_eq(len, strlen(expected));
    free(text);
}

static unsigned names_in_folder(void)
{
    DIR *dir = opendir(folder);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* ---- reading ---- */

static void refused(const char *name, status_t expected, const char *what)
{
    err_t err;
    char reason[160], *text;
    size_t len;
    int fd;
    FILE *stream;
    snprintf(reason, sizeof reason, "%s: %s", name, what);
    cr_expect_eq(file_open(name, &fd, &err), expected);
    cr_expect_str_eq(err.text, reason);
    cr_expect_eq(file_check(name, NULL), expected);
    cr_expect_eq(file_open_stream(name, ENOUGH, &stream, NULL), expected);
    cr_expect_eq(file_read(name, ENOUGH, &text, &len, NULL), expected);
}

Test(file, what_is_no_regular_file_is_told_by_what_it_is_and_never_waited_for)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, other);
    cr_assert_eq(bind(door, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    refused(path, STATUS_INVALID_ARGUMENT, "a FIFO, not a regular file");
    refused(other, STATUS_INVALID_ARGUMENT, "a socket, not a regular file");
    refused(folder, STATUS_INVALID_ARGUMENT, "a folder, not a regular file");
    refused("/dev/zero", STATUS_INVALID_ARGUMENT, "a device, not a regular file");
    refused("/nowhere/it", STATUS_NOT_FOUND, "No such file or directory");
    refused("/proc/self/mem/it", STATUS_IO, "Not a directory");
    close(door);
}

Test(file, a_link_leads_to_files_alone)
{
    put(other, "text");
    cr_assert_eq(symlink("other", path), 0);
    expect_text(path, "text");
    cr_assert_eq(unlink(path) + symlink("/dev/stdin", path), 0);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    refused(path, STATUS_INVALID_ARGUMENT, "a FIFO, not a regular file");
    close(ends[0]);
    close(ends[1]);
}

Test(file, a_descriptor_that_was_handed_over_is_read_to_its_end)
{
    int ends[2];
    char name[32];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], "a: 1\n", 5), 5);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    expect_text(name, "a: 1\n");
    close(ends[0]);
}

Test(file, those_of_proc_claim_no_size_and_are_read)
{
    char *text;
    size_t len;
    err_t err;
    cr_assert_eq(file_read("/proc/self/status", 1 << 16, &text, &len, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(strncmp(text, "Name:", 5), 0);
    cr_expect_eq(text[len], '\0');
    free(text);
}

Test(file, more_than_the_bound_is_too_large)
{
    char *text;
    size_t len;
    FILE *stream;
    err_t err;
    put(path, "12345");
    cr_expect_eq(file_read(path, 4, &text, &len, &err), STATUS_TOO_LARGE);
    cr_expect_not_null(strstr(err.text, "it: over 4 bytes"), "%s", err.text);
    cr_expect_eq(file_open_stream(path, 4, &stream, &err), STATUS_TOO_LARGE);
    cr_assert_eq(file_read(path, 5, &text, &len, &err), STATUS_OK, "%s", err.text);
    free(text);
    cr_assert_eq(file_open_stream(path, 5, &stream, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(fcntl(fileno(stream), F_GETFL) & O_NONBLOCK, 0);
    cr_expect_eq(fcntl(fileno(stream), F_GETFD), FD_CLOEXEC);
    fclose(stream);
}

/* ---- writing ---- */

Test(file, is_replaced_and_not_written_through)
{
    struct stat about;
    put(other, "victim");
    cr_assert_eq(symlink("other", path), 0);
    umask(022);
    cr_assert_eq(file_write(path, FILE_REPLACE, 0640, "new", 3, NULL), STATUS_OK);
    expect_text(path, "new");
    expect_text(other, "victim");
    cr_assert_eq(lstat(path, &about), 0);
    cr_expect_eq(about.st_mode, S_IFREG | 0640);
    cr_expect_eq(names_in_folder(), 2);
}

Test(file, has_another_name_each_time_until_it_is_whole)
{
    file_writer_t one, two;
    err_t err;
    put(path, "old");
    cr_assert_eq(file_write_begin(&one, path, FILE_REPLACE, 0644, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(file_write_begin(&two, path, FILE_REPLACE, 0644, &err), STATUS_OK, "%s", err.text);
    cr_expect_str_neq(one.made, two.made);
    fputs("new", one.file);
    expect_text(path, "old");
    cr_expect_eq(file_write_end(&one, true, &err), STATUS_OK, "%s", err.text);
    expect_text(path, "new");
    cr_expect_eq(file_write_end(&two, false, &err), STATUS_IO);
    expect_text(path, "new");
    cr_expect_eq(names_in_folder(), 1);
}

Test(file, that_is_there_is_not_created)
{
    err_t err;
    cr_assert_eq(symlink("other", path), 0);
    cr_expect_eq(file_write(path, FILE_CREATE, 0600, "new", 3, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "it is there already"), "%s", err.text);
    cr_expect_eq(names_in_folder(), 1, "and nothing behind the link");
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(file_write(path, FILE_CREATE, 0600, "new", 3, &err), STATUS_OK, "%s", err.text);
    expect_text(path, "new");
}

Test(file, that_finds_no_room_leaves_nothing_behind)
{
    const struct rlimit little = {.rlim_cur = 4, .rlim_max = 4};
    err_t err;
    put(path, "old");
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    cr_expect_eq(file_write(path, FILE_REPLACE, 0600, "12345678", 8, &err), STATUS_IO);
    cr_expect_not_null(strstr(err.text, "it: File too large"), "%s", err.text);
    cr_expect_eq(file_write(other, FILE_CREATE, 0600, "12345678", 8, &err), STATUS_IO);
    cr_expect_eq(names_in_folder(), 1);
    expect_text(path, "old");
    cr_expect_eq(file_write("/nowhere/it", FILE_REPLACE, 0600, "1", 1, &err), STATUS_IO);
    cr_expect_str_eq(err.text, "/nowhere/it: No such file or directory");
}

Test(file, is_added_to_where_it_is_one)
{
    int fd;
    err_t err;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(file_append(other, 0600, &fd, &err), STATUS_OK, "%s", err.text);
        cr_assert_eq(write(fd, "line\n", 5), 5);
        close(fd);
    }
    expect_text(other, "line\nline\n");
    cr_assert_eq(symlink("other", path), 0);
    cr_expect_eq(file_append(path, 0600, &fd, &err), STATUS_IO);
    cr_expect_not_null(strstr(err.text, "a symbolic link, which is not written through"), "%s", err.text);
    cr_assert_eq(unlink(path) + symlink("/dev/null", path), 0);
    cr_assert_eq(file_append(path, 0600, &fd, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    close(fd);
    cr_assert_eq(unlink(path) + mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    cr_expect_eq(file_append(path, 0600, &fd, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "a FIFO, not a regular file"), "%s", err.text);
    close(reader);
    expect_text(other, "line\nline\n");
}
