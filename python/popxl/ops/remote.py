"""Transfers between the program and remote buffers."""

from __future__ import annotations

from popxl import dtypes
from popxl.constants import constant
from popxl.context import create_op
from popxl.ops.init import init
from popxl.ops.utils import check_in_ir, check_inputs, make
from popxl.remote_buffer import RemoteBuffer
from popxl.tensor_base import Tensor


def _offset(offset: int | Tensor) -> Tensor:
    if isinstance(offset, Tensor):
        check_inputs(offset=offset)
        return offset
    if not 0 <= offset < 2**32:
        raise ValueError(f"offset: wanted a slot from 0 to 2^32 - 1 or a tensor; given {offset}")
    return constant(offset, dtypes.uint32, "offset")


def _attributes(remote_buffer: RemoteBuffer) -> dict[str, object]:
    return {"buffer": remote_buffer.remote_buffer_id}


def remote_load(
    remote_buffer: RemoteBuffer, offset: int | Tensor, name: str | None = None
) -> Tensor:
    """Copy a slot of a remote buffer.

    Loads and stores of one buffer run in no fixed order, unless data or `in_sequence` gives one.
    There is no gradient.

    Args:
        remote_buffer: The buffer, of the Ir of the current graph.
        offset: The slot: an int, which becomes a uint32 constant, or an int32 or uint32 tensor of
            one element.
        name: What the names of the new tensors begin with. None: a name made of the buffer's id and
            the offset.

    Returns:
        A new tensor with the shape, dtype and meta shape of the buffer's slots.

    Raises:
        RuntimeError: The buffer is of another Ir.
        ValueError: `offset` is a tensor of another graph.
        popart_exception: The offset does not have one element; it is of another dtype, found when a
            session is made.
    """
    check_in_ir(str(remote_buffer), remote_buffer._ir)
    slot = _offset(offset)
    base = name or f"id_{remote_buffer.remote_buffer_id}_offset_{slot.name}"
    target = init(
        remote_buffer.tensor_shape,
        remote_buffer.tensor_dtype,
        f"{base}_remote_load",
        "undef",
        remote_buffer.meta_shape,
    )
    return make(
        "RemoteLoad",
        [target, slot],
        _attributes(remote_buffer),
        name=f"{base}_remote_loaded",
        settings="remote_load",
    )


def remote_load_(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> Tensor:
    """Read a slot of a remote buffer into a tensor in place.

    Args:
        remote_buffer: The buffer, of the Ir of the current graph.
        offset: The slot: an int, which becomes a uint32 constant, or an int32 or uint32 tensor of
            one element.
        t: The tensor to overwrite, of the shape and dtype of a slot. It gets the buffer's meta
            shape.

    Returns:
        An alias of `t`, which then holds the result.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; `t` does not have the shape and dtype of a slot.
        RuntimeError: The buffer is of another Ir.
        popart_exception: The offset does not have one element; it is of another dtype, found when a
            session is made.
    """
    check_inputs(t=t)
    check_in_ir(str(remote_buffer), remote_buffer._ir)
    remote_buffer.validate_tensor_matches_buffer(t)
    result = make(
        "RemoteLoadInplace",
        [t, _offset(offset)],
        _attributes(remote_buffer),
        name="remote_load_inplace_out",
        settings="remote_load_",
    )
    t._pb.meta_shape = list(remote_buffer.meta_shape)
    return result


def remote_store(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> None:
    """Write a tensor to a slot of a remote buffer.

    Loads and stores of one buffer run in no fixed order, unless data or `in_sequence` gives one.

    Args:
        remote_buffer: The buffer, of the Ir of the current graph.
        offset: The slot: an int, which becomes a uint32 constant, or an int32 or uint32 tensor of
            one element.
        t: The tensor, of the shape and dtype of a slot.

    Raises:
        TypeError: An argument that must be a tensor is not one.
        ValueError: A tensor is not in the current graph, or the tensors are on different devices or
            tile sets; `t` does not have the shape and dtype of a slot.
        RuntimeError: The buffer is of another Ir.
        popart_exception: The offset does not have one element; it is of another dtype, found when a
            session is made.
    """
    check_inputs(t=t)
    check_in_ir(str(remote_buffer), remote_buffer._ir)
    remote_buffer.validate_tensor_matches_buffer(t)
    create_op(
        "RemoteStore",
        [t, _offset(offset)],
        _attributes(remote_buffer),
        settings_name="remote_store",
    )
