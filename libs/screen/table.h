/*
 * A table of text: each column as wide as what stands in it, those that hold nothing left out, and so from the right
 * those that have no room. Filled row by row, then printed. One owner; no thread of its own.
 *
 *     MODEL   VERSION  STATE      DONE
 *     digits  1        ready       482
 *     broken  1        not ready     0
 *       its note, whole: node 'x': unknown operator Foo
 */
#ifndef SCREEN_TABLE_H
#define SCREEN_TABLE_H

#include "base/strbuf.h"

#include <stdbool.h>

enum { TABLE_COLUMNS_MAX = 16, TABLE_ALL = 0 };

typedef struct {
    const char *heading;
    bool number; /* stands at the right of its column, as its heading does */
} table_column_t;

typedef struct {
    const table_column_t *columns; /* the caller's, for as long as the table is there */
    unsigned count;
    strbuf_t texts; /* of each row its cells, then its note, each ended by NUL */
} table_t;

/* count: TABLE_COLUMNS_MAX at most. */
void table_init(table_t *table, const table_column_t *columns, unsigned count);
void table_dispose(table_t *table);

/* The next cell of the row that is being filled; "": nothing to be said. */
void table_cell(table_t *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends a row of which every cell was given. note: what stands on a line below it, or "". */
void table_end_row(table_t *table, const char *note);

/* Adds headings and rows to out, in so many terminal columns (screen_room; TABLE_ALL: no end to them). */
void table_print(const table_t *table, unsigned room, strbuf_t *out);

#endif
