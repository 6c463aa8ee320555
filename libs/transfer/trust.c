#include "transfer/trust.h"

#include "base/file.h"
#include "tls/options.h"
#include "transfer/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *transfer_refusal_name(transfer_refusal_t refusal)
{
    static const char *const names[TRANSFER_REFUSALS] = {"tls",      "role",    "proof",  "no_proof",
                                                         "instance", "timeout", "crowded"};
    return names[refusal];
}

/* ---- the secret ---- */

static status_t check_mode(int fd, const char *path, err_t *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(err, STATUS_IO, "%.300s: %s", path, strerror(errno));
    if (st.st_mode & 077)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s is open to others (mode %04o): chmod 600 %.100s",
                       path, (unsigned)(st.st_mode & 07777), path);
    return STATUS_OK;
}

static status_t read_bytes(const char *path, char **bytes, size_t *len, err_t *err)
{
    int fd;
    status_t status = file_open(path, &fd, err);
    if (status != STATUS_OK)
        return status;
    status = check_mode(fd, path, err);
    if (status == STATUS_OK)
        status = file_read_open(fd, path, TRANSFER_SECRET_BYTES_MAX, bytes, len, err);
    close(fd);
    return status;
}

static status_t keep(const char *path, const char *bytes, size_t len, transfer_secret_t **secret, err_t *err)
{
    if (len < TRANSFER_SECRET_BYTES_MIN)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.300s has fewer than %d bytes", path,
                       TRANSFER_SECRET_BYTES_MIN);
    transfer_secret_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "%.300s: no memory", path);
    made->len = len;
    memcpy(made->bytes, bytes, len);
    *secret = made;
    return STATUS_OK;
}

status_t transfer_secret_read(const char *path, transfer_secret_t **secret, err_t *err)
{
    char *bytes;
    size_t len;
    err_t why;
    status_t status = read_bytes(path, &bytes, &len, &why);
    if (status == STATUS_OK) {
        status = keep(path, bytes, len, secret, &why);
        explicit_bzero(bytes, len);
        free(bytes);
    }
    if (status == STATUS_OK)
        return STATUS_OK;
    return err_set(err, status == STATUS_NO_MEMORY ? status : STATUS_INVALID_ARGUMENT,
                   "cannot use the cluster secret %s", why.text);
}

void transfer_secret_destroy(transfer_secret_t *secret)
{
    if (secret)
        explicit_bzero(secret, sizeof *secret);
    free(secret);
}

/* ---- from options ---- */

status_t transfer_trust_open(const tls_cluster_options_t *certificates, const char *secret_file, bool owner,
                             transfer_trust_t *trust, err_t *err)
{
    transfer_secret_t *secret = NULL;
    *trust = (transfer_trust_t){0};
    if (certificates->ca && secret_file)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "--cluster-secret is for a data plane without certificates (--cluster-ca): leave one out");
    status_t status = owner ? tls_cluster_serve(certificates, TRANSFER_PROTOCOL, &trust->tls, err)
                            : tls_cluster_dial(certificates, "gateway", TRANSFER_PROTOCOL, &trust->tls, err);
    if (status == STATUS_OK && secret_file)
        status = transfer_secret_read(secret_file, &secret, err);
    trust->secret = secret;
    if (status != STATUS_OK)
        transfer_trust_close(trust);
    return status;
}

void transfer_trust_close(transfer_trust_t *trust)
{
    tls_context_destroy(trust->tls);
    transfer_secret_destroy((transfer_secret_t *)(uintptr_t)trust->secret);
    *trust = (transfer_trust_t){0};
}
