"""Recurrent layers over a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from popxl.context import create_op
from popxl.ops.binary import add
from popxl.ops.matmul import matmul
from popxl.ops.shape import concat, reshape, transpose
from popxl.ops.slicing import slice as slice_op
from popxl.ops.utils import check_inputs, outputs_of
from popxl.tensor_base import Tensor


class RecurrentWeights(NamedTuple):
    """The weights of one direction of one layer, as those of `torch.nn.LSTM`, `GRU` and `RNN`.

    With g = 4 for an LSTM (gates i, f, g, o), 3 for a GRU (r, z, n) and 1 for an RNN:

    Attributes:
        input: Those of the inputs, (g * hidden, features).
        hidden: Those of the state, (g * hidden, hidden).
        input_bias: (g * hidden,), or None for 0.
        hidden_bias: (g * hidden,), or None for 0.
    """

    input: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None


def _parts(t: Tensor, weights: RecurrentWeights, bias: Tensor | None) -> Tensor:
    """What the inputs add to the gates of all steps: one product."""
    steps, batch, features = t.shape
    rows = matmul(reshape(t, (steps * batch, features)), transpose(weights.input))
    if bias is not None:
        rows = add(rows, bias)
    return reshape(rows, (steps, batch, rows.shape[1]))


def _sum(*terms: Tensor | None) -> Tensor | None:
    given = [term for term in terms if term is not None]
    if len(given) < 2:
        return given[0] if given else None
    return add(given[0], given[1])


def _direction(
    cell: str, t: Tensor, weights: RecurrentWeights, first: Sequence[Tensor | None], reverse: bool
) -> tuple[Tensor, ...]:
    """All states of one direction of a layer; of an LSTM also all cell states."""
    given = {name: tensor for name, tensor in weights._asdict().items() if tensor is not None}
    check_inputs(t=t, **given)
    bias, hidden_bias = weights.input_bias, weights.hidden_bias
    if cell != "gru":
        # Only there the bias of the state stands inside of a product.
        bias, hidden_bias = _sum(bias, hidden_bias), None
    inputs = [_parts(t, weights, bias), weights.hidden, hidden_bias, *first]
    attributes: dict[str, object] = {"cell": cell, "reverse": reverse}
    names = {"lstm": ["states", "gates", "cells"], "gru": ["states", "gates"]}.get(cell, ["states"])
    op = create_op(
        "RecurrentSequence", inputs, attributes, names=names, settings_name="recurrent_sequence"
    )
    states, *rest = outputs_of(op)
    return (states, rest[1]) if cell == "lstm" else (states,)


def _row(t: Tensor | None, index: int) -> Tensor | None:
    if t is None:
        return None
    row = slice_op(t, start=index, stop=index + 1, axis=0)
    return reshape(row, t.shape[1:])


def _layers(
    cell: str,
    t: Tensor,
    weights: Iterable[RecurrentWeights],
    initial: Sequence[Tensor | None],
    bidirectional: bool,
) -> tuple[Tensor, list[Tensor]]:
    """The states of the last layer, and the last states (and cell states) of all."""
    check_inputs(t=t)
    name = "rnn" if cell in ("tanh", "relu") else cell
    if t.rank != 3:
        raise ValueError(f"{name}: wanted t of shape (steps, batch, features); given {t.shape}")
    all_weights = [RecurrentWeights(*each) for each in weights]
    directions = 2 if bidirectional else 1
    if not all_weights or len(all_weights) % directions:
        wanted = "two for each layer" if bidirectional else "one for each layer"
        raise ValueError(f"{name}: wanted weights, {wanted}; given {len(all_weights)}")
    for states in initial:
        if states is None:
            continue
        check_inputs(initial=states)
        if states.rank != 3 or states.shape[0] != len(all_weights):
            raise ValueError(
                f"{name}: wanted initial states of shape ({len(all_weights)}, batch, hidden); "
                f"given {states.shape}"
            )
    last: list[list[Tensor]] = [[] for _ in initial]
    for layer in range(0, len(all_weights), directions):
        sides = []
        for direction in range(directions):
            index = layer + direction
            first = [_row(states, index) for states in initial]
            result = _direction(cell, t, all_weights[index], first, direction == 1)
            sides.append(result[0])
            end = 0 if direction == 1 else t.shape[0] - 1
            for states, ends in zip(result, last, strict=True):
                ends.append(slice_op(states, start=end, stop=end + 1, axis=0))
        t = sides[0] if directions == 1 else concat(sides, axis=2)
    return t, [ends[0] if len(ends) == 1 else concat(ends, axis=0) for ends in last]


def lstm(
    t: Tensor,
    weights: Iterable[RecurrentWeights],
    initial_state: Tensor | None = None,
    initial_cell_state: Tensor | None = None,
    bidirectional: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a long short-term memory over a sequence, with the formulas of `torch.nn.LSTM`.

    Args:
        t: The inputs (steps, batch, features); float32, or half precision (computed in float32).
        weights: Those of each layer, from the first one on; with `bidirectional` two for each
            layer, the forward direction first. A second layer's features are the states of the
            first one (twice as many with `bidirectional`).
        initial_state: The states before the first step (weights, batch, hidden); None: 0.
        initial_cell_state: The cell states before the first step, of that shape; None: 0.
        bidirectional: Whether each layer also runs from the last step to the first.

    Returns:
        The states of the last layer (steps, batch, hidden; twice hidden with `bidirectional`), the
        last states of all layers and directions (weights, batch, hidden), and their cell states.

    Raises:
        TypeError: An argument is not a tensor.
        ValueError: A tensor is not in the current graph; `t` or an initial state has a wrong
            shape; there are no weights, or an odd number for two directions.
        popart_exception: Shapes of weights, states and inputs do not fit.
    """
    initial = (initial_state, initial_cell_state)
    states, (last, cells) = _layers("lstm", t, weights, initial, bidirectional)
    return states, last, cells


