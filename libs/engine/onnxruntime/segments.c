/* Jobs of parts of a model. */
#include "engine/onnxruntime/parts.h"

#include "base/clock.h"
#include "engine/onnxruntime/values.h"
#include "engine/queue/segment.h"

#include <stdlib.h>
#include <string.h>

/* Where a tensor of a job's rows lies at one end of its range. */
static void *place(const engine_model_t *model, const engine_job_t *job, uint32_t op, uint32_t i,
                   const edge_t *ends)
{
    const engine_border_t *border = op == job->range.from ? job->source : job->target;
    size_t before = 0;
    if (op == 0)
        return (char *)(uintptr_t)job->inputs[i] + edge_row_bytes(&ends[i]) * job->row;
    if (op == model->blueprint.cuts.ops)
        return (char *)job->outputs[i] + edge_row_bytes(&ends[i]) * job->row;
    for (uint32_t e = 0; e < i; e++)
        before += edge_row_bytes(&ends[e]);
    return border->data + before * border->rows + edge_row_bytes(&ends[i]) * job->row;
}

static status_t check_border(const engine_border_t *border, const engine_job_t *job, const edge_t *ends,
                             uint32_t count, err_t *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += edge_row_bytes(&ends[i]);
    return border_check(border, job, bytes, err);
}

typedef struct {
    edge_t in[ENGINE_MAX_IO], out[ENGINE_MAX_IO];
    uint32_t in_count, out_count, made[ENGINE_MAX_IO], made_count;
    const char *input_names[ENGINE_MAX_IO], *output_names[ENGINE_MAX_IO];
    OrtValue *inputs[ENGINE_MAX_IO], *outputs[ENGINE_MAX_IO];
} bound_t;

static status_t bind_edge(const engine_model_t *model, const engine_job_t *job, const edge_t *edge,
                          void *data, OrtValue **value, err_t *err)
{
    tensor_t t = edge->t;
    if (model_info(model)->batchable)
        t.dims[0] = t.dims[0] / edge->batch * job->batch;
    t.data = data;
    return value_bind(&t, false, value, err);
}

static status_t bind(const engine_model_t *model, const engine_job_t *job, bound_t *b, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < b->in_count; i++) {
        b->input_names[i] = b->in[i].name;
        status = bind_edge(model, job, &b->in[i], place(model, job, job->range.from, i, b->in), &b->inputs[i],
                           err);
    }
    for (uint32_t m = 0; status == STATUS_OK && m < b->made_count; m++) {
        uint32_t i = b->made[m];
        b->output_names[m] = b->out[i].name;
        status = bind_edge(model, job, &b->out[i], place(model, job, job->range.to, i, b->out),
                           &b->outputs[m], err);
    }
    return status;
}

static void unbind(bound_t *b)
{
    for (uint32_t i = 0; i < b->in_count; i++)
        if (b->inputs[i])
            ort->ReleaseValue(b->inputs[i]);
    for (uint32_t i = 0; i < b->made_count; i++)
        if (b->outputs[i])
            ort->ReleaseValue(b->outputs[i]);
}

static void pass_through(const engine_model_t *model, const engine_job_t *job, const bound_t *b)
{
    for (uint32_t o = 0; o < b->out_count; o++)
        for (uint32_t i = 0; i < b->in_count; i++)
            if (strcmp(b->in[i].name, b->out[o].name) == 0)
                memcpy(place(model, job, job->range.to, o, b->out),
                       place(model, job, job->range.from, i, b->in), edge_row_bytes(&b->in[i]) * job->batch);
}

