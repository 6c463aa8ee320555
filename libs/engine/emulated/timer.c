#include "engine/emulated/timer.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* A binary heap by due_ns. Its capacity follows the holders, so that emulated_timer_set never fails. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stop;
    emulated_entry_t *firing;
    pthread_cond_t fired;
    emulated_entry_t **heap;
    uint32_t count, capacity, holders;
} timer = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fired = PTHREAD_COND_INITIALIZER};

/* Starting and stopping the thread are rare; one lock keeps them apart. */
static pthread_mutex_t lifecycle = PTHREAD_MUTEX_INITIALIZER;

static void heap_put(emulated_entry_t *entry, uint32_t at)
{
    timer.heap[at] = entry;
    entry->place = at + 1;
}

static void heap_up(emulated_entry_t *entry, uint32_t at)
{
    for (; at > 0; at = (at - 1) / 2) {
        emulated_entry_t *parent = timer.heap[(at - 1) / 2];
        if (parent->due_ns <= entry->due_ns)
            break;
        heap_put(parent, at);
    }
    heap_put(entry, at);
}

static void heap_down(emulated_entry_t *entry, uint32_t at)
{
    for (uint32_t child = 2 * at + 1; child < timer.count; child = 2 * at + 1) {
        if (child + 1 < timer.count && timer.heap[child + 1]->due_ns < timer.heap[child]->due_ns)
            child++;
        if (entry->due_ns <= timer.heap[child]->due_ns)
            break;
        heap_put(timer.heap[child], at);
        at = child;
    }
    heap_put(entry, at);
}

static void heap_remove(emulated_entry_t *entry)
{
    uint32_t at = entry->place - 1;
    emulated_entry_t *last = timer.heap[--timer.count];
    entry->place = 0;
    if (last == entry)
        return;
    heap_up(last, at);
    heap_down(last, last->place - 1);
}

static void wait_until(int64_t due_ns)
{
    struct timespec ts = {.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S};
    pthread_cond_timedwait(&timer.changed, &timer.mutex, &ts);
}

static void *timer_main(void *arg)
{
    (void)arg;
    prctl(PR_SET_TIMERSLACK, 1UL); /* the default lets the kernel be 50 µs late */
    pthread_mutex_lock(&timer.mutex);
    while (!timer.stop) {
        if (!timer.count) {
            pthread_cond_wait(&timer.changed, &timer.mutex);
        } else if (timer.heap[0]->due_ns > clock_now_ns()) {
            wait_until(timer.heap[0]->due_ns);
        } else {
            emulated_entry_t *entry = timer.firing = timer.heap[0];
            heap_remove(entry);
            pthread_mutex_unlock(&timer.mutex);
            entry->fire(entry);
            pthread_mutex_lock(&timer.mutex);
            timer.firing = NULL;
            pthread_cond_broadcast(&timer.fired);
        }
    }
    pthread_mutex_unlock(&timer.mutex);
    return NULL;
}

static status_t start(err_t *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&timer.changed, &attr);
    pthread_condattr_destroy(&attr);
    timer.stop = false;
    if (pthread_create(&timer.thread, NULL, timer_main, NULL)) {
        pthread_cond_destroy(&timer.changed);
        return err_set(err, STATUS_IO, "cannot start the thread of the emulated engines");
    }
    timer.started = true;
    return STATUS_OK;
}

static status_t reserve_locked(err_t *err)
{
    if (timer.holders < timer.capacity)
        return STATUS_OK;
    uint32_t capacity = timer.capacity ? 2 * timer.capacity : 64;
    emulated_entry_t **heap = realloc(timer.heap, capacity * sizeof(emulated_entry_t *));
    if (!heap)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an emulated engine");
    timer.heap = heap;
    timer.capacity = capacity;
    return STATUS_OK;
}

status_t emulated_timer_acquire(err_t *err)
{
    pthread_mutex_lock(&lifecycle);
    pthread_mutex_lock(&timer.mutex);
    status_t status = reserve_locked(err);
    pthread_mutex_unlock(&timer.mutex);
    if (status == STATUS_OK && !timer.started)
        status = start(err);
    if (status == STATUS_OK) {
        pthread_mutex_lock(&timer.mutex);
        timer.holders++;
        pthread_mutex_unlock(&timer.mutex);
    }
    pthread_mutex_unlock(&lifecycle);
    return status;
}

static void stop(void)
{
    pthread_mutex_lock(&timer.mutex);
    timer.stop = true;
    pthread_cond_signal(&timer.changed);
    pthread_mutex_unlock(&timer.mutex);
    pthread_join(timer.thread, NULL);
    pthread_cond_destroy(&timer.changed);
    timer.started = false;
    free(timer.heap);
    timer.heap = NULL;
    timer.capacity = 0;
}

void emulated_timer_release(void)
{
    pthread_mutex_lock(&lifecycle);
    pthread_mutex_lock(&timer.mutex);
    bool last = --timer.holders == 0;
    pthread_mutex_unlock(&timer.mutex);
    if (last)
        stop();
    pthread_mutex_unlock(&lifecycle);
}

void emulated_timer_set(emulated_entry_t *entry, int64_t due_ns)
{
    pthread_mutex_lock(&timer.mutex);
    if (entry->place)
        heap_remove(entry);
    entry->due_ns = due_ns;
    heap_up(entry, timer.count++);
    if (timer.heap[0] == entry)
        pthread_cond_signal(&timer.changed);
    pthread_mutex_unlock(&timer.mutex);
}

void emulated_timer_remove(emulated_entry_t *entry)
{
    pthread_mutex_lock(&timer.mutex);
    while (timer.firing == entry)
        pthread_cond_wait(&timer.fired, &timer.mutex);
    if (entry->place)
        heap_remove(entry);
    pthread_mutex_unlock(&timer.mutex);
}
