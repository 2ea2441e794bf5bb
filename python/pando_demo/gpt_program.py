"""The program that trains the decoder of gpt_network, phased over its layers.

It keeps weights and optimizer state in remote buffers, one row per layer, and has in
memory only what a phase needs:

    embedding forward, layer 0, 1, ... forward, head forward and backward and update,
    layer ..., 1, 0 backward and update, embedding backward and update

Each phase loads its weights once and loops over the micro-batches. A backward phase computes the
forward pass of its layer again, from the layer's input, which is all that is kept of it. One graph
serves all layers; it is called with the row.

In reports the phases of one kind are one: `embedding_forward`, `layers_forward`, `head`,
`layers_backward`, `embedding_backward`; all of an evaluation is `evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import popxl
import popxl_addons as addons
from pando_demo.gpt_network import Block, Embedding, GptShape, Head, HeadLoss
from popxl import ops
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.transforms.batch_serialisation import batch_serial_buffer, batch_serialise
from popxl_addons.variable_factory import NamedVariableFactories

BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8

EVALUATION = "evaluation"


def adam_scalars(step: int, learning_rate: float) -> tuple[float, float]:
    """Step size and epsilon that correct the moments for having begun at zero.

    lr (m / c1) / (sqrt(v / c2) + eps) = (lr sqrt(c2) / c1) m / (sqrt(v) + eps sqrt(c2)), with c = 1
    - beta^step.

    Args:
        step: The update, from 1.
        learning_rate: Its rate.

    Returns:
        lr sqrt(c2) / c1 and eps sqrt(c2).
    """
    root = float(np.sqrt(1 - BETA2**step))
    return learning_rate * root / (1 - BETA1**step), EPSILON * root


class Adam(addons.Module):
    """One Adam update of one variable, its moments in float32."""

    @popxl.in_sequence()
    def build(
        self,
        weight: popxl.TensorByRef,
        grad: popxl.Tensor,
        step_size: popxl.Tensor,
        epsilon: popxl.Tensor,
    ) -> None:
        """Updates the variable.

        Args:
            weight: The variable, changed in place.
            grad: Its gradient, of the same shape.
            step_size: The first scalar of `adam_scalars`.
            epsilon: The second one.
        """
        zeros = partial(np.broadcast_to, np.float32(0), weight.shape)
        first = self.add_variable_input("moment1", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_(first, grad, f=BETA1)
        second = self.add_variable_input("moment2", zeros, popxl.float32, by_ref=True)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=BETA2)
        move = ops.var_updates.adam_updater(first, second, epsilon=epsilon)
        ops.scaled_add_(weight, move, b=-step_size)


class _Backward(addons.Module):
    """The gradients of a module, which is computed again, averaged in accumulators.

    Variables `fwd` and accumulators `bwd`.

    Args:
        forward: The module.
    """

    def __init__(self, forward: addons.Module) -> None:
        super().__init__()
        # Not the module itself: its variables are registered as `fwd`, not under its name.
        self._create_forward = forward.create_graph

    def recompute(
        self, x: popxl.Tensor, wants_dx: bool = True
    ) -> tuple[popxl.Tensor, Callable[[popxl.Tensor], tuple[popxl.Tensor, ...]]]:
        """Calls the forward graph.

        Args:
            x: Its input.
            wants_dx: Whether the gradient of `x` is needed.

        Returns:
            Its output, and what takes the gradient of that back to the gradient of `x`.
        """
        factories, graph = self._create_forward(x)
        # Before the call: the transform gives the forward graph more outputs.
        accumulators, gradient = addons.autodiff_with_accumulation(
            graph, graph.args.tensors, grads_required=graph.graph.inputs[:1] if wants_dx else ()
        )
        variables = self.add_variable_inputs("fwd", factories)
        call = graph.bind(variables).call_with_info(x)

        def backward(dy: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
            bound = gradient.bind(self.add_variable_inputs("bwd", accumulators))
            return bound.call(dy, args=gradient.grad_graph_info.inputs_dict(call))

        return call.outputs[0], backward


class BlockBackward(_Backward):
    """The gradient of a block."""

    def build(self, x: popxl.Tensor, dy: popxl.Tensor) -> popxl.Tensor:
        """Runs the block again and takes its gradient back.

        Args:
            x: The input of the block.
            dy: The gradient of its output.

        Returns:
            The gradient of `x`.
        """
        _, backward = self.recompute(x)
        (dx,) = backward(dy)
        return dx


class EmbeddingBackward(_Backward):
    """The gradient of the embedding, which has nothing but accumulators."""

    def build(self, tokens: popxl.Tensor, dy: popxl.Tensor) -> None:
        """Runs the embedding again and takes its gradient back.

        Args:
            tokens: Its input.
            dy: The gradient of its output.
        """
        _, backward = self.recompute(tokens, wants_dx=False)
        backward(dy)


class HeadBackward(_Backward):
    """Head, loss and their gradient."""

    def build(self, x: popxl.Tensor, labels: popxl.Tensor) -> tuple[popxl.Tensor, popxl.Tensor]:
        """Gives the loss and its gradient.

        Args:
            x: The input of the head.
            labels: The tokens that come next.

        Returns:
            The loss, and the gradient of `x`.
        """
        scores, backward = self.recompute(x)
        loss, dy = addons.ops.cross_entropy_with_grad(scores, labels.reshape((-1,)))
        (dx,) = backward(dy)
        return loss, dx


@dataclass(frozen=True)
class GptStreams:
    """What a run takes and gives: a first axis of micro-batches, if there are several.

    Attributes:
        tokens: int32 (batch, sequence).
        tokens_again: The same, for the backward pass: a stream gives each micro-batch once.
        labels: int32 (batch, sequence).
        train: bool scalar; whether variables are updated.
        step_size: float32 scalar.
        epsilon: float32 scalar.
        loss: float32 scalar.
    """

    tokens: popxl.HostToDeviceStream
    tokens_again: popxl.HostToDeviceStream
    labels: popxl.HostToDeviceStream
    train: popxl.HostToDeviceStream
    step_size: popxl.HostToDeviceStream
    epsilon: popxl.HostToDeviceStream
    loss: popxl.DeviceToHostStream

    @classmethod
    def of(cls, shape: GptShape, micro_batch: int) -> GptStreams:
        """Makes the streams in the current Ir.

        Args:
            shape: The sizes of the decoder.
            micro_batch: Sequences in a micro-batch.

        Returns:
            The streams.
        """
        batch = (micro_batch, shape.sequence)
        return cls(
            popxl.h2d_stream(batch, popxl.int32, "tokens"),
            popxl.h2d_stream(batch, popxl.int32, "tokens_again"),
            popxl.h2d_stream(batch, popxl.int32, "labels"),
            popxl.h2d_stream((), popxl.bool, "train"),
            popxl.h2d_stream((), popxl.float32, "step_size"),
            popxl.h2d_stream((), popxl.float32, "epsilon"),
            popxl.d2h_stream((), popxl.float32, "loss"),
        )


@dataclass(frozen=True)
class GptProgram:
    """One optimizer step per run with `train` true; else the loss of the same weights only.

    Attributes:
        ir: The program.
        streams: What a run takes and gives.
        buffers: The buffers of weights and moments, by key: embedding.fwd.tokens,
            block.moment1.qkv.weight, ...
        activations: The buffers of layer inputs and of their gradients.
    """

    ir: popxl.Ir
    streams: GptStreams
    buffers: dict[str, popxl.RemoteBuffer]
    activations: tuple[popxl.RemoteBuffer, ...]


@dataclass
class _Phase:
    """The buffers of the layers of one kind, and the graphs of their phases, which take a row."""

    forward: GraphWithNamedArgs
    backward: GraphWithNamedArgs
    factories: NamedVariableFactories
    accumulators: NamedVariableFactories
    rows: int

    def __post_init__(self) -> None:
        adam = Adam(cache=True)
        scalar = popxl.TensorSpec((), popxl.float32)
        # Loaded in the order of the names: weights, which are needed first, come first.
        moments: dict[str, dict[str, Any]] = {"moment1": {}, "moment2": {}}
        self._updates = {}
        for key, factory in self.factories.to_dict().items():
            spec = popxl.TensorSpec(factory.shape, factory.dtype)
            facts, self._updates[key] = adam.create_graph(spec, spec, scalar, scalar)
            for name, moment in facts.to_dict().items():
                moments[name][key] = moment
        state = NamedVariableFactories(
            fwd=self.factories,
            **{name: NamedVariableFactories.from_dict(m) for name, m in moments.items()},
        )
        self.buffers = addons.named_variable_buffers(state, self.rows)
        self._load, self._load_keys = addons.load_remote_graph(self.buffers.fwd, self.rows)
        self._load_all, self._all_keys = addons.load_remote_graph(self.buffers, self.rows)
        self._store = addons.store_remote_graph(self.buffers, self.rows)

    def run_forward(self, row: int) -> None:
        """Loads weights, loops over the micro-batches.

        Args:
            row: The layer.
        """
        weights = NamedTensors.pack(self._load_keys, self._load.call(row))
        self.forward.bind(weights).call(row)

    def run_backward(self, row: int, step_size: popxl.Tensor, epsilon: popxl.Tensor) -> None:
        """Loads weights and moments, loops over the micro-batches, updates, stores.

        Args:
            row: The layer.
            step_size: The first scalar of `adam_scalars`.
            epsilon: The second one.
        """
        state = NamedTensors.pack(self._all_keys, self._load_all.call(row))
        accumulators = self.accumulators.init_zero()
        self.backward.bind(NamedTensors(fwd=state.fwd, bwd=accumulators)).call(row)
        weights, gradients = state.fwd.to_dict(), accumulators.accum.to_dict()
        for key, update in self._updates.items():
            moments = NamedTensors.from_dict(
                {name: state[f"{name}.{key}"] for name in ("moment1", "moment2")}
            )
            update.bind(moments).call(weights[key], gradients[key], step_size, epsilon)
        self._store.bind(state).call(row)


class _Phases:
    """All phases of the decoder, connected through buffers of layer inputs and their gradients.

    Row i belongs to the input of layer i, the last row to that of the head.

    Args:
        shape: The sizes of the decoder.
        streams: What a run takes and gives.
        micro_batches: Micro-batches in a run.
        io_mode: The mode of the loops over them.
    """

    def __init__(self, shape: GptShape, streams: GptStreams, micro_batches: int, io_mode: str):
        self._steps = micro_batches
        self._io_mode = io_mode if micro_batches > 1 else "io"
        self._layers = shape.layers
        tokens, labels = streams.tokens.spec, streams.labels.spec
        hidden = popxl.TensorSpec((tokens.shape[0] * shape.sequence, shape.hidden), popxl.float32)
        rows = shape.layers + 1
        self.inputs = batch_serial_buffer(hidden, micro_batches, rows)
        self.gradients = batch_serial_buffer(hidden, micro_batches, rows)
        last = shape.layers

        embedding = Embedding(shape)
        _, forward = embedding.create_graph(tokens)
        factories, backward = EmbeddingBackward(embedding).create_graph(tokens, hidden)
        self.embedding = _Phase(
            self._serialise(forward, [streams.tokens], [(self.inputs, 0)]),
            self._serialise(backward, [streams.tokens_again, (self.gradients, 0)], []),
            factories.fwd,
            factories.bwd,
            rows=1,
        )
        block = Block(shape)
        _, forward = block.create_graph(hidden)
        factories, backward = BlockBackward(block).create_graph(hidden, hidden)
        self.block = _Phase(
            self._serialise(forward, [(self.inputs, 0)], [(self.inputs, 1)], shape.layers),
            self._serialise(
                backward,
                [(self.inputs, 0), (self.gradients, 1)],
                [(self.gradients, 0)],
                shape.layers,
            ),
            factories.fwd,
            factories.bwd,
            rows=shape.layers,
        )
        _, loss = HeadLoss(shape).create_graph(hidden, labels)
        factories, backward = HeadBackward(Head(shape)).create_graph(hidden, labels)
        loads = [(self.inputs, last), streams.labels]
        self.head = _Phase(
            self._serialise(loss, loads, [streams.loss]),
            self._serialise(backward, loads, [streams.loss, (self.gradients, last)]),
            factories.fwd,
            factories.bwd,
            rows=1,
        )

    def _serialise(
        self, graph: GraphWithNamedArgs, loads: list[Any], stores: list[Any], rows: int = 1
    ) -> GraphWithNamedArgs:
        """A loop over the micro-batches: what is loaded into the first inputs and where the
        outputs go, as streams or (buffer, row offset)."""
        to_stream: dict[popxl.Tensor, Any] = {}
        to_buffer: dict[popxl.Tensor, Any] = {}
        for tensor, handle in zip(graph.graph.outputs, stores, strict=True):
            (to_buffer if isinstance(handle, tuple) else to_stream)[tensor] = handle
        load_handles = dict(zip(graph.graph.inputs, loads, strict=False))
        return batch_serialise(
            graph,
            self._steps,
            load_handles,
            to_stream,
            to_buffer,
            rows=rows,
            io_mode=self._io_mode,
        ).graph

    def forward(self) -> None:
        """From the tokens to the input of the head."""
        with popxl.name_scope("embedding_forward"):
            self.embedding.run_forward(0)
        with popxl.name_scope("layers_forward"):
            for layer in range(self._layers):
                self.block.run_forward(layer)

    @popxl.in_sequence()
    @popxl.name_scope(EVALUATION)
    def evaluate(self) -> None:
        """Gives the loss."""
        self.forward()
        self.head.run_forward(0)

    @popxl.in_sequence()
    def train(self, step_size: popxl.Tensor, epsilon: popxl.Tensor) -> None:
        """Gives the loss and updates every variable.

        Args:
            step_size: The first scalar of `adam_scalars`.
            epsilon: The second one.
        """
        self.forward()
        with popxl.name_scope("head"):
            self.head.run_backward(0, step_size, epsilon)
        with popxl.name_scope("layers_backward"):
            for layer in reversed(range(self._layers)):
                self.block.run_backward(layer, step_size, epsilon)
        with popxl.name_scope("embedding_backward"):
            self.embedding.run_backward(0, step_size, epsilon)

    @property
    def buffers(self) -> dict[str, popxl.RemoteBuffer]:
        """The buffers of weights and moments, by key."""
        parts = {"embedding": self.embedding, "block": self.block, "head": self.head}
        return {
            f"{name}.{key}": buffer
            for name, phase in parts.items()
            for key, buffer in phase.buffers.to_dict().items()
        }


def phased_program(
    shape: GptShape, micro_batch: int, micro_batches: int, io_mode: str = "io_overlapped"
) -> GptProgram:
    """The program that trains a decoder, phase by phase.

    Args:
        shape: The sizes of the decoder.
        micro_batch: Sequences in a micro-batch.
        micro_batches: Micro-batches in a run.
        io_mode: The mode of the loops over micro-batches, see `popxl_addons.batch_serialise`.

    Returns:
        The program with its streams and buffers.
    """
    ir = popxl.Ir()
    ir.num_host_transfers = micro_batches
    ir._pb_ir.getSessionOptions().numIOTiles = 32
    with ir.main_graph:
        streams = GptStreams.of(shape, micro_batch)
        phases = _Phases(shape, streams, micro_batches, io_mode)
        scalars = [ops.host_load(streams.step_size), ops.host_load(streams.epsilon)]
        ops.conditional(
            ops.host_load(streams.train),
            ir.create_graph(phases.train, *scalars),
            ir.create_graph(phases.evaluate),
            then_inputs=scalars,
        )
    return GptProgram(ir, streams, phases.buffers, (phases.inputs, phases.gradients))
