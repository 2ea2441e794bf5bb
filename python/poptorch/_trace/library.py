"""The operators of `torch.ops.poptorch`: their schemas and what they compute outside a trace.

Each is a composite of differentiable functions of torch, so that it has a gradient on the CPU and
a `requires_grad` on meta tensors. On meta tensors, which a trace uses, every result is a tensor of
its own, because none of the schemas declares an alias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from poptorch._impl import createPoptorchError
from poptorch._trace.points import farthest_points, nearest_points, nearest_points_of_lists

Tensors = Sequence[torch.Tensor]

# The dtypes of `internal_cast` by their names in its schema.
CAST_DTYPES = {"FLOAT": torch.float32, "FLOAT16": torch.float16}
# What `identity_loss` does, by the number in its schema.
LOSS_REDUCTIONS = ("sum", "mean", "none")


def _own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.is_meta else tensor


def _own_all(tensors: Tensors) -> list[torch.Tensor]:
    return [_own(tensor) for tensor in tensors]


def _nothing(*_: object) -> None:
    """A mark in the order of ops, which only a trace records."""


def _identity(tensor: torch.Tensor, *_: object) -> torch.Tensor:
    return _own(tensor)


def _identities(tensors: Tensors, *_: object) -> list[torch.Tensor]:
    return _own_all(tensors)


def _internal_cast(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype not in CAST_DTYPES:
        raise createPoptorchError(
            f"internal_cast: wanted one of {list(CAST_DTYPES)}; given {dtype!r}"
        )
    return tensor.to(CAST_DTYPES[dtype], copy=True) if tensor.is_meta else tensor


def _identity_loss(x: torch.Tensor, reduction: int) -> torch.Tensor:
    if not 0 <= reduction < len(LOSS_REDUCTIONS):
        raise createPoptorchError(
            f"reduction must be sum (0), mean (1) or none (2); given {reduction}"
        )
    kind = LOSS_REDUCTIONS[reduction]
    return x.clone() if kind == "none" else x.sum() if kind == "sum" else x.mean()


def _check_start(start: torch.Tensor) -> None:
    if start.dtype.is_floating_point or start.dtype.is_complex or start.dtype == torch.bool:
        raise createPoptorchError(f"Expected integer typed start tensor; given {start.dtype}")
    if start.numel() != 1:
        raise createPoptorchError(
            f"Expected a start tensor of one element; given the shape {list(start.shape)}"
        )


def _check_slice(size: int, step: int, extent: int) -> None:
    if size == 0:
        raise createPoptorchError("The start and end of a slice must be different.")
    if size < 0:
        raise createPoptorchError(
            "Taking a slice of a tensor with the end less than the start is not supported."
        )
    if step < 1:
        raise createPoptorchError(f"The step of a slice must be at least 1; given {step}")
    if extent % size:
        raise createPoptorchError(
            f"The size of the slice ({size}) must be a factor of the slicing dimension ({extent})."
        )


def _dynamic_slice(
    tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int
) -> torch.Tensor:
    _check_start(start)
    if tensor.is_meta:
        _check_slice(size, step, tensor.shape[dim])
        return torch.ops.aten.slice(tensor, dim, 0, size, step).clone()
    first = int(start)
    return torch.ops.aten.slice(tensor, dim, first, first + size, step)


def _dynamic_update(
    tensor: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    _check_start(start)
    if tensor.dim() != src.dim():
        raise createPoptorchError(
            "input and src tensors must have same dimensionality. "
            f"({tensor.dim()}) vs ({src.dim()})"
        )
    if tensor.dtype != src.dtype:
        raise createPoptorchError(
            f"input and src tensor must have same dtype. ({tensor.dtype} vs {src.dtype})"
        )
    first = 0 if tensor.is_meta else int(start)
    return torch.slice_scatter(tensor, src, dim, first, first + size)


def _custom_operation(
    inputs: Tensors,
    name: str,
    domain: str,
    domain_version: int,
    num_outputs: int,
    outputs: Tensors,
    attributes: str,
) -> list[torch.Tensor]:
    """The example outputs; in a trace they need a gradient where an input needs one."""
    if not any(tensor.is_meta for tensor in (*inputs, *outputs)):
        return list(outputs)
    return [
        _needing(torch.empty_like(output.detach(), device="meta"), inputs) for output in outputs
    ]


def _needing(result: torch.Tensor, inputs: Tensors) -> torch.Tensor:
    """A meta tensor that needs a gradient where an input does."""
    needing = [tensor.to("meta").sum().float() for tensor in inputs if tensor.requires_grad]
    if not needing or not result.is_floating_point():
        return result
    # On meta tensors a sum is only what makes the result depend on them.
    return result + torch.stack(needing).sum().to(result.dtype)


def _function_results(
    inputs: Tensors,
    results: Tensors,
    _gradients: Tensors,
    differentiable: Sequence[bool],
    _name: str,
) -> list[torch.Tensor]:
    """The results of a function with a gradient of its own, which its inputs get."""
    return [
        _needing(result.detach().clone(), inputs) if is_differentiable else result.detach().clone()
        for result, is_differentiable in zip(results, differentiable, strict=True)
    ]


def _ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int, beam_width: int, top_paths: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Zeros of the shapes of the results, which only a compiled program computes."""
    if probs.dim() != 3:
        raise createPoptorchError(
            "Incorrect shape for first input to CTC beam search decoder. "
            f"Wanted (steps, batch, classes); given {list(probs.shape)}"
        )
    steps, batch, classes = probs.shape
    if tuple(lengths.shape) != (batch,):
        raise createPoptorchError(
            "Incorrect shape for second input to CTC beam search decoder. "
            f"Wanted ({batch},); given {list(lengths.shape)}"
        )
    if not 1 <= top_paths <= beam_width:
        raise createPoptorchError(
            "ctc_beam_search_decoder: wanted a top_paths of at least 1 and at most beam_width, "
            f"{beam_width}; given {top_paths}"
        )
    if not 0 <= blank < classes:
        raise createPoptorchError(
            f"ctc_beam_search_decoder: wanted a blank among {classes} classes; given {blank}"
        )
    detached = probs.detach()
    return (
        detached.new_zeros((batch, top_paths)),
        detached.new_zeros((batch, top_paths), dtype=torch.int32),
        detached.new_zeros((batch, top_paths, steps), dtype=torch.int32),
    )


