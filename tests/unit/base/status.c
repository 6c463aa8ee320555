#include "base/status.h"

#include <criterion/criterion.h>
#include <string.h>

Test(status, public_codes_follow_the_design)
{
    static const struct {
        status_t code;
        const char *name;
        int http, grpc;
    } cases[] = {
        {STATUS_OK, "ok", 200, 0},
        {STATUS_INVALID_ARGUMENT, "invalid_argument", 400, 3},
        {STATUS_NOT_FOUND, "not_found", 404, 5},
        {STATUS_TOO_LARGE, "too_large", 413, 8},
        {STATUS_UNAVAILABLE, "unavailable", 503, 14},
        {STATUS_DEADLINE_EXCEEDED, "deadline_exceeded", 504, 4},
        {STATUS_INTERNAL, "internal", 500, 13},
        {(status_t)999, "internal", 500, 13},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_str_eq(status_name(cases[i].code), cases[i].name);
        cr_expect_eq(status_to_http(cases[i].code), cases[i].http);
        cr_expect_eq(status_to_grpc(cases[i].code), cases[i].grpc);
    }
}

Test(status, an_error_climbs_with_prefixes)
{
    err_t err = {0};
    cr_expect_eq(err_set(&err, STATUS_NOT_FOUND, "no version %d", 3), STATUS_NOT_FOUND);
    cr_expect_eq(err_prefix(&err, "model %s", "digits"), STATUS_NOT_FOUND);
    cr_expect_str_eq(err.text, "model digits: no version 3");
    cr_expect_eq(err_set(NULL, STATUS_IO, "nobody reads this"), STATUS_IO);
}

Test(status, texts_that_are_too_long_are_cut)
{
    err_t err = {0};
    char big[2 * ERR_TEXT_BYTES];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    err_set(&err, STATUS_IO, "%s", big);
    cr_expect_eq(strlen(err.text), ERR_TEXT_BYTES - 1);
    err_prefix(&err, "ab");
    cr_expect_eq(strlen(err.text), ERR_TEXT_BYTES - 1);
    cr_expect(strncmp(err.text, "ab: xxx", 7) == 0);
    err_prefix(&err, "%s", big);
    cr_expect_eq(strlen(err.text), ERR_TEXT_BYTES - 1);
}