def gru(
    t: Tensor,
    weights: Iterable[RecurrentWeights],
    initial_state: Tensor | None = None,
    bidirectional: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run gated recurrent units over a sequence, with the formulas of `torch.nn.GRU`.

    Args:
        t: The inputs (steps, batch, features); float32, or half precision (computed in float32).
        weights: Those of each layer, as for `lstm`.
        initial_state: The states before the first step (weights, batch, hidden); None: 0.
        bidirectional: Whether each layer also runs from the last step to the first.

    Returns:
        The states of the last layer (steps, batch, hidden; twice hidden with `bidirectional`) and
        the last states of all layers and directions (weights, batch, hidden).

    Raises:
        TypeError: An argument is not a tensor.
        ValueError: A tensor is not in the current graph; `t` or an initial state has a wrong
            shape; there are no weights, or an odd number for two directions.
        popart_exception: Shapes of weights, states and inputs do not fit.
    """
    states, (last,) = _layers("gru", t, weights, (initial_state,), bidirectional)
    return states, last


def rnn(
    t: Tensor,
    weights: Iterable[RecurrentWeights],
    initial_state: Tensor | None = None,
    bidirectional: bool = False,
    nonlinearity: str = "tanh",
) -> tuple[Tensor, Tensor]:
    """Run a plain recurrent network over a sequence, with the formulas of `torch.nn.RNN`.

    Args:
        t: The inputs (steps, batch, features); float32, or half precision (computed in float32).
        weights: Those of each layer, as for `lstm`.
        initial_state: The states before the first step (weights, batch, hidden); None: 0.
        bidirectional: Whether each layer also runs from the last step to the first.
        nonlinearity: What is applied to the sums: "tanh" or "relu".

    Returns:
        The states of the last layer (steps, batch, hidden; twice hidden with `bidirectional`) and
        the last states of all layers and directions (weights, batch, hidden).

    Raises:
        TypeError: An argument is not a tensor.
        ValueError: A tensor is not in the current graph; `t` or an initial state has a wrong
            shape; there are no weights, or an odd number for two directions; there is no such
            nonlinearity.
        popart_exception: Shapes of weights, states and inputs do not fit.
    """
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn: wanted the nonlinearity tanh or relu; given {nonlinearity!r}")
    states, (last,) = _layers(nonlinearity, t, weights, (initial_state,), bidirectional)
    return states, last
