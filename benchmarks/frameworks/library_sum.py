"""The library sum: bare library kernels in turn, plus bytes over the bandwidth of the same run.

It is what a program costs that calls a library for each operation. Fusion can beat it.
"""

from __future__ import annotations

import torch

from benchmarks import data
from benchmarks.cases import Case
from benchmarks.frameworks import library_kernels as kernels
from benchmarks.frameworks.bandwidth import Bandwidth, average_seconds
from benchmarks.frameworks.library_kernels import Kernel
from benchmarks.frameworks.traffic import Traffic, step_traffic
from benchmarks.program import NotMeasured


class LibrarySum:
    """Half of a block goes to the kernels, half to the bandwidth."""

    note = ""
    first: list[float] = []  # noqa: RUF012 - never written
    first_at = None

    def __init__(self, sequence: list[Kernel], traffic: Traffic | None, in_place: bool) -> None:
        self._sequence = sequence
        self._traffic = traffic
        self._dispatch = kernels.dispatch_seconds() * len(sequence)
        if traffic is not None:
            self._bandwidth = Bandwidth(traffic.working_set, in_place)

    def _kernels(self) -> None:
        for kernel in self._sequence:
            kernel()

    def time_block(self, seconds: float) -> float:
        total = 0.0
        if self._sequence:
            total += max(0.0, average_seconds(self._kernels, seconds / 2) - self._dispatch)
        if self._traffic is not None:
            total += self._traffic.moved * self._bandwidth.seconds_per_byte(seconds / 2)
        return total

    def close(self) -> None:
        self._sequence = []


def _dense_kernels(case: Case, shapes: list[tuple[int, int, int]], first: bool) -> list[Kernel]:
    """Forward products and, in training, weight and input gradients; none for the first input."""
    result = [kernels.dense(*shape, packed=not case.training) for shape in shapes]
    if case.training:
        result += [kernels.product(i, rows, o) for rows, i, o in shapes]
        result += [kernels.product(rows, o, i) for rows, i, o in shapes[1 if first else 0 :]]
    return result


def _mlp(case: Case) -> list[Kernel]:
    sizes = zip(data.MLP_SIZES, data.MLP_SIZES[1:], strict=False)
    return _dense_kernels(case, [(case.batch, i, o) for i, o in sizes], first=True)


def _cnn(case: Case) -> list[Kernel]:
    b = case.batch
    result = [
        kernels.convolution(b, 1, 32, 28),
        kernels.max_pool(b, 32, 28),
        kernels.convolution(b, 32, 64, 14),
        kernels.max_pool(b, 64, 14),
    ]
    if case.training:
        result.append(kernels.convolution_gradient(b, 32, 64, 14, wants_x=True))
        result.append(kernels.convolution_gradient(b, 1, 32, 28, wants_x=False))
    return result + _dense_kernels(case, [(b, data.CNN_FEATURES, data.CLASSES)], first=False)


def _transformer(case: Case) -> list[Kernel]:
    of = data.sizes(case)
    tokens, hidden, head = case.batch * of.sequence, of.hidden, of.hidden // of.heads
    heads, sequence = case.batch * of.heads, of.sequence
    shapes = [
        (tokens, hidden, 3 * hidden),
        (tokens, hidden, hidden),
        (tokens, hidden, of.feed_forward),
        (tokens, of.feed_forward, hidden),
    ]
    layer = _dense_kernels(case, shapes, first=False)
    # scores and context; backward needs both again with either operand's gradient
    layer += [kernels.batched_product(heads, sequence, head, sequence) for _ in range(3)]
    layer += [kernels.batched_product(heads, sequence, sequence, head) for _ in range(3)]
    layer.append(kernels.softmax(heads * sequence, sequence))
    layer += [kernels.layer_norm(tokens, hidden) for _ in range(2)]
    return layer * case.layers + _dense_kernels(case, [(tokens, hidden, of.classes)], first=False)


def _pass_over_memory(case: Case) -> LibrarySum:
    rows = case.megabytes * 2**20 // (4 * data.ROW)
    nbytes = 2 * case.megabytes * 2**20
    if case.family == "norm":
        return LibrarySum([kernels.softmax_layer_norm(rows, data.ROW)], None, in_place=False)
    if case.family == "gelu":
        return LibrarySum([kernels.gelu(rows, data.ROW)], None, in_place=False)
    # The light chain belongs to no library: arithmetic is free, one read and one write are not.
    return LibrarySum([], Traffic(nbytes, nbytes), in_place=False)


def build(case: Case, threads: int) -> LibrarySum:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    if case.family in ("empty", "compile"):
        raise NotMeasured("no library kernel to compare with")
    if case.family in ("light", "gelu", "norm"):
        return _pass_over_memory(case)
    networks = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer, "decoder": _transformer}
    sequence = networks[case.family](case)
    return LibrarySum(sequence, step_traffic(case), in_place=case.training)
