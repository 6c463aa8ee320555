"""Seeded inputs for any ONNX model, of the kind that its names and types ask for."""
import numpy as np

# As onnxruntime names types: numpy's, and the Open Inference Protocol's name.
TYPES = {"tensor(float)": (np.float32, "FP32"), "tensor(float16)": (np.float16, "FP16"), "tensor(double)": (np.float64, "FP64"),
         "tensor(int64)": (np.int64, "INT64"), "tensor(int32)": (np.int32, "INT32"), "tensor(uint8)": (np.uint8, "UINT8"),
         "tensor(bool)": (np.bool_, "BOOL")}


def make(io, dims, random, words=1000):
    """
    Floats are normal, around a mean of its own for each channel of a picture (to a convolutional network noise alone looks
    like any other); whole numbers lie in [0, words). Inputs whose name holds "mask" have the last quarter of each row masked
    out, those whose name holds "type" are zero.
    """
    dtype = TYPES[io.type][0]
    if "mask" in io.name:
        value = np.ones(dims)
        value[..., dims[-1] - dims[-1] // 4:] = 0
    elif "type" in io.name:
        value = np.zeros(dims)
    elif np.issubdtype(dtype, np.floating):
        value = random.standard_normal(dims)
        if len(dims) == 4:
            value += random.standard_normal((*dims[:2], 1, 1))
    else:
        value = random.integers(0, words, dims)
    return np.asarray(value).astype(dtype, order="C")  # of rank 0 as well


def part_of_allowed(got, wanted, rtol, atol):
    """The largest part of what is allowed that any element is off by: rtol of its value, and atol of the largest value."""
    if np.issubdtype(wanted.dtype, np.floating):
        size = np.abs(wanted.astype(np.float64))
        off = np.abs(got.astype(np.float64) - wanted) / (rtol * size + atol * size.max(initial=0) + 1e-30)
        return float(np.nan_to_num(off, nan=np.inf).max(initial=0))
    return 0.0 if np.array_equal(got, wanted) else float("inf")
