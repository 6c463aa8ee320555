#include "sched/matcher.h"

#include "sched/sched.h"

static void ready_insert(matcher_t *matcher, uint32_t model)
{
    match_model_t *entry = &matcher->models[model];
    if (matcher->ready.len == 0)
        matcher->lead_ns = 0;
    if (entry->candidate.lead_ns > matcher->lead_ns)
        matcher->lead_ns = entry->candidate.lead_ns;
    entry->state = MATCH_READY;
    heap_insert(&matcher->ready, &entry->node, entry->candidate.key, model);
}

static void model_detach(matcher_t *matcher, match_model_t *entry, match_state_t state)
{
    if (entry->state == MATCH_WAITING || entry->state == MATCH_EARLY)
        heap_remove(&matcher->waiting, &entry->node);
    else if (entry->state == MATCH_READY)
        heap_remove(&matcher->ready, &entry->node);
    heap_remove(&matcher->early, &entry->early_node);
    entry->state = state;
}

/* When it stands in another heap by itself. */
static int64_t next_ns(const candidate_t *candidate, match_state_t state)
{
    int64_t from_ns = candidate->idle && state == MATCH_WAITING ? candidate->early_ns : candidate->ready_ns;
    return from_ns - candidate->lead_ns;
}

static match_state_t state_at(const candidate_t *candidate, int64_t now_ns)
{
    match_state_t state = MATCH_WAITING;
    if (candidate->batch == 0)
        return MATCH_NONE;
    if (candidate->idle && next_ns(candidate, state) <= now_ns)
        state = MATCH_EARLY;
    return next_ns(candidate, state) <= now_ns ? MATCH_READY : state;
}

/* It is in no heap. */
static void model_attach(matcher_t *matcher, uint32_t model, match_state_t state)
{
    match_model_t *entry = &matcher->models[model];
    if (state == MATCH_NONE)
        return;
    if (state == MATCH_READY) {
        ready_insert(matcher, model);
        return;
    }
    entry->state = state;
    heap_insert(&matcher->waiting, &entry->node, next_ns(&entry->candidate, state), model);
    if (state == MATCH_EARLY)
        heap_insert(&matcher->early, &entry->early_node, entry->candidate.key, model);
}

void matcher_on_candidate(matcher_t *matcher, int64_t now_ns, uint32_t model, const candidate_t *candidate)
{
    match_model_t *entry = &matcher->models[model];
    match_state_t state = state_at(candidate, now_ns);
    entry->candidate = *candidate;
    if (state == entry->state && (state == MATCH_WAITING || state == MATCH_EARLY)) {
        /* the usual case: one more task */
        heap_update(&matcher->waiting, &entry->node, next_ns(candidate, state), model);
        if (state == MATCH_EARLY)
            heap_update(&matcher->early, &entry->early_node, candidate->key, model);
        return;
    }
    model_detach(matcher, entry, MATCH_NONE);
    model_attach(matcher, model, state);
}

void matcher_close_gpu(matcher_t *matcher, uint32_t gpu)
{
    match_gpu_t *entry = &matcher->gpus[gpu];
    if (entry->state == GPU_BUSY)
        heap_remove(&matcher->busy, &entry->node);
    else if (entry->state == GPU_FREE)
        bitmap_remove(&matcher->free, gpu);
    if (entry->state != GPU_CLOSED)
        matcher->shared -= entry->shared;
    entry->state = GPU_CLOSED;
}

static void offer(matcher_t *matcher, uint32_t gpu, int64_t free_ns, bool shared)
{
    match_gpu_t *entry = &matcher->gpus[gpu];
    matcher_close_gpu(matcher, gpu);
    entry->free_ns = free_ns;
    entry->state = GPU_BUSY;
    entry->shared = shared;
    matcher->shared += shared;
    heap_insert(&matcher->busy, &entry->node, free_ns, gpu);
}

void matcher_on_gpu_free(matcher_t *matcher, uint32_t gpu, int64_t free_ns)
{
    offer(matcher, gpu, free_ns, false);
}

