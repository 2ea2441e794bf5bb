"""Bare library kernels with their arrays allocated beforehand; the best variant of each is kept.

PyTorch carries both MKL and oneDNN and reaches each without a framework in between: ``mm``,
``addmm`` and ``bmm`` with ``out=`` are MKL's sgemm, ``mkldnn._linear_pointwise`` and the
convolutions are oneDNN. Pando may call either kind of library, so the library sum takes the faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

Kernel = Callable[[], object]
MKLDNN = torch.ops.mkldnn
ATEN = torch.ops.aten


def seconds_of(kernel: Kernel, budget: float = 0.01) -> float:
    """Shortest of three short averages, after a warm-up."""
    kernel()
    start = time.perf_counter()
    kernel()
    repeats = max(2, int(budget / max(time.perf_counter() - start, 1e-7)))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            kernel()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def dispatch_seconds() -> float:
    """What PyTorch itself costs per call: a product of one by one. Taken off every kernel."""
    one, out = torch.ones(1, 1), torch.empty(1, 1)
    return seconds_of(lambda: torch.mm(one, one, out=out))


def _best(candidates: list[Kernel]) -> Kernel:
    timed = []
    for kernel in candidates:
        try:
            timed.append((seconds_of(kernel), kernel))
        except RuntimeError:  # the library has no such kernel on this machine
            continue
    return min(timed, key=lambda pair: pair[0])[1]


def dense(rows: int, inner: int, columns: int, packed: bool = False) -> Kernel:
    """(rows, inner) @ (inner, columns) + bias; ``packed``: the weight may have any layout."""
    x, w, bias = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(columns)
    wt = w.T.contiguous()
    out = torch.empty(rows, columns)
    candidates: list[Kernel] = [
        lambda: torch.addmm(bias, x, w, out=out),
        lambda: torch.addmm(bias, x, wt.T, out=out),
        lambda: MKLDNN._linear_pointwise(x, wt, bias, "none", [], ""),
    ]
    if packed:
        ready = MKLDNN._reorder_linear_weight(wt, rows)
        candidates.append(lambda: MKLDNN._linear_pointwise(x, ready, bias, "none", [], ""))
    return _best(candidates)


def product(rows: int, inner: int, columns: int) -> Kernel:
    """(rows, inner) @ (inner, columns) in whichever storage order of the operands is fastest."""
    out, turned = torch.empty(rows, columns), torch.empty(columns, rows)
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    at, bt = a.T.contiguous().T, b.T.contiguous().T
    return _best(
        [
            *(partial(torch.mm, left, right, out=out) for left in (a, at) for right in (b, bt)),
            *(partial(torch.mm, right.T, a.T, out=turned) for right in (b, bt)),
            lambda: MKLDNN._linear_pointwise(a, bt.T, None, "none", [], ""),
        ]
    )


def batched_product(count: int, rows: int, inner: int, columns: int) -> Kernel:
    a, b = torch.randn(count, rows, inner), torch.randn(count, inner, columns)
    out = torch.empty(count, rows, columns)
    bt = b.transpose(1, 2).contiguous().transpose(1, 2)
    return _best([lambda: torch.bmm(a, b, out=out), lambda: torch.bmm(a, bt, out=out)])


def softmax(rows: int, columns: int) -> Kernel:
    x, out = torch.randn(rows, columns), torch.empty(rows, columns)
    return lambda: ATEN._softmax.out(x, -1, False, out=out)


def layer_norm(rows: int, columns: int) -> Kernel:
    x, out = torch.randn(rows, columns), torch.empty(rows, columns)
    w, b = torch.ones(columns), torch.zeros(columns)
    mean, deviation = torch.empty(rows, 1), torch.empty(rows, 1)
    return lambda: ATEN.native_layer_norm.out(
        x, [columns], w, b, 1e-5, out0=out, out1=mean, out2=deviation
    )


def gelu(rows: int, columns: int) -> Kernel:
    """The tanh form; one read and one write, so nothing is left to add for the chain around it."""
    x, out = torch.randn(rows, columns), torch.empty(rows, columns)
    return lambda: ATEN.gelu.out(x, approximate="tanh", out=out)


def softmax_layer_norm(rows: int, columns: int) -> Kernel:
    """The two library kernels in turn, whole or by blocks of rows that stay in a cache."""
    x, y = torch.randn(rows, columns), torch.empty(rows, columns)
    w, b = torch.ones(columns), torch.zeros(columns)
    middle = torch.empty(rows, columns)

    def by(block: int) -> Kernel:
        mean, deviation = torch.empty(block, 1), torch.empty(block, 1)
        parts = list(zip(x.split(block), middle.split(block), y.split(block), strict=True))
        scratch = middle[:block]

        def run() -> None:
            for source, own, target in parts:
                inner = own if len(parts) == 1 else scratch
                ATEN._softmax.out(source, -1, False, out=inner)
                ATEN.native_layer_norm.out(
                    inner, [columns], w, b, 1e-5, out0=target, out1=mean, out2=deviation
                )

        return run

    return _best([by(block) for block in sorted({min(rows, n) for n in (64, 256, 1024, rows)})])


def _formats(x: torch.Tensor, w: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    last = torch.channels_last
    return [(x, w), (x.contiguous(memory_format=last), w.contiguous(memory_format=last))]


def convolution(batch: int, cin: int, cout: int, size: int) -> Kernel:
    """3x3, padding 1, on (batch, cin, size, size)."""
    x, w, b = torch.randn(batch, cin, size, size), torch.randn(cout, cin, 3, 3), torch.randn(cout)
    return _best([partial(F.conv2d, x_, w_, b, padding=1) for x_, w_ in _formats(x, w)])


def convolution_gradient(batch: int, cin: int, cout: int, size: int, wants_x: bool) -> Kernel:
    x, w = torch.randn(batch, cin, size, size), torch.randn(cout, cin, 3, 3)
    g = torch.randn(batch, cout, size, size)
    one, zero, mask = [1, 1], [0, 0], [wants_x, True, True]
    candidates: list[Kernel] = []
    for x_, w_ in _formats(x, w):
        g_ = g if x_ is x else g.contiguous(memory_format=torch.channels_last)
        run = partial(ATEN.convolution_backward, g_, x_, w_, [cout], one, one, one)
        candidates.append(partial(run, False, zero, 1, mask))
    return _best(candidates)


def max_pool(batch: int, channels: int, size: int) -> Kernel:
    """2x2 windows of (batch, channels, size, size)."""
    x = torch.randn(batch, channels, size, size)
    last = x.contiguous(memory_format=torch.channels_last)
    return _best([partial(F.max_pool2d, each, 2) for each in (x, last)])
