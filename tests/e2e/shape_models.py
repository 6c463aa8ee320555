"""Small models whose dimensions vary beside the batch, made anew for each run from a seed; none is committed."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, SEED = 100, 16, 7


def _weights(**arrays):
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def _save(folder, name, graph, config):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    (folder / name / "1").mkdir(parents=True)
    path = folder / name / "1" / "model.onnx"
    onnx.save(model, path)
    (folder / name / "config.yaml").write_text(config)
    return path


def attention(folder, name, config="slo_ms: 3000\n", more_layers=0, sequence="sequence"):
    """Embedding, one masked self-attention, a mean: `states` [batch, sequence, 16] and `pooled` [batch, 16]. Each further
    layer is two products with a residual. A number for `sequence` fixes it."""
    r = np.random.default_rng(SEED)

    def matrix(rows, columns):
        return (r.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    weights = _weights(table=matrix(WORDS, WIDTH) * 4, wq=matrix(WIDTH, WIDTH), wk=matrix(WIDTH, WIDTH), wv=matrix(WIDTH, WIDTH),
                       scale=np.float32(1 / np.sqrt(WIDTH)), one=np.float32(1), far=np.float32(-1e4), axis1=np.array([1], np.int64),
                       axis2=np.array([2], np.int64))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("MatMul", ["x", "wv"], ["v"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["qk"]),
        helper.make_node("Mul", ["qk", "scale"], ["scores"]),
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["one", "m"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "far"], ["away"]),
        helper.make_node("Unsqueeze", ["away", "axis1"], ["away3"]),
        helper.make_node("Add", ["scores", "away3"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["states0" if more_layers else "states"]),
    ]
    for i in range(more_layers):
        weights += _weights(**{f"up{i}": matrix(WIDTH, 4 * WIDTH), f"down{i}": matrix(4 * WIDTH, WIDTH)})
        nodes += [
            helper.make_node("MatMul", [f"states{i}", f"up{i}"], [f"wide{i}"]),
            helper.make_node("Tanh", [f"wide{i}"], [f"bent{i}"]),
            helper.make_node("MatMul", [f"bent{i}", f"down{i}"], [f"narrow{i}"]),
            helper.make_node("Add", [f"narrow{i}", f"states{i}"], [f"states{i + 1}" if i + 1 < more_layers else "states"]),
        ]
    nodes += [
        helper.make_node("Unsqueeze", ["m", "axis2"], ["m3"]),
        helper.make_node("Mul", ["states", "m3"], ["seen"]),
        helper.make_node("ReduceSum", ["seen", "axis1"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["m", "axis1"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["pooled"]),
    ]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(x, TensorProto.INT64, ["batch", sequence]) for x in ("ids", "mask")],
                              [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", sequence, WIDTH]),
                               helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["batch", WIDTH])], weights)
    return _save(folder, name, graph, config)


def attention_inputs(rows, length, seed=1, hide=0):
    """The last `hide` words of each row are masked out."""
    r = np.random.default_rng(seed * 1000 + length)
    mask = np.ones((rows, length), np.int64)
    if hide:
        mask[:, -hide:] = 0
    return {"ids": r.integers(0, WORDS, (rows, length)), "mask": mask}


def totals(folder, name, config="slo_ms: 3000\n", layers=3):
    """Each layer adds the sum of all words to a product of each: x and y are [batch, sequence, 16]. That sum has the shape of a single
    word, so that of one word an engine makes a product with a residual, which is another operator."""
    r = np.random.default_rng(SEED)
    weights, nodes = _weights(axis=np.array([1], np.int64)), []
    for i in range(layers):
        at, to = f"x{i}" if i else "x", f"x{i + 1}" if i + 1 < layers else "y"
        weights += _weights(**{f"w{i}": (r.standard_normal((WIDTH, WIDTH)) / WIDTH).astype(np.float32)})
        nodes += [
            helper.make_node("ReduceSum", [at, "axis"], [f"sum{i}"], keepdims=1),
            helper.make_node("MatMul", [at, f"w{i}"], [f"product{i}"]),
            helper.make_node("Add", [f"product{i}", f"sum{i}"], [f"all{i}"]),
            helper.make_node("Tanh", [f"all{i}"], [to]),
        ]
    x, y = (helper.make_tensor_value_info(tensor, TensorProto.FLOAT, ["batch", "sequence", WIDTH]) for tensor in "xy")
    return _save(folder, name, helper.make_graph(nodes, name, [x], [y], weights), config)


def totals_inputs(rows, length, seed=1):
    return {"x": np.random.default_rng(seed * 1000 + length).standard_normal((rows, length, WIDTH)).astype(np.float32)}


def pictures(folder, name, config="slo_ms: 3000\n"):
    """A convolution of stride 2 over pictures of any size, and a mean: `map` has dimensions that no axis names."""
    r = np.random.default_rng(SEED)
    weights = _weights(w=r.standard_normal((4, 3, 3, 3)).astype(np.float32))
    nodes = [helper.make_node("Conv", ["image", "w"], ["map"], pads=[1, 1, 1, 1], strides=[2, 2]),
             helper.make_node("GlobalAveragePool", ["map"], ["mean4"]),
             helper.make_node("Flatten", ["mean4"], ["mean"], axis=1)]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])],
                              [helper.make_tensor_value_info("map", TensorProto.FLOAT, ["batch", 4, None, None]),
                               helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch", 4])], weights)
    return _save(folder, name, graph, config)


def above(folder, name, config="slo_ms: 3000\n"):
    """Which elements of x are above 0: an output whose size only the contents tell, of a model without a batch."""
    nodes = [helper.make_node("Greater", ["x", "zero"], ["is"]), helper.make_node("NonZero", ["is"], ["where"])]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [12])],
                              [helper.make_tensor_value_info("where", TensorProto.INT64, [1, "found"])], _weights(zero=np.float32(0)))
    return _save(folder, name, graph, config)


def with_past(folder, name, config="slo_ms: 3000\n"):
    """A step of a text: what was kept of the words before, and those that come. The mask is as long as both together."""
    r = np.random.default_rng(SEED)
    weights = _weights(table=r.standard_normal((WORDS, WIDTH)).astype(np.float32), axis2=np.array([2], np.int64))
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]),
             helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
             helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["m", "axis2"], ["m3"]),
             helper.make_node("Mul", ["present", "m3"], ["seen"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, name, [value("ids", TensorProto.INT64, ["batch", "sequence"]), value("mask", TensorProto.INT64, ["batch", "total"]),
                                            value("past", TensorProto.FLOAT, ["batch", "past", WIDTH])],
                              [value("seen", TensorProto.FLOAT, ["batch", "total", WIDTH]), value("present", TensorProto.FLOAT, ["batch", "total", WIDTH])], weights)
    return _save(folder, name, graph, config)


def with_past_inputs(rows, past, words, seed=1):
    r = np.random.default_rng(seed * 1000 + past * 37 + words)
    return {"ids": r.integers(0, WORDS, (rows, words)), "mask": r.integers(0, 2, (rows, past + words)),
            "past": r.standard_normal((rows, past, WIDTH)).astype(np.float32)}


def found(folder, name, config="slo_ms: 3000\n"):
    """Where in a batch elements are above 0: of what comes out nothing says which rows are whose."""
    nodes = [helper.make_node("Greater", ["x", "zero"], ["is"]), helper.make_node("NonZero", ["is"], ["where"])]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("where", TensorProto.INT64, [2, "found"])], _weights(zero=np.float32(0)))
    return _save(folder, name, graph, config)


def one_scale(folder, name, config="slo_ms: 3000\n"):
    """A product in int8 whose scale is that of the largest element of all rows, as dynamic quantisation writes it."""
    r = np.random.default_rng(SEED)
    weights = _weights(w=r.integers(-127, 128, (12, 4)).astype(np.int8), w_scale=np.float32(0.01))
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], "quantize"),
             helper.make_node("MatMulInteger", ["q", "w", "zero"], ["product"]), helper.make_node("Cast", ["product"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["scale", "w_scale"], ["s"]), helper.make_node("Mul", ["f", "s"], ["y"])]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])], weights)
    return _save(folder, name, graph, config)


def decided(folder, name, config="slo_ms: 3000\n"):
    """Doubles all rows when their sum is above 0, else negates all."""
    def branch(op, constant):
        return helper.make_graph([helper.make_node(op, ["x", constant], [op])], op, [], [helper.make_tensor_value_info(op, TensorProto.FLOAT, ["batch", 12])])

    nodes = [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "zero"], ["positive"]),
             helper.make_node("If", ["positive"], ["y"], "branch", then_branch=branch("Add", "x"), else_branch=branch("Mul", "minus"))]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 12])], _weights(zero=np.float32(0), minus=np.float32(-1)))
    return _save(folder, name, graph, config)


def wide(folder, name, width, config="slo_ms: 30000\n"):
    """x times a row: answers far larger than their requests, that tell to which request they belong."""
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "row"], ["y"])], name,
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", width])],
                              _weights(row=np.linspace(1, 2, width, dtype=np.float32).reshape(1, width)))
    return _save(folder, name, graph, config)
