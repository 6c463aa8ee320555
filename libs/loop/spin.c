#include "loop/spin.h"

#include "base/clock.h"
#include "loop/internal.h"

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_news(const spin_t *spin)
{
    for (const mailbox_t *box = spin->boxes; box; box = box->next_box)
        if (atomic_load_explicit(&box->head, memory_order_relaxed))
            return true;
    return false;
}

/* Until there is news or it is time for something else. */
static void watch(loop_t *loop, int64_t now_ns)
{
    spin_t *spin = &loop->spin;
    int64_t until_ns = spin->news_ns + spin->spin_ns;
    int64_t timer_ns = heap_min_key(&loop->timers.heap);
    until_ns = timer_ns < until_ns ? timer_ns : until_ns;
    atomic_store_explicit(&spin->watching, true, memory_order_seq_cst);
    while (!has_news(spin) && now_ns < until_ns &&
           !atomic_load_explicit(&loop->stopping, memory_order_relaxed)) {
        relax();
        now_ns = clock_now_ns();
    }
    /* Whoever posts sees this, or is seen by the look that follows: all four steps are in one order. */
    atomic_store_explicit(&spin->watching, false, memory_order_seq_cst);
}

static mailbox_t *next_to_look_at(spin_t *spin)
{
    mailbox_t *box = spin->boxes;
    while (box && box->looked == spin->looks)
        box = box->next_box;
    if (box)
        box->looked = spin->looks;
    return box;
}

/* Each mailbox once, for who posted to it may not have woken the loop; and from the first again after
 * each, for what is delivered may dispose of any. */
static bool deliver_news(spin_t *spin)
{
    bool any = false;
    spin->looks++;
    for (mailbox_t *box; (box = next_to_look_at(spin));) {
        bool news = atomic_load_explicit(&box->head, memory_order_seq_cst);
        if (news)
            mailbox_deliver(box);
        any |= news;
    }
    return any;
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

/* Runs after all prepare handles of others, for the first one started is the last one called. What is
 * delivered here is to be followed by this turn's check handles: an idle handle keeps the poll in between
 * from blocking. */
static void on_prepare(uv_prepare_t *prepare)
{
    loop_t *loop = prepare->data;
    spin_t *spin = &loop->spin;
    int64_t now_ns = clock_now_ns();
    bool news = false;
    if (spin_is_busy(spin, now_ns)) {
        watch(loop, now_ns);
        news = deliver_news(spin);
        spin->stats.watched += news;
    }
    if (news)
        uv_idle_start(&spin->idle, on_idle);
    else
        uv_idle_stop(&spin->idle);
}

status_t spin_init(loop_t *loop, err_t *err)
{
    spin_t *spin = &loop->spin;
    spin_expect_none(spin);
    int rc = uv_prepare_init(&loop->uv, &spin->prepare);
    if (rc == 0)
        rc = uv_idle_init(&loop->uv, &spin->idle);
    if (rc != 0)
        return err_set(err, STATUS_IO, "cannot create a handle of the loop: %s", uv_strerror(rc));
    spin->prepare.data = loop;
    uv_unref((uv_handle_t *)&spin->prepare);
    uv_unref((uv_handle_t *)&spin->idle);
    return STATUS_OK;
}

void spin_dispose(loop_t *loop)
{
    uv_close((uv_handle_t *)&loop->spin.prepare, NULL);
    uv_close((uv_handle_t *)&loop->spin.idle, NULL);
}

void loop_set_spin(loop_t *loop, int64_t spin_ns)
{
    spin_t *spin = &loop->spin;
    spin->spin_ns = spin_ns < LOOP_SPIN_MAX_NS ? spin_ns : LOOP_SPIN_MAX_NS;
    if (spin_ns > 0)
        uv_prepare_start(&spin->prepare, on_prepare);
    else
        uv_prepare_stop(&spin->prepare);
}

loop_spin_stats_t loop_spin_stats(const loop_t *loop)
{
    return loop->spin.stats;
}
