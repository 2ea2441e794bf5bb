"""What operators make of the real and imaginary parts of complex tensors."""

from __future__ import annotations

import cmath
import operator
from collections.abc import Callable
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._trace.fourier import Parts

# These do the same to both parts: they move elements, or are linear.
_NAMES_BY_PARTS = """
    add alias cat clone constant_pad_nd copy cumsum detach diag diag_embed diagonal diff
    expand fill flip gather index index_add index_copy index_put index_select masked_fill mean
    neg permute repeat repeat_interleave roll rot90 rsub scatter scatter_add select slice
    split split_with_sizes squeeze stack sub sum t trace transpose tril triu unbind unfold
    unsqueeze where zero
"""
BY_PARTS = frozenset(_NAMES_BY_PARTS.split())
# Arguments that are values beside a complex tensor, and have an imaginary part of zero if real.
_VALUES = ("fill_value", "other", "self", "source", "src", "tensors", "value", "values")


def split(name: str, value: Any, part: int) -> Any:
    """An argument of the call for one part.

    Args:
        name: The name of the argument.
        value: The argument, with `Parts` in place of complex tensors.
        part: 0: the real part; 1: the imaginary one.

    Returns:
        The part of a complex argument; zeros for the imaginary part of real values; what is no
        value, as it is.
    """
    if isinstance(value, Parts):
        return value[part]
    if isinstance(value, complex):
        return value.imag if part else value.real
    if isinstance(value, list):
        return [split(name, item, part) for item in value]
    if name not in _VALUES or part == 0:
        return value
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value) if value.dtype != torch.bool else value
    return 0 if isinstance(value, (int, float)) else value


def _parts(value: Any) -> Any:
    """Any number or tensor as parts."""
    if isinstance(value, Parts):
        return value
    if isinstance(value, torch.Tensor):
        return Parts(value, torch.zeros_like(value))
    return (value.real, value.imag)


def _is_real(value: Any) -> bool:
    return not isinstance(value, (Parts, complex))


