"""Discrete Fourier transforms as matrix products.

A transform of n elements is a product with an n x n matrix. Where n has factors, it is that of one
factor, a product with powers of the n-th root of one, and that of the other factor
(J. W. Cooley, J. W. Tukey, An algorithm for the machine calculation of complex Fourier series,
Mathematics of Computation 19, 1965).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

# Up to here one product is faster than two and what is between them.
_LARGEST_MATRIX = 128
_CPU = torch.device("cpu")


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor.

    Attributes:
        re: The real part.
        im: The imaginary part, of the same shape and dtype.
    """

    re: torch.Tensor
    im: torch.Tensor


class FourierTransforms:
    """Transforms of traced tensors, whose matrices are constants of the program."""

    def __init__(self) -> None:
        self._tables: dict[tuple[object, ...], torch.Tensor] = {}

    def of_complex(
        self, parts: Parts, axes: Sequence[int], normalization: int, forward: bool
    ) -> Parts:
        """Transform a complex tensor.

        Args:
            parts: The tensor.
            axes: The axes.
            normalization: 0: none; 1: by the root of the number of elements; 2: by the number.
            forward: Whether exponents are negative.

        Returns:
            The transform, of the same shape.
        """
        sign = -1 if forward else 1
        for axis in axes:
            parts = _back(self._along_rows(_front(parts, axis), sign), axis)
        count = math.prod(parts.re.shape[axis] for axis in axes)
        return _normalized(parts, normalization, count)

    def of_real(
        self, x: torch.Tensor, axes: Sequence[int], normalization: int, onesided: bool
    ) -> Parts:
        """Transform a real tensor forward.

        Args:
            x: The tensor.
            axes: The axes.
            normalization: As for `of_complex`.
            onesided: Whether to leave out what is the conjugate of another element of the last of
                the axes.

        Returns:
            The transform; with `onesided` n // 2 + 1 elements along the last of the axes.
        """
        *others, last = axes
        rows = x.movedim(last, -1)
        size = rows.shape[-1]
        wanted = size // 2 + 1 if onesided else size
        if size <= _LARGEST_MATRIX or _first_factor(size) == size:
            re, im = _halves(rows @ self._matrix(size, -1, rows.dtype, size, wanted))
        else:
            re, im = self._along_rows(Parts(rows, torch.zeros_like(rows)), -1)
            re, im = re[..., :wanted], im[..., :wanted]
        parts = _back(Parts(re, im), last)
        parts = self.of_complex(parts, others, 0, True)
        count = math.prod(x.shape[axis] for axis in axes)
        return _normalized(parts, normalization, count)

    def to_real(
        self, parts: Parts, axes: Sequence[int], normalization: int, size: int
    ) -> torch.Tensor:
        """Transform the half of a spectrum that is its own conjugate mirrored, backward.

        Args:
            parts: The half, with size // 2 + 1 elements along the last of the axes.
            axes: The axes.
            normalization: As for `of_complex`.
            size: The number of elements along the last of the axes of the result.

        Returns:
            The real transform.
        """
        *others, last = axes
        parts = self.of_complex(parts, others, 0, False)
        rows = _front(parts, last)
        mirrored = slice(1, (size + 1) // 2)
        # The first element, and the middle one, are taken as real, as torch does.

        def inner() -> torch.Tensor:
            edges = torch.ones(size // 2 + 1, dtype=rows.im.dtype, device=_CPU)
            edges[0] = 0
            if size % 2 == 0:
                edges[-1] = 0
            return edges

        im = rows.im * self._table(("inner", size, rows.im.dtype), inner)
        whole = Parts(
            torch.cat([rows.re, rows.re[..., mirrored].flip(-1)], -1),
            torch.cat([im, -im[..., mirrored].flip(-1)], -1),
        )
        re = self._along_rows(whole, 1).re
        count = size * math.prod(parts.re.shape[axis] for axis in others)
        return _normalized(Parts(re, re), normalization, count).re.movedim(-1, last)

    def _along_rows(self, parts: Parts, sign: int) -> Parts:
        """The transform along the last axis, without normalization."""
        size = parts.re.shape[-1]
        first = _first_factor(size)
        if size <= _LARGEST_MATRIX or first == size:
            product = torch.cat(list(parts), -1) @ self._matrix(size, sign, parts.re.dtype)
            return _halves(product)
        rest = size // first
        columns = Parts(
            *(torch.unflatten(part, -1, (first, rest)).transpose(-1, -2) for part in parts)
        )
        inner = self._times_roots(self._along_rows(columns, sign), sign)
        rows = Parts(*(part.transpose(-1, -2) for part in inner))
        outer = self._along_rows(rows, sign)
        return Parts(*(part.transpose(-1, -2).flatten(-2) for part in outer))

    def _times_roots(self, parts: Parts, sign: int) -> Parts:
        """Elements (..., j, k) of (..., rest, first) times root^(j k)."""
        rest, first = parts.re.shape[-2:]
        key, dtype = ("roots", rest, first, sign), parts.re.dtype

        def angles() -> torch.Tensor:
            rows, columns = (torch.arange(size, device=_CPU) for size in (rest, first))
            return _angles(rows, columns, rest * first)

        cosines = self._table((*key, "re", dtype), lambda: torch.cos(angles()).to(dtype))
        sines = self._table((*key, "im", dtype), lambda: (sign * torch.sin(angles())).to(dtype))
        re, im = parts
        return Parts(re * cosines - im * sines, re * sines + im * cosines)

    def _matrix(
        self,
        size: int,
        sign: int,
        dtype: torch.dtype,
        rows: int | None = None,
        columns: int | None = None,
    ) -> torch.Tensor:
        """What a row of real parts and then imaginary ones is multiplied by, or real ones alone.

        Of the result the first `columns` of both parts, if not all.
        """

        def make() -> torch.Tensor:
            numbers = torch.arange(size, device=_CPU)
            angles = _angles(numbers, numbers[:columns], size)
            cosines, sines = torch.cos(angles), sign * torch.sin(angles)
            both = [torch.cat([cosines, sines], 1), torch.cat([-sines, cosines], 1)]
            return torch.cat(both)[:rows].to(dtype)

        return self._table(("matrix", size, sign, dtype, rows, columns), make)

    def _table(self, key: tuple[object, ...], make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """One constant for all transforms that need it."""
        if key not in self._tables:
            self._tables[key] = make()
        return self._tables[key]


def _angles(rows: torch.Tensor, columns: torch.Tensor, size: int) -> torch.Tensor:
    """2 pi j k / size in float64, of whole numbers below size that are exact."""
    return (rows[:, None] * columns % size).double() * (2 * math.pi / size)


def _first_factor(size: int) -> int:
    """The largest divisor that one matrix has room for; else the smallest prime factor."""
    for factor in range(min(_LARGEST_MATRIX, math.isqrt(size)), 1, -1):
        if size % factor == 0:
            return factor
    return next((f for f in range(_LARGEST_MATRIX, math.isqrt(size) + 1) if size % f == 0), size)


def _halves(rows: torch.Tensor) -> Parts:
    """Rows of real parts and then imaginary ones; views that may be written, unlike split's."""
    size = rows.shape[-1] // 2
    return Parts(rows[..., :size], rows[..., size:])


def _front(parts: Parts, axis: int) -> Parts:
    return Parts(*(part.movedim(axis, -1) for part in parts))


def _back(parts: Parts, axis: int) -> Parts:
    return Parts(*(part.movedim(-1, axis) for part in parts))


def _normalized(parts: Parts, normalization: int, count: int) -> Parts:
    if normalization == 0:
        return parts
    scale = 1 / count if normalization == 2 else 1 / math.sqrt(count)
    return Parts(*(part * scale for part in parts))
