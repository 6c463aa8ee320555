/* What of a config.pbtxt is not taken up. */
#include "model/parts/triton.h"

#include "config/ptext.h"

#include <stdio.h>

void triton_note(triton_config_t *config, const ptext_field_t *field, const char *within, const char *why)
{
    if (config->note_count == TRITON_NOTES_MAX) {
        config->notes_left_out++;
        return;
    }
    triton_note_t *note = &config->notes[config->note_count++];
    note->line = ptext_line(field);
    note->why = why;
    (void)snprintf(note->key, sizeof(note->key), "%s%s%.60s", within, *within ? "." : "", ptext_name(field));
}

const char *triton_config_text(const triton_config_t *config, char *text, size_t text_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; config && i < config->note_count; i++) {
        const triton_note_t *note = &config->notes[i];
        int n = snprintf(text + used, text_bytes - used, "%s%s (line %d)",
                         i ? ", " : "config.pbtxt: not taken up: ", note->key, note->line);
        if (n < 0 || (size_t)n >= text_bytes - used - sizeof(", …")) {
            (void)snprintf(text + used, text_bytes - used, "%s", used ? ", …" : "");
            break;
        }
        used += (size_t)n;
    }
    return text;
}
