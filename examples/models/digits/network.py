"""A small residual CNN with its gradients, in numpy alone.

conv 1->16, norm, relu; conv 16->32, norm, relu; max-pool 2; conv 32->32, norm, plus its input, relu; linear 512->10.
Layers keep what their backward needs from the last forward; activations are NCHW.
"""

import numpy as np


class Weight:
    """An array with its gradient and its Adam state."""

    def __init__(self, value):
        self.value = value.astype(np.float32)
        self.grad = np.zeros_like(self.value)
        self.first = np.zeros_like(self.value)
        self.second = np.zeros_like(self.value)

    def step(self, rate, count):
        self.first += 0.1 * (self.grad - self.first)
        self.second += 0.001 * (self.grad**2 - self.second)
        first = self.first / (1 - 0.9**count)
        second = self.second / (1 - 0.999**count)
        self.value -= (rate * first / (np.sqrt(second) + 1e-8)).astype(np.float32)


class Conv:
    """3 x 3, padding 1, as one matrix product over the nine shifted copies of the input."""

    def __init__(self, rng, inputs, outputs):
        self.w = Weight(rng.standard_normal((outputs, inputs, 3, 3)) * np.sqrt(2 / (9 * inputs)))
        self.b = Weight(np.zeros(outputs))
        self.weights = [self.w, self.b]

    def forward(self, x, training):
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        shifts = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
        self.columns = np.stack(shifts, 2).transpose(0, 3, 4, 1, 2).reshape(n * h * w, c * 9)
        self.shape = x.shape
        out = self.columns @ self.w.value.reshape(len(self.b.value), -1).T + self.b.value
        return out.reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, grad):
        n, c, h, w = self.shape
        flat = grad.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        self.w.grad = (flat.T @ self.columns).reshape(self.w.value.shape)
        self.b.grad = flat.sum(0)
        columns = (flat @ self.w.value.reshape(flat.shape[1], -1)).reshape(n, h, w, c, 9).transpose(0, 3, 4, 1, 2)
        padded = np.zeros((n, c, h + 2, w + 2), np.float32)
        for k in range(9):
            padded[:, :, k // 3:k // 3 + h, k % 3:k % 3 + w] += columns[:, :, k]
        return padded[:, :, 1:-1, 1:-1]


class Norm:
    """Batch normalisation per channel."""

    EPSILON = 1e-5
    MOMENTUM = 0.1

    def __init__(self, channels):
        self.scale, self.shift = Weight(np.ones(channels)), Weight(np.zeros(channels))
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        self.weights = [self.scale, self.shift]

    def forward(self, x, training):
        mean, var = self.mean, self.var
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean += self.MOMENTUM * (mean - self.mean)
            self.var += self.MOMENTUM * (var - self.var)
        self.inverse = (1 / np.sqrt(var + self.EPSILON))[:, None, None]
        self.normal = (x - mean[:, None, None]) * self.inverse
        return self.normal * self.scale.value[:, None, None] + self.shift.value[:, None, None]

    def backward(self, grad):
        self.shift.grad = grad.sum((0, 2, 3))
        self.scale.grad = (grad * self.normal).sum((0, 2, 3))
        count = grad.size / grad.shape[1]
        centred = grad - (self.shift.grad[:, None, None] + self.normal * self.scale.grad[:, None, None]) / count
        return centred * self.scale.value[:, None, None] * self.inverse


class Relu:
    weights = []

    def forward(self, x, training):
        self.passed = x > 0
        return x * self.passed

    def backward(self, grad):
        return grad * self.passed


class MaxPool:
    """2 x 2, stride 2; equal maxima share the gradient."""

    weights = []

    def forward(self, x, training):
        n, c, h, w = x.shape
        self.blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        self.peak = self.blocks.max((3, 5), keepdims=True)
        return self.peak.reshape(n, c, h // 2, w // 2)

    def backward(self, grad):
        winners = self.blocks == self.peak
        spread = winners / winners.sum((3, 5), keepdims=True) * grad.reshape(self.peak.shape)
        n, c, h, _, w, _ = self.blocks.shape
        return spread.reshape(n, c, 2 * h, 2 * w).astype(np.float32)


class Linear:
    def __init__(self, rng, inputs, outputs):
        self.w = Weight(rng.standard_normal((inputs, outputs)) / np.sqrt(inputs))
        self.b = Weight(np.zeros(outputs))
        self.weights = [self.w, self.b]

    def forward(self, x, training):
        self.x, self.shape = x.reshape(len(x), -1), x.shape
        return self.x @ self.w.value + self.b.value

    def backward(self, grad):
        self.w.grad, self.b.grad = self.x.T @ grad, grad.sum(0)
        return (grad @ self.w.value.T).reshape(self.shape)


class Network:
    def __init__(self, rng):
        self.conv1, self.norm1, self.relu1 = Conv(rng, 1, 16), Norm(16), Relu()
        self.conv2, self.norm2, self.relu2 = Conv(rng, 16, 32), Norm(32), Relu()
        self.pool = MaxPool()
        self.conv3, self.norm3, self.relu3 = Conv(rng, 32, 32), Norm(32), Relu()
        self.fc = Linear(rng, 512, 10)
        self.stem = [self.conv1, self.norm1, self.relu1, self.conv2, self.norm2, self.relu2, self.pool]
        self.branch = [self.conv3, self.norm3]
        self.head = [self.relu3, self.fc]
        self.weights = [w for layer in self.stem + self.branch + self.head for w in layer.weights]
        self.count = 0

    def forward(self, x, training=False):
        for layer in self.stem:
            x = layer.forward(x, training)
        kept = x
        for layer in self.branch:
            x = layer.forward(x, training)
        x = x + kept
        for layer in self.head:
            x = layer.forward(x, training)
        return x

    def backward(self, grad):
        for layer in reversed(self.head):
            grad = layer.backward(grad)
        kept = grad
        for layer in reversed(self.branch):
            grad = layer.backward(grad)
        grad = grad + kept
        for layer in reversed(self.stem):
            grad = layer.backward(grad)

    def train_step(self, x, labels, rate):
        """One Adam step on the mean cross-entropy of a batch; returns the loss."""
        scores = self.forward(x, training=True)
        scores = scores - scores.max(1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(1, keepdims=True)
        rows = np.arange(len(x))
        loss = -np.log(chances[rows, labels] + 1e-12).mean()
        chances[rows, labels] -= 1
        self.backward((chances / len(x)).astype(np.float32))
        self.count += 1
        for weight in self.weights:
            weight.step(rate, self.count)
        return loss
