#include "engine/cuda/run/segment.h"

#include "engine/cuda/lower/lower.h"

#include <stdlib.h>
#include <string.h>

/* One value, between its rows on the border and one of the places where it lies in the plan. */
typedef struct {
    uint32_t buffer;
    size_t offset_bytes;            /* of the place, in the buffer */
    size_t row_bytes, before_bytes; /* on the border: of the value, and room for those in front of it */
    size_t len_bytes;               /* of all rows */
    step_t *step;                   /* NULL: the bytes are the same on both sides */
} transfer_t;

struct transfers {
    transfers_t *next;
    const plan_t *plan;
    uint32_t op;
    bool into;
    transfer_t *list;
    uint32_t count;
    size_t row_bytes; /* room for all values */
};

/* ---- edges ---- */

/* The first place of the value that is alive in front of the operator. */
static const place_t *find_place(const program_t *p, int32_t value, uint32_t op, const place_t *after)
{
    for (const place_t *at = after ? after + 1 : p->places; at < p->places + p->place_count; at++)
        if (at->value == value && program_is_alive(p, at, op))
            return at;
    return NULL;
}

edge_t edge_of(const program_t *program, int32_t value, uint32_t op)
{
    const place_t *place = find_place(program, value, op, NULL);
    if (!place)
        return (edge_t){.value = value};
    bool last = !view_is(&place->view, LAYOUT_PLAIN) && view_is(&place->view, LAYOUT_CHANNELS_LAST);
    return (edge_t){.value = value,
                    .used = true,
                    .dtype = place->view.dtype,
                    .layout = last ? LAYOUT_CHANNELS_LAST : LAYOUT_PLAIN};
}

static size_t edge_row_bytes(const edge_t *edge, const tensor_t *t, uint32_t batch)
{
    return edge->used ? tensor_count(t) * dtype_size(edge->dtype) / batch : 0;
}

