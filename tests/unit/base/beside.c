#include "base/beside.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

Test(beside, a_file_in_the_folder_of_the_program_and_one_from_there)
{
    char path[4096], other[4096];

    cr_assert(beside_program("base_beside", path, sizeof path));
    cr_expect_eq(access(path, X_OK), 0, "%s is this program", path);
    cr_assert(beside_program("../bin", other, sizeof other));
    cr_expect_str_eq(other + strlen(path) - strlen("base_beside"), "../bin");
    cr_expect_eq(strncmp(path, other, strlen(path) - strlen("base_beside")), 0);
}

Test(beside, a_path_that_is_too_long_is_none)
{
    char path[4096];

    cr_assert(beside_program("x", path, sizeof path));
    size_t len = strlen(path);
    cr_expect(beside_program("x", path, len + 1));
    cr_expect_not(beside_program("x", path, len));
}
