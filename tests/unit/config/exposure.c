#include "config/exposure.h"
#include "config/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(exposure, hosts)
{
    static const char *const own[] = {"", "127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "localhost"};
    static const char *const others[] = {"0.0.0.0",    "::",        "::ffff:0.0.0.0",        "10.0.0.1",
                                         "128.0.0.1",  "fe80::1",   "localhost.example.com", "127.1",
                                         "gw.example", "126.0.0.1", "::ffff:10.0.0.1"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        cr_expect(exposure_is_of_this_host(own[i]), "%s", own[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect(!exposure_is_of_this_host(others[i]), "%s", others[i]);
}

Test(exposure, addresses)
{
    static const char *const own[] = {"127.0.0.1:8003", "127.8.9.10:1", "[::1]:80", "localhost:9000",
                                      "[::ffff:127.0.0.1]:1"};
    static const char *const others[] = {"10.0.0.1:8003", "[fe80::1]:80", "gw.example:1",
                                         "unknown",       "127.0.0.1",    "[::ffff:10.0.0.1]:1"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        cr_expect(exposure_is_address_of_this_host(own[i]), "%s", own[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect(!exposure_is_address_of_this_host(others[i]), "%s", others[i]);
}

/* "tls keys" -> guards with these. */
static exposure_guards_t guards_of(const char *words)
{
    return (exposure_guards_t){.tls = strstr(words, "tls"),
                               .keys = strstr(words, "keys"),
                               .client_ca = strstr(words, "ca"),
                               .cluster = strstr(words, "cluster"),
                               .secret = strstr(words, "secret"),
                               .insecure = strstr(words, "insecure")};
}

/* What follows for an address: "ok", "told", or the flags that are named. */
static const char *outcome(const char *host, exposure_port_t port, const exposure_guards_t *guards,
                           char text[256])
{
    config_address_t address = {.port = 8000};
    snprintf(address.host, sizeof address.host, "%s", host);
    const exposure_listener_t listener = {"--x-address", &address, port};
    const char *lacks = exposure_lacks(port, guards);
    err_t err = {0};
    if (exposure_check(&listener, 1, guards, &err) == STATUS_OK)
        return lacks && !exposure_is_of_this_host(host) ? "told" : "ok";
    cr_expect_eq(err.code, STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "--x-address 0.0.0.0:8000: ") == err.text, "%s", err.text);
    cr_expect_not_null(strstr(err.text, "--insecure"));
    cr_expect_null(strchr(err.text, '\n'));
    cr_expect_not_null(strstr(err.text, lacks), "%s", err.text);
    snprintf(text, 256, "%s", lacks);
    return text;
}

Test(exposure, what_is_refused_and_by_which_flags_it_is_not)
{
    static const char *const pair = "--tls-cert and --tls-key", *const who = "--keys (or --tls-client-ca)",
                             *const both = "--tls-cert, --tls-key and --keys",
                             *const cluster = "--cluster-ca, --cluster-cert and --cluster-key",
                             *const data =
                                 "--cluster-ca, --cluster-cert and --cluster-key, or --cluster-secret";
    const struct {
        exposure_port_t port;
        const char *guards, *outcome;
    } rows[] = {
        {EXPOSURE_CLIENTS, "", both},
        {EXPOSURE_CLIENTS, "keys", pair},
        {EXPOSURE_CLIENTS, "tls", who},
        {EXPOSURE_CLIENTS, "ca", pair},
        {EXPOSURE_CLIENTS, "cluster", both},
        {EXPOSURE_CLIENTS, "tls keys", "ok"},
        {EXPOSURE_CLIENTS, "tls ca", "ok"},
        {EXPOSURE_CLIENTS, "tls keys ca", "ok"},
        {EXPOSURE_CLIENTS, "tls keys insecure", "ok"},
        {EXPOSURE_CLIENTS, "tls insecure", "told"},
        {EXPOSURE_CLIENTS, "insecure", "told"},
        {EXPOSURE_SERVICES, "", cluster},
        {EXPOSURE_SERVICES, "tls keys", cluster},
        {EXPOSURE_SERVICES, "cluster", "ok"},
        {EXPOSURE_SERVICES, "insecure", "told"},
        {EXPOSURE_SERVICES, "secret", cluster},
        {EXPOSURE_DATA, "", data},
        {EXPOSURE_DATA, "tls keys", data},
        {EXPOSURE_DATA, "secret", "ok"},
        {EXPOSURE_DATA, "cluster", "ok"},
        {EXPOSURE_DATA, "insecure", "told"},
        {EXPOSURE_UP, "", "--tls and --keys"},
        {EXPOSURE_UP, "tls", "--keys"},
        {EXPOSURE_UP, "keys", "--tls"},
        {EXPOSURE_UP, "tls keys", "ok"},
        {EXPOSURE_UP, "insecure", "told"},
    };
    char text[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        exposure_guards_t guards = guards_of(rows[i].guards);
        cr_expect_str_eq(outcome("0.0.0.0", rows[i].port, &guards, text), rows[i].outcome, "row %zu: %s", i,
                         rows[i].guards);
        cr_expect_str_eq(outcome("::1", rows[i].port, &guards, text), "ok", "row %zu", i);
    }
}

Test(exposure, the_first_that_is_not_protected_is_named)
{
    const config_address_t here = {.host = "127.0.0.1", .port = 1}, all = {.host = "::", .port = 2};
    const exposure_listener_t listeners[] = {
        {"--a", &here, EXPOSURE_CLIENTS}, {"--b", &all, EXPOSURE_CLIENTS}, {"--c", &all, EXPOSURE_DATA}};
    exposure_guards_t guards = {.tls = true, .keys = true};
    err_t err = {0};
    cr_assert_neq(exposure_check(listeners, 3, &guards, &err), STATUS_OK);
    cr_expect_not_null(strstr(err.text, "--c [::]:2: "), "%s", err.text);
    guards.keys = false;
    cr_assert_neq(exposure_check(listeners, 3, &guards, &err), STATUS_OK);
    cr_expect_not_null(strstr(err.text, "--b [::]:2: "), "%s", err.text);
}
