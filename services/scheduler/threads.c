#include "scheduler/threads.h"

#include "base/clock.h"
#include "scheduler/news.h"
#include "scheduler/shell.h"
#include "shards/front.h"

status_t threads_make(void *scheduler, const thread_core_t *wish, core_t **core, void **threads, err_t *err)
{
    const scheduler_t *s = scheduler;
    news_t *news = news_create(s->loop, wish->on_news, wish->news_arg);
    if (!news)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    const front_options_t how = {.limits = wish->limits,
                                 .shard_count = s->options.shards,
                                 .policy = wish->policy,
                                 .params = wish->params,
                                 .delays = wish->delays,
                                 .balance_ns = NS_PER_S,
                                 .wake = news_tell,
                                 .ctx = news};
    status_t status = front_create(&how, core, err);
    if (status == STATUS_OK)
        *threads = news;
    else
        news_destroy(news);
    return status;
}

void threads_release(void *threads)
{
    news_destroy(threads);
}
