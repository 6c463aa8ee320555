#include "networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void network_noise(float *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(rand_r(&seed) % 2001) / 1000 - 1;
}

static void weights_up_to(maker_t *m, const char *name, int rank, const int64_t *dims, float most,
                          unsigned seed)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    float *values = malloc((count + 1) * sizeof *values);
    network_noise(values, count, seed);
    for (size_t i = 0; i < count; i++)
        values[i] *= most;
    maker_floats(m, name, rank, dims, values);
    free(values);
}

static void weights(maker_t *m, const char *name, int rank, const int64_t *dims, unsigned seed)
{
    weights_up_to(m, name, rank, dims, 0.3f, seed);
}

/* Results are as large as what they are made of: with other kernels for other batch sizes they then agree as far as these do. */
static void conv(maker_t *m, const char *in, const char *out, const char *w, int64_t from, int64_t to,
                 unsigned seed)
{
    char inputs[160];
    weights_up_to(m, w, 4, (int64_t[]){to, from, 3, 3}, sqrtf(3.0f / (9.0f * (float)from)), seed);
    snprintf(inputs, sizeof inputs, "%s %s", in, w);
    maker_attr_ints(maker_node(m, "Conv", inputs, out), "pads", 4, (int64_t[]){1, 1, 1, 1});
}

/* Blocks with skip connections, a pool and a product. Sin and Cos want r1 row-major, the convolution between them does
 * not: it is alive in both layouts. */
static maker_t *residual(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 3, 9, 9});
    conv(m, "x", "c0", "w0", 3, 20, 1);
    maker_node(m, "Relu", "c0", "r0");
    conv(m, "r0", "c1", "w1", 20, 20, 2);
    maker_node(m, "Add", "c1 r0", "a1");
    maker_node(m, "Relu", "a1", "r1");
    maker_node(m, "Sin", "r1", "s1");
    maker_node(m, "Mul", "r1 s1", "m1");
    conv(m, "m1", "c2", "w2", 20, 20, 3);
    maker_node(m, "Add", "c2 r1", "a2");
    maker_node(m, "Cos", "r1", "t1");
    maker_node(m, "Mul", "a2 t1", "a3");
    maker_attr_int(maker_node(m, "Concat", "a3 r0", "k"), "axis", 1);
    maker_node(m, "GlobalAveragePool", "k", "p");
    maker_node(m, "Flatten", "p", "f");
    weights(m, "fc", 2, (int64_t[]){5, 40}, 4);
    weights(m, "fb", 1, (int64_t[]){5}, 5);
    maker_attr_int(maker_node(m, "Gemm", "f fc fb", "y"), "transB", 1);
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

/* Down and up again, each level joined to the one across; two outputs, one of them early. */
static maker_t *hourglass(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 4, 8, 8});
    conv(m, "x", "d0", "w0", 4, 16, 1);
    maker_node(m, "Relu", "d0", "e0");
    Onnx__NodeProto *pool = maker_node(m, "MaxPool", "e0", "p0");
    maker_attr_ints(pool, "kernel_shape", 2, (int64_t[]){2, 2});
    maker_attr_ints(pool, "strides", 2, (int64_t[]){2, 2});
    conv(m, "p0", "d1", "w1", 16, 24, 2);
    maker_node(m, "Relu", "d1", "e1");
    weights(m, "up", 4, (int64_t[]){24, 16, 2, 2}, 3);
    maker_attr_ints(maker_node(m, "ConvTranspose", "e1 up", "u0"), "strides", 2, (int64_t[]){2, 2});
    maker_attr_int(maker_node(m, "Concat", "u0 e0", "k0"), "axis", 1);
    conv(m, "k0", "y", "w2", 32, 3, 4);
    maker_node(m, "GlobalAveragePool", "e1", "g");
    maker_node(m, "Flatten", "g", "z");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    maker_output(m, "z", DTYPE_F32, -1, NULL);
    return m;
}

