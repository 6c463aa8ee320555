/*
 * Steps on a GPU: the kernels that are chosen for them, and their run.
 */
#include "engine/cuda/device/device_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 4096 }; /* some hundred plans of dozens of shapes */

static void destroy_choice(device_t *d, choice_t *c)
{
    conv_dispose(d->lib, c);
    free(c->key);
    free(c);
    d->choice_count--;
}

/* The one that was wanted longest ago goes, of those that nobody uses; there may be none. */
static void drop_oldest(device_t *d)
{
    choice_t **oldest = NULL;
    for (choice_t **at = &d->choices; *at; at = &(*at)->next)
        if (!(*at)->users)
            oldest = at;
    if (!oldest)
        return;
    choice_t *c = *oldest;
    *oldest = c->next;
    destroy_choice(d, c);
}

static void put_first(device_t *d, choice_t *c)
{
    c->next = d->choices;
    d->choices = c;
}

/* With this key, and no larger need; it is the first one then. */
static choice_t *find_choice(device_t *d, const char *key, size_t scratch_bytes)
{
    for (choice_t **at = &d->choices; *at; at = &(*at)->next) {
        choice_t *c = *at;
        if (strcmp(c->key, key) != 0 || c->scratch_bytes > scratch_bytes)
            continue;
        *at = c->next;
        put_first(d, c);
        return c;
    }
    return NULL;
}

static choice_t *new_choice(device_t *d, const step_t *step, engine_precision_t precision, effort_t effort,
                            const char *key, void *scratch, size_t scratch_bytes)
{
    choice_t *c = calloc(1, sizeof *c);
    char *copy = strdup(key);
    if (!c || !copy) {
        free(c);
        free(copy);
        return NULL;
    }
    c->key = copy;
    c->precision = precision;
    c->effort = effort;
    if (step->kind == STEP_CONV)
        conv_choose(d, &step->u.conv, scratch, scratch_bytes, c);
    else
        gemm_choose(d, &step->u.gemm, scratch, scratch_bytes, c);
    if (d->choice_count >= CHOICES_MAX)
        drop_oldest(d);
    d->choice_count++;
    put_first(d, c);
    return c;
}

status_t device_choose(device_t *d, step_t *step, engine_precision_t precision, effort_t effort,
                       void *scratch, size_t scratch_bytes, err_t *err)
{
    char key[CHOICE_KEY_BYTES];
    status_t status = device_enter(d, err);
    if (status != STATUS_OK)
        return status;
    if (step->kind == STEP_CONV)
        conv_key(&step->u.conv, precision, key);
    else
        gemm_key(&step->u.gemm, precision, key);
    if (effort == EFFORT_FIRST)
        strncat(key, " first", sizeof key - strlen(key) - 1);
    pthread_mutex_lock(&d->choosing);
    choice_t *c = find_choice(d, key, scratch_bytes);
    if (!c)
        c = new_choice(d, step, precision, effort, key, scratch, scratch_bytes);
    if (c)
        c->users++;
    pthread_mutex_unlock(&d->choosing);
    step->plan = c;
    if (!c)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a choice of kernels");
    cudaGetLastError(); /* what a library left behind that does not work here */
    return device_check(d, cudaStreamSynchronize(d->streams[STREAM_PREPARE]), "choosing kernels", err);
}

void choices_free(device_t *d)
{
    for (choice_t *next, *c = d->choices; c; c = next) {
        next = c->next;
        destroy_choice(d, c);
    }
}

size_t device_step_scratch(const step_t *step)
{
    const choice_t *c = step->plan;
    return c ? c->scratch_bytes : 0;
}

void device_release(device_t *d, step_t *step)
{
    choice_t *c = step->plan;
    if (!c)
        return;
    pthread_mutex_lock(&d->choosing);
    c->users--;
    pthread_mutex_unlock(&d->choosing);
    step->plan = NULL;
}

const char *device_step_choice(const step_t *step)
{
    const choice_t *c = step->plan;
    if (!c || c->kind == CHOICE_DIRECT)
        return "direct";
    if (c->kind == CHOICE_CONV)
        return c->fused ? "cudnn fused" : "cudnn";
    return "cublaslt";
}

static status_t launch(device_t *d, stream_t s, kernel_t kernel, const void *args, err_t *err)
{
    return device_check(d, (cudaError_t)kernel_launch(kernel, args, d->streams[s]), "launching a kernel",
                        err);
}

/* Our own kernel, or the library's, and behind it what of the epilogue that one left out. */
static status_t run_conv(device_t *d, stream_t s, step_t *step, void *scratch, err_t *err)
{
    const choice_t *c = step->plan;
    const conv_step_t *conv = &step->u.conv;
    bool library = c && c->kind == CHOICE_CONV;
    status_t status =
        library ? conv_run(d, s, conv, c, scratch, err) : launch(d, s, KERNEL_CONV, &conv->direct, err);
    bool rest = conv->tail.ew.op_count && !(library && c->fused);
    return status == STATUS_OK && rest ? launch(d, s, KERNEL_ELEMENTWISE, &conv->tail.ew, err) : status;
}

static status_t run_gemm(device_t *d, stream_t s, step_t *step, void *scratch, err_t *err)
{
    const choice_t *c = step->plan;
    const gemm_step_t *gemm = &step->u.gemm;
    bool library = c && c->kind == CHOICE_GEMM;
    status_t status =
        library ? gemm_run(d, s, gemm, c, scratch, err) : launch(d, s, KERNEL_GEMM, &gemm->direct, err);
    const k_elementwise_t *rest = library ? &gemm->rest.ew : &gemm->whole.ew;
    return status == STATUS_OK && rest->op_count ? launch(d, s, KERNEL_ELEMENTWISE, rest, err) : status;
}

status_t device_run_step(device_t *d, stream_t s, step_t *step, void *scratch, size_t scratch_bytes,
                         err_t *err)
{
    status_t status = device_enter(d, err);
    if (status != STATUS_OK)
        return status;
    if (device_step_scratch(step) > scratch_bytes && step->kind != STEP_KERNEL)
        return err_set(err, STATUS_INTERNAL, "a step has too little room to work in");
    switch (step->kind) {
    case STEP_CONV:
        return run_conv(d, s, step, scratch, err);
    case STEP_GEMM:
        return run_gemm(d, s, step, scratch, err);
    default:
        return launch(d, s, step->kernel, &step->u, err);
    }
}
