#include "transfer/trust.h"
#include "tls/options.h"
#include "transfer/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *transfer_refusal_name(transfer_refusal_t refusal)
{
    static const char *const names[TRANSFER_REFUSALS] = {"tls",      "role",    "proof",
                                                         "no_proof", "timeout", "crowded"};
    return names[refusal];
}

/* ---- the secret ---- */

static status_t check_file(int fd, const char *path, err_t *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "cannot read the cluster secret %s: %s", path,
                       strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, STATUS_INVALID_ARGUMENT, "the cluster secret %s is no file", path);
    if (st.st_mode & 077)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "the cluster secret %s is open to others (mode %04o): chmod 600 %s", path,
                       (unsigned)(st.st_mode & 07777), path);
    return STATUS_OK;
}

/* To the end, or to one byte more than there is room for. */
static status_t read_bytes(int fd, const char *path, uint8_t *bytes, size_t *len, err_t *err)
{
    for (*len = 0; *len <= TRANSFER_SECRET_BYTES_MAX;) {
        ssize_t got = read(fd, bytes + *len, TRANSFER_SECRET_BYTES_MAX + 1 - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "cannot read the cluster secret %s: %s", path,
                           strerror(errno));
        if (got == 0)
            break;
        *len += (size_t)got;
    }
    if (*len < TRANSFER_SECRET_BYTES_MIN || *len > TRANSFER_SECRET_BYTES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the cluster secret %s has %s than %d bytes", path,
                       *len < TRANSFER_SECRET_BYTES_MIN ? "fewer" : "more",
                       *len < TRANSFER_SECRET_BYTES_MIN ? TRANSFER_SECRET_BYTES_MIN
                                                        : TRANSFER_SECRET_BYTES_MAX);
    return STATUS_OK;
}

static status_t keep(const uint8_t *bytes, size_t len, transfer_secret_t **secret, err_t *err)
{
    transfer_secret_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cluster secret");
    made->len = len;
    memcpy(made->bytes, bytes, len);
    *secret = made;
    return STATUS_OK;
}

status_t transfer_secret_read(const char *path, transfer_secret_t **secret, err_t *err)
{
    uint8_t bytes[TRANSFER_SECRET_BYTES_MAX + 1];
    size_t len;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "cannot read the cluster secret %s: %s", path,
                       strerror(errno));
    status_t status = check_file(fd, path, err);
    if (status == STATUS_OK)
        status = read_bytes(fd, path, bytes, &len, err);
    if (status == STATUS_OK)
        status = keep(bytes, len, secret, err);
    explicit_bzero(bytes, sizeof bytes);
    close(fd);
    return status;
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
