/* The tests of segments.c on onnxruntime, which compiles each part anew: nearly, not exactly, the same numbers. */
#define SEGMENTS_ENGINE "onnxruntime"
#define SEGMENTS_TOLERANCE 1e-4
#define SEGMENTS_OTHER_MEMORY
#include "segments.c"

/* The last operator looks at the shape of the input, which nobody has behind the first cut. */
static maker_t *looking_back(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 8});
    maker_node(m, "Exp", "x", "a");
    maker_node(m, "Softmax", "a", "b");
    maker_node(m, "Softmax", "b", "c");
    maker_node(m, "Add", "c x", "d");
    maker_node(m, "Softmax", "d", "e");
    maker_node(m, "Shape", "x", "s");
    maker_node(m, "Reshape", "e s", "f");
    maker_node(m, "Softmax", "f", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

/* As long as the input is alive (until the addition) the rest has its shape. */
Test(segments, what_cannot_be_cut_out_of_the_file_is_no_cut)
{
    rig_t *rig = open_rig(looking_back());
    char text[64] = "";
    for (uint32_t c = 0; c < rig->cuts.cut_count; c++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", rig->cuts.cuts[c].op);
    cr_expect_eq(rig->cuts.ops, 7);
    cr_expect_str_eq(text, "1 2 3 6 ");
    cr_expect_eq(rig->cuts.cuts[0].row_bytes, 2 * 8 * sizeof(float)); /* x and a */
    try_cuts(rig, "looking back");
}

Test(segments, times_are_of_every_operator_and_take_no_memory_after)
{
    rig_t *rig = open_rig(networks[0].make());
    int64_t op_ns[64] = {0};
    uint64_t before = rig->info->memory_bytes;
    engine_job_t job = part(rig, 1, 0, 0, 0, ROWS);
    job.op_ns = op_ns;
    run(rig, job, "timed");
    for (uint32_t op = 0; op < rig->cuts.ops; op++)
        cr_expect_gt(op_ns[op], 0);
    compare(rig, SEGMENTS_TOLERANCE, "timed");
    uint64_t timed = rig->info->memory_bytes;
    cr_expect_gt(timed, before);
    engine_border_t *at = border(rig, rig->cuts.cuts[0].op);
    engine_job_t first = part(rig, 0, 0, rig->cuts.cuts[0].op, 0, ROWS);
    first.target = at;
    run(rig, first, "first");
    cr_expect_lt(rig->info->memory_bytes, timed);
    ops->border_destroy(at);
    close_rig(rig);
}
