#include "load/shapes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static shapes_t shapes;
static err_t err;
static prng_t prng;
static model_t model;

static const model_tensor_t ids = {.name = "ids", .datatype = OIP_INT64, .shape = {2, {-1, -1}}};
static const model_tensor_t mask = {.name = "mask", .datatype = OIP_INT64, .shape = {2, {-1, -1}}};
static const model_tensor_t image = {.name = "image", .datatype = OIP_FP32, .shape = {4, {-1, 3, -1, -1}}};

static void set_up(void)
{
    model = (model_t){.name = "m", .input_count = 3, .inputs = {ids, mask, image}};
    prng_init(&prng, 7);
}

static void drop(void)
{
    shapes_dispose(&shapes);
}

TestSuite(shapes, .init = set_up, .fini = drop);

static void add(const char *text)
{
    cr_assert_eq(shapes_add(&shapes, text, &err), STATUS_OK, "%s", err.text);
}

Test(shapes, inputs_of_one_rule_have_one_shape)
{
    int64_t least = 99, most = 0;
    add("ids+mask:16-18");
    add("image:3,224,320");
    cr_assert_eq(shapes_check(&shapes, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(shapes_check_used(&shapes, &err), STATUS_OK);
    add("words:3");
    cr_assert_eq(shapes_check_used(&shapes, &err), STATUS_NOT_FOUND);
    for (int i = 0; i < 100; i++) {
        shapes_draw(&shapes, &prng);
        oip_shape_t a = shapes_of(&shapes, &ids, 2), b = shapes_of(&shapes, &mask, 2);
        cr_assert_eq(memcmp(&a, &b, sizeof a), 0);
        cr_assert_eq(a.dims[0], 2);
        least = a.dims[1] < least ? a.dims[1] : least;
        most = a.dims[1] > most ? a.dims[1] : most;
    }
    cr_assert(least == 16 && most == 18, "drawn from %lld to %lld", (long long)least, (long long)most);
    char text[OIP_SHAPE_TEXT_BYTES];
    oip_shape_t c = shapes_of(&shapes, &image, 5);
    cr_assert_str_eq(oip_shape_format(&c, text), "[5,3,224,320]");
}

Test(shapes, without_a_rule_it_is_one)
{
    add("mask:7");
    shapes_draw(&shapes, &prng);
    cr_assert_eq(shapes_of(&shapes, &ids, 3).dims[1], 1);
    cr_assert_eq(shapes_of(&shapes, &mask, 3).dims[1], 7);
}

Test(shapes, a_file_is_drawn_from_as_it_is)
{
    char path[] = "/tmp/fermata-shapes-XXXXXX", text[64];
    int file = mkstemp(path), nines = 0;
    cr_assert_geq(file, 0);
    cr_assert_eq(write(file, "9\n9\n9 \n40\n", 10), 10);
    close(file);
    snprintf(text, sizeof text, "ids:@%s", path);
    add(text);
    for (int i = 0; i < 400; i++) {
        shapes_draw(&shapes, &prng);
        int64_t size = shapes_of(&shapes, &ids, 1).dims[1];
        cr_assert(size == 9 || size == 40);
        nines += size == 9;
    }
    cr_assert(nines > 250 && nines < 350, "%d of 400 where 300 are expected", nines);
    unlink(path);
}

Test(shapes, what_is_wrong_is_named)
{
    static const char *const wrong[] = {
        "ids", ":3", "ids:", "ids:0", "ids:5-3", "ids:3,", "ids:3;4", "ids:-3", "ids:1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_eq(shapes_add(&shapes, wrong[i], &err), STATUS_INVALID_ARGUMENT, "%s", wrong[i]);
        cr_expect(strstr(err.text, wrong[i]), "%s", err.text);
    }
    cr_expect_eq(shapes_add(&shapes, "ids:@/nowhere/sizes", &err), STATUS_IO);
    cr_expect_eq(shapes.count, 0);
    add("image:224,320");
    cr_expect_eq(shapes_check(&shapes, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "has 3 dimensions, 2 are given"), "%s", err.text);
}