/* A part of the model, of rows that lie where the job says; range.to is set. */
static status_t run_range(const cpu_lane_t *lane, engine_job_t *job, OrtSession *session, bound_t *b,
                          err_t *err)
{
    const engine_model_t *model = job->model;
    b->in_count = edges_at(model, job->range.from, b->in);
    b->out_count = edges_at(model, job->range.to, b->out);
    b->made_count = part_makes(b->in, b->in_count, b->out, b->out_count, b->made);
    status_t status = check_border(job->source, job, b->in, b->in_count, err);
    if (status == STATUS_OK)
        status = check_border(job->target, job, b->out, b->out_count, err);
    if (status == STATUS_OK)
        status = bind(model, job, b, err);
    const call_t call = {.session = session,
                         .input_names = b->input_names,
                         .output_names = b->output_names,
                         .input_count = b->in_count,
                         .output_count = b->made_count,
                         .inputs = b->inputs,
                         .outputs = b->outputs};
    if (status == STATUS_OK && b->made_count)
        status = model_call(lane, job, &call, err);
    if (status == STATUS_OK)
        pass_through(model, job, b);
    unbind(b);
    return status;
}

static status_t run_part(const cpu_lane_t *lane, engine_job_t *job, source_t *source, err_t *err)
{
    engine_model_t *model = job->model;
    bool whole = job->range.from == 0 && job->range.to == model->blueprint.cuts.ops;
    OrtSession *session = model->session;
    bound_t *bound = calloc(1, sizeof *bound);
    if (!bound)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a part of a model");
    status_t status = whole ? STATUS_OK : parts_session(model, source, &job->range, source, &session, err);
    job->started_ns = clock_now_ns(); /* making the part is not part of it */
    if (status == STATUS_OK)
        status = run_range(lane, job, session, bound, err);
    free(bound);
    return status;
}

/* ---- Times of operators: a session for what lies between two cuts ---- */

static void share_out(const engine_job_t *job, const engine_job_t *piece, int64_t took_ns)
{
    uint32_t ops = piece->range.to - piece->range.from;
    for (uint32_t op = piece->range.from; op < piece->range.to; op++)
        job->op_ns[op - job->range.from] = took_ns / ops;
}

static status_t time_pieces(const cpu_lane_t *lane, engine_job_t *job, engine_border_t *const between[2],
                            source_t *source, err_t *err)
{
    const engine_cuts_t *cuts = &job->model->blueprint.cuts;
    status_t status = STATUS_OK;
    uint32_t turn = 0, from = job->range.from;
    job->started_ns = 0;
    for (uint32_t c = 0; status == STATUS_OK && from < job->range.to; c++) {
        uint32_t to = c < cuts->cut_count ? cuts->cuts[c].op : cuts->ops;
        if (to <= from)
            continue;
        engine_job_t piece = *job;
        piece.range.from = from;
        piece.range.to = to;
        piece.source = from == job->range.from ? job->source : between[turn];
        piece.target = to == job->range.to ? job->target : between[!turn];
        status = run_part(lane, &piece, source, err);
        job->started_ns = job->started_ns ? job->started_ns : piece.started_ns;
        if (status == STATUS_OK)
            share_out(job, &piece, clock_now_ns() - piece.started_ns);
        turn = !turn;
        from = to;
    }
    return status;
}

static status_t time_operators(const cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    engine_model_t *model = job->model;
    const engine_cuts_t *cuts = &model->blueprint.cuts;
    engine_border_t *between[2] = {NULL, NULL};
    source_t source = {.file = NULL};
    uint32_t *all = calloc(cuts->cut_count + 1, sizeof *all);
    status_t status = all ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory to time operators");
    for (uint32_t c = 0; all && c < cuts->cut_count; c++)
        all[c] = cuts->cuts[c].op;
    for (uint32_t i = 0; status == STATUS_OK && i < 2; i++)
        status = border_create(model, all, cuts->cut_count, job->row + job->batch, NULL, &between[i], err);
    if (status == STATUS_OK)
        status = time_pieces(lane, job, between, &source, err);
    border_destroy(between[0]);
    border_destroy(between[1]);
    free(all);
    source_close(&source);
    return status;
}

status_t parts_run(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    status_t status;
    engine_range_t asked = job->range;
    job->range.to = segment_end(job, &job->model->blueprint.cuts);
    if (job->op_ns) {
        parts_time(job->model, 1);
        status = time_operators(lane, job, err);
        parts_time(job->model, -1);
    } else {
        parts_drop(job->model, false);
        status = run_part(lane, job, NULL, err);
    }
    if (status == STATUS_OK)
        job->reached = job->range.to;
    job->range = asked;
    return status;
}
