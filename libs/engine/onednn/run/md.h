/*
 * Memory descriptors: how oneDNN is told where the elements of a tensor lie.
 */
#ifndef ENGINE_ONEDNN_RUN_MD_H
#define ENGINE_ONEDNN_RUN_MD_H

#include "engine/onednn/run/plan.h"

/* False for types that oneDNN does not know. Rank 0 becomes one dimension of 1. */
bool md_of(const tensor_t *t, dnnl_memory_desc_t *md);
/* How the value lies there. False: row-major, of a type that oneDNN does not know. */
bool md_of_place(const plan_t *plan, const place_t *place, dnnl_memory_desc_t *md);
/* float32 with these dims; strides NULL = row-major. */
dnnl_memory_desc_t md_strided(uint32_t rank, const int64_t *dims, const int64_t *strides);
/* float32 with these dims in whatever layout the primitive likes. */
dnnl_memory_desc_t md_any(uint32_t rank, const int64_t *dims);

#endif
