"""MobileNet v1 to v3, SSD over MobileNet, EfficientNet v1 and v2."""
import math

from .net import GATED, LINEAR, Net, divisible


# What a block adds to what it read: little, as dozens follow each other.
SHARE = 0.2


def mobilenet_v1_steps(net):
    """Howard et al. 2017: what each pair of a convolution in space and one over channels makes."""
    x = net.unit("input", 32, 3, 2, "same")
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = net.unit(net.depthwise(x, 3, stride, "same"), width, 1)
        yield x


def mobilenet_v1():
    net = Net("mobilenet_v1", 224, epsilon=1e-3)
    *_, x = mobilenet_v1_steps(net)
    return net.classifier(x)


def ssd_mobilenet(size=300, classes=91):
    """
    Liu et al. 2016 over MobileNet: boxes and their classes (the first: none) from maps of six sizes. Which boxes are kept is a
    matter of contents, not of shapes: not in here.
    """
    net = Net("ssd_mobilenet", size, epsilon=1e-3)
    steps = list(mobilenet_v1_steps(net))
    maps = [steps[10], steps[12]]
    for narrow, width in ((256, 512), (128, 256), (128, 256), (64, 128)):
        maps.append(net.unit(net.unit(maps[-1], narrow, 1), width, 3, 2, "same"))
    found, count, side = {4: [], classes: []}, 0, math.ceil(size / 16)
    for i, x in enumerate(maps):
        anchors = 3 if i == 0 else 6
        for n, parts in found.items():
            y = net.op("Transpose", net.conv(x, n * anchors, 1, bias=True, gain=LINEAR), perm=[0, 2, 3, 1])
            parts.append(net.op("Reshape", y, net.ints(0, -1, n)))
        count, side = count + anchors * side * side, math.ceil(side / 2)
    net.output(net.op("Concat", *found[4], axis=1), count, 4, name="boxes")
    net.output(net.sigmoid(net.op("Concat", *found[classes], axis=1)), count, classes, name="scores")
    return net


def inverted(net, x, hidden, width, k, stride, act, squeezed=0, squeeze=("relu", "sigmoid")):
    """Wider in the middle, where the convolution in space is; all of v2, v3 and EfficientNet are made of this."""
    y = x if hidden == net.channels[x] else net.unit(x, hidden, 1, act=act)
    y = net.depthwise(y, k, stride, act=act)
    if squeezed:
        y = net.squeeze_excite(y, squeezed, *squeeze)
    return project(net, x, y, width, stride, GATED if squeezed else 1)


def project(net, x, y, width, stride, scale=1.0):
    """The end of a block: y made narrow and, where it is of the same shape, added to x, by a share that keeps the sum small."""
    if stride != 1 or net.channels[x] != width:
        return net.unit(y, width, 1, act=None, scale=scale)
    return net.op("Add", x, net.unit(y, width, 1, act=None, scale=SHARE * scale))


def mobilenet_v2():
    """Sandler et al. 2018."""
    net = Net("mobilenet_v2", 224)
    x = net.unit("input", 32, 3, 2, act="relu6")
    for wider, width, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            x = inverted(net, x, wider * net.channels[x], width, 3, 1 if i else first, "relu6")
    return net.classifier(net.unit(x, 1280, 1, act="relu6"))


# Kernel, width in the middle, width, squeeze and excite, activation, stride.
V3_LARGE = ((3, 16, 16, 0, "relu", 1), (3, 64, 24, 0, "relu", 2), (3, 72, 24, 0, "relu", 1), (5, 72, 40, 1, "relu", 2),
            (5, 120, 40, 1, "relu", 1), (5, 120, 40, 1, "relu", 1), (3, 240, 80, 0, "hard_swish", 2),
            (3, 200, 80, 0, "hard_swish", 1), (3, 184, 80, 0, "hard_swish", 1), (3, 184, 80, 0, "hard_swish", 1),
            (3, 480, 112, 1, "hard_swish", 1), (3, 672, 112, 1, "hard_swish", 1), (5, 672, 160, 1, "hard_swish", 2),
            (5, 960, 160, 1, "hard_swish", 1), (5, 960, 160, 1, "hard_swish", 1))
