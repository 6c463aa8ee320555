#include "engine/cuda/lower/program.h"

#include "base/strbuf.h"
#include "graph/passes/memory_plan.h"

#include <stdlib.h>
#include <string.h>

void program_destroy(program_t *program)
{
    if (!program)
        return;
    graph_destroy(program->instance);
    free(program->buffers);
    free(program->steps);
    free(program->bindings);
    free(program->places);
    free(program->op_steps);
    free(program->inputs);
    free(program->outputs);
    free(program->input_used);
    free(program);
}

/* ---- places ---- */

static bool needs_place(const buffer_t *buffer)
{
    return buffer->kind == BUFFER_WORK && buffer->first != UINT32_MAX;
}

status_t program_place(program_t *program, err_t *err)
{
    memory_piece_t *pieces = calloc(program->buffer_count + 1, sizeof *pieces);
    uint32_t count = 0;
    if (!pieces)
        return err_set(err, STATUS_NO_MEMORY, "no memory to place %u buffers", program->buffer_count);
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        const buffer_t *b = &program->buffers[i];
        if (needs_place(b))
            pieces[count++] = (memory_piece_t){.len_bytes = b->len_bytes, .first = b->first, .last = b->last};
    }
    program->work_bytes = memory_plan(pieces, count, PROGRAM_ALIGN_BYTES);
    count = 0;
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        buffer_t *b = &program->buffers[i];
        if (!needs_place(b))
            continue;
        b->len_bytes = pieces[count].len_bytes;
        b->offset = pieces[count++].offset;
    }
    free(pieces);
    return STATUS_OK;
}

/* ---- ranges of operators ---- */

uint32_t program_first_step(const program_t *program, uint32_t from)
{
    return program->op_steps[from];
}

uint32_t program_end_step(const program_t *program, uint32_t to)
{
    return to == program->instance->node_count ? program->step_count : program->op_steps[to];
}

bool program_is_alive(const program_t *program, const place_t *place, uint32_t op)
{
    const buffer_t *b = &program->buffers[place->view.buffer];
    uint32_t step = program->op_steps[op];
    if (place->op >= (int32_t)op || b->first == UINT32_MAX || b->last < step)
        return false;
    return b->kind == BUFFER_INPUT || (b->kind == BUFFER_WORK && b->first < step);
}

/* ---- bindings ---- */

void program_bind(const program_t *program, step_t *steps, const program_memory_t *memory)
{
    for (uint32_t i = 0; i < program->binding_count; i++) {
        const binding_t *binding = &program->bindings[i];
        const buffer_t *b = &program->buffers[binding->buffer];
        step_t *step = &steps[binding->step];
        char *base = b->kind == BUFFER_WORK       ? (char *)memory->work + b->offset
                     : b->kind == BUFFER_CONSTANT ? memory->constants[b->index]
                     : b->kind == BUFFER_INPUT    ? memory->inputs[b->index]
                                                  : memory->outputs[b->index];
        void *pointer = base ? base + binding->offset_bytes : NULL;
        if (step->kind == STEP_HOST)
            step->u.host.device[binding->field] = pointer;
        else
            memcpy((char *)step + binding->field, &pointer, sizeof pointer);
    }
}

/* What a host step needs of its own. */
static size_t host_bytes(const step_t *step)
{
    return step->kind == STEP_HOST ? step->u.host.count * (sizeof(tensor_t) + 2 * sizeof(void *)) : 0;
}

/* tensors, then the arrays that point to them and to the device. */
static char *copy_host(step_t *to, char *at)
{
    host_step_t *h = &to->u.host;
    const host_step_t from = *h;
    const tensor_t **in;
    tensor_t **out;
    h->tensors = (tensor_t *)(void *)at;
    in = (const tensor_t **)(void *)(h->tensors + h->count);
    out = (tensor_t **)(void *)(in + from.ctx.in_count);
    h->device = (void **)(void *)(out + from.ctx.out_count);
    memcpy(h->tensors, from.tensors, h->count * sizeof *h->tensors);
    for (uint32_t i = 0; i < from.ctx.in_count; i++)
        in[i] = from.ctx.in[i] ? &h->tensors[i] : NULL;
    for (uint32_t i = 0; i < from.ctx.out_count; i++)
        out[i] = from.ctx.out[i] ? &h->tensors[from.ctx.in_count + i] : NULL;
    memcpy(h->device, from.device, h->count * sizeof *h->device);
    h->ctx.in = in;
    h->ctx.out = out;
    return (char *)(h->device + h->count);
}

