#include "sim/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES_MAX = 1 << 20, LINE_BYTES = 256 };

/* NULL, or what is wrong with the line. */
static const char *parse_row(const char *line, uint32_t gpus, simulation_change_t *change)
{
    char event[8];
    int used = 0;
    if (sscanf(line, "%lf,%u,%7[a-z]%n", &change->at_s, &change->gpu, event, &used) != 3 ||
        line[used] != '\0')
        return "not at_s,gpu,event";
    if (!(change->at_s >= 0 && change->at_s <= 1e6))
        return "at_s is out of range";
    if (change->gpu >= gpus)
        return "there is no such GPU";
    change->up = strcmp(event, "up") == 0;
    return change->up || strcmp(event, "down") == 0 ? NULL : "event is neither up nor down";
}

static const char *add_row(const char *line, uint32_t gpus, simulation_change_t **changes, uint32_t *count)
{
    simulation_change_t change;
    const char *wrong = parse_row(line, gpus, &change);
    if (wrong)
        return wrong;
    if (*count && change.at_s < (*changes)[*count - 1].at_s)
        return "rows must be in the order of time";
    if ((*count & (*count - 1)) == 0) { /* full at each power of two */
        uint32_t capacity = *count ? 2 * *count : 1;
        simulation_change_t *larger =
            capacity <= CHANGES_MAX ? realloc(*changes, capacity * sizeof(*larger)) : NULL;
        if (!larger)
            return "too many rows";
        *changes = larger;
    }
    (*changes)[(*count)++] = change;
    return NULL;
}

static const char *read_rows(FILE *file, uint32_t gpus, simulation_change_t **changes, uint32_t *count,
                             unsigned *line_number)
{
    char line[LINE_BYTES];
    const char *wrong = NULL;
    while (!wrong && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (++*line_number == 1)
            wrong = strcmp(line, "at_s,gpu,event") == 0 ? NULL : "missing column: at_s,gpu,event";
        else if (line[0] != '\0' && line[0] != '#')
            wrong = add_row(line, gpus, changes, count);
    }
    return wrong || *count ? wrong : "no rows";
}

status_t changes_read(const char *path, uint32_t gpus, simulation_change_t **changes, uint32_t *count,
                      err_t *err)
{
    simulation_change_t *read = NULL;
    uint32_t rows = 0;
    unsigned line_number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path, strerror(errno));
    const char *wrong = read_rows(file, gpus, &read, &rows, &line_number);
    fclose(file);
    if (wrong) {
        free(read);
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: %s", path, line_number, wrong);
    }
    *changes = read;
    *count = rows;
    return STATUS_OK;
}
