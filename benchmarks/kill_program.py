"""The training that `benchmarks.kills` kills and goes on with.

A small classifier with dropout on two replicas. Weights and the state of Adam lie in remote
buffers, sharded over the replicas, in files; biases are variables; seeds are stepped on the device,
and the images come from a generator of the host. Checkpoints are written while the training goes
on.

The module is a program that reads lines `FOLDER STEPS` and forks a process for each, so that none
pays for imports. They print `from STEP` when they begin, `step STEP LOSS` (the bits of the loss)
after each step, `saved STEP` when a checkpoint is durable, `end CHECKSUM` of the final state; this
program prints `pid PID` before and `exit STATUS` after. Lines end in ` .`, to show that they were
not cut off.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import popxl
import popxl_addons as addons
from pando import checkpoint
from pando._core import Checksum
from pando.settings import use_session_settings
from popxl import ops
from popxl_addons import rts
from popxl_addons.layers import Linear
from popxl_addons.optimizers import AdamOptimizerStep

REPLICAS, BATCH, INPUTS, HIDDEN, CLASSES = 2, 8, 64, 64, 8
SHARDED_ELEMENTS = 64  # of the smallest tensor that is sharded


class Network(addons.Module):
    """Two layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = Linear(HIDDEN)
        self.head = Linear(CLASSES)

    def build(self, x: popxl.Tensor, seed: popxl.Tensor) -> popxl.Tensor:
        return self.head(ops.dropout(ops.gelu(self.hidden(x)), seed, p=0.25))


@dataclass(frozen=True)
class Program:
    """What the training needs of the program."""

    ir: popxl.Ir
    images: popxl.HostToDeviceStream
    labels: popxl.HostToDeviceStream
    loss: popxl.DeviceToHostStream
    state: addons.NamedTensors


class Graphs:
    """The graphs of one step, made in the main graph."""

    def __init__(self, images: popxl.TensorSpec, seed: popxl.Tensor) -> None:
        facts, self.forward = Network().create_graph(images, seed)
        self.backward = addons.autodiff(
            self.forward, grads_required=list(self.forward.args.to_dict().values())
        )
        self.optimisers, optimiser_facts = {}, {}
        for name, weight in self.forward.args.to_dict().items():
            spec = rts.replica_sharded_spec(weight, threshold=SHARDED_ELEMENTS)
            optimiser_facts[f"optim.{name}"], self.optimisers[name] = AdamOptimizerStep(
                cache=True
            ).create_graph(spec, spec, lr=0.002)
        self.facts = addons.NamedVariableFactories.from_dict({"fwd": facts, **optimiser_facts})
        self.buffers = addons.named_variable_buffers(self.facts, sharded_threshold=SHARDED_ELEMENTS)

    def gathered(self, shards: addons.NamedTensors) -> addons.NamedTensors:
        """The whole weights."""
        graph, names = rts.all_gather_replica_sharded_graph(shards)
        return addons.NamedTensors.pack(names, graph.bind(shards).call())

    def gradients(self, info: popxl.CallSiteInfo, gradient: popxl.Tensor) -> addons.NamedTensors:
        """The mean over the replicas of the weights' gradients, sharded as the weights are."""
        args = self.backward.grad_graph_info.inputs_dict(info)
        found = addons.NamedTensors.pack(
            self.forward.args.to_dict(), self.backward.call(gradient, args=args)
        )
        graph, names = rts.reduce_replica_sharded_graph(found, "mean", threshold=SHARDED_ELEMENTS)
        return addons.NamedTensors.pack(names, graph.bind(found).call())

    def update(self, state: addons.NamedTensors, gradients: addons.NamedTensors) -> None:
        """Adam, in place."""
        for name, weight in state.fwd.to_dict().items():
            self.optimisers[name].bind(state.optim.get(name)).call(weight, gradients.get(name))


def training_program() -> Program:
    """One step of training."""
    np.random.seed(1)
    ir = popxl.Ir(replication=REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream((BATCH, INPUTS), popxl.float32, "images")
        labels = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
        loss_stream = popxl.d2h_stream((), popxl.float32, "loss")
        _, seed = addons.seed_variable(7)
        graphs = Graphs(images.spec, seed)
        variables = graphs.facts.init_remote(graphs.buffers)
        load, names = addons.load_remote_graph(graphs.buffers)
        store = addons.store_remote_graph(graphs.buffers)
        state = addons.NamedTensors.pack(names, load.call(0))
        weights = graphs.gathered(state.fwd)
        seed += popxl.constant(np.array([1, 0], np.uint32))
        info = graphs.forward.bind(weights).call_with_info(ops.host_load(images), seed)
        loss, gradient = addons.ops.cross_entropy_with_grad(info.outputs[0], ops.host_load(labels))
        ops.host_store(loss_stream, loss)
        graphs.update(state, graphs.gradients(info, gradient))
        store.bind(state).call(0)
    return Program(ir, images, labels, loss_stream, variables)


def batch(rng: np.random.Generator, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images around one centre per class."""
    labels = rng.integers(0, CLASSES, (REPLICAS, BATCH)).astype(np.int32)
    noise = rng.standard_normal((REPLICAS, BATCH, INPUTS)).astype(np.float32)
    return centres[labels] + noise, labels


def say(*words: object) -> None:
    print(*words, ".", flush=True)


def train(folder: Path, steps: int) -> None:
    """Goes on from the last checkpoint, if there is one, to step `steps`."""
    program = training_program()
    rng = np.random.default_rng(11)
    centres = np.random.default_rng(3).standard_normal((CLASSES, INPUTS)).astype(np.float32)
    generators = {"images": rng}
    settings = {"remote_tier": "file", "remote_folder": folder / "remote", "num_threads": REPLICAS}
    with use_session_settings(**settings):
        session = popxl.Session(program.ir, "cpu")
    with session:
        step, checkpoints = 0, folder / "checkpoints"
        if checkpoint.checkpoints(checkpoints):
            step = checkpoint.load(session, checkpoints, generators=generators).step
        say("from", step)
        pending: checkpoint.PendingCheckpoint | None = None
        while step < steps:
            images, labels = batch(rng, centres)
            outputs = session.run({program.images: images, program.labels: labels})
            step += 1
            say("step", step, outputs[program.loss].tobytes().hex())
            if pending is not None and pending.done:
                say("saved", pending.wait().step)
                pending = None
            if pending is None:
                pending = checkpoint.save_later(
                    session, checkpoints, step=step, generators=generators, keep=2
                )
        if pending is not None:
            say("saved", pending.wait().step)
        values = session.get_tensors_data(list(program.state.to_dict().values()))
        total = Checksum()
        for value in values.values():
            total.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        say("end", f"{total.value:016x}")


def main() -> None:
    for line in sys.stdin:
        folder, steps = line.split()
        child = os.fork()
        if child == 0:
            train(Path(folder), int(steps))
            sys.stdout.flush()
            os._exit(0)
        say("pid", child)
        _, status = os.waitpid(child, 0)
        print(flush=True)  # after what was cut off
        say("exit", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
