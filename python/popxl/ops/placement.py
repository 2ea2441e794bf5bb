"""Moves between virtual devices and tile sets, and of code."""

from __future__ import annotations

from popxl.context import create_op, get_current_graph
from popxl.errors import UndefinedValue
from popxl.graph import Graph
from popxl.ops.utils import check_inputs, make
from popxl.tensor_base import Tensor

_DESTINATIONS = ("executable", "compute_buffer", "io_buffer")


def ipu_copy(t: Tensor, destination: int, source: int | None = None) -> Tensor:
    """Copy a tensor to a virtual device. There is no gradient.

    Args:
        t: The tensor, of any dtype.
        destination: The number of the virtual device to copy to.
        source: The number of the virtual device of `t`. None: `t.ipu`.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph; `source` is None and nothing tells the device
            of `t`.
    """
    check_inputs(t=t)
    if source is None:
        try:
            source = t.ipu
        except UndefinedValue as error:
            raise ValueError(
                f'Could not infer the ipu for Tensor to be copied "{t}" . Please specify `source` '
                "when copying."
            ) from error
    attributes: dict[str, object] = {"source": int(source), "destination": int(destination)}
    name = f"{t.name}_c{destination}"
    return make("DeviceCopy", [t], attributes, name=name, settings="ipu_copy")


def io_tile_copy(t: Tensor) -> Tensor:
    """Copy a tensor to the other tile set: from `compute` to `io` or back. There is no gradient.

    Args:
        t: The tensor, of any dtype.

    Returns:
        A new tensor with the shape and dtype of `t`.

    Raises:
        TypeError: `t` is not a tensor.
        ValueError: `t` is not in the current graph.
    """
    check_inputs(t=t)
    return make("IoTileCopy", [t], name=f"{t.name}_iotilecopy", settings="io_tile_copy")


def remote_code_load(graph: Graph, destination: str) -> None:
    """Ask for the code of a graph in executable memory, where it always is.

    Args:
        graph: The graph, not the current one.
        destination: Only `executable` is supported.

    Raises:
        NotImplementedError: The destination is another one.
        ValueError: `graph` is the current graph.
    """
    if destination not in _DESTINATIONS:
        raise NotImplementedError(
            f"remote_code_load: destination {destination!r} is not supported: wanted 'executable'"
        )
    current = get_current_graph()
    if graph == current:
        raise ValueError(
            "The remote_code_load op cannot load the code for the graph it resides in "
            f"({graph.id})."
        )
    attributes: dict[str, object] = {"graph": graph.id, "destination": destination}
    create_op("RemoteCodeLoad", [], attributes, settings_name="remote_code_load")
