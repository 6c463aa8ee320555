#include "fermata/up/certs.h"

#include "tls/issue.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t YEAR_S = INT64_C(365) * 86400;

static bool is_there(const tls_pair_t *pair)
{
    return access(pair->cert, F_OK) == 0 || access(pair->key, F_OK) == 0;
}

static status_t make_authority(const tls_pair_t *ca, err_t *err)
{
    const tls_subject_t subject = {.name = "fermata-ca", .valid_s = 10 * YEAR_S};
    return is_there(ca) ? STATUS_OK : tls_make_authority(ca, &subject, err);
}

/* Of the role, for this host and where clients are told to reach it. */
static status_t make_role(const up_options_t *o, const tls_pair_t *ca, const char *role, err_t *err)
{
    char own[256] = "localhost";
    tls_pair_t pair;
    gethostname(own, sizeof own - 1);
    const char *const hosts[] = {own, "localhost", "127.0.0.1", "::1", o->host};
    const tls_subject_t subject = {
        .name = role, .role = role, .hosts = hosts, .host_count = 5, .valid_s = YEAR_S};
    status_t status = tls_pair_in(o->tls_dir, role, &pair, err);
    if (status != STATUS_OK || is_there(&pair))
        return status;
    return tls_issue(ca, &pair, &subject, err);
}

status_t up_certs_make(const up_options_t *o, err_t *err)
{
    static const char *const roles[] = {"gateway", "scheduler", "worker", "admin"};
    tls_pair_t ca;
    if (!o->tls)
        return STATUS_OK;
    if (mkdir(o->tls_dir, S_IRWXU) != 0 && errno != EEXIST)
        return err_set(err, STATUS_IO, "cannot make the folder %s: %s", o->tls_dir, strerror(errno));
    status_t status = tls_pair_in(o->tls_dir, "ca", &ca, err);
    if (status == STATUS_OK)
        status = make_authority(&ca, err);
    for (size_t i = 0; i < sizeof roles / sizeof *roles && status == STATUS_OK; i++)
        status = make_role(o, &ca, roles[i], err);
    return status;
}

status_t up_certs_open(const up_options_t *o, tls_context_t **context, err_t *err)
{
    tls_pair_t ca, admin;
    *context = NULL;
    if (!o->tls)
        return STATUS_OK;
    status_t status = tls_pair_in(o->tls_dir, "ca", &ca, err);
    if (status == STATUS_OK)
        status = tls_pair_in(o->tls_dir, "admin", &admin, err);
    const tls_config_t config = {.cert = admin.cert, .key = admin.key, .ca = ca.cert};
    return status == STATUS_OK ? tls_context_create(&config, context, err) : status;
}
