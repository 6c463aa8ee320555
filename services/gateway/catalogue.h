/*
 * The models, as the scheduler last described them. Entries are shared: a request keeps its model until it is
 * answered, also when the catalogue has moved on. Loop thread only; what an entry's spec points to is
 * immutable.
 */
#ifndef GATEWAY_CATALOGUE_H
#define GATEWAY_CATALOGUE_H

#include "base/strbuf.h"
#include "image/pipeline.h"
#include "oip/describe.h"
#include "oip/model_spec.h"
#include "stats.h"

typedef struct catalogue catalogue_t;
struct metrics;

/* 1,024 models × 8 versions are far beyond what a cluster of this kind serves. */
enum { CATALOGUE_MODELS_MAX = 8192 };

typedef struct model_entry {
    oip_model_spec_t spec;
    image_pipeline_t pipeline; /* image_pipeline_present says whether there is one */
    /* Of one task: all inputs, all outputs, concatenated; meaningful when the inputs, the outputs do not vary. */
    uint64_t input_row_bytes, output_row_bytes;
    /* Of one row of each tensor; of one that varies, times the size of each of its variable dimensions. */
    uint64_t input_bytes[OIP_MAX_TENSORS], output_bytes[OIP_MAX_TENSORS];
    uint32_t open_outputs; /* variable dimensions of all outputs; their sizes come behind each row */
    uint32_t priority;
    int64_t version;
    /* What changes while the description stays: */
    uint32_t id; /* of this scheduler epoch; meaningful while listed */
    bool listed; /* in the newest catalogue; false: kept for a while, or replaced */
    bool ready;
    bool rising;       /* some worker is still loading it: other versions come first where none is named */
    const char *state; /* for the index: "READY", "LOADING", "UNLOADING", "UNAVAILABLE" */
    char reason[ERR_TEXT_BYTES]; /* when not ready; "" otherwise */
    char defect[ERR_TEXT_BYTES]; /* why this gateway can never serve it; "" = it can */
    model_stats_t stats;
    uint32_t refs;
    struct model_entry *next; /* of the list, by name and version */
    void *memory;             /* what the spec points to */
    uint8_t *description;     /* packed, without what may change: two equal ones are the same model */
    size_t description_bytes;
} model_entry_t;

struct Control__Catalogue;

status_t catalogue_create(struct metrics *metrics, catalogue_t **catalogue, err_t *err);
void catalogue_destroy(catalogue_t *catalogue); /* entries still referred to live on */

/*
 * Finds a model; version NULL or "" means the highest that all its workers have ready (else the highest ready one, else the
 * highest). NOT_FOUND names the model
 * or version. The entry may be not ready: session_submit refuses it with its reason. Borrowed until the next
 * turn of the loop; keep it with model_entry_ref.
 */
status_t catalogue_find(catalogue_t *catalogue, const char *name, const char *version, model_entry_t **entry,
                        err_t *err);

/* UNAVAILABLE, with the reason, for a model that is not ready. */
status_t model_entry_not_ready(const model_entry_t *entry, err_t *err);

/* STATUS_OK, or UNAVAILABLE with the reason: a model that never loaded, of which no tensor is known. */
status_t model_entry_check_described(const model_entry_t *entry, err_t *err);

/* Whether requests made for the one can go to the other. */
bool model_entry_alike(const model_entry_t *a, const model_entry_t *b);

void model_entry_ref(model_entry_t *entry);
void model_entry_unref(model_entry_t *entry);

/*
 * Takes over what the scheduler says. A model that it describes in a way that makes no sense is listed as not ready, with
 * the reason. keep_absent: models that it does not name stay, unlisted and not ready: a scheduler that has just started
 * may hear of them from the workers any moment.
 */
void catalogue_update(catalogue_t *catalogue, const struct Control__Catalogue *message, bool keep_absent);

/* What a request for entry goes to when entry is not ready and the client named no version: the version that is, if it
 * takes the same tensors; else entry. */
model_entry_t *catalogue_successor(catalogue_t *catalogue, model_entry_t *entry);

/* The versions of a model that are ready (all, when none is), ascending, as texts that live until the catalogue changes. Returns how many it wrote. */
uint32_t catalogue_versions(catalogue_t *catalogue, const char *name, const char **versions, uint32_t cap);

uint32_t catalogue_ready_count(const catalogue_t *catalogue);

/*
 * The documents of the repository index and of the statistics, for one model (name, version may be "") or all
 * (name ""). pb: protobuf, else JSON. NOT_FOUND as catalogue_find.
 */
status_t catalogue_write_index(catalogue_t *catalogue, bool only_ready, bool pb, strbuf_t *out);
status_t catalogue_write_stats(catalogue_t *catalogue, const char *name, const char *version, bool pb,
                               strbuf_t *out, err_t *err);

#endif
