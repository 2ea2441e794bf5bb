"""Lowerings of marks, hints and functions of poptorch that compute."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl
from pando import _core
from poptorch._impl import createPoptorchError
from poptorch._lower.dtypes import popxl_dtype
from poptorch._lower.lowering import Call, cast
from poptorch._lower.registry import lowers
from poptorch._ops.functions import accessAttributes
from popxl import ops

_FLOAT_FORMATS = ("auto", "fixed", "scientific", "none")


@lowers(
    "poptorch::begin_ipu_block",
    "poptorch::end_ipu_block",
    "poptorch::optimizer_group",
    "poptorch::push_name_scope",
    "poptorch::pop_name_scope",
    "poptorch::set_attribute",
    "poptorch::clear_attribute",
)
def mark(call: Call, **_arguments: Any) -> None:
    """What only says something about other ops."""
    del call


@lowers(
    "poptorch::set_matmul_serialization",
    "poptorch::set_overlap_for_input",
    "poptorch::set_overlap_for_output",
    "poptorch::set_available_memory",
    "poptorch::internal_cast",
)
def hint(call: Call, **arguments: Any) -> popxl.Tensor:
    """The tensor itself; the dtype follows that of the result."""
    del call
    return next(value for value in arguments.values() if isinstance(value, popxl.Tensor))


@lowers("poptorch::nop")
def nop(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """A copy."""
    del call
    return ops.identity(self, "Nop:0")


@lowers("poptorch::recomputation_checkpoint")
def recomputation_checkpoint(call: Call, self: popxl.Tensor) -> popxl.Tensor:
    """A copy, of a name that programs look for."""
    del call
    with popxl.name_scope("Checkpoint"):
        return ops.identity(self, "Checkpoint:0")


@lowers("poptorch::ipu_print_tensor")
def ipu_print_tensor(
    call: Call, self: popxl.Tensor, title: str, print_gradient: int, **layout: Any
) -> popxl.Tensor:
    """A copy that is printed."""
    del call
    layout["float_format"] = _FLOAT_FORMATS[layout["float_format"]]
    layout["summarise_threshold"] = layout.pop("summarize_threshold")
    return ops.print_tensor(self, title, True, bool(print_gradient), **layout)


def _at(start: popxl.Tensor, size: int, step: int, extent: int) -> popxl.Tensor:
    """The positions of a slice, which goes round from the end to the beginning."""
    offsets = popxl.constant(np.arange(0, size, step, dtype=np.int32), popxl.int32)
    positions = ops.add(cast(ops.reshape(start, (1,)), popxl.int32), offsets)
    # The result has the sign of the dividend, and a start may be before the beginning.
    extents = popxl.constant(extent, popxl.int32)
    return ops.fmod(ops.add(ops.fmod(positions, extents), extents), extents)


@lowers("poptorch::dynamic_slice")
def dynamic_slice(
    call: Call, self: popxl.Tensor, dim: int, start: popxl.Tensor, size: int, step: int
) -> popxl.Tensor:
    """Elements at positions that are computed."""
    del call
    axis = dim % self.rank
    return ops.gather(self, _at(start, size, step, self.shape[axis]), axis)


@lowers("poptorch::dynamic_update")
def dynamic_update(
    call: Call, self: popxl.Tensor, src: popxl.Tensor, dim: int, start: popxl.Tensor, size: int
) -> popxl.Tensor:
    """A copy with a part replaced at a place that is computed."""
    del call
    position = cast(ops.reshape(start, (1,)), popxl.int32)
    return ops.dynamic_update(self, position, src, [dim % self.rank], [size], True)


@lowers("poptorch::ctc_beam_search_decoder")
def ctc_beam_search_decoder(
    call: Call,
    probs: popxl.Tensor,
    lengths: popxl.Tensor,
    blank: int,
    beam_width: int,
    top_paths: int,
) -> tuple[popxl.Tensor, ...]:
    """The most probable labels."""
    del call
    return ops.ctc_beam_search(probs, cast(lengths, popxl.int32), blank, beam_width, top_paths)


def _check_domain(given: str, library: _core.OpLibrary, domain: str, version: int) -> None:
    """Refuses an op of another domain than the one that its library names."""
    if library.domain and (library.domain, library.domain_version) != (domain, version):
        raise createPoptorchError(
            f"{given}: the library {library.path} has an op of that name, but of the domain "
            f"{library.domain} of version {library.domain_version}"
        )


@lowers("poptorch::custom_operation")
def custom_operation(
    call: Call,
    inputs: list[popxl.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    num_outputs: int,
    outputs: list[popxl.Tensor],
    attributes: str,
) -> tuple[popxl.Tensor, ...]:
    """An op of a library. The example outputs say what the program expects of it."""
    del num_outputs, outputs
    given = f"poptorch.custom_op '{name}' of {domain} {domain_version} at {call.node.location}"
    op = _core.find_library_op(name)
    if op is not None:
        _check_domain(given, op.defined_in, domain, domain_version)
    try:
        made = ops.custom(name, inputs, accessAttributes(attributes))
    except (TypeError, ValueError, _core.popart_exception) as error:
        raise createPoptorchError(f"{given}: {error}") from error
    wanted = [(tuple(t.shape), popxl_dtype(t.dtype)) for t in call.outputs]
    if [(t.shape, t.dtype) for t in made] != wanted:
        raise createPoptorchError(
            f"{given}: the example outputs have {[(list(s), d.name) for s, d in wanted]}, but the "
            f"op gives {[(list(t.shape), t.dtype.name) for t in made]}"
        )
    return made
