/* What the user may have meant: by the option tables, and by programs with words of their own. */
#ifndef CONFIG_SUGGEST_H
#define CONFIG_SUGGEST_H

#include <stddef.h>

/* The name that is at most two edits away from text, or NULL. names is NULL-terminated. */
const char *suggest_name(const char *text, const char *const *names);

/* "a, b, c" in full words, ending in "…" when it does not fit. Returns buf. */
char *suggest_list(const char *const *names, char *buf, size_t buf_bytes);

#endif