void matcher_on_gpu_shared(matcher_t *matcher, uint32_t gpu, int64_t free_ns)
{
    offer(matcher, gpu, free_ns, true);
}

void matcher_allow(matcher_t *matcher, uint32_t model, uint32_t gpu, bool allowed)
{
    uint64_t bit = (uint64_t)model * matcher->gpus_max + gpu;
    uint64_t mask = UINT64_C(1) << (bit % 64);
    bool was_denied = matcher->denied[bit / 64] & mask;
    if (was_denied != allowed)
        return;
    matcher->denied[bit / 64] ^= mask;
    if (allowed) {
        matcher->denials--;
        matcher->models[model].denied--;
    } else {
        matcher->denials++;
        matcher->models[model].denied++;
    }
}

bool matcher_may_use(const matcher_t *matcher, uint32_t model, uint32_t gpu)
{
    uint64_t bit = (uint64_t)model * matcher->gpus_max + gpu;
    return !(matcher->denied[bit / 64] >> (bit % 64) & 1);
}

void matcher_pin(matcher_t *matcher, uint32_t model, uint32_t gpu)
{
    match_model_t *entry = &matcher->models[model];
    matcher->pins += (gpu != BITMAP_NONE) - (uint32_t)(entry->pinned != BITMAP_NONE);
    entry->pinned = gpu;
}

static void ripen(matcher_t *matcher, int64_t now_ns)
{
    while (heap_min_key(&matcher->waiting) <= now_ns) {
        match_model_t *entry = CONTAINER_OF(heap_min(&matcher->waiting), match_model_t, node);
        model_detach(matcher, entry, MATCH_NONE);
        model_attach(matcher, (uint32_t)(entry - matcher->models), state_at(&entry->candidate, now_ns));
    }
    int64_t horizon_ns = now_ns + (matcher->ready.len ? matcher->lead_ns : 0);
    while (heap_min_key(&matcher->busy) <= horizon_ns) {
        match_gpu_t *entry = CONTAINER_OF(heap_pop(&matcher->busy), match_gpu_t, node);
        entry->state = GPU_FREE;
        bitmap_add(&matcher->free, (uint32_t)(entry - matcher->gpus));
    }
}

static bool is_restricted(const matcher_t *matcher)
{
    return matcher->denials || matcher->pins || matcher->shared;
}

/* What the first ready candidate says of busy GPUs; where GPUs differ none is granted ahead. */
static int64_t ahead_ns(const matcher_t *matcher)
{
    if (matcher->ready.len == 0 || is_restricted(matcher))
        return 0;
    return matcher->models[matcher_first_ready(matcher)].candidate.ahead_ns;
}

static bool has_gpu(const matcher_t *matcher, int64_t now_ns)
{
    return bitmap_count(&matcher->free) || heap_min_key(&matcher->busy) <= now_ns + ahead_ns(matcher);
}

static bool fits(const matcher_t *matcher, int64_t now_ns, uint32_t model, uint32_t gpu)
{
    return !matcher->gpus[gpu].shared || matcher->fits(matcher->fits_ctx, now_ns, model, gpu);
}

/* From this one on, the first that the model may use. */
static uint32_t next_free(const matcher_t *matcher, int64_t now_ns, uint32_t model, uint32_t gpu)
{
    while (gpu != BITMAP_NONE &&
           (!matcher_may_use(matcher, model, gpu) || !fits(matcher, now_ns, model, gpu)))
        gpu = bitmap_next(&matcher->free, gpu + 1);
    return gpu;
}

/* The lowest free GPU that the model may use and that is free in time, or BITMAP_NONE; if none is free,
 * the busy one that will be first. */
