"""ResNet, ResNet v2, ResNeSt, and the part of Faster R-CNN that is a convolutional network."""
import numpy as np

from .net import LINEAR, Net


def stem(net):
    return net.max_pool(net.unit("input", 64, 7, 2), pad=1)


def plain(net, x, width, stride):
    """The main branch of ResNet-18 and -34."""
    return net.unit(net.unit(x, width, 3, stride), width, 3, act=None, scale=0.5)


def bottleneck(net, x, width, stride):
    y = net.unit(net.unit(x, width, 1), width, 3, stride)
    return net.unit(y, 4 * width, 1, act=None, scale=0.5)


def residual_stages(net, x, blocks, branch=bottleneck, shortcut=None):
    """He et al. 2016: what each of the four stages ends with. A block with another shape has a projection beside it."""
    shortcut = shortcut or (lambda x, width, stride: net.unit(x, width, 1, stride, act=None, scale=0.7))
    for stage, count in enumerate(blocks):
        for i in range(count):
            stride = 2 if stage and not i else 1
            y = branch(net, x, 64 << stage, stride)
            if stride != 1 or net.channels[x] != net.channels[y]:
                x = shortcut(x, net.channels[y], stride)
            x = net.relu(net.op("Add", y, x))
        yield x


def resnet(name, blocks, branch=bottleneck):
    net = Net(name, 224)
    *_, x = residual_stages(net, stem(net), blocks, branch)
    return net.classifier(x)


def resnet_v2(name, blocks):
    """He et al. 2016b as in Keras: normalised before the convolutions, each stage's stride in its last block."""
    net = Net(name, 224, epsilon=1.001e-5)
    x = net.max_pool(net.conv("input", 64, 7, 2, bias=True), pad=1)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for i in range(count):
            stride = 2 if stage < 3 and i == count - 1 else 1
            y = net.relu(net.bn(x))
            if not i:
                x = net.conv(y, 4 * width, 1, stride, bias=True, gain=LINEAR)
            elif stride != 1:
                x = net.max_pool(x, 1, stride)
            y = net.unit(net.unit(y, width, 1), width, 3, stride)
            x = net.op("Add", x, net.conv(y, 4 * width, 1, bias=True, gain=LINEAR / 2))
    return net.classifier(net.relu(net.bn(x)))


def split_attention(net, x, width, radix=2):
    """Zhang et al. 2020: as many convolutions as `radix` at once, each channel a weighted sum of theirs."""
    parts = net.split(net.unit(x, radix * width, 3, groups=radix), radix)
    y = net.op("GlobalAveragePool", net.op("Add", *parts))
    y = net.relu(net.bn(net.conv(y, max(width * radix // 4, 32), 1, bias=True)))
    y = net.conv(y, radix * width, 1, bias=True, gain=LINEAR)
    y = net.op("Reshape", y, net.ints(0, radix, width, 1, 1))
    y = net.op("Reshape", net.op("Softmax", y, axis=1), net.ints(0, radix * width, 1, 1))
    net.channels[y] = radix * width
    return net.op("Add", *[net.op("Mul", part, share) for part, share in zip(parts, net.split(y, radix))])


def resnest(name, blocks, size, deep):
    net = Net(name, size)

    def branch(net, x, width, stride):
        y = split_attention(net, net.unit(x, width, 1), width)
        if stride != 1:
            y = net.average_pool(y, 3, stride, 1)
        return net.unit(y, 4 * width, 1, act=None, scale=0.4)

    def shortcut(x, width, stride):
        if stride != 1:
            x = net.average_pool(x, 2, stride, count_padding=False)
        return net.unit(x, width, 1, act=None, scale=0.7)

    x = net.unit(net.unit(net.unit("input", deep, 3, 2), deep, 3), 2 * deep, 3)
    *_, x = residual_stages(net, net.max_pool(x, pad=1), blocks, branch, shortcut)
    return net.classifier(x)


def rcnn(size=512, levels=256, anchors=3):
    """
    Ren et al. 2015 with Lin et al. 2017: ResNet-50, the feature pyramid over it and the network that proposes regions, on
    five levels. What is picked of them and classified after that is a matter of contents, not of shapes: not in here.
    """
    net = Net("rcnn", size)
    maps = list(residual_stages(net, stem(net), (3, 4, 6, 3)))
    pyramid, x = [], None
    for stage in reversed(maps):
        y = net.conv(stage, levels, 1, bias=True, gain=LINEAR)
        if x:
            x = net.op("Resize", x, "", net.constant(np.array([1, 1, 2, 2], np.float32), "scales"), mode="nearest",
                       coordinate_transformation_mode="asymmetric", nearest_mode="floor")
            y = net.op("Add", y, x)
        x = y
        pyramid.insert(0, net.conv(y, levels, 3, bias=True, gain=LINEAR))
    pyramid.append(net.max_pool(pyramid[-1], 1, 2))

    # One network looks at all levels.
    look = [net.weight(levels, levels, 3, 3), net.bias(levels)]
    heads = {n: (n * anchors, [net.weight(n * anchors, levels, 1, 1), net.bias(n * anchors)]) for n in (1, 4)}
    found = {n: [] for n in heads}
    for level in pyramid:
        y = net.relu(net.conv(level, levels, 3, shared=look))
        for n, (width, weights) in heads.items():
            z = net.op("Transpose", net.conv(y, width, 1, shared=weights), perm=[0, 2, 3, 1])
            found[n].append(net.op("Reshape", z, net.ints(0, -1, n)))
    count = anchors * sum((size >> shift) ** 2 for shift in range(2, 7))
    for n, name in ((1, "objectness"), (4, "deltas")):
        net.output(net.op("Concat", *found[n], axis=1), count, n, name=name)
    return net
