"""The networks of the GPU benchmark: as PyTorch modules, and the same weights as ONNX files."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from onnx_writer import FLOAT, INT64, Graph


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.down = None
        if stride != 1 or cin != 4 * width:
            self.down = nn.Sequential(nn.Conv2d(cin, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (x if self.down is None else self.down(x)))


class ResNet50(nn.Module):
    name, blocks_of, width, picture = "resnet50", (3, 4, 6, 3), 64, 224

    def __init__(self):
        super().__init__()
        width = self.width
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        blocks, cin = [], width
        for stage, count in enumerate(self.blocks_of):
            for i in range(count):
                blocks.append(Bottleneck(cin, width << stage, 2 if i == 0 and stage else 1))
                cin = 4 * width << stage
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(cin, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))

    @classmethod
    def inputs(cls, batch, rng):
        return [torch.from_numpy(rng.standard_normal((batch, 3, cls.picture, cls.picture)).astype(np.float32))]

    def export(self, path):
        g = Graph()

        def conv(x, c, bn):
            p, s, k = c.padding[0], c.stride[0], c.kernel_size[0]
            y = g.op("Conv", x, g.constant(c.weight.detach().numpy()), kernel_shape=[k, k], strides=[s, s],
                     pads=[p, p, p, p])
            return g.op("BatchNormalization", y, *(g.constant(t.detach().numpy()) for t in (
                bn.weight, bn.bias, bn.running_mean, bn.running_var)), epsilon=bn.eps)

        x = g.op("Relu", conv("x", self.conv1, self.bn1))
        x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        for b in self.blocks:
            y = g.op("Relu", conv(x, b.conv1, b.bn1))
            y = g.op("Relu", conv(y, b.conv2, b.bn2))
            y = conv(y, b.conv3, b.bn3)
            x = g.op("Relu", g.op("Add", y, x if b.down is None else conv(x, *b.down)))
        x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
        y = g.op("Gemm", x, g.constant(self.fc.weight.detach().numpy()), g.constant(self.fc.bias.detach().numpy()),
                 transB=1)
        g.save(path, [("x", FLOAT, ("n", 3, self.picture, self.picture))], [(y, FLOAT, ("n", 1000))])


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x):
        n, s, h = x.shape
        q, k, v = (f(x).view(n, s, self.heads, h // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, s, h)
        x = self.norm1(x + self.o(a))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    name, length, words, hidden, heads, depth = "bert_base", 128, 30522, 768, 12, 12

    def __init__(self):
        super().__init__()
        hidden, heads, layers = self.hidden, self.heads, self.depth
        self.word, self.place = nn.Embedding(self.words, hidden), nn.Embedding(self.length, hidden)
        self.norm, self.layers = nn.LayerNorm(hidden), nn.Sequential(*(Layer(hidden, heads) for _ in range(layers)))

    def forward(self, ids):
        x = self.norm(self.word(ids) + self.place.weight)
        return self.layers(x)[:, 0]

    @classmethod
    def inputs(cls, batch, rng):
        return [torch.from_numpy(rng.integers(0, cls.words, (batch, cls.length)))]

    def export(self, path):
        g = Graph()
        size = self.hidden // self.heads
        split = g.constant(np.array([0, self.length, self.heads, size], np.int64))
        join = g.constant(np.array([0, self.length, self.hidden], np.int64))
        scale = g.constant(np.array(size ** -0.5, np.float32))

        def linear(x, f):
            y = g.op("MatMul", x, g.constant(f.weight.detach().numpy().T))
            return g.op("Add", y, g.constant(f.bias.detach().numpy()))

        def norm(x, f):
            return g.op("LayerNormalization", x, g.constant(f.weight.detach().numpy()),
                        g.constant(f.bias.detach().numpy()), axis=-1, epsilon=f.eps)

        def part(x, f, perm):
            return g.op("Transpose", g.op("Reshape", linear(x, f), split), perm=perm)

        x = g.op("Gather", g.constant(self.word.weight.detach().numpy()), "x", axis=0)
        x = norm(g.op("Add", x, g.constant(self.place.weight.detach().numpy())), self.norm)
        for l in self.layers:
            q, k, v = part(x, l.q, [0, 2, 1, 3]), part(x, l.k, [0, 2, 3, 1]), part(x, l.v, [0, 2, 1, 3])
            a = g.op("Softmax", g.op("Mul", g.op("MatMul", q, k), scale), axis=-1)
            a = g.op("Reshape", g.op("Transpose", g.op("MatMul", a, v), perm=[0, 2, 1, 3]), join)
            x = norm(g.op("Add", x, linear(a, l.o)), l.norm1)
            x = norm(g.op("Add", x, linear(g.op("Gelu", linear(x, l.up)), l.down)), l.norm2)
        y = g.op("Gather", x, g.constant(np.array(0, np.int64)), axis=1)
        g.save(path, [("x", INT64, ("n", self.length))], [(y, FLOAT, ("n", self.hidden))])


def make(kind):
    """Seeded, with statistics as after training: activations neither vanish nor explode."""
    torch.manual_seed(20261120)
    net = kind().eval()
    with torch.no_grad():
        for m in net.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
            elif isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.9, 1.1)
        for b in getattr(net, "blocks", []):
            b.bn3.weight.fill_(0.3)
    return net


def shrink():
    """As small as they can be, to try the scripts where there is no GPU."""
    ResNet50.blocks_of, ResNet50.width, ResNet50.picture = (1, 1), 8, 32
    Bert.length, Bert.words, Bert.hidden, Bert.heads, Bert.depth = 8, 100, 16, 2, 2


KINDS = [ResNet50, Bert]
