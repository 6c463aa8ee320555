#include "base/rate_steps.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    int something;
    char name[8];
} models[] = {{1, "L"}, {2, "M"}};

static char path[] = "/tmp/rate_steps_XXXXXX";

static status_t read_text(const char *text, rate_step_t **steps, uint32_t *count, err_t *err)
{
    const int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    dprintf(fd, "%s", text);
    close(fd);
    const status_t st = rate_steps_read(path, models[0].name, sizeof models[0], 2, steps, count, err);
    unlink(path);
    return st;
}

static void fails(const char *text, const char *reason)
{
    rate_step_t *steps = NULL;
    uint32_t count;
    err_t err;
    char expected[160];
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    cr_assert_eq(read_text(text, &steps, &count, &err), STATUS_INVALID_ARGUMENT);
    snprintf(expected, sizeof expected, "%s:%s", path, reason);
    cr_assert_str_eq(err.text, expected);
    cr_assert_null(steps);
}

Test(rate_steps, are_read)
{
    rate_step_t *steps;
    uint32_t count;
    err_t err;
    cr_assert_eq(read_text("at_s,model,factor\n# half\n0,*,0.5\n10,M,2\n", &steps, &count, &err), STATUS_OK,
                 "%s", err.text);
    cr_assert_eq(count, 2);
    cr_assert_eq(steps[0].model, RATE_STEP_ALL);
    cr_assert_eq(steps[0].factor, 0.5);
    cr_assert_eq(steps[1].model, 1);
    cr_assert_eq(steps[1].at_s, 10);
    free(steps);
}

Test(rate_steps, are_checked)
{
    fails("at_s,factor\n", "1: missing column: at_s,model,factor");
    fails("at_s,model,factor\n", "1: no rows");
    fails("at_s,model,factor\n1,M\n", "2: not at_s,model,factor");
    fails("at_s,model,factor\n1,N,1\n", "2: there is no such model");
    fails("at_s,model,factor\n1,M,-1\n", "2: at_s and factor are numbers that are not negative");
    fails("at_s,model,factor\nnan,M,1\n", "2: at_s and factor are numbers that are not negative");
    fails("at_s,model,factor\n2,M,1\n1,M,1\n", "3: rows must be in the order of time");
}
