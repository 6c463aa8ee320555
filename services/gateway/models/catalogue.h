/*
 * The models, as the scheduler last described them. Loop thread only.
 *
 *   name ──▶ its versions, rising        found by a hash of the name; walked through in the order of names
 */
#ifndef GATEWAY_CATALOGUE_H
#define GATEWAY_CATALOGUE_H

#include "base/strbuf.h"
#include "gateway/models/model_entry.h"

typedef struct catalogue catalogue_t;
struct metrics;

enum {
    /* 1,024 models × 8 versions are far beyond what a cluster of this kind serves. */
    CATALOGUE_MODELS_MAX = 8192,
    /* Of one model, as its description lists them. */
    CATALOGUE_VERSIONS_MAX = 64,
};

struct Control__Catalogue;

/* board: as in model_stats_init. Both outlive it and the entries. */
status_t catalogue_create(struct metrics *metrics, struct stats_board *board, catalogue_t **catalogue,
                          err_t *err);
void catalogue_destroy(catalogue_t *catalogue); /* entries still referred to live on */

/*
 * Finds a model; version NULL or "" means the highest that all its workers have ready (else the highest ready
 * one, else the highest). NOT_FOUND names the model or version. The entry may be not ready: session_submit
 * refuses it with its reason. Borrowed until the next turn of the loop; keep it with model_entry_ref.
 */
status_t catalogue_find(catalogue_t *catalogue, const char *name, const char *version, model_entry_t **entry,
                        err_t *err);

/*
 * Takes over what the scheduler says. A model that it describes in a way that makes no sense is listed as not
 * ready, with the reason. keep_absent: models that it does not name stay, unlisted and not ready: a scheduler
 * that has just started may hear of them from the workers any moment.
 */
void catalogue_update(catalogue_t *catalogue, const struct Control__Catalogue *message, bool keep_absent);

/* Of requests that name no version and found `serving`, one in eight goes to a higher version that is on trial, if that takes the same
 * tensors. */
model_entry_t *catalogue_share(catalogue_t *catalogue, model_entry_t *serving);
/* What a request for entry goes to when entry is not ready and the client named no version: the version that is, if it
 * takes the same tensors; else entry. */
model_entry_t *catalogue_successor(catalogue_t *catalogue, model_entry_t *entry);

/* What a request goes to that named no version and came to nothing with entry, which is on trial or was: a version that is trusted and takes
 * the same tensors. NULL: entry is trusted, or there is none. */
model_entry_t *catalogue_fallback(catalogue_t *catalogue, const model_entry_t *entry);

/* Walks through all versions, by name and version: entry and *name begin as NULL and 0. */
model_entry_t *catalogue_next(const catalogue_t *catalogue, const model_entry_t *entry, uint32_t *name);

/* The versions of a model that are ready (all, when none is), ascending, as texts that live until the
 * catalogue changes. Returns how many it wrote. */
uint32_t catalogue_versions(catalogue_t *catalogue, const char *name, const char **versions, uint32_t cap);

uint32_t catalogue_count(const catalogue_t *catalogue); /* versions */
uint32_t catalogue_ready_count(const catalogue_t *catalogue);

/*
 * The documents of the repository index and of the statistics, for one model (name, version may be "") or all
 * (name ""). pb: protobuf, else JSON. NOT_FOUND as catalogue_find.
 */
status_t catalogue_write_index(catalogue_t *catalogue, bool only_ready, bool pb, strbuf_t *out);
status_t catalogue_write_stats(catalogue_t *catalogue, const char *name, const char *version, bool pb,
                               strbuf_t *out, err_t *err);

#endif
