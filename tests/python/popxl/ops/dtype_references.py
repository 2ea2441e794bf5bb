"""What ops of dtype_table.py give, by NumPy, SciPy and PyTorch in float64."""

import numpy as np
import torch
from scipy import special


def softmax(x):
    return special.softmax(x, 1)


def swish(x):
    return x * special.expit(x)


def gelu(x):
    return torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy()


def geluerf(x):
    return torch.nn.functional.gelu(torch.from_numpy(x)).numpy()


def identity(x):
    return x


def norm(x):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)


def conv(x, w):
    return torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w)).numpy()


def conv_transpose(x, w):
    return torch.nn.functional.conv_transpose2d(torch.from_numpy(x), torch.from_numpy(w)).numpy()


def pooled(function):
    return lambda x: function(torch.from_numpy(x), 2, 1).numpy()


def row_written(x, y):
    return np.concatenate([x[:1], y[:1]])


def adam(m, v):
    return m / (np.sqrt(v) + 1e-7)


def recurrent(module):
    """Without biases, for one unit."""

    def reference(t, *weights):
        layer = module(t.shape[2], 1, bias=False, dtype=torch.float64)
        names = [name for name, _ in layer.named_parameters()]
        tensors = dict(zip(names, map(torch.from_numpy, weights), strict=True))
        return torch.func.functional_call(layer, tensors, (torch.from_numpy(t),))[0].numpy()

    return reference


def unfolded(x):
    return torch.nn.functional.unfold(torch.from_numpy(x), (2, 2)).numpy()


def folded(x):
    return torch.nn.functional.fold(torch.from_numpy(x), (3, 3), (2, 2)).numpy()


FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "atan": np.arctan,
    "erf": special.erf,
    "gelu": gelu,
    "geluerf": geluerf,
    "swish": swish,
    "l2": lambda x: np.sqrt((x * x).sum()),
    "logsum": lambda x: np.log(x.sum()),
    "logsumexp": special.logsumexp,
    "lamb_square": lambda x: (x * x).sum(),
}
ON_ARITHMETIC = {
    "abs": np.abs,
    "negate": np.negative,
    "sign": np.sign,
    "ceil": np.ceil,
    "floor": np.floor,
    "relu": lambda x: np.maximum(x, 0),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "median": lambda x: np.sort(x.ravel())[(x.size - 1) // 2],
    "argmax": lambda x: np.argmax(x, 0),
    "argmin": lambda x: np.argmin(x, 0),
}
ON_NUMBERS = {
    "sum": np.sum,
    "mean": lambda x: np.trunc(x.mean()) if x.mean() == np.trunc(x.mean()) else x.mean(),
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x: np.abs(x).sum(),
    "sumsquare": lambda x: (x * x).sum(),
}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    # Integers: a divisor of 0 gives 0.
    "div": lambda x, y: np.divide(x, y, out=np.zeros_like(x), where=y != 0),
    "fmod": lambda x, y: np.fmod(x, y, out=np.zeros_like(x), where=y != 0),
    "maximum": np.maximum,
    "scaled_add": np.add,
}
MOVES = {
    "identity": identity,
    "rename": identity,
    "detach": identity,
    "detach_": identity,
    "flatten": np.ravel,
    "flatten_": np.ravel,
    "squeeze": identity,
    "transpose": np.transpose,
    "transpose_": np.transpose,
    "print_tensor": identity,
    "io_tile_copy": identity,
}
