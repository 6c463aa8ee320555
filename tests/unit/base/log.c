#include "base/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
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

/* ---- with a rate ---- */

static log_site_t place = {.event = "failed", .level = LOG_WARN};
static int64_t now_ns;
static int lines;

static void write_lines(void)
{
    for (int i = 0; i < lines; i++)
        if (log_site_take(&place, now_ns))
            log_write(place.level, place.event, (const log_field_t[]){{.kind = LOG_FIELD_END}});
}

static void tell_left_out(void)
{
    log_tell_left_out(now_ns);
}

static int times(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

Test(log, a_place_writes_so_many_lines_a_second_and_then_how_many_it_left_out)
{
    log_init("w", LOG_INFO, LOG_FORMAT_TEXT);
    now_ns = 7 * NS_PER_S;
    lines = 1000;
    const char *said = captured(write_lines);
    cr_expect_eq(times(said, " WARN w failed\n"), LOG_WARNINGS_A_SECOND, "%s", said);
    cr_expect_eq(times(said, "\n"), LOG_WARNINGS_A_SECOND);
    cr_expect_str_eq(captured(tell_left_out), "", "the second is not over");
    now_ns += NS_PER_S - 1;
    cr_expect_str_eq(captured(write_lines), "");
    now_ns += 1;
    said = captured(tell_left_out);
    cr_expect_not_null(strstr(said, " WARN w log_lines_left_out event=failed lines=1990\n"), "%s", said);
    cr_expect_str_eq(captured(tell_left_out), "", "once");
    cr_expect_eq(log_lines_left_out(), 1990);
}

Test(log, the_next_line_has_what_was_left_out_before_it)
{
    log_init("w", LOG_INFO, LOG_FORMAT_TEXT);
    now_ns = NS_PER_S;
    lines = LOG_WARNINGS_A_SECOND + 5;
    captured(write_lines);
    now_ns += 3 * NS_PER_S;
    lines = 1;
    const char *said = captured(write_lines),
               *told = strstr(said, "log_lines_left_out event=failed lines=5\n");
    cr_assert_not_null(told, "%s", said);
    cr_expect_not_null(strstr(told, " WARN w failed\n"), "%s", said);
    cr_expect_eq(times(said, "\n"), 2);
}

static void write_named(void)
{
    for (int i = 0; i < lines; i++) {
        log_write_limited(LOG_WARN, "one", (const log_field_t[]){{.kind = LOG_FIELD_END}}, now_ns);
        log_write_limited(LOG_INFO, "two", (const log_field_t[]){{.kind = LOG_FIELD_END}}, now_ns);
    }
}

Test(log, each_event_has_a_rate_of_its_own_and_news_a_higher_one)
{
    log_init("w", LOG_INFO, LOG_FORMAT_TEXT);
    now_ns = NS_PER_S;
    lines = LOG_NEWS_A_SECOND + 7;
    static char text[1 << 16];
    int saved = dup(STDERR_FILENO), ends[2];
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    write_named();
    log_tell_left_out(2 * NS_PER_S);
    dup2(saved, STDERR_FILENO);
    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    cr_expect_eq(times(text, " WARN w one\n"), LOG_WARNINGS_A_SECOND);
    cr_expect_eq(times(text, " INFO w two\n"), LOG_NEWS_A_SECOND);
    cr_expect_not_null(strstr(text, " WARN w log_lines_left_out event=one lines=97\n"), "%s", text);
    cr_expect_not_null(strstr(text, " INFO w log_lines_left_out event=two lines=7\n"), "%s", text);
}

enum { THREADS = 4, TAKES = 100000 };
static _Atomic uint64_t taken;

static void *take(void *arg)
{
    for (int i = 0; i < TAKES; i++)
        if (log_site_take(arg, (1 + i / (TAKES / 4)) * NS_PER_S))
            atomic_fetch_add(&taken, 1);
    return NULL;
}

/* Threads that are in two seconds at once write a few more; none is lost or counted twice. */
Test(log, every_line_is_written_or_left_out)
{
    static log_site_t shared = {.event = "shared", .level = LOG_WARN};
    pthread_t threads[THREADS];
    log_set_level(LOG_OFF);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, take, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(taken + log_lines_left_out(), THREADS * TAKES);
    cr_expect_geq(taken, 4 * LOG_WARNINGS_A_SECOND);
}
