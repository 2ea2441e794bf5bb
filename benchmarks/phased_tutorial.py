"""The tutorial network trained with Adam over micro-batches: in phases, and all in memory.

The phased program keeps weights and moments in remote buffers, as the tutorial on phased execution
does. Each phase loads what it needs, loops over the micro-batches, and stores what it changed:

    layer 1, 2, 3 forward; head forward, loss, backward and update;
    layer 3, 2, 1 backward and update

Activations and their gradients go from phase to phase through remote buffers, too. Layers 2 and 3
share graphs and buffers, of which each has a row. Replicas share out weights and moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks import data
from benchmarks.frameworks.popxl_models import Linear, TutorialAdam
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.rts import (
    all_gather_replica_sharded_graph,
    reduce_replica_sharded_graph,
    replica_sharded_spec,
)
from popxl_addons.variable_factory import NamedVariableFactories

IMAGE, HIDDEN, _, LAST_HIDDEN, CLASSES = data.MLP_SIZES
INNER_LAYERS = 2
NEVER_SHARDED = 1 << 62


@dataclass(frozen=True)
class Options:
    """A step takes ``micro_batches`` x ``micro_batch`` images of each replica."""

    micro_batch: int = 64
    micro_batches: int = 4
    replicas: int = 1
    io_mode: str = "io_overlapped"
    # Tensors of fewer elements are not shared out among the replicas.
    sharded_threshold: int = 512


@dataclass(frozen=True)
class Training:
    """A step loads all micro-batches and stores the loss of each.

    ``weights``: by layer, then ``weight`` and ``bias``. ``state``: the buffers of the moments.
    """

    ir: popxl.Ir
    images: popxl.HostToDeviceStream
    labels: popxl.HostToDeviceStream
    losses: popxl.DeviceToHostStream
    weights: NamedTensors
    state: tuple[popxl.RemoteBuffer, ...] = ()


class Layer(Linear):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return ops.gelu(super().build(x))


class Head(addons.Module):
    """Input of the last layer and labels to input gradient and loss; gradients of the weights are
    accumulated. Variables ``fwd`` and accumulators ``bwd``."""

    def build(self, x: popxl.Tensor, labels: popxl.Tensor) -> tuple[popxl.Tensor, popxl.Tensor]:
        facts, forward = Linear(CLASSES).create_graph(x)
        accumulators, backward = addons.autodiff_with_accumulation(
            forward, forward.args.tensors, grads_required=forward.graph.inputs[:1]
        )
        weights = self.add_variable_inputs("fwd", facts)
        call = forward.bind(weights).call_with_info(x)
        loss, dy = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
        bound = backward.bind(self.add_variable_inputs("bwd", accumulators))
        (dx,) = bound.call(dy, args=backward.grad_graph_info.inputs_dict(call))
        return dx, loss


class _Phases:
    """The phases of layers of one shape: their buffers, a row for each, and graphs of a row.

    ``arguments``: the weights as their graph takes them. ``forward`` is None where ``backward``
    begins with the forward pass, as that of the head does.
    """

    def __init__(
        self,
        options: Options,
        weights: NamedVariableFactories,
        arguments: NamedTensors,
        accumulators: NamedVariableFactories,
        rows: int,
    ) -> None:
        self.forward: GraphWithNamedArgs | None = None
        self.backward: GraphWithNamedArgs
        self._accumulators = accumulators
        threshold = options.sharded_threshold
        adam = TutorialAdam(cache=True)
        moments: dict[str, Any] = {}
        self._updates: dict[str, GraphWithNamedArgs] = {}
        for name, tensor in arguments.to_dict().items():
            spec = replica_sharded_spec(tensor, threshold=threshold)
            facts, self._updates[name] = adam.create_graph(spec, spec, lr=data.LEARNING_RATE)
            moments[name] = facts
        self._factories = NamedVariableFactories(
            fwd=weights, optim=NamedVariableFactories.from_dict(moments)
        )
        self.buffers = addons.named_variable_buffers(
            self._factories, rows, sharded_threshold=threshold
        )
        self._load, self._load_keys = addons.load_remote_graph(self.buffers.fwd, rows)
        self._load_all, self._all_keys = addons.load_remote_graph(self.buffers, rows)
        self._store_all = addons.store_remote_graph(self.buffers, rows)
        self._gather, self._gather_keys = all_gather_replica_sharded_graph(
            NamedTensors.pack(self._load_keys, self._load.graph.outputs)
        )
        # Gradients look like their weights.
        self._reduce, self._reduce_keys = reduce_replica_sharded_graph(
            arguments, "mean", threshold=threshold
        )

    def create(self, row: int, name: str) -> NamedTensors:
        """The weights of a row, whose moments start at zero."""
        return self._factories.init_remote(self.buffers, row, name).fwd

    def _whole(self, shards: NamedTensors) -> NamedTensors:
        return NamedTensors.pack(self._gather_keys, self._gather.bind(shards).call())

    def run_forward(self, row: int) -> None:
        assert self.forward is not None
        shards = NamedTensors.pack(self._load_keys, self._load.call(row))
        self.forward.bind(self._whole(shards)).call(row)

    def run_backward(self, row: int) -> None:
        state = NamedTensors.pack(self._all_keys, self._load_all.call(row))
        accumulators = self._accumulators.init_zero()
        weights = self._whole(state.fwd)
        if self.forward is None:
            arguments = NamedTensors(fwd=weights, bwd=accumulators)
        else:
            arguments = accumulators.copy()
            arguments.update(weights)
        self.backward.bind(arguments).call(row)
        reduced = self._reduce.bind(accumulators.accum).call()
        shards = state.fwd.to_dict()
        for name, gradient in zip(self._reduce_keys, reduced, strict=True):
            moments = state.optim[name]
            self._updates[name].bind(moments).call(shards[name], gradient)
        self._store_all.bind(state).call(row)


def _layer_phases(
    options: Options, in_features: int, rows: int, source: Any, target: Any, gradients: Any
) -> _Phases:
    """Phases of ``rows`` hidden layers.

    ``source`` and ``target``: where the forward pass loads its input and stores its output.
    ``gradients``: where the backward pass loads and, unless it is the last, stores.
    """
    x = popxl.TensorSpec((options.micro_batch, in_features), popxl.float32)
    facts, forward = Layer(HIDDEN).create_graph(x)
    load_gradient, *store_gradient = gradients
    accumulators, backward = addons.autodiff_with_accumulation(
        forward,
        forward.args.tensors,
        grads_required=forward.graph.inputs[: len(store_gradient)],
    )
    phases = _Phases(options, facts, forward.args, accumulators, rows)
    forward_loop, backward_loop = addons.batch_serialise_fwd_and_grad(
        forward,
        backward,
        forward.args,
        options.micro_batches,
        load_handles={forward.graph.inputs[0]: source, backward.graph.inputs[0]: load_gradient},
        store_streams={},
        store_buffers={
            forward.graph.outputs[0]: target,
            **dict(zip(backward.graph.outputs, store_gradient, strict=True)),
        },
        rows=rows,
        io_mode=options.io_mode,
    )
    phases.forward, phases.backward = forward_loop.graph, backward_loop.graph
    return phases


def _head_phases(
    options: Options,
    source: Any,
    labels: popxl.HostToDeviceStream,
    losses: popxl.DeviceToHostStream,
    gradients: Any,
) -> _Phases:
    x = popxl.TensorSpec((options.micro_batch, LAST_HIDDEN), popxl.float32)
    facts, graph = Head().create_graph(x, labels.spec)
    phases = _Phases(options, facts.fwd, graph.args.fwd, facts.bwd, rows=1)
    dx, loss = graph.graph.outputs
    phases.backward = addons.batch_serialise(
        graph,
        options.micro_batches,
        load_handles=dict(zip(graph.graph.inputs, (source, labels), strict=False)),
        store_streams={loss: losses},
        store_buffers={dx: gradients},
        io_mode=options.io_mode,
    ).graph
    return phases


def _streams(
    micro_batch: int,
) -> tuple[popxl.HostToDeviceStream, popxl.HostToDeviceStream, popxl.DeviceToHostStream]:
    return (
        popxl.h2d_stream((micro_batch, IMAGE), popxl.float32, "images"),
        popxl.h2d_stream((micro_batch,), popxl.int32, "labels"),
        popxl.d2h_stream((), popxl.float32, "loss"),
    )


def phased(options: Options) -> Training:
    ir = popxl.Ir(replication=options.replicas)
    ir.num_host_transfers = options.micro_batches
    if options.io_mode != "compute":
        ir._pb_ir.getSessionOptions().numIOTiles = 32
    with ir.main_graph:
        images, labels, losses = _streams(options.micro_batch)
        hidden = popxl.TensorSpec((options.micro_batch, HIDDEN), popxl.float32)
        # Row i: what layer i gives to the one after it, and the gradient of that.
        rows = INNER_LAYERS + 1
        outputs = addons.batch_serial_buffer(hidden, options.micro_batches, rows)
        gradients = addons.batch_serial_buffer(hidden, options.micro_batches, rows)
        first = _layer_phases(options, IMAGE, 1, images, (outputs, 0), [(gradients, 0)])
        inner = _layer_phases(
            options,
            HIDDEN,
            INNER_LAYERS,
            (outputs, 0),
            (outputs, 1),
            [(gradients, 1), (gradients, 0)],
        )
        last = rows - 1
        head = _head_phases(options, (outputs, last), labels, losses, (gradients, last))
        weights = NamedTensors()
        weights.insert("fc1", first.create(0, "fc1"))
        for row in range(INNER_LAYERS):
            weights.insert(f"fc{row + 2}", inner.create(row, f"fc{row + 2}"))
        weights.insert(f"fc{rows + 1}", head.create(0, f"fc{rows + 1}"))
        with popxl.in_sequence():
            first.run_forward(0)
            for row in range(INNER_LAYERS):
                inner.run_forward(row)
            head.run_backward(0)
            for row in reversed(range(INNER_LAYERS)):
                inner.run_backward(row)
            first.run_backward(0)
    state = [
        buffer
        for phases in (first, inner, head)
        for buffer in phases.buffers.optim.to_dict().values()
    ]
    return Training(ir, images, labels, losses, weights, tuple(state))


class Network(addons.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (Layer(HIDDEN) for _ in range(INNER_LAYERS + 1))
        self.fc4 = Linear(CLASSES)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.fc4(self.fc3(self.fc2(self.fc1(x))))


def in_memory(options: Options) -> Training:
    """The same training of one replica: one forward and one gradient graph of the whole network."""
    ir = popxl.Ir()
    ir.num_host_transfers = options.micro_batches
    with ir.main_graph, popxl.in_sequence():
        images, labels, losses = _streams(options.micro_batch)
        facts, forward = Network().create_graph(images.spec)
        accumulator_facts, backward = addons.autodiff_with_accumulation(
            forward, forward.args.tensors
        )
        weights, accumulators = facts.init(), accumulator_facts.init()
        for _ in range(options.micro_batches):
            call = forward.bind(weights).call_with_info(ops.host_load(images))
            loss, dy = addons.ops.cross_entropy_with_grad(call.outputs[0], ops.host_load(labels))
            ops.host_store(losses, loss)
            activations = backward.grad_graph_info.inputs_dict(call)
            backward.bind(accumulators).call(dy, args=activations)
        gradients = accumulators.accum.named_tensors
        adam = TutorialAdam(cache=True)
        for name, weight in weights.named_tensors.items():
            moments, update = adam.create_graph(weight, weight.spec, lr=data.LEARNING_RATE)
            update.bind(moments.init(name)).call(weight, gradients[name])
        ops.var_updates.accumulator_scale_(accumulators.mean_accum_counter, 0.0)
    return Training(ir, images, labels, losses, weights)
