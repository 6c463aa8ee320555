#include "profile/profile_cache.h"
#include "profile/profile_csv.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text)
{
    strcpy(path, "/tmp/fermata-profile-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

static void csv_fails(const char *text, const char *reason)
{
    profile_entry_t *entries = NULL;
    uint32_t count = 0;
    err_t err;
    char expected[256];
    write_file(text);
    snprintf(expected, sizeof(expected), "%s:%s", path, reason);
    cr_assert_eq(profile_csv_read(path, &entries, &count, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, expected);
    cr_assert_null(entries);
    remove_file();
}

Test(csv, reads_columns_in_any_order)
{
    profile_entry_t *entries;
    uint32_t count;
    err_t err;
    write_file(
        "# two models\nname,slo_ms,beta_ms,alpha_ms,weight\nA,25,5.072,1.053,2\n\nB,70,18.368,5.09,0.5\r\n");
    cr_assert_eq(profile_csv_read(path, &entries, &count, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(entries[1].name, "B");
    cr_assert_eq(entries[0].profile.alpha_ns, 1053000);
    cr_assert_eq(entries[0].profile.beta_ns, 5072000);
    cr_assert_eq(entries[1].slo_ns, 70000000);
    cr_assert_float_eq(entries[1].weight, 0.5, 0);
    free(entries);
    remove_file();
}

Test(csv, errors_name_file_and_line)
{
    csv_fails("name,alpha_ms\nA,1\n", "1: missing column: beta_ms");
    csv_fails("name,alpha_ms,beta_ms,colour\n", "1: unknown column: colour");
    csv_fails("name,alpha_ms,beta_ms,name\n", "1: column appears twice: name");
    csv_fails("name,alpha_ms,beta_ms\n", "1: no models");
    csv_fails("", "0: no header line");
    csv_fails("name,alpha_ms,beta_ms\nA,1,x\n", "2: not a number: beta_ms is 'x'");
    csv_fails("name,alpha_ms,beta_ms\nA,1,\n", "2: not a number: beta_ms is ''");
    csv_fails("name,alpha_ms,beta_ms\nA,1,nan\n", "2: not a number: beta_ms is 'nan'");
    csv_fails("name,alpha_ms,beta_ms\nA,inf,1\n", "2: not a number: alpha_ms is 'inf'");
    csv_fails("name,alpha_ms,beta_ms\nA,-1,1\n", "2: negative: alpha_ms is '-1'");
    csv_fails("name,alpha_ms,beta_ms\nA,1\n", "2: missing field: beta_ms");
    csv_fails("name,alpha_ms,beta_ms\nA,1,2,3\n", "2: more fields than columns");
    csv_fails("name,alpha_ms,beta_ms\n\nA,1,2\nA,1,2\n", "4: name appears twice: A");
    csv_fails("name,alpha_ms,beta_ms,slo_ms\nA,1,5,5.9\n",
              "2: slo_ms is below the latency of a batch of one: A");
    csv_fails("name,alpha_ms,beta_ms,slo_ms\nA,1,5,0\n",
              "2: slo_ms is below the latency of a batch of one: A");
}

Test(csv, a_file_that_is_not_there)
{
    profile_entry_t *entries;
    uint32_t count;
    err_t err;
    cr_assert_eq(profile_csv_read("/nowhere/models.csv", &entries, &count, &err), STATUS_NOT_FOUND);
}

static const char *now = "2026-11-23T21:00:00Z";

static status_t read_cache(const char *device, const char *model_hash, profile_t *profile,
                           profile_modes_t *modes, err_t *err)
{
    profile_cache_key_t wanted = {0};
    snprintf(wanted.device, sizeof(wanted.device), "%s", device);
    snprintf(wanted.model_hash, sizeof(wanted.model_hash), "%s", model_hash);
    snprintf(wanted.date, sizeof(wanted.date), "%s", now);
    return profile_cache_read(path, &wanted, profile, modes, err);
}

static profile_t measured(void)
{
    profile_t profile;
    err_t err;
    profile_point_t list[] = {{1, 6300000}, {2, 14500000}, {4, 20000000}};
    cr_assert_eq(profile_from_points(&profile, list, 3, 16, &err), STATUS_OK);
    return profile;
}

Test(cache, keeps_that_no_wait_was_found)
{
    profile_t profile = measured(), after;
    profile_modes_t modes = {.stages = {4}, .stage_count = 1, .comp_wait_ns = PROFILE_CACHE_NO_WAIT}, kept;
    profile_cache_key_t key = {.device = "d", .model_hash = "m", .date = "2026-11-22"};
    char text[512] = "";
    err_t err;
    write_file("");
    cr_assert_eq(profile_cache_write(path, &key, &profile, &modes, &err), STATUS_OK, "%s", err.text);
    FILE *file = fopen(path, "r");
    cr_assert_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    cr_expect_not_null(strstr(text, "\ncomp_wait_ns none\n"), "%s", text);
    cr_assert_eq(read_cache("d", "m", &after, &kept, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(kept.comp_wait_ns, PROFILE_CACHE_NO_WAIT);
    remove_file();
}

Test(cache, comes_back_as_it_was)
{
    profile_t before = measured(), after;
    profile_modes_t modes = {.stages = {4, 9},
                             .stage_count = 2,
                             .comp_wait_ns = 1500,
                             .schedule = "combined",
                             .whole_is_faster = true,
                             .exits = {1, 2, 30},
                             .exit_count = 3,
                             .loading_bytes = UINT64_C(6) << 30,
                             .engine = "openvino:2+onednn"};
    profile_modes_t kept;
    before.spread = 1.125;
    before.noise = 0.25;
    profile_cache_key_t key = {.device = "Xeon, 8 threads", .model_hash = "sha256:abc", .date = "2026-11-20"};
    err_t err;
    write_file("");
    cr_assert_eq(profile_cache_write(path, &key, &before, &modes, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(read_cache("Xeon, 8 threads", "sha256:abc", &after, &kept, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(after.max_batch, 16);
    cr_assert(!memcmp(&kept, &modes, sizeof(modes)));
    cr_assert_eq(after.spread, 1.125);
    cr_assert_eq(after.noise, 0.25);
    for (uint32_t b = 1; b <= 4; b++)
        cr_assert_eq(profile_latency_ns(&after, b), profile_latency_ns(&before, b));
    cr_assert_eq(read_cache("A100", "sha256:abc", &after, &kept, &err), STATUS_NOT_FOUND);
    cr_assert_eq(read_cache("Xeon, 8 threads", "sha256:abd", &after, &kept, &err), STATUS_NOT_FOUND);
    remove_file();
    cr_assert_eq(read_cache("x", "y", &after, &kept, &err), STATUS_NOT_FOUND);
}

static void cache_fails(const char *text, const char *where)
{
    profile_t profile;
    profile_modes_t modes;
    err_t err;
    char expected[128];
    write_file(text);
    snprintf(expected, sizeof(expected), "%s:%s", path, where);
    cr_assert_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(strncmp(err.text, expected, strlen(expected)), 0, "%s", err.text);
    remove_file();
}

Test(cache, broken_files_are_named_with_their_line)
{
    cache_fails("", "1:");
    cache_fails("fermata_profile 1\ndevice d\nof an older one\n", "1: not a profile of version 2");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nspread 0.5\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nspread 1.2x\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nnoise 1\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nnoise -0.1\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5x\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\ncolour red\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 -5\n", "4:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\n", "3:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nstages 4 4\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nexits 4 x\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nexits 0 3\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\ncomp_wait_ns -1\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\ncomp_wait_ns nothing\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nschedule\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nschedule in put\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nschedule sixteen_letters_\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nschedule granted:2\n", "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nengine thirty_two_letters_are_too_many_\n",
                "5:");
    cache_fails("fermata_profile 2\ndevice d\nmodel m\nbatch 1 5\nwhole_is_faster 1\n", "5:");
}

Test(cache, one_from_before_schedules_were_kept_is_still_read)
{
    profile_modes_t modes;
    profile_t profile;
    err_t err;

    write_file("fermata_profile 2\ndevice d\nmodel m\nmax_batch 4\nbatch 1 5\nstages 4 9\ncomp_wait_ns 7\n");
    cr_assert_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(modes.stage_count, 2);
    cr_expect_str_eq(modes.schedule, "");
    cr_expect_not(modes.whole_is_faster);
    cr_expect_eq(read_cache("d", "", &profile, &modes, &err), STATUS_OK, "of any model");
    cr_expect_eq(read_cache("d", "n", &profile, &modes, &err), STATUS_NOT_FOUND);
    remove_file();
}

/* Wherever it is cut, but behind its last line. */
Test(cache, a_file_that_has_been_cut_short_is_not_used)
{
    profile_t profile = measured();
    profile_modes_t modes = {.exits = {3, 5}, .exit_count = 2};
    profile_cache_key_t key = {.device = "d", .model_hash = "m", .date = "2026-11-20T00:00:00Z"};
    err_t err;

    write_file("");
    cr_assert_eq(profile_cache_write(path, &key, &profile, &modes, &err), STATUS_OK, "%s", err.text);
    FILE *file = fopen(path, "r");
    char text[1024];
    size_t len = fread(text, 1, sizeof(text), file);
    fclose(file);
    cr_assert_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(profile.points, 3, "not the sizes between them");
    for (size_t cut = 0; cut + 1 < len; cut++) {
        cr_assert_eq(truncate(path, (off_t)cut), 0);
        cr_expect_neq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "cut at %zu of %zu", cut, len);
        file = fopen(path, "w");
        cr_assert_eq(fwrite(text, 1, len, file), len);
        fclose(file);
    }
    remove_file();
}

Test(cache, one_from_the_future_is_not_used)
{
    profile_t profile = measured();
    profile_modes_t modes = {0};
    profile_cache_key_t key = {.device = "d", .model_hash = "m", .date = "2027-01-01T00:00:00Z"};
    err_t err;

    write_file("");
    cr_assert_eq(profile_cache_write(path, &key, &profile, &modes, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_NOT_FOUND);
    cr_expect_not_null(strstr(err.text, "is from the future: 2027-01-01"), "%s", err.text);
    now = "2027-01-01T00:00:00Z";
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "%s", err.text);
    now = "";
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "%s", err.text);
    remove_file();
}

/* A limit on the size of files stands for a disk that is full. */
Test(cache, a_full_disk_costs_the_new_one_and_leaves_the_old)
{
    profile_t profile = measured();
    profile_modes_t modes = {.exits = {3, 5}, .exit_count = 2};
    profile_cache_key_t key = {.device = "d", .model_hash = "m", .date = "2026-11-20T00:00:00Z"};
    struct rlimit before, full = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
    char beside[100];
    glob_t left;
    err_t err;

    write_file("");
    cr_assert_eq(profile_cache_write(path, &key, &profile, &modes, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    full.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
    key.model_hash[0] = 'n';
    status_t status = profile_cache_write(path, &key, &profile, &modes, &err);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_expect_eq(status, STATUS_IO);
    cr_expect(strstr(err.text, path) && strstr(err.text, "File too large"), "%s", err.text);
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "%s", err.text);
    snprintf(beside, sizeof(beside), "%s.*", path);
    cr_expect_eq(glob(beside, 0, NULL, &left), GLOB_NOMATCH, "nothing is left beside it");
    remove_file();
}

static status_t write_cache(void)
{
    profile_t profile = measured();
    const profile_modes_t modes = {.exit_count = 0};
    const profile_cache_key_t key = {.device = "d", .model_hash = "m", .date = "2026-11-20T00:00:00Z"};
    err_t err;
    return profile_cache_write(path, &key, &profile, &modes, &err);
}

/* Links at every name that a writer of this process once took, and at the profile's own. */
Test(cache, nothing_is_written_through_a_link)
{
    char victim[80], beside[100];
    profile_t profile;
    profile_modes_t modes;
    err_t err;
    write_file("victim");
    snprintf(victim, sizeof(victim), "%s.victim", path);
    snprintf(beside, sizeof(beside), "%s.%d.new", path, (int)getpid());
    cr_assert_eq(rename(path, victim) + symlink(victim, path) + symlink(victim, beside), 0);
    cr_assert_eq(write_cache(), STATUS_OK);
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_OK, "%s", err.text);
    FILE *file = fopen(victim, "r");
    char text[16] = "";
    cr_expect(fgets(text, sizeof(text), file) && strcmp(text, "victim") == 0, "%s", text);
    fclose(file);
    unlink(victim);
    unlink(beside);
    remove_file();
}

Test(cache, a_fifo_or_a_file_without_an_end_is_no_profile, .timeout = 120)
{
    profile_t profile;
    profile_modes_t modes;
    profile_entry_t *entries;
    uint32_t count;
    err_t err;
    write_file("");
    cr_assert_eq(truncate(path, (off_t)1 << 40), 0);
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_TOO_LARGE);
    cr_assert_eq(unlink(path) + mkfifo(path, 0600), 0);
    cr_expect_eq(read_cache("d", "m", &profile, &modes, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "a FIFO, not a regular file"), "%s", err.text);
    cr_expect_eq(profile_csv_read(path, &entries, &count, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "a FIFO, not a regular file"), "%s", err.text);
    remove_file();
}

Test(cache, refuses_a_key_of_two_lines)
{
    profile_t profile = measured();
    profile_cache_key_t key = {.device = "a\nb", .model_hash = "m"};
    err_t err;
    cr_assert_eq(profile_cache_write("/tmp/never-written", &key, &profile, &(profile_modes_t){0}, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_neq(access("/tmp/never-written", F_OK), 0);
}