def _bilinear(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Parts:
    """A product of any kind."""
    if _is_real(a):
        return Parts(*(function(a, part) for part in b))
    if _is_real(b):
        return Parts(*(function(part, b) for part in a))
    (a_re, a_im), (b_re, b_im) = _parts(a), _parts(b)
    re = function(a_re, b_re) - function(a_im, b_im)
    return Parts(re, function(a_re, b_im) + function(a_im, b_re))


def _mul(self: Any, other: Any) -> Parts:
    return _bilinear(operator.mul, self, other)


def _conj(self: Parts) -> Parts:
    return Parts(self.re, -self.im)


def _div(self: Any, other: Any) -> Parts:
    if _is_real(other):
        return Parts(*(part / other for part in self))
    if isinstance(other, complex):
        return _mul(self, 1 / other)
    # Scaled, so that the square of a large or small divisor is a number.
    size = torch.maximum(other.re.abs(), other.im.abs()).detach()
    size = torch.where(size == 0, 1.0, size)
    re, im = other.re / size, other.im / size
    square = re * re + im * im
    return Parts(*(part / square / size for part in _mul(self, Parts(re, -im))))


def _abs(self: Parts) -> torch.Tensor:
    # Its gradient is zero at zero, where that of a root has no number.
    return torch.linalg.vector_norm(torch.stack(list(self), -1), dim=-1)


def _angle(self: Parts) -> torch.Tensor:
    return torch.atan2(self.im, self.re)


def _polar(length: torch.Tensor, angle: torch.Tensor) -> Parts:
    return Parts(length * torch.cos(angle), length * torch.sin(angle))


def _sgn(self: Parts) -> Parts:
    length = _abs(self)
    divisor = torch.where(length == 0, 1.0, length)
    return Parts(*(part / divisor for part in self))


def _exp(self: Parts) -> Parts:
    return _polar(torch.exp(self.re), self.im)


def _log(self: Parts) -> Parts:
    return Parts(torch.log(_abs(self)), _angle(self))


def _sqrt(self: Parts) -> Parts:
    return _polar(torch.sqrt(_abs(self)), _angle(self) / 2)


def _pow(self: Any, exponent: Any) -> Parts:
    if _is_real(exponent) and not isinstance(exponent, torch.Tensor):
        if exponent == 2:
            return _mul(self, self)
        return _polar(_abs(self) ** exponent, _angle(self) * exponent)
    if isinstance(self, (Parts, torch.Tensor)):
        return _exp(_mul(exponent, _log(_parts(self))))
    return _exp(_mul(exponent, cmath.log(self)))


def _sinh(self: Parts) -> Parts:
    re, im = self
    return Parts(torch.sinh(re) * torch.cos(im), torch.cosh(re) * torch.sin(im))


def _cosh(self: Parts) -> Parts:
    re, im = self
    return Parts(torch.cosh(re) * torch.cos(im), torch.sinh(re) * torch.sin(im))


def _turned(self: Parts) -> Parts:
    """i z"""
    return Parts(-self.im, self.re)


def _sin(self: Parts) -> Parts:
    im, re = _sinh(_turned(self))
    return Parts(re, -im)


def _tanh(self: Parts) -> Parts:
    # sinh / cosh, both divided by the cosh of the real part, which may be too large a number.
    tanh, cos = torch.tanh(self.re), torch.cos(self.im)
    rest = 1 - tanh * tanh
    divisor = tanh * tanh + cos * cos * rest
    return Parts(tanh / divisor, torch.sin(self.im) * cos * rest / divisor)


def _sigmoid(self: Parts) -> Parts:
    re, im = _tanh(Parts(self.re / 2, self.im / 2))
    return Parts((1 + re) / 2, im / 2)


def _both(test: Callable[[torch.Tensor], torch.Tensor], self: Parts) -> torch.Tensor:
    return test(self.re) & test(self.im)


def _either(test: Callable[[torch.Tensor], torch.Tensor], self: Parts) -> torch.Tensor:
    return test(self.re) | test(self.im)


def _eq(self: Any, other: Any) -> torch.Tensor:
    a, b = _parts(self), _parts(other)
    return (a.re == b.re) & (a.im == b.im)


def _addmm(self: Any, mat1: Any, mat2: Any, beta: float = 1, alpha: float = 1) -> Parts:
    product, start = _bilinear(torch.matmul, mat1, mat2), _parts(self)
    return Parts(*(beta * a + alpha * b for a, b in zip(start, product, strict=True)))


def _vector_norm(self: Parts, ord: float, dim: Any, keepdim: bool, dtype: Any) -> torch.Tensor:
    return torch.linalg.vector_norm(_abs(self), ord, dim, keepdim, dtype=dtype)


def _dot(self: Any, tensor: Any) -> Parts:
    return _bilinear(torch.dot, self, tensor)


def _vdot(self: Any, other: Any) -> Parts:
    return _bilinear(torch.dot, self if _is_real(self) else _conj(self), other)


def _view(self: Parts, size: Any = None, dtype: Any = None) -> Parts:
    if size is None:
        raise createPoptorchError(f"A complex tensor as {dtype}: use torch.view_as_real")
    # Parts may lie in memory in another order than a tensor of both.
    return Parts(*(part.reshape(size) for part in self))


def _same(self: Parts) -> Parts:
    return self


RULES: dict[str, Callable[..., Any]] = {
    "_conj": _conj,
    "_conj_physical": _conj,
    "abs": _abs,
    "addmm": _addmm,
    "angle": _angle,
    "baddbmm": lambda self, batch1, batch2, beta=1, alpha=1: _addmm(
        self, batch1, batch2, beta, alpha
    ),
    "bmm": lambda self, mat2: _bilinear(torch.bmm, self, mat2),
    "cos": lambda self: _cosh(_turned(self)),
    "cosh": _cosh,
    "div": _div,
    "dot": _dot,
    "eq": _eq,
    "exp": _exp,
    "imag": lambda self: self.im,
    "isfinite": lambda self: _both(torch.isfinite, self),
    "isinf": lambda self: _either(torch.isinf, self),
    "isnan": lambda self: _either(torch.isnan, self),
    "linalg_vector_norm": _vector_norm,
    "log": _log,
    "mm": lambda self, mat2: _bilinear(torch.mm, self, mat2),
    "mul": _mul,
    "mv": lambda self, vec: _bilinear(torch.mv, self, vec),
    "ne": lambda self, other: ~_eq(self, other),
    "pow": _pow,
    "real": lambda self: self.re,
    "reciprocal": lambda self: _div(1, self),
    "reshape": lambda self, shape: _view(self, shape),
    "resolve_conj": _same,
    "resolve_neg": _same,
    "rsqrt": lambda self: _pow(self, -0.5),
    "sgn": _sgn,
    "sigmoid": _sigmoid,
    "sin": _sin,
    "sinh": _sinh,
    "sqrt": _sqrt,
    "square": lambda self: _mul(self, self),
    "tanh": _tanh,
    "vdot": _vdot,
    "view": _view,
}

# These make complex tensors of real ones.
MAKERS: dict[str, Callable[..., Parts]] = {
    "complex": lambda real, imag: Parts(real, imag),
    "polar": lambda abs, angle: _polar(abs, angle),
    "view_as_complex": lambda self: Parts(self.select(-1, 0), self.select(-1, 1)),
}
