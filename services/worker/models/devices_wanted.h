/*
 * What the models of a worker want of its devices: how many streams each has, and what the scheduler is told that it may
 * grant one beside a running batch. Both are settled once, when the worker starts:
 *
 *   config.yaml ──▶ wanted_by_configs ──▶ wanted_streams ──▶ model_devices_open
 *                                                                │ identity
 *   kept profiles ──▶ wanted_by_profiles ◀───────────────────────┘
 *                          └──▶ wanted_tell ──▶ the scheduler, with the first hello
 *
 * A profile is of one device, so what one says counts when that is open; how many streams a device has turns on modes
 * alone, which no profile decides. Every model that is in the repository then counts, loaded or not. Loop thread.
 */
#ifndef WORKER_DEVICES_WANTED_H
#define WORKER_DEVICES_WANTED_H

#include "base/cpus.h"
#include "worker/state/served.h"

typedef struct {
    bool staged, overlap; /* the mode of some model, or of models that name none */
    bool scheduled;       /* stages with a schedule that decides by itself what runs when */
} devices_wanted_t;

/* mode: of a model whose config names none. */
devices_wanted_t wanted_by_configs(const served_t *served, model_mode_t mode);

/*
 * Adds what was found by measuring where a config leaves it open. It may count what no load will take up in the end, a
 * model that cannot be cut for one, but nothing of another device, of other files or for other batch sizes.
 */
void wanted_by_profiles(devices_wanted_t *wanted, const served_t *served, model_mode_t mode,
                        const model_devices_t *devices);

/*
 * Of each of so many devices with so many threads to a stream. On these CPUs (NULL: they are not CPUs) no more than have
 * usable cores of their own: others would take turns, at what a change of threads costs. A plan for overlap (NULL: there is none) was measured with a
 * stream for each of its models, whatever there is.
 */
uint32_t wanted_streams(const devices_wanted_t *wanted, const overlap_plan_t *plan, const cpus_t *cpus,
                        int64_t devices, int64_t threads);

/* Side by side run groups of a plan, and batches of a schedule that decides by itself. */
void wanted_tell(const devices_wanted_t *wanted, bool has_plan, model_devices_t *devices);

#endif
