/*
 * One version of a model as the gateway knows it. Shared: a request keeps its model until it is answered, also when the
 * catalogue has moved on. Loop thread only; what an entry's spec points to is immutable.
 */
#ifndef GATEWAY_MODEL_ENTRY_H
#define GATEWAY_MODEL_ENTRY_H

#include "gateway/models/stats.h"
#include "image/pipeline.h"
#include "oip/model_spec.h"
#include "sched/estimate.h"

struct Control__ModelReport;

typedef struct model_entry {
    oip_model_spec_t spec;
    image_pipeline_t pipeline; /* image_pipeline_present says whether there is one */
    /* Of one task: all inputs, all outputs, concatenated; meaningful when the inputs, the outputs do not vary. */
    uint64_t input_row_bytes, output_row_bytes;
    /* Of one row of each input; of one that varies, times the size of each of its variable dimensions. */
    uint64_t input_bytes[OIP_MAX_TENSORS];
    uint32_t open_outputs; /* variable dimensions of all outputs; their sizes come behind each row */
    uint32_t priority;
    int64_t version;
    /* What changes while the description stays: */
    uint32_t id; /* of this scheduler epoch; meaningful while listed */
    bool listed; /* in the newest catalogue; false: kept for a while, or replaced */
    bool ready;
    bool tried,
        refused; /* the scheduler does not trust it yet, or any more: a share of those who name no version, or none */
    bool rising;       /* some worker is still loading it: other versions come first where none is named */
    const char *state; /* for the index: "READY", "LOADING", "UNLOADING", "UNAVAILABLE" */
    char reason[ERR_TEXT_BYTES]; /* when not ready; "" otherwise */
    char note[ERR_TEXT_BYTES];   /* when ready: what of its config is not taken up; "" = nothing */
    char defect[ERR_TEXT_BYTES]; /* why this gateway can never serve it; "" = it can */
    estimate_t estimate;         /* estimates.h */
    model_stats_t stats;
    struct shares *shares; /* of clients, once it had too much to do; NULL: never yet */
    uint32_t refs;
    struct model_entry *next; /* version of the same name; the catalogue's */
    void *memory;             /* what the spec points to */
    uint8_t *description;     /* packed, without what may change: two equal ones are the same model */
    size_t description_bytes;
} model_entry_t;

/* With one reference, not listed; a description that makes no sense leaves its reason in defect. NULL: no memory. */
model_entry_t *model_entry_create(const struct Control__ModelReport *report, metrics_t *metrics,
                                  stats_board_t *board);

void model_entry_ref(model_entry_t *entry);
void model_entry_unref(model_entry_t *entry);

/* Whether it was made from the same description, beside what changes while a model stays the same. */
bool model_entry_is(const model_entry_t *entry, const struct Control__ModelReport *report);

/* Whether requests that were made for the one, tensors laid out and pictures decoded, can go to the other:
 * all that decides on the bytes of a row, and the names. Rows are tasks of their own, so how many a batch
 * may have does not matter. */
bool model_entry_alike(const model_entry_t *a, const model_entry_t *b);

/* UNAVAILABLE, with the reason, for a model that is not ready. */
status_t model_entry_not_ready(const model_entry_t *entry, err_t *err);

/* STATUS_OK, or UNAVAILABLE with the reason: a model that never loaded, of which no tensor is known, or
 * one whose description makes no sense. */
status_t model_entry_check_described(const model_entry_t *entry, err_t *err);

#endif
