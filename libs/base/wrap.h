/*
 * Text for a terminal: words that begin in a column, on as many lines as they take. Pure.
 */
#ifndef BASE_WRAP_H
#define BASE_WRAP_H

#include "base/strbuf.h"

/* As wide as the narrowest terminal that people have. */
enum { WRAP_COLUMNS = 80 };

/* Blanks, from one column to another. */
void wrap_indent(strbuf_t *out, size_t from, size_t to);
/*
 * The words of text behind what is there; further lines begin at column indent. *column is where the cursor is, and then where it is: at
 * least indent; there, nothing stands on the line yet and no blank goes before. A word longer than a line has one of its own.
 */
void wrap_words(strbuf_t *out, const char *text, size_t indent, size_t *column);
/* An entry of a list: `left` from column 2 on, text and details from column `indent` on, on the next line where left is too long. */
void wrap_entry(strbuf_t *out, const char *left, size_t indent, const char *text, const char *details);

#endif
