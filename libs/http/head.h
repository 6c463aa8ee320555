/*
 * The lines of a message's head (or trailers) as bytes, before the parser has them. llhttp 8.1 lets through what a proxy in front may read otherwise, so
 * that one request becomes two, or a header another's: lines that end in CR or LF alone, folded lines, lines without a name. Pure.
 *
 *   BEFORE ─▶ LINE ⇄ START ─▶ END ─▶ BODY          START: of a line that is not the first
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    HEAD_BEFORE, /* nothing has come but whole empty lines */
    HEAD_BEFORE_LF,
    HEAD_LINE,
    HEAD_LINE_LF, /* its CR was there */
    HEAD_START,
    HEAD_END_LF, /* the CR of the empty line was there */
    HEAD_BODY,   /* the empty line was there: what follows is none of the head */
} head_state_t;

/* Takes bytes as they come, until they end or the state is HEAD_BODY. NULL, or what is wrong with them. */
const char *head_scan(head_state_t *state, const uint8_t *data, size_t len);

#endif
