"""GoogLeNet, Inception v3 and v4, Inception-ResNet-v2, Xception."""
from .net import LINEAR, Net

# A module is a list of branches, a branch a list of steps: (width, kernel[, stride[, padding]]) is a unit, a nested list the
# branches that it forks into, and these two are what they say.
AVERAGE, MAX = "average", "max"
WIDE, HIGH = (1, 7), (7, 1)


def module(net, x, branches, count_padding=True):
    outs = []
    for branch in branches:
        y = x
        for step in branch:
            if isinstance(step, list):
                y = module(net, y, step)
            elif step == AVERAGE:
                y = net.average_pool(y, 3, 1, 1, count_padding)
            elif step == MAX:
                y = net.max_pool(y)
            else:
                y = net.unit(y, *step)
        outs.append(y)
    return net.op("Concat", *outs, axis=1)


def googlenet():
    """Szegedy et al. 2015, as published with Caffe: biases, and normalisation over neighbouring channels."""
    net = Net("googlenet", 224)

    def unit(x, width, k, stride=1):
        return net.relu(net.conv(x, width, k, stride, bias=True))

    def pool(x):
        return net.max_pool(x, pad=[0, 0, 1, 1])

    def lrn(x):
        return net.op("LRN", x, size=5, alpha=1e-4, beta=0.75)

    x = lrn(pool(unit("input", 64, 7, 2)))
    x = pool(lrn(unit(unit(x, 64, 1), 192, 3)))
    for widths in ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
                   (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
                   (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
                   (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)):
        if not widths:
            x = pool(x)
            continue
        one, before_three, three, before_five, five, pooled = widths
        x = net.op("Concat", unit(x, one, 1), unit(unit(x, before_three, 1), three, 3), unit(unit(x, before_five, 1), five, 5),
                   unit(net.max_pool(x, 3, 1, 1), pooled, 1), axis=1)
    return net.classifier(x)


def inception_v3():
    """Szegedy et al. 2016, without the auxiliary classifier."""
    net = Net("inception_v3", 299, epsilon=1e-3)
    x = module(net, "input", [[(32, 3, 2, 0), (32, 3, 1, 0), (64, 3), MAX, (80, 1), (192, 3, 1, 0), MAX]])
    for pooled in (32, 64, 64):
        x = module(net, x, [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], [AVERAGE, (pooled, 1)]])
    x = module(net, x, [[(384, 3, 2, 0)], [(64, 1), (96, 3), (96, 3, 2, 0)], [MAX]])
    for c in (128, 160, 160, 192):
        x = module(net, x, [[(192, 1)], [(c, 1), (c, WIDE), (192, HIGH)],
                            [(c, 1), (c, HIGH), (c, WIDE), (c, HIGH), (192, WIDE)], [AVERAGE, (192, 1)]])
    x = module(net, x, [[(192, 1), (320, 3, 2, 0)], [(192, 1), (192, WIDE), (192, HIGH), (192, 3, 2, 0)], [MAX]])
    fork = [[(384, (1, 3))], [(384, (3, 1))]]
    for _ in range(2):
        x = module(net, x, [[(320, 1)], [(384, 1), fork], [(448, 1), (384, 3), fork], [AVERAGE, (192, 1)]])
    return net.classifier(x)


def inception_v4():
    """Szegedy et al. 2017."""
    net = Net("inception_v4", 299, epsilon=1e-3)
    x = module(net, "input", [[(32, 3, 2, 0), (32, 3, 1, 0), (64, 3), [[MAX], [(96, 3, 2, 0)]]]])
    x = module(net, x, [[(64, 1), (96, 3, 1, 0)], [(64, 1), (64, WIDE), (64, HIGH), (96, 3, 1, 0)]])
    x = module(net, x, [[(192, 3, 2, 0)], [MAX]])
    for _ in range(4):
        x = module(net, x, [[(96, 1)], [(64, 1), (96, 3)], [(64, 1), (96, 3), (96, 3)], [AVERAGE, (96, 1)]], False)
    x = module(net, x, [[(384, 3, 2, 0)], [(192, 1), (224, 3), (256, 3, 2, 0)], [MAX]])
    for _ in range(7):
        x = module(net, x, [[(384, 1)], [(192, 1), (224, WIDE), (256, HIGH)],
                            [(192, 1), (192, HIGH), (224, WIDE), (224, HIGH), (256, WIDE)], [AVERAGE, (128, 1)]], False)
    x = module(net, x, [[(192, 1), (192, 3, 2, 0)], [(256, 1), (256, WIDE), (320, HIGH), (320, 3, 2, 0)], [MAX]])
    fork = [[(256, (1, 3))], [(256, (3, 1))]]
    for _ in range(3):
        x = module(net, x, [[(256, 1)], [(384, 1), fork], [(384, 1), (448, (3, 1)), (512, (1, 3)), fork],
                            [AVERAGE, (256, 1)]], False)
    return net.classifier(x)


def inception_resnet_v2():
    """Szegedy et al. 2017: modules that add to what they read, each by a small share of its own."""
    net = Net("inception_resnet_v2", 299, epsilon=1e-3)

    def residual(x, share, branches, act=True):
        y = net.conv(module(net, x, branches), net.channels[x], 1, bias=True, gain=LINEAR)
        y = net.op("Add", x, net.op("Mul", y, net.scalar(share)) if share != 1 else y)
        return net.relu(y) if act else y

    x = module(net, "input", [[(32, 3, 2, 0), (32, 3, 1, 0), (64, 3), MAX, (80, 1), (192, 3, 1, 0), MAX]])
    x = module(net, x, [[(96, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], [AVERAGE, (64, 1)]], False)
    for _ in range(10):
        x = residual(x, 0.17, [[(32, 1)], [(32, 1), (32, 3)], [(32, 1), (48, 3), (64, 3)]])
    x = module(net, x, [[(384, 3, 2, 0)], [(256, 1), (256, 3), (384, 3, 2, 0)], [MAX]])
    for _ in range(20):
        x = residual(x, 0.1, [[(192, 1)], [(128, 1), (160, WIDE), (192, HIGH)]])
    x = module(net, x, [[(256, 1), (384, 3, 2, 0)], [(256, 1), (288, 3, 2, 0)], [(256, 1), (288, 3), (320, 3, 2, 0)], [MAX]])
    for i in range(10):
        last = i == 9
        x = residual(x, 1 if last else 0.2, [[(192, 1)], [(192, 1), (224, (1, 3)), (256, (3, 1))]], not last)
    return net.classifier(net.unit(x, 1536, 1))


def xception():
    """Chollet 2017: every convolution but the first two is one in space and one over channels."""
    net = Net("xception", 299, epsilon=1e-3)

    def separable(x, width, act=None):
        x = net.conv(x, net.channels[x], 3, groups=net.channels[x], gain=LINEAR)
        return net.unit(x, width, 1, act=act)

    def block(x, first, second, act=True):
        y = separable(net.relu(x) if act else x, first)
        y = net.pool("Max", separable(net.relu(y), second), 3, 2, "same")
        return net.op("Add", y, net.unit(x, second, 1, 2, act=None))

    x = net.unit(net.unit("input", 32, 3, 2, 0), 64, 3, 1, 0)
    for width in (128, 256, 728):
        x = block(x, width, width, act=width != 128)
    for _ in range(8):
        y = x
        for _ in range(3):
            y = separable(net.relu(y), 728)
        x = net.op("Add", y, x)
    x = block(x, 728, 1024)
    return net.classifier(separable(separable(x, 1536, "relu"), 2048, "relu"))
