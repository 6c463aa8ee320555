/*
 * Any bytes as a model's config.pbtxt: whatever is refused must say why and where, and what is taken must be within the
 * bounds that its readers count on.
 */
#include "config/ptext.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    err_t err = {.text = ""};
    ptext_t *doc = NULL;
    status_t status = ptext_parse("config.pbtxt", (const char *)bytes, len, &doc, &err);

    if (status != STATUS_OK && (doc || strncmp(err.text, "config.pbtxt:", 13) != 0))
        abort();
    if (status == STATUS_OK && walk(ptext_root(doc), 0) > PTEXT_MAX_FIELDS)
        abort();
    ptext_destroy(doc);
    return 0;
}