static uint32_t pick_gpu(const matcher_t *matcher, int64_t now_ns, uint32_t model)
{
    const match_model_t *entry = &matcher->models[model];
    if (entry->pinned != BITMAP_NONE)
        return bitmap_has(&matcher->free, entry->pinned) && fits(matcher, now_ns, model, entry->pinned)
                   ? entry->pinned
                   : BITMAP_NONE;
    uint32_t gpu = bitmap_first(&matcher->free);
    if (gpu == BITMAP_NONE && entry->candidate.ahead_ns)
        return (uint32_t)(CONTAINER_OF(heap_min(&matcher->busy), match_gpu_t, node) - matcher->gpus);
    if (entry->denied == 0 && matcher->shared == 0)
        return gpu;
    return next_free(matcher, now_ns, model, gpu);
}

/* Only where it matters: they may share its batch, or so many must be. */
static uint32_t count_free(const matcher_t *matcher, int64_t now_ns, uint32_t model)
{
    const match_model_t *entry = &matcher->models[model];
    uint32_t count = 0;
    if ((entry->candidate.part == 0 && entry->candidate.idle == 0) || entry->pinned != BITMAP_NONE)
        return 1;
    if (entry->denied == 0 && matcher->shared == 0)
        return bitmap_count(&matcher->free);
    for (uint32_t gpu = bitmap_first(&matcher->free);
         (gpu = next_free(matcher, now_ns, model, gpu)) != BITMAP_NONE;
         gpu = bitmap_next(&matcher->free, gpu + 1))
        count++;
    return count;
}

/* Of a ready one any GPU is enough. */
static bool finds_enough(const matcher_t *matcher, int64_t now_ns, uint32_t model)
{
    const match_model_t *entry = &matcher->models[model];
    if (entry->state == MATCH_EARLY && count_free(matcher, now_ns, model) < entry->candidate.idle)
        return false;
    return pick_gpu(matcher, now_ns, model) != BITMAP_NONE;
}

/* Placements differ, or what runs on shared GPUs, so the first by key may have no GPU where a later one
 * has: look at all of them. */
static uint32_t pick_model_restricted(const matcher_t *matcher, const heap_t *heap, int64_t now_ns)
{
    const heap_slot_t *best = NULL;
    for (uint32_t i = 0; i < heap->len; i++) {
        const heap_slot_t *slot = &heap->slots[i];
        bool better = !best || slot->key < best->key || (slot->key == best->key && slot->tie < best->tie);
        if (better && finds_enough(matcher, now_ns, (uint32_t)slot->tie))
            best = slot;
    }
    return best ? (uint32_t)best->tie : UINT32_MAX;
}

static uint32_t first_of(const heap_t *heap)
{
    return heap->len ? (uint32_t)heap->slots[0].tie : UINT32_MAX;
}

uint32_t matcher_first_ready(const matcher_t *matcher)
{
    return first_of(&matcher->ready);
}

static uint32_t pick_model(const matcher_t *matcher, const heap_t *heap, int64_t now_ns)
{
    return is_restricted(matcher) ? pick_model_restricted(matcher, heap, now_ns) : first_of(heap);
}

static bool is_late(const candidate_t *candidate, int64_t now_ns, int64_t gpu_free_ns)
{
    return gpu_free_ns > candidate->latest_ns || now_ns + candidate->lead_ns > candidate->latest_ns;
}

static match_grant_t bind(matcher_t *matcher, int64_t now_ns, uint32_t model, uint32_t gpu)
{
    match_grant_t grant = {.model = model,
                           .gpu = gpu,
                           .gpu_free_ns = matcher->gpus[gpu].free_ns,
                           .gpus = count_free(matcher, now_ns, model),
                           .vague = matcher->models[model].candidate.vague};
    if (!grant.vague) {
        model_detach(matcher, &matcher->models[model], MATCH_NONE);
        matcher_close_gpu(matcher, gpu);
    }
    return grant;
}

static bool next_ready(matcher_t *matcher, int64_t now_ns, match_grant_t *grant)
{
    while (matcher->ready.len && has_gpu(matcher, now_ns)) {
        uint32_t model = pick_model(matcher, &matcher->ready, now_ns);
        if (model == UINT32_MAX)
            return false;
        match_model_t *entry = &matcher->models[model];
        uint32_t gpu = pick_gpu(matcher, now_ns, model);
        if (!entry->candidate.vague && is_late(&entry->candidate, now_ns, matcher->gpus[gpu].free_ns)) {
            model_detach(matcher, entry, MATCH_STALE);
            continue;
        }
        *grant = bind(matcher, now_ns, model, gpu);
        return true;
    }
    return false;
}

