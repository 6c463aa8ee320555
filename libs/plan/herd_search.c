/*
 * First fit, and from there branch and bound.
 *
 * Models come in order of falling n. Then the model that opens a group settles what tolerance the group
 * needs, and what joins it later costs nothing: a node of the tree is worth what the groups opened so far
 * allow (herd_apportion). A leaf is cut off when that is not above the best plan known. The bound for the
 * whole problem lets models be split: then the k-th group of a set opens where the memory of the k-1 before
 * it is full.
 */
#include "base/clock.h"
#include "plan/herd_sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_PER_CHECK = 4096 }; /* between two looks at the clock */
#define UNSET UINT32_MAX

typedef struct {
    double n, bytes;
    uint32_t model, set;
} item_t;

typedef struct {
    double need, left; /* n of the model that opened it; memory */
    uint32_t set;
    uint32_t opener; /* item */
} open_t;

typedef struct {
    const herd_problem_t *problem;
    uint32_t *set;
    item_t *items;
    open_t *open;
    double *need;
    uint32_t *size;
    uint32_t *at;       /* group of each item on the way down */
    double *tolerance;  /* after the k-th opening */
    double *rest_bytes; /* of the items from this one on */
    uint32_t open_count;
    double room; /* memory left in the open groups */
    herd_plan_t best;
    double bound;
    int64_t end_ns;
} search_t;

static double memory_of(const herd_problem_t *problem)
{
    return problem->memory_bytes > 0 ? problem->memory_bytes : INFINITY;
}

static int larger_need_first(const void *a, const void *b)
{
    const item_t *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->model < y->model ? -1 : 1;
}

static int larger_bytes_first(const void *a, const void *b)
{
    const item_t *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return larger_need_first(a, b);
}

/* ---- The bound ---- */

/* Fractional openings of every set, into `need`; returns how many there are, or UNSET if more than the groups. */
static uint32_t fractional(search_t *search)
{
    const herd_problem_t *problem = search->problem;
    uint32_t count = 0;
    for (uint32_t c = 0; c < search->best.sets; c++) {
        double left = 0;
        bool any = false;
        for (uint32_t i = 0; i < problem->model_count; i++) {
            const item_t *item = &search->items[i];
            if (item->set != c)
                continue;
            double bytes = item->bytes;
            while (bytes > left * (1 + 1e-12) || !any) {
                if (count == problem->group_count)
                    return UNSET;
                any = true;
                search->need[count++] = item->n;
                bytes -= left;
                left = memory_of(problem);
            }
            left -= bytes;
        }
    }
    return count;
}

static status_t find_bound(search_t *search, err_t *err)
{
    uint32_t count = fractional(search);
    if (count == UNSET)
        return err_set(err, STATUS_NOT_FOUND, "%u groups are too few for %u models in %u affinity sets",
                       search->problem->group_count, search->problem->model_count, search->best.sets);
    if (count > search->problem->gpu_count)
        return err_set(err, STATUS_NOT_FOUND, "%u GPUs are too few for %u groups", search->problem->gpu_count,
                       count);
    search->bound = herd_apportion(search->problem, search->need, count, search->size);
    return STATUS_OK;
}

/* ---- Going down ---- */

static bool fits(const search_t *search, const item_t *item, uint32_t j)
{
    return search->open[j].set == item->set && item->bytes <= search->open[j].left;
}

static void enter(search_t *search, uint32_t k, uint32_t j)
{
    const item_t *item = &search->items[k];
    double memory = memory_of(search->problem);
    if (j == search->open_count) {
        search->open[j] = (open_t){.need = item->n, .left = memory, .set = item->set, .opener = k};
        search->open_count++;
        search->room += isinf(memory) ? 0 : memory;
        for (uint32_t i = 0; i <= j; i++)
            search->need[i] = search->open[i].need;
        search->tolerance[j] = herd_apportion(search->problem, search->need, j + 1, search->size);
    }
    search->open[j].left -= item->bytes;
    search->room -= item->bytes;
    search->at[k] = j;
}

static void leave(search_t *search, uint32_t k)
{
    const item_t *item = &search->items[k];
    uint32_t j = search->at[k];
    search->open[j].left += item->bytes;
    search->room += item->bytes;
    search->at[k] = UNSET;
    if (search->open[j].opener == k) {
        search->open_count--;
        search->room -= isinf(memory_of(search->problem)) ? 0 : memory_of(search->problem);
    }
}

/* Whether what is still to come can be better than the best plan. */
static bool promising(const search_t *search, uint32_t next)
{
    const herd_problem_t *problem = search->problem;
    double memory = memory_of(problem);
    if (!isinf(memory) &&
        search->rest_bytes[next] >
            (search->room + memory * (problem->group_count - search->open_count)) * (1 + 1e-9))
        return false;
    return search->tolerance[search->open_count - 1] > search->best.tolerance * (1 + 1e-12);
}

/* The next group to try for item k, from j on; UNSET when there is none. Groups with the same room are alike. */
static uint32_t next_place(const search_t *search, uint32_t k, uint32_t j)
{
    const item_t *item = &search->items[k];
    for (; j < search->open_count; j++) {
        if (!fits(search, item, j))
            continue;
        bool seen = false;
        for (uint32_t i = 0; i < j && !seen; i++)
            seen = fits(search, item, i) && search->open[i].left >= search->open[j].left &&
                   search->open[i].left <= search->open[j].left;
        if (!seen)
            return j;
    }
    return j == search->open_count && j < search->problem->group_count ? j : UNSET;
}

