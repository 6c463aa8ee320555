#include "http/head.h"

#include <criterion/criterion.h>
#include <string.h>

/* What is found, and how many bytes lie behind the head; with pieces of so many bytes. */
static const char *scan(head_state_t from, const char *text, size_t piece, head_state_t *state)
{
    size_t len = strlen(text);
    const char *wrong = NULL;
    *state = from;
    for (size_t i = 0; i < len && !wrong; i += piece)
        wrong = head_scan(state, (const uint8_t *)text + i, i + piece < len ? piece : len - i);
    return wrong;
}

#define LF "a line ends in LF without CR"
#define CR "a line ends in CR without LF"
#define FOLDED "a header line is folded"
#define NAMELESS "a header line has no name"

Test(head, what_is_wrong_is_found_however_the_bytes_come)
{
    static const struct {
        const char *text, *wrong;
        head_state_t from, state;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", NULL, HEAD_BEFORE, HEAD_BODY},
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n\nbody\r: \r\n :", NULL, HEAD_BEFORE, HEAD_BODY},
        {"\r\n\r\nGET / HTTP/1.1\r\n\r\n", NULL, HEAD_BEFORE, HEAD_BODY},
        {"GET / HTTP/1.1\r\nHost: x\r\n", NULL, HEAD_BEFORE, HEAD_START},
        {"GET / HTTP/1.1\r\nHo", NULL, HEAD_BEFORE, HEAD_LINE},
        {"GET / HTTP/1.1\r\nA: :b \t \r\n\r\n", NULL, HEAD_BEFORE, HEAD_BODY},
        {"\nGET / HTTP/1.1\r\n\r\n", LF, HEAD_BEFORE, 0},
        {"\rGET / HTTP/1.1\r\n\r\n", CR, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\nHost: x\r\n\r\n", LF, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nHost: x\n\r\n", LF, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nHost: x\r\n\n", LF, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nHost: x\r\n\rGET", CR, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n", CR, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nA: b\r\r\n\r\n", CR, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", FOLDED, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", FOLDED, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\nA: b\r\n  \r\n\r\n", FOLDED, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\n A: b\r\n\r\n", FOLDED, HEAD_BEFORE, 0},
        {"GET / HTTP/1.1\r\n: b\r\n\r\n", NAMELESS, HEAD_BEFORE, 0},
        {"\r\nGET / HTTP/1.1\r\n\r\n", NULL, HEAD_START, HEAD_BODY}, /* no trailers */
        {"A: b\r\n\r\n", NULL, HEAD_START, HEAD_BODY},
        {"A: b\r\n c\r\n\r\n", FOLDED, HEAD_START, 0},
        {"\rGET", CR, HEAD_START, 0},
    };
    head_state_t state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t piece = 1; piece < 80; piece++) {
            const char *wrong = scan(rows[i].from, rows[i].text, piece, &state);
            cr_assert_eq(!wrong, !rows[i].wrong, "row %zu by %zu: %s", i, piece, wrong ? wrong : "nothing");
            if (wrong)
                cr_expect_str_eq(wrong, rows[i].wrong, "row %zu by %zu", i, piece);
            else
                cr_expect_eq(state, rows[i].state, "row %zu by %zu", i, piece);
        }
    }
}
