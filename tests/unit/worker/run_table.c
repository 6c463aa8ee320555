/*
 * What each message about a batch comes to in every state of the batch: run_table.txt. Whatever the cell, each grant is reported once,
 * nothing stays under way, and the next batch runs.
 */
#include "support.h"

#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 18, TABLE_BYTES_MAX = 1 << 14 };

typedef enum {
    NEVER,     /* granted */
    FETCHING,  /* its input */
    QUEUED,    /* by the engine, behind another */
    EXECUTING, /* by the engine, whole */
    WAITING,   /* behind one that can be stopped, and one that the executor has */
    STOPPABLE, /* and executing */
    REPORTED,  /* its result is on its way, or just there */
    ENDED,
    STATES
} batch_in_t;

typedef enum {
    NOTHING,
    REVOKE,
    REVOKE_TWICE,
    REVOKE_OLDER, /* by the scheduler before */
    REVOKE_OTHER, /* that is none */
    REVOKE_ALL,
    GRANT_NO_MODEL, /* under the same id */
    GRANT_LOST,     /* likewise, for a device that there is not */
    GRANT_AGAIN,    /* likewise, as it was */
    ENGINE_FAILS,   /* whatever it executes now */
    GATEWAY_DIES,
    MESSAGES
} message_t;

static const char *const states[] = {"never",   "fetching",  "queued",   "executing",
                                     "waiting", "stoppable", "reported", "ended"};
static const char *const messages[] = {"nothing",         "revoke",           "revoke, twice",
                                       "revoke, older",   "revoke, another",  "revoke all",
                                       "grant: no model", "grant: no device", "grant: as before",
                                       "engine fails",    "gateway dies"};

static rig_t rig;

static void give(uint64_t batch, uint32_t gateway)
{
    grant_t grant;

    grant_init(&grant, batch, 0);
    grant_add(&rig, &grant, gateway, batch, 1);
    grant_send(&rig, &grant);
}

static void give_stoppable(uint64_t before)
{
    static uint32_t exits[] = {3};

    rig.model->choice = (mode_choice_t){.mode = MODE_PREEMPT, .exits = exits, .exit_points = 1};
    for (uint64_t batch = 1; batch <= before; batch++)
        give(10 + batch, 10);
    give(1, 11);
    rig_until(&rig, engine_held() == 1);
    rig_barrier(&rig);
}

static void bring_into(batch_in_t state)
{
    rig_init(&rig);
    if (state == NEVER)
        return;
    if (state == WAITING || state == STOPPABLE) {
        give_stoppable(state == WAITING ? 2 : 0);
        return;
    }
    if (state == QUEUED) {
        give(11, 10);
        rig_until(&rig, engine_held() == 1);
    }
    give(1, 11);
    if (state == FETCHING)
        return;
    rig_until(&rig, engine_held() == (state == QUEUED ? 2 : 1));
    if (state < REPORTED)
        return;
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, state == REPORTED ? rig.report_count == 1 : run_under_way(rig.run) == 0);
}

static void say_grant(model_t *model, uint32_t device)
{
    grant_t grant;

    grant_init(&grant, 1, device);
    grant_add(&rig, &grant, 10, 2, 1);
    grant_send_to(&rig, model, &grant);
}

static void say(message_t message)
{
    switch (message) {
    case REVOKE_TWICE:
        run_revoke(rig.run, 7, 1);
        run_revoke(rig.run, 7, 1);
        break;
    case REVOKE:
        run_revoke(rig.run, 7, 1);
        break;
    case REVOKE_OLDER:
        run_revoke(rig.run, 6, 1);
        break;
    case REVOKE_OTHER:
        run_revoke(rig.run, 7, 12345);
        break;
    case REVOKE_ALL:
        run_revoke_all(rig.run);
        break;
    case GRANT_NO_MODEL:
        say_grant(NULL, 0);
        break;
    case GRANT_LOST:
        say_grant(rig.model, 99);
        break;
    case GRANT_AGAIN:
        give(1, 11);
        break;
    case ENGINE_FAILS:
        if (engine_held() > 0)
            engine_finish(STATUS_INTERNAL, "as the test wants");
        break;
    case GATEWAY_DIES:
        transfer_owner_destroy(rig.gateways[1].owner);
        rig.gateways[1].owner = NULL;
        break;
    default:
        break;
    }
}

