"""What virtual devices and replicas gain: `python -m benchmarks.parallel` on two free cores.

`pipeline`: two stages of matrix products on two devices of one core each, 16 micro-batches a run,
over the same stages on one device with one core. `loop`: the same micro-batches as iterations of a
loop, which overlap. `replicas`: data parallel training of the tutorial network at batch 64 per
replica, images per second of two replicas with one core each over those of one replica with one
core. `cores` is the processor time that a run used over its wall-clock time: with two free cores it
nears 2, and where it does not the ratio says little.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import popxl
from benchmarks.figures import save_section
from pando.session_info import open_session
from popxl import ops

MICRO_BATCHES, ROWS, WIDTH, LAYERS_PER_STAGE = 16, 64, 512, 4
LAYERS = (784, 512, 512, 512, 10)
BATCH = 64
LEARNING_RATE = 1e-3


def pipeline(
    devices: int, in_loop: bool = False
) -> tuple[popxl.Session, Callable[[popxl.Session], object]]:
    """Two stages of equal work; each micro-batch is one transfer of a run."""
    rng = np.random.default_rng(0)
    ir = popxl.Ir()
    ir.num_host_transfers = MICRO_BATCHES
    with ir.main_graph:
        source = popxl.h2d_stream((ROWS, WIDTH), popxl.float32)
        results = popxl.d2h_stream((ROWS, WIDTH), popxl.float32)
        values = rng.normal(0, WIDTH**-0.5, (2 * LAYERS_PER_STAGE, WIDTH, WIDTH))
        weights = [popxl.variable(value.astype(np.float32)) for value in values]

        def micro_batch(*weights: popxl.Tensor) -> None:
            x = ops.host_load(source)
            for stage in range(2):
                with popxl.ipu(stage % devices):
                    if stage % devices != 0:
                        x = ops.ipu_copy(x, stage, 0)
                    for weight in weights[stage * LAYERS_PER_STAGE :][:LAYERS_PER_STAGE]:
                        x = ops.relu(x @ weight)
            with popxl.ipu(devices - 1):
                ops.host_store(results, x)

        if in_loop:
            ops.repeat(ir.create_graph(micro_batch, *weights), MICRO_BATCHES, *weights)
        else:
            for _ in range(MICRO_BATCHES):
                micro_batch(*weights)
    data = rng.normal(size=(MICRO_BATCHES, ROWS, WIDTH)).astype(np.float32)
    return open_session(ir, devices), lambda session: session.run({source: data})


def training(replicas: int) -> tuple[popxl.Session, Callable[[popxl.Session], object]]:
    """Gradient descent on the mean gradient of all replicas."""
    rng = np.random.default_rng(0)
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream((BATCH, LAYERS[0]), popxl.float32)
        labels = popxl.h2d_stream((BATCH,), popxl.int32)
        losses = popxl.d2h_stream((), popxl.float32)
        variables = []
        for fan_in, fan_out in itertools.pairwise(LAYERS):
            weight = rng.normal(0, fan_in**-0.5, (fan_in, fan_out)).astype(np.float32)
            variables += [popxl.variable(weight), popxl.variable(np.zeros(fan_out, np.float32))]
        x, y = ops.host_load(images), ops.host_load(labels)
        forward = ir.create_graph(_loss, x, y, *variables)
        wanted = forward.inputs[2:]
        gradient = popxl.transforms.autodiff(forward, grads_required=wanted)
        site = ops.call_with_info(forward, x, y, *variables)
        seed = popxl.constant(1.0, popxl.float32)
        gradients = ops.call(gradient.graph, seed, inputs_dict=gradient.inputs_dict(site))
        for variable, step in zip(variables, gradients, strict=True):
            if replicas > 1:
                step = ops.collectives.replicated_all_reduce_(step, "mean")
            ops.var_updates.accumulate_(variable, step * -LEARNING_RATE)
        ops.host_store(losses, site.outputs[0])
    lead = (replicas,) if replicas > 1 else ()
    image_data = rng.random((*lead, BATCH, LAYERS[0])).astype(np.float32)
    label_data = rng.integers(0, LAYERS[-1], (*lead, BATCH)).astype(np.int32)
    inputs = {images: image_data, labels: label_data}
    return open_session(ir, replicas), lambda session: session.run(inputs)


def _loss(x: popxl.Tensor, labels: popxl.Tensor, *variables: popxl.Tensor) -> popxl.Tensor:
    last = len(variables) // 2 - 1
    for layer in range(last + 1):
        x = x @ variables[2 * layer] + variables[2 * layer + 1]
        if layer < last:
            x = ops.gelu(x)
    return ops.nll_loss(ops.softmax(x, axis=-1), labels)


def seconds_and_cores(
    run: Callable[[popxl.Session], object], session: popxl.Session, seconds: float
) -> tuple[float, float]:
    """Wall-clock seconds of one run, and how many cores the runs kept busy."""
    runs = 0
    wall, processor = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds or runs == 0:
        run(session)
        runs += 1
    elapsed = time.perf_counter() - wall
    return elapsed / runs, (time.process_time() - processor) / elapsed


def compare(
    name: str,
    build: Callable[[int], tuple[popxl.Session, Callable[[popxl.Session], object]]],
    work_of_two: int,
    rounds: int,
    seconds: float,
) -> dict[str, object]:
    """Prints and returns medians over rounds that take the two programs in turns."""
    (one, run_one), (two, run_two) = build(1), build(2)
    rows: list[tuple[float, float, float, float]] = []
    with one, two:
        run_one(one)
        run_two(two)
        for _ in range(rounds):
            first = seconds_and_cores(run_one, one, seconds)
            rows.append((*first, *seconds_and_cores(run_two, two, seconds)))
    alone, cores_alone, both, cores_both = (statistics.median(c) for c in zip(*rows, strict=True))
    ratio = statistics.median(work_of_two * row[0] / row[2] for row in rows)
    print(
        f"{name:10} one {alone * 1e3:8.3f} ms ({cores_alone:.2f} cores)   "
        f"two {both * 1e3:8.3f} ms ({cores_both:.2f} cores)   ratio {ratio:.2f}"
    )
    return {"name": name, "one_ms": alone * 1e3, "two_ms": both * 1e3, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parallel", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.5, help="a block; default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows there")
    arguments = parser.parse_args()
    timing = (arguments.rounds, arguments.seconds)
    rows = [
        compare("pipeline", pipeline, 1, *timing),
        compare("loop", partial(pipeline, in_loop=True), 1, *timing),
        compare("replicas", training, 2, *timing),
    ]
    if arguments.json is not None:
        save_section(arguments.json, "parallel", rows)


if __name__ == "__main__":
    main()
