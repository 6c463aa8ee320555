#include "transfer/pace.h"

#include <stddef.h>

static const uint64_t CLASS_MOST_BYTES[PACE_CLASSES] = {16 << 10, 256 << 10, 4 << 20, UINT64_MAX};

void pace_init(pace_t *pace, uint64_t credit_bytes)
{
    *pace =
        (pace_t){.window_bytes = credit_bytes ? credit_bytes : PACE_START_BYTES, .adapts = credit_bytes == 0};
    for (int i = 0; i < PACE_CLASSES; i++)
        TAILQ_INIT(&pace->turns[i]);
}

void pace_enter(pace_t *pace, pace_turn_t *turn, uint64_t bytes)
{
    uint8_t rank = 0;

    while (bytes > CLASS_MOST_BYTES[rank])
        rank++;
    *turn = (pace_turn_t){.left_bytes = bytes, .rank = rank, .queued = true};
    TAILQ_INSERT_TAIL(&pace->turns[rank], turn, link);
}

void pace_leave(pace_t *pace, pace_turn_t *turn)
{
    if (!turn->queued)
        return;
    TAILQ_REMOVE(&pace->turns[turn->rank], turn, link);
    turn->queued = false;
    if (TAILQ_EMPTY(&pace->turns[turn->rank]))
        pace->passed[turn->rank] = 0;
}

bool pace_waiting(const pace_t *pace)
{
    for (int i = 0; i < PACE_CLASSES; i++) {
        if (!TAILQ_EMPTY(&pace->turns[i]))
            return true;
    }
    return false;
}

static pace_turn_t *pace_first(const pace_t *pace)
{
    pace_turn_t *first = NULL;

    for (int i = 0; i < PACE_CLASSES; i++) {
        pace_turn_t *turn = TAILQ_FIRST(&pace->turns[i]);
        if (turn && (!first || pace->passed[i] >= PACE_PATIENCE))
            first = turn;
    }
    return first;
}

static uint64_t pace_part_bytes(const pace_t *pace)
{
    uint64_t part = pace->window_bytes / 8;

    if (pace->window_bytes == UINT64_MAX)
        return UINT64_MAX;
    return part < PACE_PART_LEAST_BYTES ? PACE_PART_LEAST_BYTES : part;
}

pace_turn_t *pace_next(pace_t *pace, uint64_t *bytes)
{
    pace_turn_t *turn = pace_first(pace);

    if (!turn)
        return NULL;
    uint64_t part = pace_part_bytes(pace);
    uint64_t take = turn->left_bytes / 2 < part / 4 * 3 ? turn->left_bytes : part; /* no small rest */
    uint64_t over = turn->rank == 0 && pace->window_bytes < UINT64_MAX ? pace->window_bytes / 8 : 0;
    if (pace->out_bytes > 0 && take > 0 && pace->window_bytes < UINT64_MAX &&
        pace->out_bytes + take > pace->window_bytes + over) {
        pace->limits = true;
        return NULL;
    }
    *bytes = take;
    return turn;
}

void pace_take(pace_t *pace, pace_turn_t *turn, uint64_t bytes)
{
    for (int i = turn->rank + 1; i < PACE_CLASSES; i++)
        pace->passed[i] += !TAILQ_EMPTY(&pace->turns[i]);
    pace->passed[turn->rank] = 0;
    pace->out_bytes += bytes;
    turn->left_bytes -= bytes;
    if (turn->left_bytes == 0)
        pace_leave(pace, turn);
}

static void pace_window(pace_t *pace, uint64_t window_bytes)
{
    pace->window_bytes = window_bytes < PACE_LEAST_BYTES  ? PACE_LEAST_BYTES
                         : window_bytes > PACE_MOST_BYTES ? PACE_MOST_BYTES
                                                          : window_bytes;
}

void pace_give(pace_t *pace, uint64_t bytes, bool received)
{
    pace->out_bytes -= bytes;
    if (!pace->adapts || !received)
        return;
    pace->received_bytes += bytes;
    if (pace->received_bytes < pace->window_bytes)
        return;
    pace->received_bytes = 0;
    pace->cut = false;
    if (pace->wary > 0 && pace->wary-- % PACE_CALM != 0)
        return;
    if (pace->limits)
        pace_window(pace, pace->window_bytes + (pace->wary ? PACE_STEP_BYTES / 4 : PACE_STEP_BYTES));
    pace->limits = false;
}

void pace_lost(pace_t *pace)
{
    if (!pace->adapts || pace->cut)
        return;
    pace->cut = true;
    pace->received_bytes = 0;
    pace->wary = PACE_WARY;
    pace_window(pace, pace->window_bytes - pace->window_bytes / 4);
}
