/* Certificates and their files. */
#include "tls/issue.h"
#include "pki.h"

#include <sys/stat.h>

static pki_t pki;

static void open_pki(void)
{
    pki_open(&pki);
}

static void close_pki(void)
{
    pki_close(&pki);
}
TestSuite(tls_issue, .init = open_pki, .fini = close_pki);

Test(tls_issue, says_who_it_is_of)
{
    tls_pair_t pair = pki_issue(&pki, "gw-1", "gateway");
    tls_facts_t facts;
    err_t err;
    cr_assert(tls_describe(pair.cert, &facts, &err) == STATUS_OK);
    cr_assert_str_eq(facts.name, "gw-1");
    cr_assert_str_eq(facts.role, "gateway");
    cr_assert_str_eq(facts.issuer, "test-ca");
    cr_assert_str_eq(facts.names, "gateway.fermata, localhost, 127.0.0.1");
    cr_assert(!facts.authority && facts.left_s > 3000 && facts.left_s <= 3600);
    cr_assert(strlen(facts.fingerprint) == 64);
    cr_assert(tls_describe(pki.ca.cert, &facts, &err) == STATUS_OK && facts.authority && !facts.role[0]);
}

Test(tls_issue, a_key_is_its_owners_and_nothing_is_overwritten)
{
    struct stat st;
    err_t err;
    cr_assert(stat(pki.ca.key, &st) == 0 && (st.st_mode & 0777) == 0600);
    const tls_subject_t subject = {.name = "again", .valid_s = 3600};
    cr_assert(tls_make_authority(&pki.ca, &subject, &err) == STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "ca.key is there already"), "%s", err.text);
    tls_pair_t pair = pki_issue(&pki, "one", "client");
    cr_assert(remove(pair.key) == 0);
    cr_assert(tls_issue(&pki.ca, &pair, &subject, &err) == STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "one.crt is there already"), "%s", err.text);
    cr_assert(stat(pair.key, &st) != 0, "both or none");
}

Test(tls_issue, is_valid_no_longer_than_its_authority)
{
    tls_pair_t pair;
    tls_facts_t facts;
    err_t err;
    const tls_subject_t subject = {.name = "long", .valid_s = 86400 * 30};
    cr_assert(tls_pair_in(pki.dir, "long", &pair, &err) == STATUS_OK);
    cr_assert(tls_issue(&pki.ca, &pair, &subject, &err) == STATUS_OK);
    cr_assert(tls_describe(pair.cert, &facts, &err) == STATUS_OK && facts.left_s <= 86400);
}

Test(tls_issue, refuses_what_is_no_subject)
{
    static const char *const odd_hosts[] = {"a,URI:fermata:scheduler"};
    const struct {
        tls_subject_t subject;
        const char *said;
    } cases[] = {
        {{.name = "", .valid_s = 1}, "no name of a certificate"},
        {{.name = "a/b", .valid_s = 1}, "no name of a certificate"},
        {{.name = "a", .role = "king", .valid_s = 1}, "\"king\" is no role"},
        {{.name = "a", .hosts = odd_hosts, .host_count = 1, .valid_s = 1}, "no name or address of a host"},
        {{.name = "a", .valid_s = 0}, "more than nothing"},
    };
    tls_pair_t to;
    err_t err;
    cr_assert(tls_pair_in(pki.dir, "odd", &to, &err) == STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(tls_issue(&pki.ca, &to, &cases[i].subject, &err) == STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(err.text, cases[i].said), "%s", err.text);
    }
}

Test(tls_issue, refuses_what_is_no_authority)
{
    tls_pair_t leaf = pki_issue(&pki, "leaf", "worker"), to, mixed = pki.ca;
    const tls_subject_t subject = {.name = "below", .valid_s = 60};
    err_t err;
    cr_assert(tls_pair_in(pki.dir, "below", &to, &err) == STATUS_OK);
    cr_assert(tls_issue(&leaf, &to, &subject, &err) == STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "not the certificate of an authority"), "%s", err.text);
    snprintf(mixed.key, sizeof mixed.key, "%s", leaf.key);
    cr_assert(tls_issue(&mixed, &to, &subject, &err) == STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "is not that of the authority"), "%s", err.text);
}
