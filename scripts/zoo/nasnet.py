"""NASNet (Zoph et al. 2018), as in Keras: two kinds of cells, each reads what the two before it have made."""
from .net import LINEAR, Net


def separable(net, x, width, k, stride=1):
    """Twice a ReLU, a convolution in space, one over channels and a normalisation."""
    for step in (stride, 1):
        channels = net.channels[x]
        x = net.conv(net.relu(x), channels, k, step, "same", groups=channels)
        x = net.unit(x, width, 1, act=None)
    return x


def fit(net, before, x, width, halve):
    """The cell before the last one with the size and width of the last: halved by taking every second pixel, from both offsets."""
    if before is None:
        return x
    if not halve:
        return before if net.channels[before] == width else net.unit(net.relu(before), width, 1, act=None)
    y = net.relu(before)
    shifted = net.op("Slice", net.op("Pad", y, net.ints(0, 0, 0, 0, 0, 0, 1, 1)), net.ints(1, 1), net.ints(1 << 30, 1 << 30),
                     net.ints(2, 3))
    halves = [net.conv(net.average_pool(z, 1, 2), width // 2, 1, gain=LINEAR) for z in (y, shifted)]
    return net.bn(net.op("Concat", *halves, axis=1))


def normal_cell(net, x, before, width, halve):
    p, h = fit(net, before, x, width, halve), net.unit(net.relu(x), width, 1, act=None)

    def average(y):
        return net.average_pool(y, 3, 1, "same", count_padding=False)

    both = average(p)
    return net.op("Concat", p, net.op("Add", separable(net, h, width, 5), separable(net, p, width, 3)),
                  net.op("Add", separable(net, p, width, 5), separable(net, p, width, 3)), net.op("Add", average(h), p),
                  net.op("Add", both, both), net.op("Add", separable(net, h, width, 3), h), axis=1)


def reduction_cell(net, x, before, width, halve=False):
    p, h = fit(net, before, x, width, halve), net.unit(net.relu(x), width, 1, act=None)

    def largest():
        return net.pool("Max", h, 3, 2, "same")

    first = net.op("Add", separable(net, h, width, 5, 2), separable(net, p, width, 7, 2))
    second = net.op("Add", largest(), separable(net, p, width, 7, 2))
    average = net.average_pool(h, 3, 2, "same", count_padding=False)
    third = net.op("Add", average, separable(net, p, width, 5, 2))
    fourth = net.op("Add", second, net.average_pool(first, 3, 1, "same", count_padding=False))
    fifth = net.op("Add", separable(net, first, width, 3), largest())
    return net.op("Concat", second, third, fourth, fifth, axis=1)


def nasnet(name, size, last, repeats, stem, skip_reduction):
    """`last`: channels of the last cell's result. skip_reduction: a cell after a reduction does not look past it."""
    net = Net(name, size, epsilon=1e-3)
    width = last // 24
    before, x = None, net.bn(net.conv("input", stem, 3, 2, 0))
    sides = {x: 0}  # how often each was halved

    def cell(make, x, before, width):
        halve = before is not None and sides[before] != sides[x]
        y = make(net, x, before, width, halve)
        sides[y] = sides[x] + (make is reduction_cell)
        return y

    for part in (4, 2):
        before, x = x, cell(reduction_cell, x, before, width // part)
    for stage in range(3):
        if stage:
            y = cell(reduction_cell, x, before, width << stage)
            before, x = x if not skip_reduction else before, y
        for _ in range(repeats):
            before, x = x, cell(normal_cell, x, before, width << stage)
    return net.classifier(net.relu(x))
