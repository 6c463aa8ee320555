/*
 * The profile of a model that is kept beside its file (profile/profile_cache.h), by an earlier load or by `fermata
 * profile`: where it lies, and when it holds. Any thread that may read the model.
 */
#ifndef MODEL_KEPT_PROFILE_H
#define MODEL_KEPT_PROFILE_H

#include "model/model.h"

enum { KEPT_PROFILE_PATH_BYTES = MODEL_PATH_BYTES + 192 };

/* profile.ENGINE.txt beside the model file; profile.ENGINE.16x128.txt that of these sizes of its axes (NULL: it has
 * none). */
void kept_profile_path(const model_t *model, const model_devices_t *devices, const uint32_t *sizes,
                       char path[KEPT_PROFILE_PATH_BYTES]);

/*
 * Of these devices, of files with this hash (NULL: of any), for batches up to max_batch (0: of any). NOT_FOUND: there is
 * none, or it is of others or of a day to come; INVALID_ARGUMENT: broken, or with a schedule that exec/staged.h does not
 * have. The text names the file.
 */
status_t kept_profile_read(const model_devices_t *devices, const char *path, const char *hash,
                           uint32_t max_batch, profile_t *profile, profile_modes_t *modes, err_t *err);
status_t kept_profile_write(const model_devices_t *devices, const char *path, const char *hash,
                            const profile_t *profile, const profile_modes_t *modes, err_t *err);

/*
 * Whether a profile that loading the model on these devices would take up has a schedule for mode staged. The model
 * need not be loaded; as long as it is not, nobody knows the sizes of its axes, and each of its profiles counts.
 */
bool kept_profile_has_schedule(const model_t *model, const model_devices_t *devices);

/* Whether a model with these files was loaded on trial for such devices, as a profile of it tells, and what that took. Not
 * loaded, as above. */
bool kept_profile_tried(const model_t *model, const model_devices_t *devices, uint64_t *loading_bytes);

/* The engine that such a profile was measured on, where there are several; `word` stays where there is none. */
void kept_profile_engine(const model_t *model, const model_devices_t *devices,
                         char word[PROFILE_CACHE_ENGINE_BYTES]);

#endif
