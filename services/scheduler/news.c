#include "scheduler/news.h"

#include <stdatomic.h>
#include <stdlib.h>

/* It outlives its owner while the job is on its way. */
struct news {
    loop_job_t job;
    loop_t *loop;
    _Atomic bool posted;
    bool deaf;
    void (*fn)(void *arg);
    void *arg;
};

static void on_job(void *arg)
{
    news_t *news = arg;
    if (news->deaf) {
        free(news);
        return;
    }
    atomic_store_explicit(&news->posted, false, memory_order_release);
    news->fn(news->arg);
}

void news_tell(void *arg)
{
    news_t *news = arg;
    if (!atomic_exchange_explicit(&news->posted, true, memory_order_acq_rel))
        loop_post_job(news->loop, &news->job);
}

news_t *news_create(loop_t *loop, void (*fn)(void *arg), void *arg)
{
    news_t *news = calloc(1, sizeof *news);
    if (!news)
        return NULL;
    *news = (news_t){.loop = loop, .fn = fn, .arg = arg};
    news->job.fn = on_job;
    news->job.arg = news;
    return news;
}

void news_destroy(news_t *news)
{
    if (!news)
        return;
    news->deaf = true;
    if (!atomic_load_explicit(&news->posted, memory_order_acquire))
        free(news);
}
