/*
 * Any bytes as a model's config.pbtxt: whatever is refused must say why and where, and what is taken must be within the
 * bounds that its readers count on.
 */
#include "config/ptext.h"
#include "model/parts/triton.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static uint32_t walk(const ptext_field_t *message, int depth)
{
    uint32_t count = 0;

    if (depth > PTEXT_MAX_DEPTH)
        abort();
    for (const ptext_field_t *f = ptext_first(message); f; f = ptext_next(f)) {
        if (!*ptext_name(f) || ptext_line(f) < 1)
            abort();
        if (ptext_kind(f) == PTEXT_WORD && !*ptext_text(f))
            abort();
        count += 1 + walk(f, depth + 1);
    }
    return count;
}

static void check(const triton_config_t *config)
{
    if (config->max_batch > ENGINE_MAX_BATCH || config->slo_ns < 0 || config->note_count > TRITON_NOTES_MAX ||
        config->tensor_count > 2 * ENGINE_MAX_IO || config->versions.count > MODEL_VERSIONS_MAX ||
        strchr(config->labels, '/') || strchr(config->file, '/'))
        abort();
    for (uint32_t i = 0; i < config->tensor_count; i++)
        if (config->tensors[i].rank > ENGINE_MAX_RANK || config->tensors[i].reshape_rank > ENGINE_MAX_RANK)
            abort();
}

/* As the configuration that it may be. */
static void take(const ptext_field_t *root)
{
    err_t err = {.text = ""};
    triton_config_t *config = NULL;
    char text[64];

    if (triton_config_take(root, &config, &err) == STATUS_OK)
        check(config);
    else if (strncmp(err.text, "config.pbtxt:", 13) != 0)
        abort();
    if (strlen(triton_config_text(config, text, sizeof text)) >= sizeof text)
        abort();
    free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    err_t err = {.text = ""};
    ptext_t *doc = NULL;
    status_t status = ptext_parse("config.pbtxt", (const char *)bytes, len, &doc, &err);

    if (status != STATUS_OK && (doc || strncmp(err.text, "config.pbtxt:", 13) != 0))
        abort();
    if (status == STATUS_OK && walk(ptext_root(doc), 0) > PTEXT_MAX_FIELDS)
        abort();
    if (status == STATUS_OK)
        take(ptext_root(doc));
    ptext_destroy(doc);
    return 0;
}
