"""Transfers between the program and streams of the host."""

from __future__ import annotations

from popxl.context import create_op
from popxl.ops.init import init
from popxl.ops.utils import check_in_ir, check_inputs, make
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor_base import Tensor


def host_load(h2d_stream: HostToDeviceStream, name: str | None = None) -> Tensor:
    """Read the next element of a stream from the host.

    All loads of a stream share one place in its array, which each run begins at the start. There is
    no gradient.

    Args:
        h2d_stream: The stream, of the Ir of the current graph.
        name: What the names of the new tensors begin with. None: the name of the stream.

    Returns:
        A new tensor with the shape and dtype of the stream.

    Raises:
        RuntimeError: The stream is of another Ir.
    """
    check_in_ir(str(h2d_stream), h2d_stream.ir)
    stream_name = name or h2d_stream._stream_tensor.name
    target = init(h2d_stream.shape, h2d_stream.dtype, f"{stream_name}_init", "undef")
    attributes: dict[str, object] = {"stream": h2d_stream.tensor_id}
    return make(
        "HostLoad", [target], attributes, name=f"{stream_name}_hostload", settings="host_load"
    )


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Append a tensor to a stream to the host.

    Args:
        d2h_stream: The stream, of the Ir of the current graph.
        t: The tensor, of the shape and dtype of the stream; not a shard.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; `t` has another shape or dtype than the stream.
        RuntimeError: The stream is of another Ir.
        popart_exception: `t` has a meta shape: it is a shard.
    """
    check_inputs(t=t)
    check_in_ir(str(d2h_stream), d2h_stream.ir)
    if d2h_stream.dtype != t.dtype:
        raise ValueError(
            f"dtype of stream {d2h_stream.tensor_id} `{d2h_stream.dtype}` does not match dtype of "
            f"provided tensor `{t.dtype}`"
        )
    if d2h_stream.shape != t.shape:
        raise ValueError(
            f"shape of stream {d2h_stream.tensor_id} `{d2h_stream.shape}` does not match shape of "
            f"provided tensor `{t.shape}`"
        )
    attributes: dict[str, object] = {"stream": d2h_stream.tensor_id}
    create_op("HostStore", [t], attributes, settings_name="host_store")
