#include "summary/summary.h"

#include "base/figures.h"
#include "profile/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL_BYTES = 160, INDENT = 2, GAP = 2, REASON_INDENT = 4, REASON_ROOM_LEAST = 20 };

typedef enum { COL_NAME, COL_VERSION, COL_STATE, COL_ENGINE, COL_ONE, COL_MOST, COL_MEASURED, COLS } column_t;

static const char *const headings[COLS] = {"model", "version",    "state",   "engine",
                                           "1 row", "full batch", "measured"};

static const char *milliseconds(double ms, char *text, size_t text_bytes)
{
    return figures_time(ms / 1e3, text, text_bytes);
}

static bool has_latency(const summary_model_t *model)
{
    return model->ready && model->one_ms > 0;
}

static void cell_of(const summary_model_t *model, column_t column, char *text)
{
    char number[FIGURES_BYTES];
    const char *const plain[] = {model->name, model->version, model->state, model->engine};
    text[0] = '\0';
    if (column == COL_VERSION && strcmp(model->version, "0") == 0)
        return;
    if (column <= COL_ENGINE)
        snprintf(text, CELL_BYTES, "%s", plain[column]);
    else if (!has_latency(model))
        return;
    else if (column == COL_ONE)
        milliseconds(model->one_ms, text, CELL_BYTES);
    else if (column == COL_MOST && model->max_batch > 1)
        snprintf(text, CELL_BYTES, "%u in %s", model->max_batch,
                 milliseconds(model->most_ms, number, sizeof number));
    else if (column == COL_MEASURED && model->measured > 0)
        snprintf(text, CELL_BYTES, "%u size%s up to %u%s", model->measured, model->measured > 1 ? "s" : "",
                 model->measured_up_to, model->doubt > PROFILE_DOUBT_MOST ? ", beside other work" : "");
}

/* ---- the table ---- */

static unsigned columns_of(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80; /* not the bytes behind the first of a character */
    return n;
}

/* How wide each column is, and how many of them have room. */
static unsigned lay_out(const summary_model_t *models, size_t count, unsigned room, unsigned width[COLS])
{
    char text[CELL_BYTES];
    unsigned used = INDENT, shown = 0;
    for (int c = 0; c < COLS; c++) {
        bool any = false;
        width[c] = columns_of(headings[c]);
        for (size_t i = 0; i < count; i++) {
            cell_of(&models[i], (column_t)c, text);
            any = any || text[0] != '\0';
            if (columns_of(text) > width[c])
                width[c] = columns_of(text);
        }
        width[c] = any ? width[c] : 0; /* nothing to be said: no column */
        used += width[c] + (c > 0 && any ? GAP : 0);
        if (c > 0 && room != SUMMARY_ALL && used > room)
            break;
        shown++;
    }
    return shown;
}

static const char *colour_of(const summary_model_t *model)
{
    return model->ready ? "\x1b[32m" : strcmp(model->state, "failed") == 0 ? "\x1b[31m" : "\x1b[33m";
}

static void add_cell(const char *text, unsigned width, const char *colour, strbuf_t *out)
{
    strbuf_printf(out, "%s%s%s%*s", colour, text, colour[0] ? "\x1b[0m" : "",
                  (int)((width > columns_of(text) ? width - columns_of(text) : 0) + GAP), "");
}

/* A line of cells that ends where the last of them does. */
static void end_line(strbuf_t *out)
{
    while (out->len_bytes > 0 && out->data[out->len_bytes - 1] == ' ')
        out->data[--out->len_bytes] = '\0';
    strbuf_putc(out, '\n');
}

static void add_row(const summary_model_t *model, const unsigned width[COLS], unsigned shown, bool colours,
                    strbuf_t *out)
{
    char text[CELL_BYTES];
    strbuf_printf(out, "%*s", INDENT, "");
    for (unsigned c = 0; c < shown; c++) {
        if (width[c] == 0)
            continue;
        cell_of(model, (column_t)c, text);
        add_cell(text, width[c], colours && c == COL_STATE ? colour_of(model) : "", out);
    }
    end_line(out);
}