_OPERATORS: dict[str, Callable[..., Any]] = {
    "begin_ipu_block(int stage_id, int phase_id, int ipu_id) -> ()": _nothing,
    "end_ipu_block() -> ()": _nothing,
    "start_for_loop(Tensor[] inputs) -> ()": _nothing,
    "end_for_loop(Tensor[] outputs, Tensor[] inputs, int trip_count) -> Tensor[]": _identities,
    "start_if_block(Tensor condition) -> ()": _nothing,
    "start_else_block(Tensor[] outputs_true) -> ()": _nothing,
    "end_if_block(Tensor[] outputs, Tensor condition) -> Tensor[]": _identities,
    "begin_function() -> ()": _nothing,
    "begin_backward(Tensor[] results, Tensor[] gradients) -> ()": _nothing,
    "end_function(Tensor[] inputs, Tensor[] results, Tensor[] input_gradients,"
    " bool[] differentiable, str name) -> Tensor[]": _function_results,
    "optimizer_group(int group, Tensor[] inputs) -> ()": _nothing,
    "begin_multi_conv() -> ()": _nothing,
    "end_multi_conv(float[]? available_memory_proportions, int[]? partials_types, int? plan_type,"
    " int? per_conv_reserved_tiles, float? cycle_back_off, int[]? enableConvDithering)"
    " -> ()": _nothing,
    "push_name_scope(str name) -> ()": _nothing,
    "pop_name_scope() -> ()": _nothing,
    "set_attribute(str attribute, str key, str value) -> ()": _nothing,
    "clear_attribute(str attribute, str key) -> ()": _nothing,
    "ipu_print_tensor(Tensor self, str title, int print_gradient, int summarize_threshold,"
    " int edge_items, int max_line_width, int digits, int float_format, str separator,"
    " str open_bracket, str close_bracket) -> Tensor": _identity,
    "nop(Tensor self) -> Tensor": _identity,
    "set_matmul_serialization(Tensor matmul, str mode, int factor, bool keep_precision)"
    " -> Tensor": _identity,
    "set_overlap_for_input(Tensor t, str mode) -> Tensor": _identity,
    "set_overlap_for_output(Tensor t, str mode) -> Tensor": _identity,
    "recomputation_checkpoint(Tensor self) -> Tensor": _identity,
    "set_available_memory(Tensor t, float mem) -> Tensor": _identity,
    "custom_operation(Tensor[] inputs, str name, str domain, int domain_version, int num_outputs,"
    " Tensor[] outputs, str attributes) -> Tensor[]": _custom_operation,
    "ctc_beam_search_decoder(Tensor probs, Tensor lengths, int blank, int beam_width,"
    " int top_paths) -> (Tensor, Tensor, Tensor)": _ctc_beam_search_decoder,
    "dynamic_slice(Tensor self, int dim, Tensor start, int size, int step)"
    " -> Tensor": _dynamic_slice,
    "dynamic_update(Tensor self, Tensor src, int dim, Tensor start, int size)"
    " -> Tensor": _dynamic_update,
    "identity_loss(Tensor x, int reduction) -> Tensor": _identity_loss,
    "internal_cast(Tensor self, str dtype) -> Tensor": _internal_cast,
    "call_cpu_op(Tensor[] inputs, str name) -> ()": _nothing,
    "end_cpu_op(Tensor[] output) -> Tensor[]": _identities,
    "fps(Tensor src, int[] ptr, float ratio, bool random_start) -> Tensor": farthest_points,
    "nearest(Tensor x, Tensor y, Tensor batch_x, Tensor batch_y) -> Tensor": nearest_points,
    "nearest_batch_list(Tensor x, Tensor y, int[] batch_x, int[] batch_y)"
    " -> Tensor": nearest_points_of_lists,
}


def _make_library() -> torch.library.Library:
    library = torch.library.Library("poptorch", "DEF")  # type: ignore[no-untyped-call]
    for schema, function in _OPERATORS.items():
        library.define(schema)  # type: ignore[no-untyped-call]
        name = schema.partition("(")[0]
        library.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
    return library


# Its operators exist for as long as it does.
LIBRARY = _make_library()
