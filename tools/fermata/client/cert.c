/* fermata cert: a cluster's authority, and certificates of its services and clients. */
#include "fermata/command.h"

#include "base/clock.h"
#include "config/config.h"
#include "tls/issue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *dir, *role;
    config_list_t hosts;
    int64_t valid_ns;
} cert_options_t;

#define AT(field) .offset = offsetof(cert_options_t, field)
static const config_option_t options[] = {
    {"dir", CONFIG_PATH, "Files", "Folder of the authority and of what it issues.", .def = "certs",
     .metavar = "DIR", AT(dir)},
    {"role", CONFIG_STRING, "Of a certificate", "issue: gateway, scheduler, worker, client or admin.",
     .def = "client", .metavar = "ROLE", AT(role)},
    {"host", CONFIG_LIST, "Of a certificate",
     "issue: name or address by which others reach it; repeated. Default: this host's name, localhost, "
     "127.0.0.1 and ::1; of a "
     "client or admin none.",
     .metavar = "HOST", AT(hosts)},
    {"valid", CONFIG_DURATION, "Of a certificate",
     "How long from now on; default: ten years of an authority, one of what it issues, and no longer than "
     "the "
     "authority.",
     .min = 1, .max = INT64_MAX, .def = NULL, AT(valid_ns)},
};

static const config_schema_t schema = {
    .program = "fermata cert",
    .summary = "Makes a cluster's own authority and certificates by it, and shows what is in one.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "init | issue NAME | show FILE",
};

static const int64_t YEAR_S = INT64_C(365) * 86400;

static int64_t valid_s(const cert_options_t *o, int64_t years)
{
    return o->valid_ns > 0 ? (o->valid_ns + NS_PER_S - 1) / NS_PER_S : years * YEAR_S;
}

static status_t init(const cert_options_t *o, err_t *err)
{
    tls_pair_t ca;
    const tls_subject_t subject = {.name = "fermata-ca", .valid_s = valid_s(o, 10)};
    if (mkdir(o->dir, S_IRWXU) != 0 && errno != EEXIST)
        return err_set(err, STATUS_IO, "cannot make the folder %s: %s", o->dir, strerror(errno));
    status_t status = tls_pair_in(o->dir, "ca", &ca, err);
    if (status == STATUS_OK)
        status = tls_make_authority(&ca, &subject, err);
    if (status == STATUS_OK)
        printf("%s is whom all are to believe; %s signs: keep it to yourself\n", ca.cert, ca.key);
    return status;
}

static status_t issue(const cert_options_t *o, const char *name, err_t *err)
{
    char own[256] = "localhost";
    gethostname(own, sizeof own - 1);
    const char *const usual[] = {own, "localhost", "127.0.0.1", "::1"};
    bool client = strcmp(o->role, "client") == 0 || strcmp(o->role, "admin") == 0, given = o->hosts.len > 0;
    const tls_subject_t subject = {.name = name,
                                   .role = o->role,
                                   .hosts = given ? o->hosts.items : usual,
                                   .host_count = given    ? o->hosts.len
                                                 : client ? 0
                                                          : 4,
                                   .valid_s = valid_s(o, 1)};
    tls_pair_t ca, made;
    if (strcmp(name, "ca") == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "\"ca\" is the authority's name");
    if (tls_pair_in(o->dir, "ca", &ca, err) != STATUS_OK ||
        tls_pair_in(o->dir, name, &made, err) != STATUS_OK)
        return err->code;
    status_t status = tls_issue(&ca, &made, &subject, err);
    if (status == STATUS_OK)
        printf("%s\n%s\n", made.cert, made.key);
    return status;
}

static status_t show(const char *path, err_t *err)
{
    tls_facts_t facts;
    status_t status = tls_describe(path, &facts, err);
    if (status != STATUS_OK)
        return status;
    printf("name         %s\n", facts.name);
    printf("role         %s\n", facts.authority ? "authority" : facts.role[0] ? facts.role : "-");
    printf("hosts        %s\n", facts.names[0] ? facts.names : "-");
    printf("signed by    %s\n", facts.issuer);
    printf("valid from   %s\n", facts.from);
    printf("valid until  %s%s\n", facts.until, facts.left_s < 0 ? "  (over)" : "");
    printf("SHA-256      %s\n", facts.fingerprint);
    return STATUS_OK;
}

static int run(int argc, char **argv)
{
    cert_options_t o;
    config_t *config;
    int exit_code;
    err_t err = {0};
    size_t len;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    const char *const *words = config_positionals(config, &len);
    if (len == 1 && strcmp(words[0], "init") == 0) {
        exit_code = config_exit(&schema, init(&o, &err), &err);
    } else if (len == 2 && strcmp(words[0], "issue") == 0) {
        exit_code = config_exit(&schema, issue(&o, words[1], &err), &err);
    } else if (len == 2 && strcmp(words[0], "show") == 0) {
        exit_code = config_exit(&schema, show(words[1], &err), &err);
    } else {
        fprintf(stderr, "fermata cert: say `init`, `issue NAME` or `show FILE` (see --help)\n");
        exit_code = EXIT_CODE_USAGE;
    }
    config_destroy(config);
    return exit_code;
}

const command_t command_cert = {"cert", "make certificates of a cluster, and show one", run};
