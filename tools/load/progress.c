#include "load/progress.h"

#include "base/clock.h"
#include "base/figures.h"
#include "loop/timer.h"
#include "screen/screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rates are those of the last second, looked at as often as an eye follows. */
#define LOOK_NS (250 * NS_PER_MS)
enum { LOOKS = 4, BAR_LEAST = 10, BAR_MOST = 40, LINE_BYTES = 512 };

typedef struct {
    int64_t at_ns;
    uint64_t sent, good;
} look_t;

struct progress {
    runner_options_t o;
    const runner_t *runner;
    loop_timer_t timer;
    screen_t screen;
    look_t looks[LOOKS];
    unsigned looked;
    histogram_t latency;
};

/* False, and nothing changes, when the part does not fit. */
static bool add_part(char *text, size_t text_bytes, unsigned columns, unsigned *used, const char *part)
{
    const char *comma = *used > 0 ? "  " : "";
    unsigned part_columns;
    screen_fit(part, columns, &part_columns);
    size_t len = strlen(text), comma_len = strlen(comma), part_len = strlen(part);
    if (*used + comma_len + part_columns > columns || len + comma_len + part_len >= text_bytes ||
        part[screen_fit(part, columns, &part_columns)] != '\0')
        return false;
    snprintf(text + len, text_bytes - len, "%s%s", comma, part);
    *used += (unsigned)comma_len + part_columns;
    return true;
}

static void add_bar(double done, char *text, size_t text_bytes, unsigned columns, unsigned used)
{
    char bar[BAR_MOST + 4] = "[";
    if (columns < used + 2 + 2 + BAR_LEAST)
        return;
    int cells = (int)fmin(columns - used - 4, BAR_MOST), full = (int)(fmin(fmax(done, 0), 1) * cells);
    for (int i = 0; i < cells; i++)
        bar[1 + i] = i < full ? '#' : '.';
    bar[1 + cells] = ']';
    bar[2 + cells] = '\0';
    add_part(text, text_bytes, columns, &used, bar);
}

static const char *describe_left(const progress_view_t *v, char *text, size_t text_bytes)
{
    char left[FIGURES_BYTES];
    if (!v->sending)
        snprintf(text, text_bytes, "waiting for the last answers");
    else if (v->left_s < 0)
        snprintf(text, text_bytes, "starting");
    else
        snprintf(text, text_bytes, "%s left%s", figures_time(ceil(v->left_s), left, sizeof left),
                 v->warming_up ? ", warming up" : "");
    return text;
}

void progress_text(const progress_view_t *v, unsigned columns, char *text, size_t text_bytes)
{
    char part[160], number[FIGURES_BYTES];
    unsigned used = 0;
    text[0] = '\0';
    add_part(text, text_bytes, columns, &used, describe_left(v, part, sizeof part));
    snprintf(part, sizeof part, "%s/s sent", figures_number(round(v->sent_per_s), number, sizeof number));
    add_part(text, text_bytes, columns, &used, part);
    if (!v->warming_up) {
        snprintf(part, sizeof part, "%s/s good", figures_number(round(v->good_per_s), number, sizeof number));
        add_part(text, text_bytes, columns, &used, part);
    }
    if (v->p99_ns > 0) {
        snprintf(part, sizeof part, "p99 %s",
                 figures_time((double)v->p99_ns / (double)NS_PER_S, number, sizeof number));
        add_part(text, text_bytes, columns, &used, part);
    }
    add_bar(v->done, text, text_bytes, columns, used);
}

static void look(const progress_t *p, look_t *seen)
{
    *seen = (look_t){.at_ns = clock_now_ns(), .sent = runner_issued(p->runner)};
    for (uint32_t i = 0; i < p->o.flow_count; i++)
        seen->good += p->o.flows[i].tally.outcomes[OUTCOME_OK];
}

static int64_t p99_of(progress_t *p)
{
    histogram_init(&p->latency);
    for (uint32_t i = 0; i < p->o.flow_count; i++)
        histogram_merge(&p->latency, &p->o.flows[i].tally.latency);
    return histogram_quantile_ns(&p->latency, 0.99);
}

static void view_of(progress_t *p, const look_t *before, const look_t *now, progress_view_t *v)
{
    const double spent_s = (double)runner_elapsed_ns(p->runner, now->at_ns) / (double)NS_PER_S;
    const double by_time = spent_s * (double)NS_PER_S / (double)p->o.duration_ns;
    const double by_count = p->o.requests_max > 0 ? (double)now->sent / (double)p->o.requests_max : 0;
    const double since_s = (double)(now->at_ns - before->at_ns) / (double)NS_PER_S;
    *v = (progress_view_t){.done = fmax(by_time, by_count),
                           .sending = runner_is_sending(p->runner),
                           .warming_up = spent_s * (double)NS_PER_S < (double)p->o.warmup_ns,
                           .p99_ns = p99_of(p)};
    v->left_s = v->done > 0 ? fmax(spent_s / v->done - spent_s, 0) : -1;
    if (since_s > 0) {
        v->sent_per_s = (double)(now->sent - before->sent) / since_s;
        v->good_per_s = (double)(now->good - before->good) / since_s;
    }
}

static void on_look(loop_timer_t *timer, void *arg)
{
    progress_t *p = arg;
    progress_view_t view;
    char text[LINE_BYTES];
    look_t now;
    look(p, &now);
    view_of(p, &p->looks[p->looked < LOOKS ? 0 : p->looked % LOOKS], &now, &view);
    p->looks[p->looked++ % LOOKS] = now;
    progress_text(&view, screen_columns(&p->screen) - 1, text, sizeof text);
    screen_draw(&p->screen, text);
    loop_timer_start_in(timer, LOOK_NS);
}

status_t progress_create(progress_t **out, const runner_options_t *options, const runner_t *runner,
                         err_t *err)
{
    screen_t screen;
    *out = NULL;
    screen_init(&screen, stderr);
    if (!screen.live)
        return STATUS_OK;
    progress_t *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the line of progress");
    p->o = *options;
    p->runner = runner;
    p->screen = screen;
    status_t st = loop_timer_init(&p->timer, options->loop, on_look, p, err);
    if (st != STATUS_OK) {
        free(p);
        return st;
    }
    look(p, &p->looks[0]);
    p->looked = 1;
    loop_timer_start_in(&p->timer, LOOK_NS);
    *out = p;
    return STATUS_OK;
}

void progress_destroy(progress_t *p)
{
    if (!p)
        return;
    screen_clear(&p->screen);
    loop_timer_dispose(&p->timer);
    free(p);
}