step_t *program_copy_steps(const program_t *program)
{
    size_t len = (program->step_count + 1) * sizeof(step_t), extra = 0;
    for (uint32_t i = 0; i < program->step_count; i++)
        extra += host_bytes(&program->steps[i]);
    step_t *steps = malloc(len + extra);
    char *at = (char *)steps + len;
    if (!steps)
        return NULL;
    if (program->step_count)
        memcpy(steps, program->steps, program->step_count * sizeof *steps);
    for (uint32_t i = 0; i < program->step_count; i++)
        if (steps[i].kind == STEP_HOST)
            at = copy_host(&steps[i], at);
    return steps;
}

/* ---- text ---- */

static void write_dims(strbuf_t *text, const int64_t *dims, uint32_t count)
{
    for (uint32_t d = 0; d < count; d++)
        strbuf_printf(text, "%s%lld", d ? "x" : "", (long long)dims[d]);
}

static void write_conv(strbuf_t *text, const conv_step_t *c)
{
    strbuf_printf(text, "%s %s ", c->direct.transposed ? "conv_transpose" : "conv", dtype_name(c->dtype));
    write_dims(text, c->x, 5);
    strbuf_printf(text, " -> ");
    write_dims(text, c->y, 5);
    strbuf_printf(text, " k%dx%dx%d", c->direct.kernel[0], c->direct.kernel[1], c->direct.kernel[2]);
    if (c->direct.groups > 1)
        strbuf_printf(text, " groups=%d", c->direct.groups);
    strbuf_printf(text, "%s%s", c->has_bias ? " +bias" : "", c->has_residual ? " +add" : "");
    if (c->act.op != EW_IDENTITY)
        strbuf_printf(text, c->act.op == EW_RELU ? " +relu" : " +activation");
    if (!c->fusable && c->tail.ew.op_count)
        strbuf_printf(text, " then %d ops", c->tail.ew.op_count);
}

static void write_gemm(strbuf_t *text, const gemm_step_t *g)
{
    strbuf_printf(text, "gemm %s %lldx%lldx%lld", dtype_name(g->dtype), (long long)g->m, (long long)g->n,
                  (long long)g->k);
    if (g->batch > 1)
        strbuf_printf(text, " batch=%lld", (long long)g->batch);
    strbuf_printf(text, "%s%s%s%s", g->library ? "" : " direct", g->a_transposed ? " at" : "",
                  g->b_transposed ? " bt" : "", g->has_bias ? " +bias" : "");
    if (g->has_residual)
        strbuf_printf(text, " +add");
    if (g->activation != EW_IDENTITY)
        strbuf_printf(text, g->activation == EW_RELU ? " +relu" : " +gelu");
    if (g->library && g->rest.ew.op_count)
        strbuf_printf(text, " then %d ops", g->rest.ew.op_count);
}

static void write_kernel(strbuf_t *text, const step_t *s)
{
    const k_space_t *space = s->kernel == KERNEL_COPY          ? &s->u.copy.space
                             : s->kernel == KERNEL_ELEMENTWISE ? &s->u.elementwise.space
                                                               : NULL;
    strbuf_printf(text, "%s", s->what ? s->what : s->node->op->name);
    if (!space)
        return;
    strbuf_printf(text, " [");
    for (int32_t d = 0; d < space->rank; d++)
        strbuf_printf(text, "%s%d", d ? "x" : "", space->dims[d]);
    strbuf_printf(text, "]");
    if (s->kernel == KERNEL_ELEMENTWISE)
        strbuf_printf(text, " %d ops -> %s", s->u.elementwise.op_count,
                      dtype_name((dtype_t)s->u.elementwise.out.dtype));
}

char *program_text(const program_t *program)
{
    strbuf_t text;
    strbuf_init(&text, (size_t)16 << 20);
    for (uint32_t i = 0; i < program->step_count; i++) {
        const step_t *s = &program->steps[i];
        if (s->kind == STEP_CONV)
            write_conv(&text, &s->u.conv);
        else if (s->kind == STEP_GEMM)
            write_gemm(&text, &s->u.gemm);
        else if (s->kind == STEP_HOST)
            strbuf_printf(&text, "host %s", s->node->op->name);
        else
            write_kernel(&text, s);
        strbuf_printf(&text, "\n");
    }
    return strbuf_take(&text);
}