/* Broken between words where the room ends. */
static void add_below(const char *text, unsigned columns, strbuf_t *out)
{
    size_t room = columns < REASON_INDENT + REASON_ROOM_LEAST ? strlen(text) + 1 : columns - REASON_INDENT;
    while (*text) {
        size_t len = strlen(text), take = len;
        if (len > room) {
            take = room;
            while (take > 0 && text[take] != ' ')
                take--;
            take = take > 0 ? take : strcspn(text, " ");
        }
        strbuf_printf(out, "%*s%.*s\n", REASON_INDENT, "", (int)take, text);
        text += take;
        text += strspn(text, " ");
    }
}

static void add_mode(const summary_model_t *model, unsigned columns, strbuf_t *out)
{
    char text[1024];
    int len = snprintf(text, sizeof text, "%s", model->mode);
    if (model->mode[0] == '\0' || (model->mode_reason[0] == '\0' && strcmp(model->mode, "whole") == 0))
        return;
    if (model->stages > 0)
        len += snprintf(text + len, sizeof text - (size_t)len, " in %u stages", model->stages);
    if (model->exit_points > 0)
        len += snprintf(text + len, sizeof text - (size_t)len, " at %u exit points", model->exit_points);
    if (model->mode_reason[0] != '\0')
        snprintf(text + len, sizeof text - (size_t)len, ": %s", model->mode_reason);
    add_below(text, columns, out);
}

void summary_table(const summary_model_t *models, size_t count, unsigned columns, bool colours, strbuf_t *out)
{
    unsigned width[COLS], shown = lay_out(models, count, columns, width);
    if (count == 0) {
        strbuf_printf(out, "%*snone is loaded (a model is a folder MODEL/VERSION/model.onnx)\n", INDENT, "");
        return;
    }
    strbuf_printf(out, "%*s", INDENT, "");
    for (unsigned c = 0; c < shown; c++)
        if (width[c] > 0)
            add_cell(headings[c], width[c], "", out);
    end_line(out);
    for (size_t i = 0; i < count; i++) {
        add_row(&models[i], width, shown, colours, out);
        if (models[i].reason[0] != '\0')
            add_below(models[i].reason, columns, out);
        else
            add_mode(&models[i], columns, out);
    }
}

/* ---- while they load ---- */

void summary_progress(const summary_model_t *models, size_t count, double seconds, bool colours,
                      strbuf_t *out)
{
    char number[FIGURES_BYTES], text[CELL_BYTES];
    size_t ready = 0;
    unsigned wide = 0;
    for (size_t i = 0; i < count; i++) {
        ready += models[i].ready;
        if (columns_of(models[i].name) > wide)
            wide = columns_of(models[i].name);
    }
    strbuf_printf(out, "Loading models: %zu of %zu ready after %s", ready, count,
                  figures_time(ceil(seconds), number, sizeof number));
    for (size_t i = 0; i < count; i++) {
        const summary_model_t *model = &models[i];
        strbuf_printf(out, "\n%*s", INDENT, "");
        add_cell(model->name, wide, "", out);
        add_cell(model->state, 0, colours ? colour_of(model) : "", out);
        cell_of(model, COL_MEASURED, text);
        if (text[0] != '\0')
            strbuf_printf(out, "%s measured", text);
        else if (model->reason[0] != '\0')
            strbuf_puts(out, model->reason);
    }
}

/* ---- for programs ---- */

json_t *summary_model_json(const summary_model_t *model)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:i, s:i, s:f}", "name", model->name,
                     "version", model->version, "state", model->state, "reason", model->reason, "engine",
                     model->engine, "mode", model->mode, "mode_reason", model->mode_reason, "stages",
                     (int)model->stages, "exit_points", (int)model->exit_points, "latency_ms", model->one_ms,
                     "measured", (int)model->measured, "measured_up_to", (int)model->measured_up_to, "doubt",
                     isfinite(model->doubt) ? model->doubt : 0.0);
}