static void keep(search_t *search)
{
    herd_plan_t *best = &search->best;
    for (uint32_t k = 0; k < search->problem->model_count; k++)
        best->group[search->items[k].model] = search->at[k];
    if (!herd_evaluate(search->problem, search->set, false, best))
        best->tolerance = -1;
}

/* True: the whole tree has been seen. */
static bool branch(search_t *search)
{
    uint32_t count = search->problem->model_count, k = 0;
    uint32_t from = 0; /* first place to try for item k */
    for (uint64_t nodes = 1;; nodes++) {
        if (nodes % NODES_PER_CHECK == 0 && clock_now_ns() >= search->end_ns)
            return false;
        uint32_t j = next_place(search, k, from);
        if (j != UNSET) {
            enter(search, k, j);
            if (promising(search, k + 1)) {
                if (k + 1 < count) {
                    k++;
                    from = 0;
                    continue;
                }
                keep(search);
                if (search->best.tolerance >= search->bound * (1 - 1e-12))
                    return true;
            }
            from = j + 1;
            leave(search, k);
            continue;
        }
        if (k == 0)
            return true;
        k--;
        from = search->at[k] + 1;
        leave(search, k);
    }
}

/* Where memory is tight and the tree's first leaf lies far: first fit by falling memory. */
static void first_fit_by_bytes(search_t *search)
{
    const herd_problem_t *problem = search->problem;
    qsort(search->items, problem->model_count, sizeof *search->items, larger_bytes_first);
    bool placed = true;
    for (uint32_t k = 0; k < problem->model_count && placed; k++) {
        uint32_t j = next_place(search, k, 0);
        placed = j != UNSET;
        if (placed)
            enter(search, k, j);
    }
    if (placed)
        keep(search);
    search->open_count = 0;
    search->room = 0;
    qsort(search->items, problem->model_count, sizeof *search->items, larger_need_first);
}

/* ---- Around it ---- */

static bool allocate(search_t *search)
{
    const herd_problem_t *problem = search->problem;
    uint32_t models = problem->model_count, groups = problem->group_count;
    search->set = malloc(models * sizeof *search->set);
    search->items = malloc(models * sizeof *search->items);
    search->at = malloc(models * sizeof *search->at);
    search->rest_bytes = malloc((models + 1) * sizeof *search->rest_bytes);
    search->open = malloc(groups * sizeof *search->open);
    search->need = malloc(groups * sizeof *search->need);
    search->size = malloc(groups * sizeof *search->size);
    search->tolerance = malloc(groups * sizeof *search->tolerance);
    search->best.group = calloc(models, sizeof *search->best.group);
    search->best.size = calloc(groups, sizeof *search->best.size);
    return search->set && search->items && search->at && search->rest_bytes && search->open && search->need &&
           search->size && search->tolerance && search->best.group && search->best.size;
}

static void release(search_t *search)
{
    free(search->set);
    free(search->items);
    free(search->at);
    free(search->rest_bytes);
    free(search->open);
    free(search->need);
    free(search->size);
    free(search->tolerance);
}

static void sort_items(search_t *search)
{
    const herd_problem_t *problem = search->problem;
    search->best.sets = herd_affinity_sets(problem, search->set);
    for (uint32_t i = 0; i < problem->model_count; i++)
        search->items[i] = (item_t){.n = herd_need(&problem->models[i]),
                                    .bytes = problem->models[i].bytes,
                                    .model = i,
                                    .set = search->set[i]};
    qsort(search->items, problem->model_count, sizeof *search->items, larger_need_first);
    search->rest_bytes[problem->model_count] = 0;
    for (uint32_t k = problem->model_count; k-- > 0;)
        search->rest_bytes[k] = search->rest_bytes[k + 1] + search->items[k].bytes;
}

static status_t solve(search_t *search, err_t *err)
{
    sort_items(search);
    status_t status = find_bound(search, err);
    if (status != STATUS_OK)
        return status;
    search->best.tolerance = -1;
    first_fit_by_bytes(search);
    search->best.optimal = branch(search);
    if (search->best.tolerance < 0)
        return err_set(err, STATUS_NOT_FOUND, "no plan of %u groups keeps the memory bound%s",
                       search->problem->group_count, search->best.optimal ? "" : " (none found in time)");
    search->best.bound = search->best.optimal ? search->best.tolerance : search->bound;
    herd_evaluate(search->problem, search->set, true, &search->best);
    return STATUS_OK;
}

status_t herd_search(const herd_problem_t *problem, herd_plan_t *plan, err_t *err)
{
    status_t status = herd_check(problem, err);
    if (status != STATUS_OK)
        return status;
    search_t search = {.problem = problem, .end_ns = clock_now_ns() + (int64_t)(problem->seconds * 1e9)};
    if (allocate(&search))
        status = solve(&search, err);
    else
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    release(&search);
    if (status == STATUS_OK)
        *plan = search.best;
    else
        herd_plan_dispose(&search.best);
    return status;
}