/* A result that is read in two layouts, again and again: convolutions and running sums take turns. */
static maker_t *layouts(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 4, 6, 6});
    maker_ints(m, "across", 1, (int64_t[]){3});
    maker_ints(m, "down", 1, (int64_t[]){2});
    conv(m, "x", "c0", "w0", 4, 8, 1);
    maker_node(m, "CumSum", "c0 across", "s0");
    conv(m, "c0", "c1", "w1", 8, 8, 2);
    maker_node(m, "Add", "c1 s0", "a1");
    maker_node(m, "CumSum", "c0 down", "s1");
    maker_node(m, "Mul", "a1 s1", "a2");
    conv(m, "c0", "c2", "w2", 8, 2, 3);
    maker_node(m, "GlobalAveragePool", "a2", "y");
    maker_node(m, "GlobalAveragePool", "c2", "z");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    maker_output(m, "z", DTYPE_F32, -1, NULL);
    return m;
}

/* One layer of attention and one of products over `length` words (-2: any number); the mask is read in the
 * middle of it. */
static maker_t *transformer_of(int64_t length)
{
    enum { H = NETWORK_WIDTH, HEADS = 2 };
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){-1, length, H});
    maker_input(m, "mask", DTYPE_F32, 4, (int64_t[]){-1, 1, 1, length});
    const char *const names[] = {"q", "k", "v"};
    maker_ints(m, "heads", 4, (int64_t[]){0, 0, HEADS, H / HEADS});
    for (unsigned i = 0; i < 3; i++) {
        char w[8], product[8], split[8], text[32];
        snprintf(w, sizeof w, "w%s", names[i]);
        snprintf(product, sizeof product, "p%s", names[i]);
        snprintf(split, sizeof split, "s%s", names[i]);
        weights(m, w, 2, (int64_t[]){H, H}, i + 1);
        snprintf(text, sizeof text, "x %s", w);
        maker_node(m, "MatMul", text, product);
        snprintf(text, sizeof text, "%s heads", product);
        maker_node(m, "Reshape", text, split);
        maker_attr_ints(maker_node(m, "Transpose", split, names[i]), "perm", 4,
                        i == 1 ? (int64_t[]){0, 2, 3, 1} : (int64_t[]){0, 2, 1, 3});
    }
    maker_node(m, "MatMul", "q k", "scores");
    maker_node(m, "Add", "scores mask", "masked");
    maker_attr_int(maker_node(m, "Softmax", "masked", "weights"), "axis", -1);
    maker_node(m, "MatMul", "weights v", "context");
    maker_attr_ints(maker_node(m, "Transpose", "context", "back"), "perm", 4, (int64_t[]){0, 2, 1, 3});
    maker_ints(m, "flat", 2, (int64_t[]){-1, H});
    maker_node(m, "Reshape", "back flat", "rows");
    weights(m, "wo", 2, (int64_t[]){H, 4 * H}, 7);
    weights(m, "wi", 2, (int64_t[]){4 * H, H}, 8);
    maker_node(m, "Gemm", "rows wo", "wide");
    maker_node(m, "Tanh", "wide", "active");
    maker_node(m, "Gemm", "active wi", "narrow");
    maker_node(m, "Shape", "x", "deep");
    maker_node(m, "Reshape", "narrow deep", "n3");
    maker_node(m, "Add", "n3 x", "y");
    maker_output(m, "y", DTYPE_F32, 3, (int64_t[]){-1, length, H});
    return m;
}

static maker_t *transformer(void)
{
    return transformer_of(6);
}

maker_t *network_of_any_length(void)
{
    return transformer_of(-2);
}