/* The next value begins where any type may. */
size_t edge_room_bytes(const edge_t *edge, const tensor_t *t, uint32_t batch)
{
    enum { ALIGN_BYTES = 16 };
    return (edge_row_bytes(edge, t, batch) + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* ---- making ---- */

static void dispose(transfers_t *t)
{
    for (uint32_t i = 0; t->list && i < t->count; i++)
        free(t->list[i].step);
    free(t->list);
    free(t);
}

void transfers_destroy(transfers_t *first)
{
    for (transfers_t *next, *t = first; t; t = next) {
        next = t->next;
        dispose(t);
    }
}

static view_t border_view(const edge_t *edge, const tensor_t *t)
{
    view_t v = {.dtype = edge->dtype, .rank = t->rank};
    memcpy(v.dims, t->dims, sizeof v.dims);
    view_set_layout(&v, edge->layout);
    return v;
}

static status_t add_transfer(transfers_t *t, const edge_t *edge, const tensor_t *shape, const place_t *place,
                             uint32_t batch, err_t *err)
{
    transfer_t *made = &t->list[t->count++];
    view_t border = border_view(edge, shape);
    *made = (transfer_t){.buffer = place->view.buffer,
                         .offset_bytes = (size_t)place->view.offset * dtype_size(place->view.dtype),
                         .row_bytes = edge_row_bytes(edge, shape, batch),
                         .before_bytes = t->row_bytes,
                         .len_bytes = edge_row_bytes(edge, shape, batch) * batch};
    if (place->view.dtype == edge->dtype && view_is(&place->view, edge->layout))
        return STATUS_OK;
    made->step = malloc(sizeof *made->step);
    if (!made->step)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a cut");
    if (t->into)
        lower_transfer(&place->view, &border, made->step);
    else
        lower_transfer(&border, &place->view, made->step);
    return STATUS_OK;
}

/* Into the plan all places are filled in which it is looked for later; out of it one of them is enough. */
static status_t add_value(transfers_t *t, const edge_t *edge, uint32_t batch, err_t *err)
{
    const program_t *p = t->plan->program;
    const value_t *value = &p->instance->values[edge->value];
    const place_t *place = find_place(p, edge->value, t->op, NULL);
    status_t status = STATUS_OK;
    if (!place != !edge->used)
        return err_set(err, STATUS_UNSUPPORTED,
                       "value '%.80s' is not kept alike in all batch sizes before operator %u", value->name,
                       t->op);
    if (status == STATUS_OK && value->t.rank && value->t.dims[0] % batch)
        status = err_set(err, STATUS_UNSUPPORTED, "value '%.80s': %lld rows of %u cannot be taken apart",
                         value->name, (long long)value->t.dims[0], batch);
    for (; status == STATUS_OK && place && tensor_count(&value->t);
         place = t->into ? find_place(p, edge->value, t->op, place) : NULL)
        status = add_transfer(t, edge, &value->t, place, batch, err);
    t->row_bytes += edge_room_bytes(edge, &value->t, batch);
    return status;
}

static uint32_t count_places(const transfers_t *t, edges_t edges)
{
    const program_t *p = t->plan->program;
    uint32_t count = 0;
    for (uint32_t i = 0; i < edges.count; i++)
        for (const place_t *place = NULL; (place = find_place(p, edges.edges[i].value, t->op, place));)
            count++;
    return count;
}

static status_t create(const plan_t *plan, uint32_t op, bool into, edges_t edges, uint32_t batch,
                       transfers_t **out, err_t *err)
{
    transfers_t *t = calloc(1, sizeof *t);
    status_t status = STATUS_OK;
    if (!t)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a cut");
    t->plan = plan;
    t->op = op;
    t->into = into;
    t->list = calloc(count_places(t, edges) + 1, sizeof *t->list);
    if (!t->list)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for a cut");
    for (uint32_t i = 0; status == STATUS_OK && i < edges.count; i++)
        status = add_value(t, &edges.edges[i], batch, err);
    if (status == STATUS_OK)
        *out = t;
    else
        dispose(t);
    return status;
}

status_t plan_transfers(plan_t *plan, uint32_t op, bool into, edges_t edges, uint32_t batch,
                        const transfers_t **out, err_t *err)
{
    status_t status = STATUS_OK;
    pthread_mutex_lock(&plan->mutex);
    transfers_t *t = plan->transfers;
    while (t && (t->op != op || t->into != into))
        t = t->next;
    if (!t && (status = create(plan, op, into, edges, batch, &t, err)) == STATUS_OK) {
        t->next = plan->transfers;
        plan->transfers = t;
    }
    pthread_mutex_unlock(&plan->mutex);
    if (status == STATUS_OK)
        *out = t;
    return status;
}

/* ---- running ---- */

size_t transfers_row_bytes(const transfers_t *t)
{
    return t->row_bytes;
}

static char *place_of(const transfers_t *t, const transfer_t *at, const space_t *space, uint32_t slot)
{
    const buffer_t *b = &t->plan->program->buffers[at->buffer];
    char *base = b->kind == BUFFER_INPUT ? (char *)space->slots[slot] + t->plan->input_offsets[b->index]
                                         : (char *)space->work + b->offset;
    return base + at->offset_bytes;
}

static status_t run_kernel(const transfer_t *at, const space_t *space, void *to, void *from, err_t *err)
{
    step_t step = *at->step;
    if (step.kernel == KERNEL_COPY) {
        step.u.copy.out.base = to;
        step.u.copy.in.base = from;
    } else {
        step.u.elementwise.out.base = to;
        step.u.elementwise.in[0].base = from;
    }
    return device_run_step(space->device, space->compute, &step, NULL, 0, err);
}

status_t transfers_run(const transfers_t *t, const space_t *space, uint32_t slot,
                       const engine_border_t *border, uint32_t row, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < t->count; i++) {
        const transfer_t *at = &t->list[i];
        char *outside = border->data + at->before_bytes * border->rows + at->row_bytes * row;
        char *inside = place_of(t, at, space, slot), *to = t->into ? inside : outside,
             *from = t->into ? outside : inside;
        status = at->step ? run_kernel(at, space, to, from, err)
                          : device_copy(space->device, space->compute, to, from, at->len_bytes, err);
    }
    return status;
}
