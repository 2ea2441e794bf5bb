"""Lowerings of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import popxl
from poptorch._impl import createPoptorchError
from poptorch._lower.lowering import Call, cast
from poptorch._lower.ops_shape import take_range
from poptorch._lower.registry import lowers
from popxl import ops
from popxl.ops.recurrent import RecurrentWeights

Tensors = Sequence[popxl.Tensor]


@dataclass
class _Layers:
    """What recurrent layers are made of, as torch gives it."""

    call: Call
    params: Tensors
    has_biases: bool
    num_layers: int
    dropout: float
    bidirectional: bool

    def weights(self, layer: int) -> list[RecurrentWeights]:
        """Those of each direction of a layer."""
        each = 4 if self.has_biases else 2
        directions = 2 if self.bidirectional else 1
        start = layer * directions * each
        groups = [self.params[start + d * each :][:each] for d in range(directions)]
        dtype = self.call.dtype
        return [RecurrentWeights(*(cast(w, dtype) for w in group)) for group in groups]

    def check(self) -> None:
        """Raise for layers that project their states."""
        directions = 2 if self.bidirectional else 1
        each = len(self.params) // (self.num_layers * directions)
        if each not in (2, 4) or each != (4 if self.has_biases else 2):
            raise createPoptorchError(
                f"{self.call.node.name} at {self.call.node.location}: proj_size is not supported; "
                "put a Linear layer behind the recurrent one"
            )

    def states(self, first: popxl.Tensor, layer: int) -> popxl.Tensor:
        """The states before the first step of a layer."""
        directions = 2 if self.bidirectional else 1
        return take_range(first, 0, layer * directions, (layer + 1) * directions)

    def dropped(self, t: popxl.Tensor, layer: int) -> popxl.Tensor:
        """What the next layer sees of the states of one."""
        if layer == self.num_layers - 1 or self.dropout == 0:
            return t
        if self.dropout == 1:
            return ops.mul(t, popxl.constant(0, t.dtype))
        return ops.dropout(t, self.call.seed(), self.dropout)


def _check_padded(call: Call) -> None:
    if call.node.overload != "input":
        raise createPoptorchError(
            f"{call.node.name} at {call.node.location}: packed sequences are not supported; pass "
            "padded tensors"
        )


def _joined(parts: Sequence[popxl.Tensor]) -> popxl.Tensor:
    return parts[0] if len(parts) == 1 else ops.concat(list(parts), 0)


def _steps_first(t: popxl.Tensor, batch_first: bool) -> popxl.Tensor:
    return ops.transpose(t, [1, 0, 2]) if batch_first else t


@lowers("aten::lstm")
def lstm(
    call: Call,
    hx: Tensors,
    params: Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    input: popxl.Tensor | None = None,
    batch_first: bool = False,
    **_packed: popxl.Tensor,
) -> tuple[popxl.Tensor, popxl.Tensor, popxl.Tensor]:
    """Long short-term memory, one op for each direction of each layer."""
    _check_padded(call)
    assert input is not None
    layers = _Layers(call, params, has_biases, num_layers, dropout if train else 0.0, bidirectional)
    layers.check()
    t = _steps_first(cast(input, call.dtype), batch_first)
    first, first_cells = (cast(state, call.dtype) for state in hx)
    last, last_cells = [], []
    for layer in range(num_layers):
        t, end, cells = ops.lstm(
            t,
            layers.weights(layer),
            layers.states(first, layer),
            layers.states(first_cells, layer),
            bidirectional,
        )
        last.append(end)
        last_cells.append(cells)
        t = layers.dropped(t, layer)
    return _steps_first(t, batch_first), _joined(last), _joined(last_cells)


@lowers("aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
def simple(
    call: Call,
    hx: popxl.Tensor,
    params: Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    input: popxl.Tensor | None = None,
    batch_first: bool = False,
    **_packed: popxl.Tensor,
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Gated recurrent units and plain recurrent networks."""
    _check_padded(call)
    assert input is not None
    layers = _Layers(call, params, has_biases, num_layers, dropout if train else 0.0, bidirectional)
    layers.check()
    t = _steps_first(cast(input, call.dtype), batch_first)
    first = cast(hx, call.dtype)
    last = []
    for layer in range(num_layers):
        weights, states = layers.weights(layer), layers.states(first, layer)
        if call.node.name == "aten::gru":
            t, end = ops.gru(t, weights, states, bidirectional)
        else:
            cell = call.node.name.removeprefix("aten::rnn_")
            t, end = ops.rnn(t, weights, states, bidirectional, cell)
        last.append(end)
        t = layers.dropped(t, layer)
    return _steps_first(t, batch_first), _joined(last)
