/* Strings between clients and workers. */
#include "oip/text.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ROOM = 4 };

/* "", "ab", "wxyz", "a\0b" as clients send them. */
static const uint8_t framed[] = {0, 0,   0,   0,   2,   0, 0, 0, 'a', 'b', 4, 0,  0,
                                 0, 'w', 'x', 'y', 'z', 3, 0, 0, 0,   'a', 0, 'b'};
static const uint8_t rooms[] = {0, 0, 0, 0, 'a', 'b', 0, 0, 'w', 'x', 'y', 'z', 'a', 0, 'b', 0};

Test(text, rooms_hold_what_was_sent_and_give_it_back)
{
    uint8_t laid[sizeof rooms], back[64];
    const uint8_t *at = framed;
    memset(laid, 0xff, sizeof laid);
    oip_text_lay(&at, 3, laid, ROOM);
    cr_expect_eq(at, framed + 18, "the fourth is next");
    oip_text_lay(&at, 1, laid + 3 * ROOM, ROOM);
    cr_expect_eq(at, framed + sizeof framed);
    cr_expect_arr_eq(laid, rooms, sizeof rooms);
    cr_expect_eq(oip_text_frame(laid, 4, ROOM, back), sizeof framed);
    cr_expect_arr_eq(back, framed, sizeof framed);
    cr_expect_geq(oip_text_bytes_max(4, ROOM), sizeof framed);
}

Test(text, what_has_no_room_is_named)
{
    err_t err;
    cr_expect_eq(oip_text_check("x", framed, sizeof framed, ROOM, &err), STATUS_OK);
    cr_expect_eq(oip_text_check("x", framed, sizeof framed, 3, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(err.text, "input 'x': element 2 has 4 bytes, the model takes 3 at most (string_bytes)");
    static const uint8_t zero[] = {1, 0, 0, 0, 'a', 2, 0, 0, 0, 'a', 0};
    cr_expect_eq(oip_text_check("x", zero, sizeof zero, ROOM, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(err.text, "input 'x': element 1 ends in a zero byte");
    cr_expect_eq(oip_text_check("x", zero, 5, ROOM, &err), STATUS_OK);
}
