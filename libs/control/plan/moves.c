#include "control/plan/moves.h"

#include "control/models/commands.h"
#include "control/models/instance.h"
#include "control/models/placement.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct move move_t;

struct move {
    move_t *next;
    moves_t *moves;
    models_t *all;
    model_t *model;
    const subcluster_t *from;
    subcluster_t *to;
    uint32_t waiting; /* workers that are loading it */
    char reason[REASON_BYTES];
};

static bool is_in(const worker_t *worker, const subcluster_t *sub)
{
    for (uint32_t d = 0; d < worker->device_count; d++)
        if (worker->devices[d].subcluster == sub)
            return true;
    return false;
}

static bool has_it(const model_t *model, const worker_t *worker)
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (i->worker == worker)
            return instance_is_ready(i);
    return false;
}

static void unload_old_copies(const move_t *move)
{
    const roster_t *roster = move->all->roster;
    for (uint32_t w = 0; w < PEERS_MAX && move->from; w++) {
        worker_t *worker = roster->workers[w];
        if (worker && is_in(worker, move->from) && !is_in(worker, move->to) && has_it(move->model, worker))
            (void)worker_unload_model(worker, move->model->name, move->model->version, true, NULL, NULL);
    }
}

static void move_end(move_t *move)
{
    moves_t *moves = move->moves;
    model_t *model = move->model;
    bool well = placement_move(move->all, model, move->to);
    if (well && move->from != move->to)
        unload_old_copies(move);
    moves->done += well;
    moves->failed += !well;
    if (!well)
        note_warn(move->all->turn, "model_not_moved", LOG_STR("model", model->name),
                  LOG_STR("to", move->to->name),
                  LOG_STR("reason", move->reason[0] != '\0' ? move->reason : "no worker there serves it"));
    for (move_t **link = &moves->first; *link; link = &(*link)->next)
        if (*link == move) {
            *link = move->next;
            break;
        }
    moves->count--;
    free(move);
}

static void on_loaded(void *ctx, worker_t *worker, status_t status, const char *reason)
{
    move_t *move = ctx;
    if (status != STATUS_OK)
        (void)snprintf(move->reason, sizeof move->reason, "%.60s: %.120s", worker->peer.name, reason);
    if (--move->waiting == 0)
        move_end(move);
}

static void load_new_copies(move_t *move)
{
    const roster_t *roster = move->all->roster;
    const model_t *model = move->model;
    for (uint32_t w = 0; w < PEERS_MAX; w++) {
        worker_t *worker = roster->workers[w];
        if (!worker || worker->draining || !is_in(worker, move->to) || has_it(model, worker))
            continue;
        if (worker_load_model(worker, model->name, model->version, true, on_loaded, move) == STATUS_OK)
            move->waiting++;
    }
}

bool moves_begin(moves_t *moves, models_t *models, model_t *model, const subcluster_t *from, subcluster_t *to)
{
    move_t *move = calloc(1, sizeof *move);
    if (!move)
        return false;
    *move =
        (move_t){.next = moves->first, .moves = moves, .all = models, .model = model, .from = from, .to = to};
    moves->first = move;
    moves->count++;
    load_new_copies(move);
    if (move->waiting == 0)
        move_end(move);
    return true;
}

void moves_dispose(moves_t *moves)
{
    while (moves->first) {
        move_t *move = moves->first;
        moves->first = move->next;
        free(move);
    }
    moves->count = 0;
}