/* Of those that are not ready, the first by key. */
static bool next_early(matcher_t *matcher, int64_t now_ns, match_grant_t *grant)
{
    if (matcher->early.len == 0 || bitmap_count(&matcher->free) == 0)
        return false;
    uint32_t model = pick_model(matcher, &matcher->early, now_ns);
    if (model == UINT32_MAX || !finds_enough(matcher, now_ns, model))
        return false;
    uint32_t gpu = pick_gpu(matcher, now_ns, model);
    if (is_late(&matcher->models[model].candidate, now_ns, matcher->gpus[gpu].free_ns))
        return false;
    *grant = bind(matcher, now_ns, model, gpu);
    return true;
}

bool matcher_next(matcher_t *matcher, int64_t now_ns, match_grant_t *grant)
{
    ripen(matcher, now_ns);
    return next_ready(matcher, now_ns, grant) || next_early(matcher, now_ns, grant);
}

int64_t matcher_wake_ns(const matcher_t *matcher)
{
    int64_t wake_ns = heap_min_key(&matcher->waiting);
    int64_t gpu_ns = heap_min_key(&matcher->busy);
    int64_t early_ns = matcher->lead_ns > ahead_ns(matcher) ? matcher->lead_ns : ahead_ns(matcher);
    if (matcher->ready.len && gpu_ns != INT64_MAX && gpu_ns - early_ns < wake_ns)
        wake_ns = gpu_ns - early_ns;
    if (matcher->early.len && gpu_ns < wake_ns)
        wake_ns = gpu_ns;
    return wake_ns;
}

static const char *validate_models(const matcher_t *matcher)
{
    uint32_t waiting = 0, early = 0, ready = 0;
    for (uint32_t m = 0; m < matcher->models_max; m++) {
        const match_model_t *entry = &matcher->models[m];
        early += entry->state == MATCH_EARLY;
        waiting += entry->state == MATCH_WAITING || entry->state == MATCH_EARLY;
        ready += entry->state == MATCH_READY;
        if (heap_contains(&entry->node) != (entry->state != MATCH_NONE && entry->state != MATCH_STALE) ||
            heap_contains(&entry->early_node) != (entry->state == MATCH_EARLY))
            return "a model's heap node does not fit its state";
        if (entry->state == MATCH_READY && entry->candidate.lead_ns > matcher->lead_ns)
            return "the largest lead of the ready is too small";
    }
    if (waiting != matcher->waiting.len || early != matcher->early.len || ready != matcher->ready.len)
        return "a heap of models holds others than its own";
    return heap_validate(&matcher->waiting, NULL) && heap_validate(&matcher->early, NULL) &&
                   heap_validate(&matcher->ready, NULL)
               ? NULL
               : "a heap of models";
}

const char *matcher_validate(const matcher_t *matcher)
{
    uint32_t busy = 0, shared = 0;
    for (uint32_t g = 0; g < matcher->gpus_max; g++) {
        const match_gpu_t *entry = &matcher->gpus[g];
        busy += entry->state == GPU_BUSY;
        shared += entry->state != GPU_CLOSED && entry->shared;
        if (heap_contains(&entry->node) != (entry->state == GPU_BUSY))
            return "a GPU's heap node does not fit its state";
        if (bitmap_has(&matcher->free, g) != (entry->state == GPU_FREE))
            return "the free set does not fit the GPUs' states";
    }
    if (shared != matcher->shared)
        return "the count of shared GPUs";
    if (busy != matcher->busy.len || !heap_validate(&matcher->busy, NULL) ||
        !bitmap_validate(&matcher->free, NULL))
        return "the busy heap or the free set";
    return validate_models(matcher);
}
