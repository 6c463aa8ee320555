/* Large blocks that are kept when they are given back. */
#include "loader/blocks.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

Test(blocks, one_that_was_given_back_is_what_the_next_gets)
{
    char *one = blocks_take(64 * MIB), *other = blocks_take(64 * MIB);

    cr_assert(one && other && one != other);
    memset(one, 1, 64 * MIB);
    memset(other, 2, 64 * MIB);
    cr_expect(one[0] == 1 && one[64 * MIB - 1] == 1);
    cr_expect(blocks_give(one));
    cr_expect_eq(blocks_take(40 * MIB), one, "it has room for that");
    cr_expect_geq(blocks_room(one), 40u * MIB);
    cr_expect(blocks_give(one) && blocks_give(other));
}

Test(blocks, what_is_small_or_of_somebody_else_is_none)
{
    void *small = malloc(100), *page = NULL;

    cr_assert_eq(posix_memalign(&page, BLOCKS_ALIGN_BYTES, 100), 0);
    cr_expect_null(blocks_take(MIB));
    cr_expect_null(blocks_take(SIZE_MAX));
    cr_expect(!blocks_give(small) && !blocks_give(page) && !blocks_give(NULL));
    cr_expect(blocks_room(small) == 0 && blocks_room(page) == 0 && blocks_room(NULL) == 0);
    free(small);
    free(page);
}

/* So that a model takes no more than it would without them. */
Test(blocks, those_kept_go_when_others_would_be_more_than_there_ever_was)
{
    void *first = blocks_take(100 * MIB), *second = blocks_take(16 * MIB);

    cr_assert(first && second);
    cr_expect(blocks_give(first));
    cr_expect_not_null(blocks_take(20 * MIB));
    cr_expect_eq(blocks_room(first), 0, "it was dropped");
    cr_expect_geq(blocks_room(second), 16u * MIB, "it is in use");
}

Test(blocks, they_are_dropped_when_asked)
{
    void *one = blocks_take(16 * MIB), *other = blocks_take(16 * MIB);

    cr_expect(!blocks_drop(), "none is kept");
    cr_expect(blocks_give(one));
    cr_expect(blocks_drop());
    cr_expect(!blocks_drop());
    cr_expect(blocks_room(one) == 0 && blocks_room(other) > 0);
}

Test(blocks, without_memory_there_is_none)
{
    void *one = blocks_take(16 * MIB);

    cr_expect(blocks_give(one));
    cr_expect_null(blocks_take(SIZE_MAX / 4), "no address space has that");
    cr_expect_eq(blocks_room(one), 0, "those kept were given for it");
}
