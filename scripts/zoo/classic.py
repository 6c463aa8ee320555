"""VGG, DenseNet, U-Net, LinkNet."""
from .net import LINEAR, RELU, Net


def vgg(name, blocks):
    """Simonyan and Zisserman 2015."""
    net, x = Net(name, 224), "input"
    for width, count in zip((64, 128, 256, 512, 512), blocks):
        for _ in range(count):
            x = net.relu(net.conv(x, width, 3, bias=True))
        x = net.max_pool(x, 2)
    x = net.op("Flatten", x, axis=1)
    x = net.relu(net.gemm(x, 512 * 49, 4096, RELU))
    x = net.relu(net.gemm(x, 4096, 4096, RELU))
    net.output(net.gemm(x, 4096, 1000), 1000)
    return net


def densenet(name, blocks, growth=32):
    """Huang et al. 2017. Each layer reads what all layers of its block before it have made."""
    net = Net(name, 224)
    x = net.max_pool(net.unit("input", 2 * growth, 7, 2), pad=1)
    for block, count in enumerate(blocks):
        parts = [x]
        for _ in range(count):
            joined = net.op("Concat", *parts, axis=1) if len(parts) > 1 else x
            y = net.unit(net.relu(net.bn(joined)), 4 * growth, 1)
            parts.append(net.conv(y, growth, 3))
        x = net.relu(net.bn(net.op("Concat", *parts, axis=1)))
        if block < 3:
            x = net.average_pool(net.conv(x, net.channels[x] // 2, 1), 2, 2)
    return net.classifier(x)


def label_pixels(net, x, size):
    """The last layer of the networks that label each pixel, as one of two."""
    net.output(net.conv(x, 2, 1, bias=True, gain=LINEAR), 2, size, size)
    return net


def unet(size=256):
    """Ronneberger et al. 2015, with padding: down to 1/16, and up again beside what came down."""
    net, x, kept = Net("unet", size), "input", []

    def twice(x, width):
        return net.unit(net.unit(x, width, 3), width, 3)

    for width in (64, 128, 256, 512):
        x = twice(x, width)
        kept.append(x)
        x = net.max_pool(x, 2)
    x = twice(x, 1024)
    for skip in reversed(kept):
        width = net.channels[skip]
        x = twice(net.op("Concat", skip, net.up(x, width, 2, bias=True), axis=1), width)
    return label_pixels(net, x, size)


def linknet(size=256):
    """Chaurasia and Culurciello 2017: ResNet-18 down, and up again with what came down added."""
    net, kept = Net("linknet", size), []

    def block(x, width, stride):
        y = net.unit(net.unit(x, width, 3, stride), width, 3, act=None, scale=0.5)
        if stride != 1:
            x = net.unit(x, width, 1, stride, act=None, scale=0.7)
        return net.relu(net.op("Add", y, x))

    def decoder(x, width):
        middle = net.channels[x] // 4
        x = net.relu(net.bn(net.up(net.unit(x, middle, 1), middle, 3)))
        return net.unit(x, width, 1)

    x = net.max_pool(net.unit("input", 64, 7, 2), pad=1)
    for width in (64, 128, 256, 512):
        kept.append(x)
        x = block(block(x, width, 1 if width == 64 else 2), width, 1)
    for skip in reversed(kept[1:]):
        x = net.op("Add", decoder(x, net.channels[skip]), skip)
    x = net.relu(net.bn(net.up(decoder(x, 64), 32, 3)))
    return label_pixels(net, net.unit(x, 32, 3), size)
