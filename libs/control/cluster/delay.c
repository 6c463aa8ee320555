#include "control/cluster/delay.h"

#include <math.h>
#include <string.h>

void delay_add(delay_window_t *window, int64_t now_ns, int64_t sample_ns)
{
    window->seen_ns[window->next] = now_ns;
    window->samples_ns[window->next] = sample_ns > 0 ? sample_ns : 0;
    window->next = (window->next + 1) % DELAY_WINDOW;
    if (window->count < DELAY_WINDOW)
        window->count++;
}

/* Hoare's selection: the k-th smallest, reordering values. */
static int64_t select_kth(int64_t *values, uint32_t count, uint32_t k)
{
    int64_t low = 0, high = (int64_t)count - 1;
    while (low < high) {
        int64_t pivot = values[low + (high - low) / 2], i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                int64_t swap = values[i];
                values[i++] = values[j];
                values[j--] = swap;
            }
        }
        if ((int64_t)k <= j)
            high = j;
        else if ((int64_t)k >= i)
            low = i;
        else
            break;
    }
    return values[k];
}

static int64_t quantile(int64_t *values, uint32_t count, double q)
{
    uint32_t rank = (uint32_t)(q * (double)count);
    return select_kth(values, count, rank < count ? rank : count - 1);
}

int64_t delay_quantile_ns(const delay_window_t *window, double q, int64_t fallback_ns)
{
    if (window->count == 0)
        return fallback_ns;
    int64_t values[DELAY_WINDOW];
    memcpy(values, window->samples_ns, window->count * sizeof values[0]);
    return quantile(values, window->count, q);
}

/* Whatever lies above `least_ns` halves again and again. */
static int64_t faded(int64_t value_ns, int64_t least_ns, int64_t age_ns)
{
    if (value_ns <= least_ns || age_ns <= 0)
        return value_ns;
    double halvings = (double)age_ns / (double)DELAY_HALF_NS;
    return least_ns + (int64_t)((double)(value_ns - least_ns) * exp2(-halvings));
}

static int64_t newest_ns(const delay_window_t *window)
{
    return window->seen_ns[(window->next + DELAY_WINDOW - 1) % DELAY_WINDOW];
}

/* With few samples a high percentile is the largest of them, which is an accident as a rule (a page fault, a
 * process that starts): from the eighth on, one of them does not count. */
static double high_quantile(const delay_window_t *window, double q)
{
    enum { ENOUGH = 8 };
    double all_but_one = ((double)window->count - 2) / (double)window->count;
    return window->count >= ENOUGH && all_but_one < q ? all_but_one : q;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t limited(int64_t value_ns)
{
    value_ns = larger(value_ns, DELAY_LEAST_NS);
    return value_ns < DELAY_MOST_NS ? value_ns : DELAY_MOST_NS;
}

delay_bounds_t delay_bounds(const delay_window_t *window, int64_t now_ns, int64_t fallback_ns)
{
    if (window->count == 0)
        return (delay_bounds_t){limited(fallback_ns), limited(fallback_ns), limited(fallback_ns)};
    int64_t usual_ns = delay_quantile_ns(window, 0.5, 0);
    int64_t values[DELAY_WINDOW];
    for (uint32_t i = 0; i < window->count; i++)
        values[i] = faded(window->samples_ns[i], usual_ns, now_ns - window->seen_ns[i] - DELAY_FRESH_NS);
    int64_t old_ns = now_ns - newest_ns(window) - DELAY_OLD_NS;
    int64_t most_ns = quantile(values, window->count, high_quantile(window, SCHED_DELAYS_MOST)),
            many_ns = quantile(values, window->count, high_quantile(window, SCHED_DELAYS_MANY));
    return (delay_bounds_t){limited(faded(most_ns, fallback_ns, old_ns)),
                            limited(faded(many_ns, fallback_ns, old_ns)),
                            limited(faded(usual_ns, fallback_ns, old_ns))};
}

delay_bounds_t delay_bounds_longer(delay_bounds_t a, delay_bounds_t b)
{
    return (delay_bounds_t){larger(a.most_ns, b.most_ns), larger(a.many_ns, b.many_ns),
                            larger(a.usual_ns, b.usual_ns)};
}

static uint32_t class_of(uint32_t batch)
{
    uint32_t class = 0;
    for (; batch > 1 && class < DELAY_CLASSES - 1; batch /= 2)
        class ++;
    return class;
}

void fetch_delay_add(fetch_delay_t *delay, int64_t now_ns, uint32_t batch, int64_t fetch_ns)
{
    enum { FORGET = 16 };
    uint32_t class = class_of(batch);
    double *mean = &delay->mean_batch[class];
    *mean += ((double)batch - *mean) / (delay->classes[class].count == 0 ? 1 : FORGET);
    delay_add(&delay->classes[class], now_ns, fetch_ns);
}

/* The slope is that between the smallest and the largest size seen; the line is then lifted over all others. A bump in
 * one class thus raises the fixed part and is not multiplied by the batch size. */
fetch_bounds_t fetch_delay_bounds(const fetch_delay_t *delay, int64_t now_ns, int64_t fallback_ns)
{
    delay_bounds_t bounds[DELAY_CLASSES];
    int smallest = -1, largest = -1;
    for (int c = 0; c < DELAY_CLASSES; c++) {
        if (delay->classes[c].count == 0)
            continue;
        bounds[c] = delay_bounds(&delay->classes[c], now_ns, fallback_ns);
        smallest = smallest < 0 ? c : smallest;
        largest = c;
    }
    if (smallest < 0)
        return (fetch_bounds_t){.fixed = delay_bounds(&delay->classes[0], now_ns, fallback_ns)};
    fetch_bounds_t fetch = {.fixed = {DELAY_LEAST_NS, DELAY_LEAST_NS, DELAY_LEAST_NS}};
    double rise_ns = (double)(bounds[largest].most_ns - bounds[smallest].most_ns);
    double run = delay->mean_batch[largest] - delay->mean_batch[smallest];
    if (rise_ns > 0 && run > 0)
        fetch.per_task_ns = (int64_t)(rise_ns / run);
    for (int c = smallest; c <= largest; c++) {
        if (delay->classes[c].count == 0)
            continue;
        int64_t tasks_ns = (int64_t)((double)fetch.per_task_ns * delay->mean_batch[c]);
        delay_bounds_t rest = {bounds[c].most_ns - tasks_ns, bounds[c].many_ns - tasks_ns,
                               bounds[c].usual_ns - tasks_ns};
        fetch.fixed = delay_bounds_longer(fetch.fixed, rest);
    }
    return fetch;
}
