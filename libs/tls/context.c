#include "base/clock.h"
#include "base/log.h"
#include "tls/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS NS_PER_S

enum { FILES = 3, TICKET_KEYS_BYTES = 256 };

struct tls_context {
    tls_config_t config; /* with texts of its own */
    pthread_mutex_t lock;
    int64_t look_ns;           /* when the files are looked at next */
    tls_stamp_t stamps[FILES]; /* as they were read last, well or not */
    tls_texts_t texts;
    SSL_CTX *ctx;
    SSL_SESSION *last; /* of a client */
    uint64_t generation;
};

/* ---- reading ---- */

static const char *path_of(const tls_context_t *context, int i)
{
    const char *paths[FILES] = {context->config.cert, context->config.key, context->config.ca};
    return paths[i];
}

static bool note_stamps(tls_context_t *context)
{
    bool changed = false;
    for (int i = 0; i < FILES; i++) {
        tls_stamp_t now;
        tls_stamp_of(path_of(context, i), &now);
        changed |= memcmp(&now, &context->stamps[i], sizeof now) != 0;
        context->stamps[i] = now;
    }
    return changed;
}

static status_t read_texts(const tls_context_t *context, tls_texts_t *texts, err_t *err)
{
    static const char *const what[FILES] = {"certificate", "private key", "certificates of authorities"};
    char **to[FILES] = {&texts->cert, &texts->key, &texts->ca};
    status_t status = STATUS_OK;
    for (int i = 0; i < FILES && status == STATUS_OK; i++)
        status = tls_read_file(path_of(context, i), what[i], to[i], err);
    return status;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Those who hold a ticket go on with it, unless others are believed now. */
static void keep_tickets(const SSL_CTX *from, SSL_CTX *to)
{
    unsigned char keys[TICKET_KEYS_BYTES];
    long len = SSL_CTX_get_tlsext_ticket_keys((SSL_CTX *)(uintptr_t)from, NULL, 0);
    if (len > 0 && len <= TICKET_KEYS_BYTES &&
        SSL_CTX_get_tlsext_ticket_keys((SSL_CTX *)(uintptr_t)from, keys, len) == 1)
        SSL_CTX_set_tlsext_ticket_keys(to, keys, len);
    explicit_bzero(keys, sizeof keys);
}

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    tls_context_t *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    pthread_mutex_lock(&context->lock);
    SSL_SESSION *old = context->last;
    context->last = session;
    pthread_mutex_unlock(&context->lock);
    SSL_SESSION_free(old);
    return 1; /* it is ours now */
}

/* With the lock, or nobody else there. */
static void take(tls_context_t *context, tls_texts_t *texts, SSL_CTX *ctx)
{
    SSL_CTX_set_app_data(ctx, context);
    if (!context->config.server) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ctx, on_new_session);
        SSL_SESSION_free(context->last);
        context->last = NULL;
    } else if (context->ctx && same_text(texts->ca, context->texts.ca)) {
        keep_tickets(context->ctx, ctx);
    }
    SSL_CTX_free(context->ctx);
    tls_texts_dispose(&context->texts);
    context->ctx = ctx;
    context->texts = *texts;
    context->generation++;
}

static status_t read_all(tls_context_t *context, err_t *err)
{
    tls_texts_t texts = {0};
    SSL_CTX *ctx = NULL;
    status_t status = read_texts(context, &texts, err);
    if (status == STATUS_OK)
        status = tls_material_load(&context->config, &texts, &ctx, err);
    if (status == STATUS_OK)
        take(context, &texts, ctx);
    else
        tls_texts_dispose(&texts);
    return status;
}

/* With the lock. */
static void look(tls_context_t *context)
{
    int64_t now_ns = clock_now_ns();
    err_t err;
    if (now_ns < context->look_ns)
        return;
    context->look_ns = now_ns + LOOK_NS;
    if (!note_stamps(context))
        return;
    if (read_all(context, &err) == STATUS_OK)
        log_info("tls_files_read", LOG_STR("certificate", context->config.cert ? context->config.cert : "-"));
    else
        log_error("tls_files_not_read", LOG_ERR(&err), LOG_STR("effect", "what was read before counts"));
}

/* ---- what others ask ---- */

