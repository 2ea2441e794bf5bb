"""Complex tensors of a trace, as two real tensors each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._private_torch import Operator
from poptorch._trace.complex_rules import BY_PARTS, MAKERS, RULES, split
from poptorch._trace.fourier import FourierTransforms, Parts

_REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
_FOURIER = ("_fft_c2c", "_fft_r2c", "_fft_c2r")
_FACTORIES = (
    "zeros",
    "ones",
    "full",
    "empty",
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
)
_CONVERSIONS = ("_to_copy", "to")
_KNOWN = {*BY_PARTS, *MAKERS, *RULES, *_FOURIER, *_FACTORIES, *_CONVERSIONS, "view_as_real"}


class ComplexNumbers:
    """Calls operators on the real and imaginary parts of complex tensors.

    Parts are views of what a complex tensor is a view of, so that writes in place reach both; only
    `view_as_real` makes a copy, and what would show that it is one is refused.

    Args:
        constant_of: Finds the data of the host that a traced tensor stands for, if it does.
        constant_for: Makes the traced tensor that stands for data of the host.
        memory_of: Identifies the memory of a tensor.
    """

    def __init__(
        self,
        constant_of: Callable[[torch.Tensor], torch.Tensor | None],
        constant_for: Callable[[torch.Tensor], torch.Tensor],
        memory_of: Callable[[torch.Tensor], int],
    ) -> None:
        self._constant_of = constant_of
        self._constant_for = constant_for
        self._memory_of = memory_of
        self._parts: dict[int, tuple[torch.Tensor, Parts]] = {}
        self._factory_results: dict[int, tuple[torch.Tensor, Parts]] = {}
        self._buffers: dict[int, str] = {}
        # The memory of each copy that view_as_real made, by that of the parts; what is not up to
        # date any more.
        self._copies: dict[int, set[int]] = {}
        self._outdated: set[int] = set()
        self._fourier = FourierTransforms()

    def define_buffer(self, name: str, meta: torch.Tensor, data: torch.Tensor) -> None:
        """Let a tensor of the trace stand for a complex buffer, which a program only reads.

        Args:
            name: The name of the buffer.
            meta: The meta tensor.
            data: Its values.
        """
        parts = self._constant_parts(data)
        self._parts[id(meta)] = (meta, parts)
        self._buffers.update(dict.fromkeys(map(self._memory_of, parts), name))

    def concerns(self, given: list[torch.Tensor], bound: dict[str, Any], name: str) -> bool:
        """Tell whether an operator takes or makes complex tensors.

        Args:
            given: The tensors that it is called with.
            bound: Its arguments by name.
            name: Its name without namespace.

        Returns:
            Whether it does.
        """
        if any(tensor.dtype.is_complex for tensor in given):
            return True
        dtype = bound.get("dtype")
        is_wanted = isinstance(dtype, torch.dtype) and dtype.is_complex
        is_wanted = is_wanted or isinstance(bound.get("fill_value"), complex)
        return is_wanted or name in MAKERS or name in _FOURIER

    def knows(self, name: str) -> bool:
        """Tell whether `call` has a rule for an operator.

        Args:
            name: Its name without namespace.

        Returns:
            Whether it has.
        """
        return name in _KNOWN or name.removesuffix("_") in _KNOWN

    def call(self, function: Operator, bound: dict[str, Any], result: Any) -> Any:
        """Call an operator on parts.

        Args:
            function: The operator, which `knows` knows.
            bound: Its arguments by name.
            result: What it returns on meta tensors.

        Returns:
            The result: complex meta tensors as they were given, real ones as they are made of
            parts.
        """
        name = function._schema.name.removeprefix("aten::")
        arguments = {key: self._split(bound[key]) for key in bound if key != "out"}
        if name in _FOURIER:
            return self._named(result, self._transform(name, arguments))
        if name in _FACTORIES:
            made = _made(function, arguments, result.dtype)
            if isinstance(made, Parts):
                self._factory_results[self._memory_of(result)] = (result, made)
            return self._named(result, made)
        if name in _CONVERSIONS:
            return self._named(result, _converted(arguments["self"], result.dtype))
        if name == "view_as_real":
            return self._real_view(arguments["self"])
        rule = RULES.get(name) or MAKERS.get(name)
        if rule is not None:
            return self._named(result, rule(**arguments))
        if function._schema.is_mutable:
            self._check_writable(arguments["self"])
        if name.removesuffix("_") not in RULES:
            return self._by_parts(function, arguments, bound, result)
        written = RULES[name.removesuffix("_")](**arguments)
        for old, new in zip(arguments["self"], written, strict=True):
            old.copy_(new)
        return bound["self"]

    def check_views(
        self, given: list[torch.Tensor], written: list[torch.Tensor], location: str
    ) -> None:
        """Refuse what shows that `view_as_real` makes a copy.

        Args:
            given: The real tensors that an operator takes.
            written: Those that it writes.
            location: Where it is called.

        Raises:
            Error: It writes such a copy, or takes one whose complex tensor was written since.
        """
        if not self._copies:
            return
        memories = {self._memory_of(tensor) for tensor in written}
        if any(memories & copies for copies in self._copies.values()):
            raise createPoptorchError(
                f"A view that torch.view_as_real made is written at {location}; in a program it is "
                "a copy. Write the real and imag of the complex tensor, or a clone of the view"
            )
        self._outdated.update(*(self._copies.get(memory, ()) for memory in memories))
        if any(self._memory_of(tensor) in self._outdated for tensor in given):
            raise createPoptorchError(
                f"A view that torch.view_as_real made is read at {location}, after its complex "
                "tensor was written; in a program it is a copy. Call torch.view_as_real again"
            )

    def _real_view(self, parts: Parts) -> torch.Tensor:
        copy = torch.stack(list(parts), -1)
        for part in parts:
            self._copies.setdefault(self._memory_of(part), set()).add(self._memory_of(copy))
        return copy

    def _split(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._parts_of(value) if value.dtype.is_complex else value
        if isinstance(value, (list, tuple)):
            return [self._split(item) for item in value]
        return value

    def _parts_of(self, tensor: torch.Tensor) -> Parts:
        if id(tensor) not in self._parts:
            memory, geometry = self._memory_of(tensor), (tensor.shape, tensor.stride())
            made = self._factory_results.get(memory)
            if made is not None and (made[0].shape, made[0].stride()) == geometry:
                # Factories of torch return another object than the operator did.
                return made[1]
            data = self._constant_of(tensor)
            if data is None:
                raise createPoptorchError(
                    f"The parts of a complex tensor of shape {list(tensor.shape)} are not known: "
                    "it was made outside of this trace"
                )
            self._parts[id(tensor)] = (tensor, self._constant_parts(data))
        return self._parts[id(tensor)][1]

    def _constant_parts(self, data: torch.Tensor) -> Parts:
        data = data.detach().resolve_conj()
        return Parts(self._constant_for(data.real.clone()), self._constant_for(data.imag.clone()))

    def _check_writable(self, target: Any) -> None:
        name = self._buffers.get(self._memory_of(target.re)) if isinstance(target, Parts) else None
        if name is not None:
            raise createPoptorchError(
                f"The complex buffer {name} is written; in a program it is a constant. Register "
                "torch.view_as_real of it, and use torch.view_as_complex where it is read"
            )

    def _named(self, result: Any, made: Any) -> Any:
        """The complex tensors of a result, of which the parts are noted; real ones as made."""
        if isinstance(made, Parts):
            shape = result.shape
            parts = Parts(*(part if part.shape == shape else part.expand(shape) for part in made))
            self._parts[id(result)] = (result, parts)
            return result
        if isinstance(made, list):
            return type(result)(self._named(*pair) for pair in zip(result, made, strict=True))
        return made

    def _by_parts(
        self, function: Operator, arguments: dict[str, Any], bound: dict[str, Any], result: Any
    ) -> Any:
        """One call for real parts, and one for imaginary ones."""
        re, im = (
            function(**{key: split(key, value, part) for key, value in arguments.items()})
            for part in (0, 1)
        )
        if function._schema.is_mutable:
            return bound["self"]
        if isinstance(result, torch.Tensor):
            return self._named(result, Parts(re, im))
        return self._named(result, [Parts(*pair) for pair in zip(re, im, strict=True)])

    def _transform(self, name: str, arguments: dict[str, Any]) -> Any:
        x, axes, normalization = (arguments[key] for key in ("self", "dim", "normalization"))
        if name == "_fft_c2c":
            return self._fourier.of_complex(x, axes, normalization, arguments["forward"])
        if name == "_fft_r2c":
            return self._fourier.of_real(x, axes, normalization, arguments["onesided"])
        return self._fourier.to_real(x, axes, normalization, arguments["last_dim_size"])


def _made(function: Operator, arguments: dict[str, Any], dtype: torch.dtype) -> Any:
    """What a factory makes."""
    re, im = ({key: split(key, value, part) for key, value in arguments.items()} for part in (0, 1))
    if not dtype.is_complex:
        return function(**re)
    real = function(**{**re, "dtype": _REAL[dtype]})
    is_zero = "fill_value" not in im
    return Parts(
        real, torch.zeros_like(real) if is_zero else function(**{**im, "dtype": _REAL[dtype]})
    )


def _converted(value: Any, dtype: torch.dtype) -> Any:
    """A tensor in another dtype; the imaginary part of what becomes real is left out."""
    if not dtype.is_complex:
        return value.re.to(dtype)
    if isinstance(value, Parts):
        return Parts(*(part.to(_REAL[dtype]) for part in value))
    real = value.to(_REAL[dtype])
    return Parts(real, torch.zeros_like(real))
