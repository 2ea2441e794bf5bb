"""The text form of a graph's schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import popxl
from popxl_addons.named_tensors import NamedTensors


class _Numbering:
    """Numbers tensors from 1 in the order in which they are first written."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, tensor_id: str) -> str:
        """The number of a tensor, a new one for a new tensor.

        Args:
            tensor_id: The tensor.

        Returns:
            Such as `%1`.
        """
        return f"%{self._numbers.setdefault(tensor_id, len(self._numbers) + 1)}"

    def described(self, tensors: Iterable[Any]) -> str:
        """Numbers, shapes and dtypes.

        Args:
            tensors: Internal tensors.

        Returns:
            Such as `%1 [(2, 2) float32]`, separated by commas.
        """
        return ", ".join(
            f"{self.number(t.id)} [{tuple(t.info.shape())} {t.info.data_type_lcase()}]"
            for t in tensors
        )


def _op_line(op: Any, numbering: _Numbering) -> str:
    callee = f"({op.getCalledGraph().id.str()})" if hasattr(op, "getCalledGraph") else ""
    inputs = numbering.described(op.getInputTensors())
    outputs = numbering.described(op.getOutputTensors())
    return f"    {op.opType()}.{op.id}{callee} ({inputs}) -> ({outputs})"


def schedule_text(graph: popxl.Graph, args: NamedTensors) -> str:
    """The ops of a graph as text.

    Args:
        graph: The graph.
        args: Names of some of its inputs.

    Returns:
        Several lines: the graph's name, its inputs and outputs, then one op each in schedule order.
        Tensors are numbered in the order in which they appear.
    """
    names = {tensor.id: key for key, tensor in args.to_dict().items()}
    numbering = _Numbering()
    inputs = ", ".join(
        f"{names[t.id]}={numbering.number(t.id)}" if t.id in names else numbering.number(t.id)
        for t in graph.inputs
    )
    lines = [_op_line(op, numbering) for op in graph._pb_graph.getOpSchedule(True)]
    outputs = ", ".join(numbering.number(t.id) for t in graph.outputs)
    body = "\n".join(lines) or "    "
    return f"Graph : {graph.name}\n  ({inputs}) -> ({outputs}) {{\n{body}\n  }}"
