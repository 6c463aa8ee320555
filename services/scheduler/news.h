/*
 * The word of threads that decide to the loop that takes decisions out: told any number of times, it comes once, until it
 * was heard. A word that is on its way when news are disposed of is heard by nobody.
 */
#ifndef SCHEDULER_NEWS_H
#define SCHEDULER_NEWS_H

#include "loop/loop.h"

typedef struct news news_t;

news_t *news_create(loop_t *loop, void (*fn)(void *arg), void *arg); /* fn: on the loop; NULL: no memory */
void news_destroy(news_t *news); /* on the loop, when no thread tells any more; NULL is allowed */

void news_tell(void *news); /* a news_t; any thread */

#endif
