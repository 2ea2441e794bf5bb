"""The lower bound: the larger of bytes over bandwidth and floating-point operations over peak.

No program on this machine can be faster, whichever libraries it calls. The bytes are those that
any program must move (``traffic.least_traffic``), at the bandwidth of the fastest access pattern on
a working set of that size. The operations are those of the matrix products and convolutions alone,
at the rate of a product that fits the caches.
"""

from __future__ import annotations

import itertools

import torch

from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import library_kernels
from benchmarks.frameworks.bandwidth import Bandwidth, average_seconds
from benchmarks.frameworks.traffic import least_traffic
from benchmarks.program import NotMeasured

PEAK_SIZE = 768  # of a square product: three matrices of 2.4 MB


def _dense_operations(case: Case, shapes: list[tuple[int, int, int]], first: bool) -> int:
    """Forward, and in training both gradients, but none for the first input."""
    total = 0
    for number, (rows, inner, columns) in enumerate(shapes):
        products = 1
        if case.training:
            products = 2 if first and number == 0 else 3
        total += products * 2 * rows * inner * columns
    return total


def _mlp(case: Case) -> int:
    shapes = [(case.batch, i, o) for i, o in itertools.pairwise(data.MLP_SIZES)]
    return _dense_operations(case, shapes, first=True)


def _cnn(case: Case) -> int:
    """Convolutions counted directly, as products of patches with kernels of 3 by 3."""
    convolutions = [
        (case.batch * size * size, 9 * inputs, outputs)
        for size, (inputs, outputs) in zip(
            (28, 14), itertools.pairwise(data.CNN_CHANNELS), strict=True
        )
    ]
    return _dense_operations(case, convolutions, first=True) + _dense_operations(
        case, [(case.batch, data.CNN_FEATURES, data.CLASSES)], first=False
    )


def _transformer(case: Case) -> int:
    of = data.sizes(case)
    tokens, hidden = case.batch * of.sequence, of.hidden
    layer = _dense_operations(
        case,
        [
            (tokens, hidden, 3 * hidden),
            (tokens, hidden, hidden),
            (tokens, hidden, of.feed_forward),
            (tokens, of.feed_forward, hidden),
        ],
        first=False,
    )
    # A causal position attends to half of the sequence, and to itself.
    attended = (of.sequence + 1) / 2 if of.causal else of.sequence
    attention = int(2 * 2 * tokens * attended * hidden) * (3 if case.training else 1)
    head = _dense_operations(case, [(tokens, hidden, of.classes)], first=False)
    return case.layers * (layer + attention) + head


def operations(case: Case) -> int:
    """Floating-point operations of one step's matrix products and convolutions."""
    if case.family not in NETWORKS:
        return 0
    counts = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer, "decoder": _transformer}
    return counts[case.family](case)


class LowerBound:
    """Half of a block goes to the bandwidth, half to the peak."""

    note = ""
    first: list[float] = []  # noqa: RUF012 - never written
    first_at = None

    def __init__(self, case: Case) -> None:
        self._traffic = least_traffic(case)
        self._bandwidth = Bandwidth(self._traffic.working_set, in_place=True, reading=True)
        self._operations = operations(case)
        if self._operations:
            self._product = library_kernels.product(PEAK_SIZE, PEAK_SIZE, PEAK_SIZE)

    def time_block(self, seconds: float) -> float:
        moving = self._traffic.moved * self._bandwidth.seconds_per_byte(seconds / 2)
        if not self._operations:
            return moving
        seconds_per_operation = average_seconds(self._product, seconds / 2) / (2 * PEAK_SIZE**3)
        return max(moving, self._operations * seconds_per_operation)

    def close(self) -> None:
        return


def build(case: Case, threads: int) -> LowerBound:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    if case.family in ("empty", "compile"):
        raise NotMeasured("neither bytes nor products to count")
    return LowerBound(case)
