/* Strings in and out, and classes with their probabilities, as pipelines of scikit-learn have them. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 3 };

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    uint32_t room_bytes;
    ticket_t ticket;
    char kinds[ROWS * ENGINE_DEFAULT_TEXT_BYTES], labels[ROWS * ENGINE_DEFAULT_TEXT_BYTES];
    float share[ROWS][2];
} play_t;

static Onnx__NodeProto *ml_node(maker_t *m, const char *op, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = maker_node(m, op, inputs, outputs);
    node->domain = strdup("ai.onnx.ml");
    return node;
}

/* Rows of one colour: its name in capitals, and a map from each colour to whether it is that; others are refused. */
static maker_t *colours(void)
{
    maker_t *m = maker_create(17);
    maker_import(m, "ai.onnx.ml", 2);
    maker_input(m, "kind", DTYPE_STRING, 2, (int64_t[]){-1, 1});
    Onnx__NodeProto *capitals = ml_node(m, "LabelEncoder", "kind", "label");
    maker_attr_strings(capitals, "keys_strings", "red green");
    maker_attr_strings(capitals, "values_strings", "RED GREENISH");
    Onnx__NodeProto *encoder = ml_node(m, "OneHotEncoder", "kind", "hot");
    maker_attr_strings(encoder, "cats_strings", "red green");
    maker_attr_int(encoder, "zeros", 0);
    maker_node(m, "Flatten", "hot", "flat");
    maker_attr_strings(ml_node(m, "ZipMap", "flat", "share"), "classlabels_strings", "red green");
    maker_output(m, "label", DTYPE_STRING, 2, (int64_t[]){-1, 1});
    maker_output(m, "share", DTYPE_F32, -1, NULL);
    return m;
}

static void begin(play_t *p, uint32_t text_bytes)
{
    err_t err;
    memset(p, 0, sizeof *p);
    p->room_bytes = text_bytes ? text_bytes : ENGINE_DEFAULT_TEXT_BYTES;
    cr_assert_eq(engine_find("onnxruntime", &p->ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(p->ops->open(&(engine_config_t){0}, &p->engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load_as(colours(), p->ops, p->engine, (engine_load_t){.text_bytes = text_bytes},
                                 &p->model, &err),
                 STATUS_OK, "%s", err.text);
}

static status_t run(play_t *p, uint32_t rows, const char *const *kinds)
{
    engine_job_t job = {.model = p->model,
                        .batch = rows,
                        .inputs = (const void *[]){p->kinds},
                        .outputs = (void *[]){p->labels, p->share}};
    memset(p->kinds, 0, sizeof p->kinds);
    memset(p->labels, 0xff, sizeof p->labels);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(p->kinds + i * p->room_bytes, kinds[i], strlen(kinds[i]));
    return ticket_run(&p->ticket, p->ops, p->engine, job);
}

static void end(play_t *p)
{
    p->ops->unload(p->model);
    p->ops->close(p->engine);
}

Test(onnxruntime_text, a_model_of_strings_says_what_it_is)
{
    static play_t p;
    begin(&p, 0);
    const engine_model_info_t *info = p.ops->info(p.model);
    cr_assert(info->batchable && info->input_count == 1 && info->output_count == 2);
    const engine_tensor_t *kind = &info->inputs[0], *label = &info->outputs[0], *share = &info->outputs[1];
    cr_expect(kind->text && kind->dtype == DTYPE_U8 && kind->rank == 2 && kind->dims[0] == 1);
    cr_expect_eq(kind->dims[1], ENGINE_DEFAULT_TEXT_BYTES);
    cr_expect_eq(kind->row_bytes, ENGINE_DEFAULT_TEXT_BYTES);
    cr_expect_str_eq((const char *)kind->sample, "red", "no empty string is taken");
    cr_expect(label->text && label->row_bytes == ENGINE_DEFAULT_TEXT_BYTES);
    cr_expect(!share->text && share->dtype == DTYPE_F32 && share->rank == 1 && share->dims[0] == 2);
    end(&p);
}

Test(onnxruntime_text, strings_and_maps_come_back_row_by_row)
{
    static play_t p;
    begin(&p, 0);
    cr_assert_eq(run(&p, ROWS, (const char *[]){"green", "red", "green"}), STATUS_OK, "%s", p.ticket.text);
    for (uint32_t i = 0; i < ROWS; i++) {
        const char *label = p.labels + i * p.room_bytes;
        cr_expect_str_eq(label, i == 1 ? "RED" : "GREENISH");
        cr_expect_eq(label[p.room_bytes - 1], 0, "the room is filled up");
        cr_expect_eq(p.share[i][0], i != 1, "green is the first key");
        cr_expect_eq(p.share[i][1], i == 1);
    }
    end(&p);
}

Test(onnxruntime_text, what_the_model_does_not_take_is_the_fault_of_the_input)
{
    static play_t p;
    begin(&p, 0);
    cr_expect_eq(run(&p, 2, (const char *[]){"green", "blue"}), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(p.ticket.text, "Unknown Category"), "%s", p.ticket.text);
    cr_expect_eq(run(&p, 1, (const char *[]){"red"}), STATUS_OK);
    end(&p);
}

Test(onnxruntime_text, a_string_that_has_no_room_is_told)
{
    static play_t p;
    begin(&p, 4);
    cr_expect_eq(run(&p, 1, (const char *[]){"red"}), STATUS_OK, "%s", p.ticket.text);
    cr_expect_str_eq(p.labels, "RED");
    end(&p);
    begin(&p, 5);
    cr_expect_eq(run(&p, 2, (const char *[]){"red", "green"}), STATUS_TOO_LARGE);
    cr_expect(strstr(p.ticket.text, "'label' has a string of 8 bytes where there is room for 5"), "%s",
              p.ticket.text);
    end(&p);
}

Test(onnxruntime_text, nothing_is_known_of_a_model_whose_strings_have_no_room)
{
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    err_t err;
    cr_assert_eq(engine_find("onnxruntime", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){0}, &engine, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(network_load_as(colours(), ops, engine, (engine_load_t){.text_bytes = 2}, &model, &err),
                 STATUS_INTERNAL);
    cr_expect(strstr(err.text, "Unknown Category"), "%s", err.text);
    ops->close(engine);
}