/* All that executes ends, the first as it was told to. */
static void run_out(void)
{
    for (;;) {
        rig_until(&rig, run_under_way(rig.run) == 0 || engine_held() > 0);
        if (engine_held() == 0)
            return;
        engine_finish(engine_stops() > 0 && rig.report_count == 0 ? STATUS_CANCELLED : STATUS_OK, "");
    }
}

static uint32_t reports_of(uint64_t batch, strbuf_t *word)
{
    uint32_t count = 0;

    for (int i = 0; i < rig.report_count; i++) {
        if (rig.reports[i].report.batch_id != batch)
            continue;
        strbuf_printf(word, "%s%s", count++ > 0 ? "+" : "", status_name(rig.reports[i].report.status));
    }
    return count;
}

static void expect_healthy(batch_in_t state, message_t message)
{
    strbuf_t word;

    strbuf_init(&word, 256);
    cr_assert_eq(atomic_load(&rig.devices.list[0].batches), 0);
    give(50, 10);
    run_out();
    cr_assert_eq(reports_of(50, &word), 1);
    cr_assert_str_eq(word.data, status_name(STATUS_OK));
    cr_assert_eq(reports_of(11, &word), state == QUEUED || state == WAITING);
    cr_assert_eq(reports_of(12, &word), state == WAITING);
    cr_assert_eq(reports_of(1, &word),
                 (state != NEVER) + (message >= GRANT_NO_MODEL && message <= GRANT_AGAIN));
    strbuf_dispose(&word);
}

static void cell(batch_in_t state, message_t message, strbuf_t *word)
{
    bring_into(state);
    say(message);
    run_out();
    if (reports_of(1, word) == 0)
        strbuf_puts(word, "-");
    rig_until(&rig, rig.gateways[1].begun == rig.gateways[1].done || !rig.gateways[1].owner);
    if (rig.gateways[1].done > 0)
        strbuf_puts(word, " answered");
    expect_healthy(state, message);
    rig.model->choice = (mode_choice_t){.mode = MODE_WHOLE}; /* the exits are not the model's to free */
    rig_end(&rig);
}

static const char *text_of[MESSAGES][STATES];

static void print_line(int message, const size_t *width, strbuf_t *out)
{
    strbuf_printf(out, "%-*s", NAME_WIDTH, message < 0 ? "" : messages[message]);
    for (int s = 0; s < STATES; s++) {
        const char *word = message < 0 ? states[s] : text_of[message][s];
        bool last = s + 1 == STATES;
        strbuf_printf(out, "%-*s%s", last ? 0 : (int)width[s], word, last ? "\n" : "  ");
    }
}

/* From the line of the states to the end. */
static void read_expected(const char *path, strbuf_t *out)
{
    char line[512];
    FILE *file = fopen(path, "r");
    bool inside = false;

    cr_assert_not_null(file, "%s cannot be read", path);
    while (fgets(line, sizeof(line), file)) {
        inside |= line[0] == ' ';
        if (inside)
            strbuf_puts(out, line);
    }
    fclose(file);
}

Test(run_table, each_message_in_each_state)
{
    static const char path[] = "tests/unit/worker/run_table.txt";
    static strbuf_t words[MESSAGES][STATES];
    size_t width[STATES];
    strbuf_t is, should;

    for (int s = 0; s < STATES; s++) {
        width[s] = strlen(states[s]);
        for (int m = 0; m < MESSAGES; m++) {
            strbuf_init(&words[m][s], 256);
            cell((batch_in_t)s, (message_t)m, &words[m][s]);
            text_of[m][s] = words[m][s].data;
            width[s] = strlen(text_of[m][s]) > width[s] ? strlen(text_of[m][s]) : width[s];
        }
    }
    strbuf_init(&is, TABLE_BYTES_MAX);
    strbuf_init(&should, TABLE_BYTES_MAX);
    for (int m = -1; m < MESSAGES; m++)
        print_line(m, width, &is);
    read_expected(path, &should);
    cr_assert_str_eq(is.data, should.data, "it is\n%s\nand by %s should be\n%s", is.data, path, should.data);
    strbuf_dispose(&is);
    strbuf_dispose(&should);
    for (int i = 0; i < MESSAGES * STATES; i++)
        strbuf_dispose(&words[i / STATES][i % STATES]);
}
