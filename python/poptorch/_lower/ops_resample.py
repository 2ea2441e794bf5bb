"""Lowerings of upsampling and other changes of resolution, one axis after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor

import numpy as np

import popxl
from poptorch._lower.lowering import Call, cast
from poptorch._lower.registry import lowers
from popxl import ops

# For each element of the result: positions along an axis, and what each is weighted with.
Taps = list[list[tuple[int, float]]]


def _source_step(size: int, count: int, scale: float | None, align_corners: bool) -> float:
    """The distance, along the source, of neighbours in the result."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale else size / count


def _nearest_taps(size: int, count: int, scale: float | None, align_corners: bool) -> Taps:
    step = np.float32(_source_step(size, count, scale, align_corners))
    return [[(min(int(np.float32(i) * step), size - 1), 1.0)] for i in range(count)]


def _nearest_exact_taps(size: int, count: int, scale: float | None, align_corners: bool) -> Taps:
    step = np.float32(_source_step(size, count, scale, align_corners))
    return [
        [(min(int((np.float32(i) + np.float32(0.5)) * step), size - 1), 1.0)] for i in range(count)
    ]


def _linear_taps(size: int, count: int, scale: float | None, align_corners: bool) -> Taps:
    step = _source_step(size, count, scale, align_corners)
    taps: Taps = []
    for i in range(count):
        place = i * step if align_corners else max(0.0, (i + 0.5) * step - 0.5)
        low = min(int(place), size - 1)
        share = min(max(place - low, 0.0), 1.0)
        taps.append([(low, 1 - share), (min(low + 1, size - 1), share)])
    return taps


def _keys_weight(distance: float, a: float) -> float:
    """The cubic convolution kernel of Keys."""
    d = abs(distance)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def _cubic_taps(size: int, count: int, scale: float | None, align_corners: bool) -> Taps:
    step = _source_step(size, count, scale, align_corners)
    taps: Taps = []
    for i in range(count):
        place = i * step if align_corners else (i + 0.5) * step - 0.5
        low = floor(place)
        taps.append(
            [
                (min(max(low + k, 0), size - 1), _keys_weight(place - low - k, -0.75))
                for k in range(-1, 3)
            ]
        )
    return taps


def _antialiased(weight: Callable[[float], float], reach: float) -> Callable[..., Taps]:
    """Taps of a kernel that is widened where the result is smaller than the source."""

    def taps(size: int, count: int, scale: float | None, align_corners: bool) -> Taps:
        step = _source_step(size, count, scale, align_corners)
        width = max(step, 1.0)
        result: Taps = []
        for i in range(count):
            centre = step * (i + 0.5)
            first = max(int(centre - reach * width + 0.5), 0)
            last = min(int(centre + reach * width + 0.5), size)
            weights = [weight((j - centre + 0.5) / width) for j in range(first, last)]
            total = sum(weights)
            result.append([(first + j, w / total) for j, w in enumerate(weights)])
        return result

    return taps


_linear_antialiased = _antialiased(lambda d: max(0.0, 1 - abs(d)), 1.0)
_cubic_antialiased = _antialiased(lambda d: _keys_weight(d, -0.5), 2.0)


def _along(t: popxl.Tensor, axis: int, taps: Taps) -> popxl.Tensor:
    """Weighted sums of elements along one axis."""
    longest = max(map(len, taps))
    padded = [row + [(row[0][0], 0.0)] * (longest - len(row)) for row in taps]
    weights_shape = (len(taps), *[1] * (t.rank - 1 - axis))
    total = None
    for k in range(longest):
        places = np.array([row[k][0] for row in padded], np.int32)
        weights = np.array([row[k][1] for row in padded], np.float32)
        if not weights.any():
            continue
        whole = places.tolist() == list(range(t.shape[axis]))
        term = t if whole else ops.gather(t, popxl.constant(places, popxl.int32), axis)
        if (weights != 1).any():
            term = ops.mul(term, popxl.constant(weights.reshape(weights_shape), popxl.float32))
        total = term if total is None else ops.add(total, term)
    assert total is not None
    return total


def _register(name: str, find_taps: Callable[..., Taps], moves_only: bool = False) -> None:
    @lowers(f"aten::{name}")
    def lower(
        call: Call,
        input: popxl.Tensor | None = None,
        output_size: Sequence[int] | None = None,
        scale_factors: Sequence[float] | None = None,
        self: popxl.Tensor | None = None,
        align_corners: bool = False,
        **scales: float | None,
    ) -> popxl.Tensor:
        t = input if self is None else self
        assert t is not None
        axes = t.rank - 2
        # `scales` or `scales_d`, `scales_h`, `scales_w`, in the order of axes.
        factors = dict(enumerate(scale_factors or scales.values()))
        result = t if moves_only else cast(t, popxl.float32)
        for i in range(axes):
            size, count = t.shape[2 + i], call.shape[2 + i]
            taps = find_taps(size, count, factors.get(i), align_corners)
            result = _along(result, 2 + i, taps)
        return cast(result, call.dtype)


for _axes in (1, 2, 3):
    _register(f"upsample_nearest{_axes}d", _nearest_taps, moves_only=True)
    _register(f"_upsample_nearest_exact{_axes}d", _nearest_exact_taps, moves_only=True)
_register("upsample_linear1d", _linear_taps)
_register("upsample_bilinear2d", _linear_taps)
_register("upsample_trilinear3d", _linear_taps)
_register("upsample_bicubic2d", _cubic_taps)
_register("_upsample_bilinear2d_aa", _linear_antialiased)
_register("_upsample_bicubic2d_aa", _cubic_antialiased)