SSL_CTX *tls_context_take(tls_context_t *context)
{
    pthread_mutex_lock(&context->lock);
    look(context);
    SSL_CTX *ctx = context->ctx;
    SSL_CTX_up_ref(ctx);
    pthread_mutex_unlock(&context->lock);
    return ctx;
}

SSL_SESSION *tls_context_last_session(tls_context_t *context)
{
    pthread_mutex_lock(&context->lock);
    SSL_SESSION *last = context->last;
    if (last)
        SSL_SESSION_up_ref(last);
    pthread_mutex_unlock(&context->lock);
    return last;
}

void tls_context_look(tls_context_t *context)
{
    if (!context)
        return;
    pthread_mutex_lock(&context->lock);
    context->look_ns = 0;
    look(context);
    pthread_mutex_unlock(&context->lock);
}

uint64_t tls_context_generation(tls_context_t *context)
{
    pthread_mutex_lock(&context->lock);
    look(context);
    uint64_t generation = context->generation;
    pthread_mutex_unlock(&context->lock);
    return generation;
}

bool tls_context_is_server(const tls_context_t *context)
{
    return context->config.server;
}

bool tls_context_wants_client(const tls_context_t *context)
{
    return context->config.server && context->config.ca;
}

const char *tls_context_server_role(const tls_context_t *context)
{
    return context->config.server_role;
}

static bool copy_text(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

status_t tls_context_texts(tls_context_t *context, tls_texts_t *texts, err_t *err)
{
    tls_texts_t copy = {0};
    pthread_mutex_lock(&context->lock);
    look(context);
    bool whole = copy_text(context->texts.cert, &copy.cert) && copy_text(context->texts.key, &copy.key) &&
                 copy_text(context->texts.ca, &copy.ca);
    pthread_mutex_unlock(&context->lock);
    if (!whole) {
        tls_texts_dispose(&copy);
        return err_set(err, STATUS_NO_MEMORY, "no memory for certificates");
    }
    *texts = copy;
    return STATUS_OK;
}

void tls_texts_dispose(tls_texts_t *texts)
{
    if (texts->key)
        explicit_bzero(texts->key, strlen(texts->key));
    free(texts->cert);
    free(texts->key);
    free(texts->ca);
    *texts = (tls_texts_t){0};
}

/* ---- making and ending ---- */

static bool copy_config(tls_config_t *to, const tls_config_t *from)
{
    const char *const of[] = {from->cert, from->key, from->ca, from->server_role, from->protocol};
    enum { TEXTS = sizeof of / sizeof *of };
    char *texts[TEXTS] = {0};
    bool whole = true;
    for (int i = 0; i < TEXTS; i++)
        whole &= copy_text(of[i], &texts[i]);
    *to = (tls_config_t){.server = from->server,
                         .cert = texts[0],
                         .key = texts[1],
                         .ca = texts[2],
                         .server_role = texts[3],
                         .protocol = texts[4]};
    return whole;
}

static status_t check_config(const tls_config_t *config, err_t *err)
{
    if (!config->cert != !config->key)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "a certificate and its private key go together: %s is missing",
                       config->cert ? "the key" : "the certificate");
    if (config->server && !config->cert)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a server of TLS needs a certificate");
    return STATUS_OK;
}

status_t tls_context_create(const tls_config_t *config, tls_context_t **context, err_t *err)
{
    status_t status = check_config(config, err);
    if (status != STATUS_OK)
        return status;
    tls_context_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for TLS");
    pthread_mutex_init(&made->lock, NULL);
    status =
        copy_config(&made->config, config) ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for TLS");
    if (status == STATUS_OK) {
        made->look_ns = clock_now_ns() + LOOK_NS;
        note_stamps(made);
        status = read_all(made, err);
    }
    if (status != STATUS_OK) {
        tls_context_destroy(made);
        return status;
    }
    *context = made;
    return STATUS_OK;
}

void tls_context_destroy(tls_context_t *context)
{
    if (!context)
        return;
    SSL_SESSION_free(context->last);
    SSL_CTX_free(context->ctx);
    tls_texts_dispose(&context->texts);
    free((char *)(uintptr_t)context->config.cert);
    free((char *)(uintptr_t)context->config.key);
    free((char *)(uintptr_t)context->config.ca);
    free((char *)(uintptr_t)context->config.server_role);
    free((char *)(uintptr_t)context->config.protocol);
    pthread_mutex_destroy(&context->lock);
    free(context);
}
