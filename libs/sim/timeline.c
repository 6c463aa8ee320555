#include "sim/timeline.h"

#include "base/figures.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BOXES_MAX = 20000, /* more can neither be seen nor loaded by a browser */
    ROW_PX = 26,
    BOX_PX = 20,
    LEFT_PX = 60,
    TOP_PX = 30,
    WIDTH_PX = 1400,
    TICKS = 10,
};

typedef struct {
    int64_t at_ns;
    uint32_t model;
} drop_t;

struct timeline {
    int64_t from_ns, to_ns;
    uint32_t gpus, batch_count, drop_count;
    simulation_batch_t batches[BOXES_MAX];
    drop_t drops[BOXES_MAX];
};

timeline_t *timeline_create(double from_s, double to_s, uint32_t gpus)
{
    timeline_t *timeline = calloc(1, sizeof(*timeline));
    if (!timeline)
        return NULL;
    timeline->from_ns = (int64_t)(from_s * 1e9);
    timeline->to_ns = (int64_t)(to_s * 1e9);
    timeline->gpus = gpus;
    return timeline;
}

void timeline_destroy(timeline_t *timeline)
{
    free(timeline);
}

void timeline_on_batch(void *ctx, const simulation_batch_t *batch)
{
    timeline_t *timeline = ctx;
    if (batch->end_ns <= timeline->from_ns || batch->start_ns >= timeline->to_ns ||
        timeline->batch_count == BOXES_MAX)
        return;
    timeline->batches[timeline->batch_count++] = *batch;
}

void timeline_on_drop(void *ctx, uint32_t model, int64_t arrival_ns, int64_t now_ns)
{
    timeline_t *timeline = ctx;
    (void)arrival_ns;
    if (now_ns < timeline->from_ns || now_ns >= timeline->to_ns || timeline->drop_count == BOXES_MAX)
        return;
    timeline->drops[timeline->drop_count++] = (drop_t){.at_ns = now_ns, .model = model};
}

static double x_of(const timeline_t *timeline, int64_t at_ns)
{
    if (at_ns < timeline->from_ns)
        at_ns = timeline->from_ns;
    if (at_ns > timeline->to_ns)
        at_ns = timeline->to_ns;
    return LEFT_PX +
           WIDTH_PX * (double)(at_ns - timeline->from_ns) / (double)(timeline->to_ns - timeline->from_ns);
}

/* Neighbouring numbers get hues far apart. */
static unsigned hue(uint32_t model)
{
    return model * 137 % 360;
}

static void draw_axes(const timeline_t *timeline, FILE *out)
{
    unsigned bottom = TOP_PX + timeline->gpus * ROW_PX;
    char text[FIGURES_BYTES];
    double step_ns = figures_step((double)(timeline->to_ns - timeline->from_ns), TICKS);
    for (double at = ceil((double)timeline->from_ns / step_ns) * step_ns; at <= (double)timeline->to_ns;
         at += step_ns) {
        int64_t at_ns = (int64_t)at;
        double x = x_of(timeline, at_ns);
        fprintf(out, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%u' stroke='#ddd'/>", x, TOP_PX, x, bottom);
        fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%s ms</text>\n", x, TOP_PX - 8,
                figures_number((double)at_ns / 1e6, text, sizeof(text)));
    }
    for (uint32_t g = 0; g < timeline->gpus; g++)
        fprintf(out, "<text x='4' y='%u'>GPU %u</text>\n", TOP_PX + g * ROW_PX + 15, g);
    fprintf(out, "<text x='4' y='%u'>dropped</text>\n", bottom + 15);
}

static void draw_batch(const timeline_t *timeline, const workload_t *workload,
                       const simulation_batch_t *batch, FILE *out)
{
    double x = x_of(timeline, batch->start_ns), width = x_of(timeline, batch->end_ns) - x;
    unsigned y = TOP_PX + batch->gpu * ROW_PX;
    const char *stroke = batch->late ? "red" : "#333";
    fprintf(out, "<rect x='%.1f' y='%u' width='%.1f' height='%d' fill='hsl(%u,60%%,%d%%)' stroke='%s'%s>", x,
            y, width, BOX_PX, hue(batch->model), batch->preempted ? 92 : 75, stroke,
            batch->preempted ? " stroke-dasharray='3'" : "");
    fprintf(out, "<title>%s: %u from %.3f to %.3f ms%s</title></rect>", workload->models[batch->model].name,
            batch->count, (double)batch->start_ns / 1e6, (double)batch->end_ns / 1e6,
            batch->preempted ? ", stopped" : "");
    if (width > 14)
        fprintf(out, "<text x='%.1f' y='%u' text-anchor='middle'>%u</text>", x + width / 2, y + 15,
                batch->count);
    fputc('\n', out);
}

static void draw(const timeline_t *timeline, const workload_t *workload, FILE *out)
{
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%u' font-family='sans-serif' "
            "font-size='11'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            LEFT_PX + WIDTH_PX + 30, TOP_PX + (timeline->gpus + 1) * ROW_PX + 10);
    draw_axes(timeline, out);
    for (uint32_t i = 0; i < timeline->batch_count; i++)
        draw_batch(timeline, workload, &timeline->batches[i], out);
    for (uint32_t i = 0; i < timeline->drop_count; i++)
        fprintf(out, "<circle cx='%.1f' cy='%u' r='3' fill='red'><title>%s</title></circle>\n",
                x_of(timeline, timeline->drops[i].at_ns), TOP_PX + timeline->gpus * ROW_PX + 10,
                workload->models[timeline->drops[i].model].name);
    fputs("</svg>\n", out);
}

status_t timeline_write(const timeline_t *timeline, const workload_t *workload, const char *path, err_t *err)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    draw(timeline, workload, out);
    if (fclose(out) != 0)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}
