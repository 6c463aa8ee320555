#include "base/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What fn writes to stderr. */
static const char *captured(void (*fn)(void))
{
    static char text[8192];
    int saved = dup(STDERR_FILENO), ends[2];
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    fn();
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    close(saved);
    return text;
}

static void write_one(void)
{
    log_info("model_loaded", LOG_STR("model", "di gits\n\"x\""), LOG_I64("version", -1), LOG_U64("n", 7),
             LOG_MS("took_ms", 12300000), LOG_STR("empty", ""), LOG_STR("none", NULL));
}

Test(log, text_lines)
{
    log_init("gateway", LOG_INFO, LOG_FORMAT_TEXT);
    const char *line = captured(write_one);
    cr_expect_eq(strlen(strstr(line, "Z ") + 1), strlen(line) - 27, "a time stamp with microseconds: %s",
                 line);
    cr_expect_str_eq(strstr(line, " INFO"),
                     " INFO gateway model_loaded model=\"di gits\\u000a\\\"x\\\"\" version=-1 "
                     "n=7 took_ms=12.3 empty=\"\" none=\"\"\n");
}

Test(log, json_lines)
{
    log_init("gateway", LOG_INFO, LOG_FORMAT_JSON);
    const char *line = captured(write_one);
    cr_expect_str_eq(strstr(line, "\"level\""),
                     "\"level\":\"INFO\",\"program\":\"gateway\",\"event\":\"model_loaded\",\"model\":\"di "
                     "gits\\u000a\\\"x\\\"\","
                     "\"version\":-1,\"n\":7,\"took_ms\":12.3,\"empty\":\"\",\"none\":\"\"}\n");
}

static void write_debug(void)
{
    log_debug("noise");
}

static void write_bytes(void)
{
    log_error("bytes", LOG_STR("x", "\xff\x7f"), LOG_F64("nan", 0.0 / 0.0));
}

static void write_long(void)
{
    static char big[6000];
    memset(big, 'y', sizeof big - 1);
    log_error("long", LOG_STR("x", big));
}

Test(log, levels_and_bad_values)
{
    log_init("w", LOG_INFO, LOG_FORMAT_JSON);
    cr_expect_str_eq(captured(write_debug), "");
    cr_expect_not_null(strstr(captured(write_bytes), "\"x\":\"\\ufffd\\u007f\",\"nan\":null}"));
    log_set_level(LOG_DEBUG);
    cr_expect_not_null(strstr(captured(write_debug), "noise"));
    log_set_level(LOG_OFF);
    cr_expect_str_eq(captured(write_bytes), "");
}

Test(log, a_line_is_cut_to_what_a_pipe_takes_whole)
{
    log_init("w", LOG_INFO, LOG_FORMAT_TEXT);
    const char *line = captured(write_long);
    cr_expect_eq(strlen(line), 4096);
    cr_expect_eq(line[4095], '\n');
}

Test(log, lines_that_a_full_disk_took_are_told_once)
{
    int saved = dup(STDERR_FILENO), full = open("/dev/full", O_WRONLY);
    log_init("w", LOG_INFO, LOG_FORMAT_TEXT);
    dup2(full, STDERR_FILENO);
    write_one();
    write_one();
    write_one();
    dup2(saved, STDERR_FILENO);
    close(full);
    close(saved);
    const char *lines = captured(write_one);
    const char *told = strstr(lines, " WARN w log_lines_lost lines=3\n");
    cr_assert_not_null(told, "%s", lines);
    cr_expect_not_null(strstr(told, " INFO w model_loaded "), "%s", lines);
    cr_expect_null(strstr(captured(write_one), "log_lines_lost"));
}
