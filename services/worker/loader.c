#include "loader.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What the thread hands to the loop for one model. */
typedef struct {
    mailbox_node_t node;
    model_t *model;
    int64_t took_ns;
} loaded_t;

struct loader {
    pthread_t thread;
    mailbox_t mailbox;
    _Atomic(int) stop;
    model_load_options_t options;
    loader_done_fn done;
    void *ctx;
    bool quiet; /* being destroyed */
    uint32_t count;
    loaded_t list[]; /* one for each model to load */
};

static void *loader_main(void *arg)
{
    loader_t *loader = arg;

    for (uint32_t i = 0; i < loader->count && !atomic_load(&loader->stop); i++) {
        loaded_t *loaded = &loader->list[i];
        int64_t begin = clock_now_ns();
        loaded->model->load_status = model_load(loaded->model, &loader->options, &loaded->model->load_err);
        loaded->took_ns = clock_now_ns() - begin;
        mailbox_post(&loader->mailbox, &loaded->node);
    }
    return NULL;
}

static void loader_log(const model_t *model, int64_t took_ns)
{
    if (model->state == MODEL_READY)
        log_info("model_loaded", LOG_STR("model", model->name), LOG_I64("version", model->version),
                 LOG_U64("max_batch", model->info->max_batch), LOG_MS("slo_ms", model->slo_ns),
                 LOG_MS("took_ms", took_ns));
    else
        log_error("model_failed", LOG_STR("model", model->name), LOG_I64("version", model->version),
                  LOG_STR("status", status_name(model->load_status)), LOG_ERR(&model->load_err));
}

static void loader_deliver(void *arg, mailbox_node_t *first)
{
    loader_t *loader = arg;

    for (mailbox_node_t *node = first; node;) {
        loaded_t *loaded = CONTAINER_OF(node, loaded_t, node);
        node = node->next;
        model_t *model = loaded->model;
        model->state = model->load_status == STATUS_OK ? MODEL_READY : MODEL_FAILED;
        if (loader->quiet)
            continue;
        loader_log(model, loaded->took_ns);
        loader->done(loader->ctx, model);
    }
}

status_t loader_start(loop_t *loop, repository_t *repository, const model_load_options_t *options,
                      loader_done_fn done, void *ctx, loader_t **out, err_t *err)
{
    loader_t *loader = calloc(1, sizeof(*loader) + repository->count * sizeof(loaded_t));

    if (!loader)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    loader->options = *options;
    loader->options.stop = &loader->stop;
    loader->done = done;
    loader->ctx = ctx;
    for (uint32_t i = 0; i < repository->count; i++) {
        model_t *model = repository->models[i];
        if (model->state == MODEL_LOADING)
            loader->list[loader->count++].model = model;
        else
            loader_log(model, 0);
    }
    status_t status = mailbox_init(&loader->mailbox, loop, loader_deliver, loader, err);
    if (status != STATUS_OK)
        goto free_loader;
    if (pthread_create(&loader->thread, NULL, loader_main, loader) != 0) {
        status = err_set(err, STATUS_IO, "cannot start the loader thread");
        goto dispose_mailbox;
    }
    *out = loader;
    return STATUS_OK;

dispose_mailbox:
    mailbox_dispose(&loader->mailbox);
free_loader:
    free(loader);
    return status;
}

void loader_destroy(loader_t *loader)
{
    if (!loader)
        return;
    atomic_store(&loader->stop, 1);
    pthread_join(loader->thread, NULL);
    loader->quiet = true;
    mailbox_dispose(&loader->mailbox);
    free(loader);
}
