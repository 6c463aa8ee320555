"""A graph under construction: what the networks of the zoo are built with."""
import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SEED = 20261120
LINEAR = 1.0
RELU = math.sqrt(2)  # makes up for what a ReLU takes away
GAIN = {None: LINEAR, "relu": RELU, "relu6": RELU, "silu": 1.5, "hard_swish": 1.6}
GATED = 1.5  # makes up for what a sigmoid leaves of what it is multiplied with


class Net:
    """Every method that makes a value returns its name. `channels` knows dimension 1 of each picture."""

    def __init__(self, name, size=None, channels=3, opset=17, epsilon=1e-5):
        self.name, self.opset, self.epsilon = name, opset, epsilon
        self.random = np.random.default_rng(SEED)
        self.nodes, self.constants, self.inputs, self.outputs, self.count = [], [], [], [], 0
        self.trained = self.statistics = 0  # numbers; `statistics`: means and variances of batch normalisations
        self.channels = {"input": channels}
        if size:
            self.input("input", TensorProto.FLOAT, channels, size, size)

    def input(self, name, dtype, *dims):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, ["batch", *dims]))

    def output(self, x, *dims, name="output"):
        """Makes x an output, of these dimensions after the batch; nothing else may read it."""
        maker = next(node for node in self.nodes if x in node.output)
        maker.output[list(maker.output).index(x)] = name
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *dims]))

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name="make-zoo")
        model.ir_version = 8
        return model

    # ---- values ----

    def fresh(self, hint):
        self.count += 1
        return f"{hint}_{self.count}"

    def constant(self, array, hint="const"):
        name = self.fresh(hint)
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def ints(self, *values):
        return self.constant(np.array(values, dtype=np.int64), "shape")

    def scalar(self, value):
        return self.constant(np.float32(value), "scalar")

    def parameter(self, array, hint):
        self.trained += array.size
        return self.constant(array, hint)

    def random_weight(self, *shape, gain=LINEAR, fan_in=None):
        fan_in = fan_in or int(np.prod(shape[1:]))
        return (self.random.standard_normal(shape) * gain / math.sqrt(fan_in)).astype(np.float32)

    def weight(self, *shape, gain=LINEAR, fan_in=None):
        return self.parameter(self.random_weight(*shape, gain=gain, fan_in=fan_in), "weight")

    def bias(self, channels, scale=0.02):
        return self.parameter((scale * self.random.standard_normal(channels)).astype(np.float32), "bias")

    # ---- nodes ----

    def op(self, kind, *inputs, **attributes):
        out = self.fresh(kind.lower())
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=f"/{out}", **attributes))
        known = [self.channels[i] for i in inputs if i in self.channels]
        if known:
            self.channels[out] = sum(known) if kind == "Concat" else known[0]
        return out

    def split(self, x, count, axis=1):
        outs = [self.fresh("split") for _ in range(count)]
        part = self.channels.get(x, 0) // count
        self.nodes.append(helper.make_node("Split", [x, self.ints(*[part] * count)], outs, name=f"/{outs[0]}", axis=axis))
        self.channels.update({out: part for out in outs})
        return outs

    @staticmethod
    def padding(k, pad):
        """"same" as TensorFlow means it, a number for all sides, a list of four, or None: half the kernel."""
        if pad == "same":
            return {"auto_pad": "SAME_UPPER"}
        if pad is None:
            pad = [(k[0] - 1) // 2, (k[1] - 1) // 2] * 2
        return {"pads": pad if isinstance(pad, list) else [pad] * 4}

    def conv(self, x, cout, k, stride=1, pad=None, groups=1, bias=False, gain=RELU, shared=None):
        """`shared`: names of weight and bias to use instead of new ones."""
        k = (k, k) if isinstance(k, int) else k
        if not shared:
            shared = [self.weight(cout, self.channels[x] // groups, *k, gain=gain)]
            shared += [self.bias(cout)] if bias else []
        y = self.op("Conv", x, *shared, kernel_shape=list(k), strides=[stride, stride], group=groups, dilations=[1, 1],
                    **self.padding(k, pad))
        self.channels[y] = cout
        return y

    def up(self, x, cout, k, bias=False):
        """Twice the height and width."""
        weight, pad = self.weight(self.channels[x], cout, k, k, gain=2, fan_in=self.channels[x] * k * k), (k - 1) // 2
        y = self.op("ConvTranspose", x, weight, *([self.bias(cout)] if bias else []), kernel_shape=[k, k], strides=[2, 2],
                    pads=[pad] * 4, group=1, dilations=[1, 1], output_padding=[k % 2, k % 2])
        self.channels[y] = cout
        return y

    def bn(self, x, scale=1.0):
        draw, n = self.random.standard_normal, self.channels[x]
        names = [self.parameter(a.astype(np.float32), "bn") for a in (scale * (1 + 0.1 * draw(n)), 0.1 * draw(n))]
        names += [self.constant(a.astype(np.float32), "bn") for a in (0.1 * draw(n), 1 + 0.1 * self.random.random(n))]
        self.statistics += 2 * n
        return self.op("BatchNormalization", x, *names, epsilon=self.epsilon)

    def unit(self, x, cout, k, stride=1, pad=None, groups=1, act="relu", scale=1.0):
        """Convolution, normalisation times scale, activation; an activation is a method's name, or None."""
        x = self.bn(self.conv(x, cout, k, stride, pad, groups, gain=GAIN[act]), scale)
        return getattr(self, act)(x) if act else x

    def depthwise(self, x, k, stride=1, pad=None, act="relu"):
        return self.unit(x, self.channels[x], k, stride, pad, groups=self.channels[x], act=act)

    def pool(self, kind, x, k, stride, pad=0, **attributes):
        return self.op(f"{kind}Pool", x, kernel_shape=[k, k], strides=[stride, stride], **self.padding((k, k), pad),
                       **attributes)

    def max_pool(self, x, k=3, stride=2, pad=0):
        return self.pool("Max", x, k, stride, pad)

    def average_pool(self, x, k, stride=1, pad=0, count_padding=True):
        return self.pool("Average", x, k, stride, pad, count_include_pad=int(count_padding))

    def linear(self, x, cin, cout):
        """As torch exports a Linear on more than two dimensions: MatMul and Add."""
        y = self.op("MatMul", x, self.weight(cin, cout, fan_in=cin))
        return self.op("Add", self.bias(cout), y)

    def gemm(self, x, cin, cout, gain=LINEAR):
        return self.op("Gemm", x, self.weight(cout, cin, gain=gain), self.bias(cout), transB=1)

    def classifier(self, x, hidden=0, act=None, classes=1000):
        """Makes the classes, over a hidden layer if there is one, the output."""
        width = self.channels[x]
        x = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        if hidden:
            x, width = getattr(self, act)(self.gemm(x, width, hidden, GAIN[act])), hidden
        self.output(self.gemm(x, width, classes), classes)
        return self

    def squeeze_excite(self, x, squeezed, act="relu", gate="sigmoid"):
        y = self.op("GlobalAveragePool", x)
        y = getattr(self, act)(self.conv(y, squeezed, 1, bias=True))
        return self.op("Mul", x, getattr(self, gate)(self.conv(y, self.channels[x], 1, bias=True, gain=LINEAR)))

    # ---- activations ----

    def relu(self, x):
        return self.op("Relu", x)

    def relu6(self, x):
        return self.op("Clip", x, self.scalar(0), self.scalar(6))

    def sigmoid(self, x):
        return self.op("Sigmoid", x)

    def silu(self, x):
        return self.op("Mul", x, self.sigmoid(x))

    def hard_sigmoid(self, x):
        return self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)

    def hard_swish(self, x):
        return self.op("HardSwish", x)

    def gelu(self, x):
        y = self.op("Erf", self.op("Div", x, self.scalar(math.sqrt(2))))
        y = self.op("Mul", x, self.op("Add", y, self.scalar(1)))
        return self.op("Mul", y, self.scalar(0.5))


def divisible(width, least=0.9):
    """The nearest multiple of 8, or the next if that is below `least` of the width: how MobileNets and EfficientNets round."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < least * width else rounded
