"""Transfers between the program and remote buffers."""

from __future__ import annotations

from popxl import dtypes
from popxl.context import create_op
from popxl.ops.init import init
from popxl.ops.utils import check_in_ir, check_inputs, make
from popxl.remote_buffer import RemoteBuffer
from popxl.tensor import Tensor, constant


def _offset(offset: int | Tensor) -> Tensor:
    if isinstance(offset, Tensor):
        check_inputs(offset=offset)
        return offset
    return constant(offset, dtypes.uint32, "offset")


def _attributes(remote_buffer: RemoteBuffer) -> dict[str, object]:
    return {"buffer": remote_buffer.remote_buffer_id}


def remote_load(
    remote_buffer: RemoteBuffer, offset: int | Tensor, name: str | None = None
) -> Tensor:
    """A copy of slot `offset`."""
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
    """Slot `offset`, written to `t`."""
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
    """Writes a tensor to slot `offset`."""
    check_inputs(t=t)
    check_in_ir(str(remote_buffer), remote_buffer._ir)
    remote_buffer.validate_tensor_matches_buffer(t)
    create_op(
        "RemoteStore",
        [t, _offset(offset)],
        _attributes(remote_buffer),
        settings_name="remote_store",
    )
