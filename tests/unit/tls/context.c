/* Files that change, and files that are not what they should be. */
#include "tls/context.h"
#include "base/clock.h"
#include "pki.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static tls_pair_t a, b;
static pki_t pki;

static void open_pki(void)
{
    pki_open(&pki);
    a = pki_issue(&pki, "a", "gateway");
    b = pki_issue(&pki, "b", "gateway");
}

static void close_pki(void)
{
    pki_close(&pki);
}
TestSuite(tls_context, .init = open_pki, .fini = close_pki);

static void copy(const char *from, const char *to)
{
    char command[3 * TLS_PATH_BYTES];
    snprintf(command, sizeof command, "cp '%s' '%s.new' && mv '%s.new' '%s'", from, to, to, to);
    cr_assert(system(command) == 0);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static status_t make(tls_config_t config, tls_context_t **context, err_t *err)
{
    return tls_context_create(&config, context, err);
}

/* Asked again and again: the files are looked at once a second. */
static void await_generation(tls_context_t *context, uint64_t wanted)
{
    int64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    while (tls_context_generation(context) != wanted) {
        cr_assert(clock_now_ns() < until_ns);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static void expect_cert(tls_context_t *context, const char *path)
{
    tls_texts_t texts;
    err_t err;
    char text[8192] = "";
    FILE *file = fopen(path, "r");
    cr_assert(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    cr_assert(tls_context_texts(context, &texts, &err) == STATUS_OK);
    cr_assert_str_eq(texts.cert, text);
    tls_texts_dispose(&texts);
}

Test(tls_context, takes_files_that_change_and_keeps_the_old_where_they_are_bad)
{
    tls_context_t *context;
    err_t err;
    cr_assert(make((tls_config_t){.server = true, .cert = a.cert, .key = a.key}, &context, &err) ==
              STATUS_OK);
    cr_assert(tls_context_generation(context) == 1);
    tls_pair_t was = pki_issue(&pki, "was", "gateway");
    copy(a.cert, was.cert);
    copy(b.cert, a.cert); /* with the key of the old */
    int64_t until_ns = clock_now_ns() + 1500 * NS_PER_MS;
    while (clock_now_ns() < until_ns)
        cr_assert(tls_context_generation(context) == 1);
    expect_cert(context, was.cert);
    copy(b.key, a.key);
    await_generation(context, 2);
    expect_cert(context, b.cert);
    unlink(a.key);
    until_ns = clock_now_ns() + 1500 * NS_PER_MS;
    while (clock_now_ns() < until_ns)
        cr_assert(tls_context_generation(context) == 2);
    tls_context_destroy(context);
}

Test(tls_context, names_the_file_that_is_wrong)
{
    char none[TLS_PATH_BYTES + 16], bad[TLS_PATH_BYTES + 16];
    snprintf(none, sizeof none, "%s/none", pki.dir);
    snprintf(bad, sizeof bad, "%s/bad", pki.dir);
    write_text(bad, "no certificate\n");
    const struct {
        tls_config_t config;
        const char *said;
    } cases[] = {
        {{.server = true, .cert = none, .key = a.key}, "cannot read the certificate"},
        {{.server = true, .cert = a.cert, .key = none}, "cannot read the private key"},
        {{.server = true, .cert = bad, .key = a.key}, "bad is no certificate"},
        {{.server = true, .cert = a.cert, .key = bad}, "bad is no private key"},
        {{.server = true, .cert = a.cert, .key = b.key}, "no private key of the certificate"},
        {{.server = true, .cert = a.cert, .key = a.key, .ca = bad},
         "bad holds no certificate of an authority"},
        {{.server = true, .cert = a.cert}, "the key is missing"},
        {{.server = true, .ca = pki.ca.cert}, "needs a certificate"},
        {{.key = a.key}, "the certificate is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tls_context_t *context;
        err_t err;
        cr_assert(make(cases[i].config, &context, &err) == STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(err.text, cases[i].said), "%s, not: %s", err.text, cases[i].said);
    }
}
