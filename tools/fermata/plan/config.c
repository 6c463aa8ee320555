#include "fermata/plan/config.h"

#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Both lists of a plan of 65,536 models fit; a name has 255 bytes at most. */
enum { CONFIG_MAX_BYTES = 64 << 20, ENTRY_BYTES = 512 };

/* What a kind of plan calls its parts, and the policy that it is a plan for. */
typedef struct {
    const char *rows, *number, *prefix, *policy;
} kind_t;

static const kind_t kinds[] = {
    {"groups", "group", "group", "shepherd"},
    {"clusters", "cluster", "cluster", "fermata"},
};

static const kind_t *kind_of(const json_t *document)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (json_object_get(document, kinds[k].rows))
            return &kinds[k];
    return NULL;
}

static void put_entry(strbuf_t *out, bool first, const char *entry)
{
    strbuf_puts(out, first ? "" : ", ");
    strbuf_json_string(out, entry); /* which is a string of YAML too */
}

static void put_subclusters(const kind_t *kind, const json_t *rows, const char *device_class, strbuf_t *out)
{
    char entry[ENTRY_BYTES];
    size_t i;
    const json_t *row;
    strbuf_puts(out, "subclusters: [");
    json_array_foreach(rows, i, row)
    {
        const json_t *gpus = json_object_get(row, "gpus");
        (void)snprintf(entry, sizeof entry, "%s-%lld=%s:%lld:%s", kind->prefix,
                       (long long)json_integer_value(json_object_get(row, kind->number)), device_class,
                       gpus ? (long long)json_integer_value(gpus) : 1, kind->policy);
        put_entry(out, i == 0, entry);
    }
    strbuf_puts(out, "]\n");
}

static void put_placements(const kind_t *kind, const json_t *rows, strbuf_t *out)
{
    char entry[ENTRY_BYTES];
    bool first = true;
    size_t i, m;
    const json_t *row, *model;
    strbuf_puts(out, "placements: [");
    json_array_foreach(rows, i, row)
    {
        json_array_foreach(json_object_get(row, "models"), m, model)
        {
            (void)snprintf(entry, sizeof entry, "%s=%s-%lld", json_string_value(model), kind->prefix,
                           (long long)json_integer_value(json_object_get(row, kind->number)));
            put_entry(out, first, entry);
            first = false;
        }
    }
    strbuf_puts(out, "]\n");
}

status_t plan_config_write(const json_t *document, const char *device_class, const char *path, err_t *err)
{
    const kind_t *kind = kind_of(document);
    if (!kind)
        return err_set(
            err, STATUS_UNSUPPORTED,
            "--config-out: the policy nexus packs by itself; only partition and herd make sub-clusters");
    const json_t *rows = json_object_get(document, kind->rows);
    strbuf_t text;
    strbuf_init(&text, CONFIG_MAX_BYTES);
    strbuf_puts(&text, "# fermata-scheduler --config THIS_FILE\n");
    put_subclusters(kind, rows, device_class, &text);
    put_placements(kind, rows, &text);
    status_t status = strbuf_status(&text, err);
    FILE *file = status == STATUS_OK ? fopen(path, "we") : NULL;
    if (status == STATUS_OK && !file)
        status = err_set(err, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    if (file && (fwrite(text.data, 1, text.len_bytes, file) != text.len_bytes) + (fclose(file) != 0) > 0)
        status = err_set(err, STATUS_IO, "cannot write all of %s", path);
    strbuf_dispose(&text);
    return status;
}