V3_SMALL = ((3, 16, 16, 1, "relu", 2), (3, 72, 24, 0, "relu", 2), (3, 88, 24, 0, "relu", 1), (5, 96, 40, 1, "hard_swish", 2),
            (5, 240, 40, 1, "hard_swish", 1), (5, 240, 40, 1, "hard_swish", 1), (5, 120, 48, 1, "hard_swish", 1),
            (5, 144, 48, 1, "hard_swish", 1), (5, 288, 96, 1, "hard_swish", 2), (5, 576, 96, 1, "hard_swish", 1),
            (5, 576, 96, 1, "hard_swish", 1))


def mobilenet_v3(name, blocks, last, hidden):
    """Howard et al. 2019."""
    net = Net(name, 224, epsilon=1e-3)
    x = net.unit("input", 16, 3, 2, act="hard_swish")
    for k, middle, width, squeeze, act, stride in blocks:
        x = inverted(net, x, middle, width, k, stride, act, squeeze and divisible(middle / 4), ("relu", "hard_sigmoid"))
    return net.classifier(net.unit(x, last, 1, act="hard_swish"), hidden, "hard_swish")


# Fused (one full convolution in place of the wider and the one in space), factor in the middle, kernel, stride, width, count.
V1 = ((0, 1, 3, 1, 16, 1), (0, 6, 3, 2, 24, 2), (0, 6, 5, 2, 40, 2), (0, 6, 3, 2, 80, 3), (0, 6, 5, 1, 112, 3),
      (0, 6, 5, 2, 192, 4), (0, 6, 3, 1, 320, 1))
V2_BASE = ((1, 1, 3, 1, 16, 1), (1, 4, 3, 2, 32, 2), (1, 4, 3, 2, 48, 2), (0, 4, 3, 2, 96, 3), (0, 6, 3, 1, 112, 5),
           (0, 6, 3, 2, 192, 8))
V2_S = ((1, 1, 3, 1, 24, 2), (1, 4, 3, 2, 48, 4), (1, 4, 3, 2, 64, 4), (0, 4, 3, 2, 128, 6), (0, 6, 3, 1, 160, 9),
        (0, 6, 3, 2, 256, 15))
V2_M = ((1, 1, 3, 1, 24, 3), (1, 4, 3, 2, 48, 5), (1, 4, 3, 2, 80, 5), (0, 4, 3, 2, 160, 7), (0, 6, 3, 1, 176, 14),
        (0, 6, 3, 2, 304, 18), (0, 6, 3, 1, 512, 5))
V2_L = ((1, 1, 3, 1, 32, 4), (1, 4, 3, 2, 64, 7), (1, 4, 3, 2, 96, 7), (0, 4, 3, 2, 192, 10), (0, 6, 3, 1, 224, 19),
        (0, 6, 3, 2, 384, 25), (0, 6, 3, 1, 640, 7))


def efficientnet(name, blocks, size, stem=32, last=1280, wider=1.0, deeper=1.0, least=0.9):
    """Tan and Le 2019 and 2021; `least`: see divisible."""
    net = Net(name, size, epsilon=1e-3)

    def fused(x, middle, width, k, stride):
        if middle != net.channels[x]:
            return project(net, x, net.unit(x, middle, k, stride, act="silu"), width, stride)
        y = net.unit(x, width, k, stride, act="silu", scale=SHARE)
        return net.op("Add", x, y) if stride == 1 and width == middle else y

    x = net.unit("input", divisible(stem * wider, least), 3, 2, act="silu")
    for is_fused, factor, k, first, width, count in blocks:
        width = divisible(width * wider, least)
        for i in range(math.ceil(count * deeper)):
            stride, cin = 1 if i else first, net.channels[x]
            if is_fused:
                x = fused(x, factor * cin, width, k, stride)
            else:
                x = inverted(net, x, factor * cin, width, k, stride, "silu", max(1, cin // 4), ("silu", "sigmoid"))
    return net.classifier(net.unit(x, divisible(last * wider, least), 1, act="silu"))
