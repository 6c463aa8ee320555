#include "screen/table.h"

#include <criterion/criterion.h>

static const table_column_t columns[] = {{"MODEL", false}, {"STATE", false}, {"KEPT", false}, {"DONE", true}};

static void expect_printed(unsigned room, const char *kept, const char *want)
{
    table_t table;
    strbuf_t out;
    table_init(&table, columns, 4);
    strbuf_init(&out, 1 << 10);
    table_cell(&table, "%s", "größer");
    table_cell(&table, "ready");
    table_cell(&table, "%s", kept);
    table_cell(&table, "%d", 48213);
    table_end_row(&table, "");
    table_cell(&table, "b");
    table_cell(&table, "not ready");
    table_cell(&table, "%s", "");
    table_cell(&table, "%s", "");
    table_end_row(&table, "node 'x': unknown operator");
    table_print(&table, room, &out);
    cr_expect_str_eq(out.data, want, "in %u columns:\n%s", room, out.data);
    strbuf_dispose(&out);
    table_dispose(&table);
}

Test(table, columns_are_as_wide_as_what_they_hold)
{
    expect_printed(TABLE_ALL, "yes",
                   "MODEL   STATE      KEPT   DONE\n"
                   "größer  ready      yes   48213\n"
                   "b       not ready\n"
                   "  node 'x': unknown operator\n");
}

Test(table, a_column_that_holds_nothing_is_left_out)
{
    expect_printed(TABLE_ALL, "",
                   "MODEL   STATE       DONE\n"
                   "größer  ready      48213\n"
                   "b       not ready\n"
                   "  node 'x': unknown operator\n");
}

Test(table, what_has_no_room_is_left_out_from_the_right)
{
    expect_printed(30, "yes",
                   "MODEL   STATE      KEPT   DONE\n"
                   "größer  ready      yes   48213\n"
                   "b       not ready\n"
                   "  node 'x': unknown operator\n");
    expect_printed(29, "yes",
                   "MODEL   STATE      KEPT\n"
                   "größer  ready      yes\n"
                   "b       not ready\n"
                   "  node 'x': unknown operator\n");
    expect_printed(1, "yes",
                   "MODEL\n"
                   "größer\n"
                   "b\n"
                   "  node 'x': unknown operator\n");
}

Test(table, without_rows_there_are_headings)
{
    table_t table;
    strbuf_t out;
    table_init(&table, columns, 4);
    strbuf_init(&out, 1 << 10);
    table_print(&table, TABLE_ALL, &out);
    cr_expect_str_eq(out.data, "MODEL  STATE  KEPT  DONE\n");
    strbuf_dispose(&out);
    table_dispose(&table);
}