/* Four frames to a row, each a row of its own until the end: what keeps the order of the rows, along every other axis. */
static maker_t *frames(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 5, (int64_t[]){-1, 4, 3, 7, 7});
    maker_ints(m, "apart", 4, (int64_t[]){-1, 3, 7, 7});
    maker_ints(m, "together", 2, (int64_t[]){-1, 32});
    maker_ints(m, "some", 2, (int64_t[]){2, 0});
    maker_ints(m, "four", 1, (int64_t[]){4});
    maker_node(m, "Reshape", "x apart", "f");
    conv(m, "f", "c", "w", 3, 8, 1);
    Onnx__NodeProto *pool = maker_node(m, "MaxPool", "c", "p");
    maker_attr_ints(pool, "kernel_shape", 2, (int64_t[]){2, 2});
    maker_attr_ints(pool, "strides", 2, (int64_t[]){2, 2});
    maker_node(m, "Softsign", "p", "s");
    maker_attr_int(maker_node(m, "Concat", "s p", "k"), "axis", 1);
    maker_attr_ints(maker_node(m, "Transpose", "k", "t"), "perm", 4, (int64_t[]){0, 2, 3, 1});
    maker_attr_int(maker_node(m, "LpNormalization", "t", "l"), "axis", -1);
    Onnx__NodeProto *mean = maker_node(m, "ReduceMean", "l", "r");
    maker_attr_ints(mean, "axes", 1, (int64_t[]){1});
    maker_attr_int(mean, "keepdims", 0);
    maker_attr_int(maker_node(m, "Gather", "r some", "g"), "axis", 1);
    maker_attr_int(maker_node(m, "Split", "g", "a b"), "axis", 2);
    maker_node(m, "Mul", "a b", "ab");
    maker_node(m, "TopK", "ab four", "best at");
    maker_attr_int(maker_node(m, "LogSoftmax", "best", "o"), "axis", 1);
    maker_node(m, "Reshape", "o together", "v");
    weights(m, "fc", 2, (int64_t[]){32, 5}, 2);
    maker_node(m, "Gemm", "v fc", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

const network_t networks[] = {{"residual", residual},
                              {"hourglass", hourglass},
                              {"transformer", transformer},
                              {"layouts", layouts},
                              {"frames", frames}};
const uint32_t network_count = sizeof networks / sizeof networks[0];

maker_t *network_random(unsigned seed)
{
    enum { NODES = 14, CHANNELS = 16 };
    maker_t *m = maker_create(17);
    char names[NODES + 1][8] = {"x"};
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, CHANNELS, 5, 5});
    for (int i = 1; i <= NODES; i++) {
        const char *last = names[i - 1], *other = names[(unsigned)rand_r(&seed) % (unsigned)i];
        char both[256], w[16];
        if (i < NODES)
            snprintf(names[i], sizeof names[i], "v%d", i);
        else
            snprintf(names[i], sizeof names[i], "y");
        snprintf(both, sizeof both, "%s %s", last, other);
        snprintf(w, sizeof w, "w%d", i);
        switch (rand_r(&seed) % 6) {
        case 0:
            conv(m, last, names[i], w, CHANNELS, CHANNELS, seed);
            break;
        case 1:
            maker_node(m, "Relu", last, names[i]);
            break;
        case 2:
            maker_node(m, "Tanh", last, names[i]);
            break;
        case 3:
            maker_node(m, "Mul", both, names[i]);
            break;
        default:
            maker_node(m, "Add", both, names[i]);
        }
    }
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

maker_t *network_varying(void)
{
    maker_t *m = maker_create(13);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, -1});
    maker_ints(m, "axis", 1, (int64_t[]){1});
    maker_node(m, "ReduceSum", "x axis", "s");
    maker_node(m, "Sub", "x s", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

status_t network_load(maker_t *m, const engine_ops_t *ops, engine_t *engine, uint32_t max_batch,
                      engine_precision_t precision, engine_model_t **model, err_t *err)
{
    engine_load_t what = {.max_batch = max_batch, .precision = precision};
    return network_load_as(m, ops, engine, what, model, err);
}

status_t network_load_as(maker_t *m, const engine_ops_t *ops, engine_t *engine, engine_load_t what,
                         engine_model_t **model, err_t *err)
{
    size_t len;
    uint8_t *bytes = maker_pack(m, &len);
    what.name = "made";
    what.bytes = bytes;
    what.len_bytes = len;
    status_t status = ops->load(engine, &what, model, err);
    free(bytes);
    return status;
}
